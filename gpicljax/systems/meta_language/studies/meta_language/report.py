"""The tables and figures of `meta_language.py`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpicljax.evaluation.icl import icl_profile, log_bins
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.statistics import Interval, format_interval, mean_interval
from gpicljax.evaluation.tables import markdown_table
from gpicljax.play.drawing import write_replay
from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.systems.meta_language.figures import draw_language, nats_figure
from gpicljax.systems.meta_language.measures.curves import (
    UNTRAINED,
    Curves,
    at,
    difference,
    end,
    late,
    start,
    write_curves,
)
from gpicljax.systems.meta_language.measures.demonstrations import (
    TEMPERATURE,
    Demonstration,
    ngram_errors,
    wrong_share,
)
from gpicljax.systems.meta_language.measures.nulls import ORDERS
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.style import save_figure

TEXT = "natural text"
PYTHON = ".".join(map(str, sys.version_info[:2]))
EXPLAINED = (
    "By how many nats the model is worse than each null on the same sequences, over the first "
    "eighth (start) or the last sixteenth of the context (end), with 95 % intervals over sequences "
    "and, where there are several, over seeds; negative where the model is better:"
)


class Measures(NamedTuple):
    """Measures of every model; `RunResult.measured` has the results in the same places.

    Attributes:
      languages: by kind of language: `Languages`.
      text: nats of natural text, float `[N, T]`; None without text.
      continued: by demonstration: tokens, int `[N, T]`.
      episode: an unseen language, token by token: `Episode`.
    """

    languages: dict[str, Any]
    text: Any
    continued: dict[str, Any]
    episode: Any


class Extras(NamedTuple):
    """Data of the report besides measurements.

    Attributes:
      env: the environment.
      demonstrations: what was continued.
    """

    env: MetaLanguage
    demonstrations: Sequence[Demonstration]


def curves_by_language(outcome: RunResult) -> list[dict[str, Curves]]:
    """Returns curves of every seed by kind of language; natural text is the last, if any."""
    vocabulary, measured = outcome.program.more.env.vocab_size, outcome.measured
    curves = {
        name: Curves.of_models(outcome.seeds(x.nats), x.tokens[0], vocabulary, x.floor[0])
        for name, x in measured.languages.items()
    }
    if measured.text is not None:
        (windows,) = outcome.program.measures.text.arguments
        curves[TEXT] = Curves.of_models(outcome.seeds(measured.text), windows, vocabulary)
    return [dict(zip(curves, row, strict=True)) for row in zip(*curves.values(), strict=True)]


def _format_nats(interval: Interval) -> str:
    return f"{interval.mean:.3f}" + (f" ± {interval.std:.3f}" if interval.count > 1 else "")


def table(seeds: Sequence[Mapping[str, Curves]]) -> str:
    """Nats at position 16 and at the end, beside the nulls' at the end."""
    head = ["language", "position 16", "end", "gained", "unigram", "best n-gram (tokens)"]
    head += ["softmax regression", "mixture", UNTRAINED, "floor"]
    rows = []
    for name, first in seeds[0].items():
        early = np.asarray([at(seed[name].model, 16) for seed in seeds])
        last = np.asarray([late(seed[name].model) for seed in seeds])
        cells = [_format_nats(mean_interval(x)) for x in (early, last, early - last)]
        cells.append(f"{late(first.unigram):.3f}")
        cells.append(f"{late(first.ngram):.3f} ({', '.join(map(str, first.orders))})")
        cells += [f"{late(x):.3f}" for x in (first.regression, first.mixture, first.online)]
        cells.append("" if first.floor is None else f"{late(first.floor):.3f}")
        rows.append([name, *cells])
    return markdown_table(head, rows)


def doubling_table(seeds: Sequence[Mapping[str, Curves]]) -> str:
    """Returns the models' nats between positions that double, means over seeds."""
    length = next(iter(seeds[0].values())).model.shape[1]
    edges = [int(length / 2**k) for k in range(8, -1, -1) if length >= 2**k]
    head = ["language", *(f"{low} .. {high}" for low, high in itertools.pairwise(edges))]
    rows = []
    for name in seeds[0]:
        mean = np.mean([seed[name].model.mean(0) for seed in seeds], 0)
        rows.append([name, *(f"{mean[a:b].mean():.3f}" for a, b in itertools.pairwise(edges))])
    return markdown_table(head, rows)


