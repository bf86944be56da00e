"""The table of `in_context_rl_bias.py`: what first answers follow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.llm.outcomes import OUTCOME_LEGEND, OUTCOMES, silence_notes
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.in_context_rl.prompts.bias import AnswerBias

LEGEND = (
    "Nothing is known yet, so that every answer is as good as any other. `echo`: how much more "
    "often an action is the answer where it is the example than where another one is (1: always "
    "repeated). `label`: total variation distance of the answers from a uniform choice, examples "
    "and orders of the list balanced; in brackets what chance stays below in 95 % of the cases. "
    "`label, no example`: the same where the form has a placeholder. `first - last`: how much more "
    "often the first action of the list is the answer than the last. Intervals are of 95 %, over "
    f"repetitions. {OUTCOME_LEGEND}"
)


def report(outcome: RunResult) -> Report:
    """Returns the table with what it has cost, and its numbers."""
    model, repeats = outcome.config.llm.name, outcome.config.repeats
    biases: Mapping[tuple[str, str], AnswerBias]
    biases, spent = outcome.host_measured
    names = "tasks", "prompt", "echo", "label", "label, no example", "favourite", "first - last"
    rows = []
    for (test_name, prompt), bias in biases.items():
        answered = bias.favourite is not None
        cells = [
            test_name,
            prompt,
            bias.echo.format(".3f"),
            f"{bias.label:.2f} ({bias.label_chance:.2f})" if answered else "-",
            "-" if np.isnan(bias.label_plain) else f"{bias.label_plain:.2f}",
            f"{bias.favourite} ({100 * bias.favourite_share:.0f} %)" if answered else "-",
            bias.first.format(".3f"),
            *bias.tally.cells(),
        ]
        rows.append(cells)
    tallies = {f"{test_name}, {prompt}": x.tally for (test_name, prompt), x in biases.items()}
    text = join_paragraphs(
        f"# {model}: what first answers follow",
        f"{repeats} answers of each variant. {LEGEND}",
        markdown_table([*names, *OUTCOMES], rows),
        *silence_notes(tallies),
        spent,
    )
    results = {
        f"{test_name}, {prompt}": {
            **{name: value for name, value in bias._asdict().items() if name != "tally"},
            "replies": bias.tally.counts,
        }
        for (test_name, prompt), bias in biases.items()
    }
    return Report(text, {"model": model, "bias": results})