def differences(seeds: Sequence[Mapping[str, Curves]], name: str) -> dict[str, Any]:
    """Returns the models' excess over each null, by null and place in the context."""
    models, first = [seed[name].model for seed in seeds], seeds[0][name]
    length = first.model.shape[1]
    return {
        "mixture, start": difference(models, first.mixture, start(length)),
        "best n-gram, end": difference(models, first.ngram, end(length)),
        "softmax regression, end": difference(models, first.regression, end(length)),
        "mixture, end": difference(models, first.mixture, end(length)),
        f"{UNTRAINED}, end": difference(models, first.online, end(length)),
    }


def difference_table(seeds: Sequence[Mapping[str, Curves]]) -> str:
    """Returns the models minus the nulls."""
    rows = {name: differences(seeds, name) for name in seeds[0]}
    columns = list(next(iter(rows.values())))
    return markdown_table(
        ["language", *columns],
        [
            [name, *(format_interval(*bounds, spec="+.3f") for bounds in row.values())]
            for name, row in rows.items()
        ],
    )


def demonstration_table(outcome: RunResult) -> str:
    """Returns a table of wrong items by length of the context, of sound seeds and of n-grams.

    The difference is that of shares of the same contexts, with a t-interval over contexts.
    """
    head = ["demonstration", "context", "items", "wrong, %", "n-gram (tokens): items", "wrong, %"]
    head += ["difference, points", "example"]
    rows = []
    for demo in outcome.program.more.demonstrations:
        continued = outcome.measured.continued[demo.name][outcome.sound]
        if not len(continued):
            continue
        model = demo.judge_all(continued)
        null, orders = ngram_errors(demo, continued.shape[2], outcome.program.more.env.vocab_size)
        apart = mean_interval(wrong_share(model) - wrong_share(null))
        cells = [demo.kind, f"{demo.prompts.shape[1]}"]
        for items, wrong in (model.sum(0), null.sum(0)):
            cells += [f"{items}", f"{100 * wrong / items:.0f}" if items else "-"]
        cells[4] += f" ({', '.join(map(str, orders))})"
        cells.append(apart.format("+.0f"))
        example = demo.maps[0].decode(continued[0, 0])[:48].replace("\n", "/").replace("|", "/")
        rows.append([*cells, f"`{example}`"])
    return markdown_table(head, rows)


def draw(outcome: RunResult, seeds: Sequence[Mapping[str, Curves]]) -> None:
    """Draws every figure, of the first seed where it is one seed's."""
    run, caption = outcome.run, f"{outcome.config.model.title}, {outcome.parameters:,} parameters"
    if len(outcome.steps) > 1:
        loss = outcome.curve("nats")
        labels: dict[str, Any] = {"xlabel": "tokens per seed", "ylabel": "training loss, nats"}
        figure = learning_curves(outcome.steps, loss, title=caption, **labels)
        save_figure(figure, run.figures / "training.png")
    lines = {name: curves.lines() for name, curves in seeds[0].items()}
    by_order = {name: kind_lines["model"] for name, kind_lines in lines.items()}
    figures = {"by_order": ("Unseen languages", by_order)}
    chosen = "n = 3" if "n = 3" in lines else next(iter(lines))
    figures["beside_counting"] = f"Unseen languages, {chosen}", lines[chosen]
    if TEXT in lines:
        figures["text"] = "Natural text, letters mapped at random", lines[TEXT]
    for name, (title, curves) in figures.items():
        save_figure(nats_figure(curves, f"{title}: {caption}"), run.figures / f"{name}.png")
    write_curves(run.path, lines)


def replay(outcome: RunResult) -> str:
    """Writes the page of an unseen language, token by token; returns a sentence about it."""
    chosen_seed, episode = outcome.first_sound(outcome.measured.episode)
    return write_replay(outcome, draw_language(outcome.program.more.env, episode), chosen_seed)


def icl_records(outcome: RunResult, seeds: list[dict[str, Curves]]) -> list[ICLRecord]:
    """Nats by position, of some orders and of a finite set of languages: `profile` reads it."""
    records, config = [], outcome.config
    agent = config.model.title
    if config.tasks:
        agent += f", trained on {config.tasks:,} languages"
    for name in ("n = 2", "n = 4", "n = 6", "seen languages"):
        if name not in seeds[0]:
            continue
        first = seeds[0][name]
        measured = outcome.measured.languages[name]
        assert first.floor is not None
        nulls = {
            "unigram": first.unigram,
            "adaptive n-gram": first.ngram,
            "softmax regression": first.regression,
            "mixture": first.mixture,
            UNTRAINED: first.online,
        }
        records.append(
            icl_record(
                {
                    "agent": np.stack([curves[name].model for curves in seeds]),
                    "memory wiped": outcome.seeds(measured.wiped).astype(np.float64),
                    "oracle": first.floor,
                },
                nulls,
                system="Meta-Language",
                task=name,
                agent=agent,
                measure="nats per token",
                context="tokens",
                oracle="the language itself",
                higher_is_better=False,
                bins=48,
            )
        )
    return records


def report(outcome: RunResult) -> Report:
    """Draws the figures, and returns the report."""
    config, seeds = outcome.config, curves_by_language(outcome)
    draw(outcome, seeds)
    first, source = seeds[0], config.text_dir or f"Python {PYTHON}'s language reference"
    text = [
        f"# Meta-Language: {config.model.title} of {outcome.parameters:,} parameters",
        "",
        f"Nats per token on {config.evaluation_sequences:,} unseen languages of each order, context"
        f" {config.evaluation_context:,}; mean over positions around 16 and over the last sixteenth"
        + (f", mean ± standard deviation over {len(seeds)} seeds." if len(seeds) > 1 else ".")
        + " Nulls need no training, are not told n, and see the same sequences. The adaptive n-gram"
        f" (of 0 .. {ORDERS - 1} tokens of context) and the softmax regression are those that are"
        " best at the end of other sequences; the mixture weighs all of them by their predictions"
        " so far; the untrained online memory has the rates that models of its kind start from."
        + (f" Natural text: {source}; letters have a new code in every window." * (TEXT in first)),
        "",
        table(seeds),
        "",
        EXPLAINED,
        "",
        difference_table(seeds),
        "",
        "Nats per token by the position in the context, which doubles:",
        "",
        doubling_table(seeds),
        "",
    ]
    for name in ("n = 3", "n = 6"):
        if name in first:
            profile = icl_profile(
                first[name].model,
                higher_is_better=False,
                bins=log_bins(first[name].model.shape[1]),
            )
            text += [f"In-context learning, {name}:", "", profile.table(), ""]
    if outcome.program.more.demonstrations:
        text += [
            "Continuations of contexts in which 15 % of the items are wrong, at temperature "
            f"{TEMPERATURE}, by the model and by the adaptive n-gram that makes the fewest mistakes"
            " after other contexts; the difference has a 95 % interval over contexts:",
            "",
            demonstration_table(outcome),
            "",
        ]
    if outcome.history:
        speed = f"{throughput(outcome.history):,.0f} per second over all seeds"
        text += [f"{outcome.observations:,} tokens per seed at {speed}.", ""]
    text.append(replay(outcome))
    numbers = {
        name: {
            "position_16": [at(seed[name].model, 16) for seed in seeds],
            "end": [late(seed[name].model) for seed in seeds],
            "unigram_end": late(curves.unigram),
            "ngram_end": late(curves.ngram),
            "regression_end": late(curves.regression),
            "mixture_end": late(curves.mixture),
            "untrained_online_end": late(curves.online),
            "worse_than": differences(seeds, name),
            "floor_end": None if curves.floor is None else late(curves.floor),
        }
        for name, curves in first.items()
    }
    numbers |= {
        "parameters": outcome.parameters,
        "tokens": outcome.observations,
        "tokens_per_s": throughput(outcome.history),
    }
    return Report("\n".join(text), numbers, icl=icl_records(outcome, seeds))
