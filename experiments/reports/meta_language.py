"""The tables and figures of `meta_language.py`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve, icl_profile
from gpicljax.evaluation.ngrams import adaptive_ngram
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.runtime import RunDirectory, throughput, write_summary
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.viz.curves import icl_figure, learning_curves
from gpicljax.viz.style import save_figure

CURVES = "curves.json"
TEXT = "natural text"
COUNTED = 64
"""Sequences that the adaptive n-grams are run on: counting is slow, and varies little."""


@dataclasses.dataclass(frozen=True)
class Curves:
    """Nats at every position, `float[N, T]` each.

    Attributes:
      model: the trained model's.
      unigram: of counting tokens (of the first sequences only).
      ngram: of an adaptive n-gram model of the language's own order (likewise).
      floor: the generator's own; None for natural text.
    """

    model: np.ndarray
    unigram: np.ndarray
    ngram: np.ndarray
    floor: np.ndarray | None

    @classmethod
    def of_each(
        cls,
        models: Sequence[np.ndarray],
        tokens: np.ndarray,
        vocabulary: int,
        order: int,
        floor: np.ndarray | None = None,
    ) -> list[Curves]:
        """Every model's curve with the baselines on the same sequences, int `[N, T + 1]`."""
        some = tokens[:COUNTED]
        unigram, ngram = (adaptive_ngram(some, k, vocabulary) for k in (0, order))
        return [cls(np.asarray(nats, np.float64), unigram, ngram, floor) for nats in models]

    def lines(self) -> dict[str, ICLCurve]:
        """All curves by name, means over bins of positions."""
        named = {"model": self.model, "unigram": self.unigram, "adaptive n-gram": self.ngram}
        if self.floor is not None:
            named["floor"] = self.floor
        bins = log_bins(self.model.shape[1])
        return {name: icl_curve(nats, bins=bins) for name, nats in named.items()}


@dataclasses.dataclass(frozen=True)
class Results:
    """What a run measured.

    Attributes:
      languages: curves by kind of language, for every seed.
      texts: curves of natural text, for every seed; none without text.
      symbols: which token stood for which letter.
      demonstrations: continuations by kind, for every seed.
      history: the log.
      tokens_per_chunk: of one seed.
      parameters: of one model.
    """

    languages: Sequence[Mapping[str, Curves]]
    texts: Sequence[Curves]
    symbols: Any
    demonstrations: Sequence[Mapping[str, Sequence[Any]]]
    history: Sequence[Mapping[str, Any]]
    tokens_per_chunk: int
    parameters: int


def log_bins(length: int) -> list[int]:
    """Starts of bins whose width grows with the position."""
    edges = np.unique(np.geomspace(1, length, 48).round().astype(int)) - 1
    return [int(x) for x in edges[:-1]]


def at(curve: np.ndarray, position: int) -> float:
    """The mean around a position: a sixteenth of it to either side."""
    reach = max(1, position // 16)
    return float(curve[:, max(0, position - reach) : position + reach].mean())


def late(curve: np.ndarray) -> float:
    """The mean over the last sixteenth."""
    return float(curve[:, -max(1, curve.shape[1] // 16) :].mean())


def _said(interval: Interval) -> str:
    return f"{interval.mean:.3f}" + (f" ± {interval.std:.3f}" if interval.count > 1 else "")


def table(seeds: Sequence[Mapping[str, Curves]]) -> str:
    """Nats at position 16 and at the end, beside the baselines."""
    lines = [
        "| language | position 16 | end | gained | unigram | adaptive n-gram | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in seeds[0]:
        early = np.asarray([at(seed[name].model, 16) for seed in seeds])
        end = np.asarray([late(seed[name].model) for seed in seeds])
        first = seeds[0][name]
        cells = [_said(mean_interval(x)) for x in (early, end, early - end)]
        cells += [f"{late(x):.3f}" for x in (first.unigram, first.ngram)]
        cells.append("" if first.floor is None else f"{late(first.floor):.3f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def demonstration_table(seeds: Sequence[Mapping[str, Sequence[Any]]]) -> str:
    """Wrong items by length of the context."""
    lines = ["| demonstration | context | items | wrong, % | example |", "|---|---|---|---|---|"]
    for kind in seeds[0]:
        for i, first in enumerate(seeds[0][kind]):
            items = sum(seed[kind][i].items for seed in seeds)
            wrong = sum(seed[kind][i].wrong for seed in seeds)
            share = f"{100 * wrong / items:.0f}" if items else "-"
            example = first.text[:48].replace("\n", "/").replace("|", "/")
            lines.append(f"| {kind} | {first.context} | {items} | {share} | `{example}` |")
    return "\n".join(lines)


def draw(run: RunDirectory, results: Results, config: Any) -> None:
    """Draws every figure, of the first seed where it is one seed's."""
    what = f"{config.model.kind}, {results.parameters:,} parameters"
    count = len(results.history)
    if count > 1:
        loss = np.asarray([row["nats"] for row in results.history], np.float64)
        loss = loss.T.reshape(-1, count)[: config.seeds]
        steps = results.tokens_per_chunk * np.arange(1, count + 1)
        figure = learning_curves(
            steps, loss, xlabel="tokens per seed", ylabel="training loss, nats", title=what
        )
        save_figure(figure, run.figures / "training.png")
    lines = {name: curves.lines() for name, curves in results.languages[0].items()}
    by_order = {name: of["model"] for name, of in lines.items()}
    figures = {"by_order": ("Unseen languages", by_order)}
    chosen = "n = 3" if "n = 3" in lines else next(iter(lines))
    figures["beside_counting"] = f"Unseen languages, {chosen}", lines[chosen]
    if results.texts:
        lines[TEXT] = results.texts[0].lines()
        figures["text"] = "Natural text, letters mapped at random", lines[TEXT]
    for name, (title, curves) in figures.items():
        save_figure(nats_figure(curves, f"{title}: {what}"), run.figures / f"{name}.png")
    plain = {
        name: {line: to_plain(curve) for line, curve in of.items()} for name, of in lines.items()
    }
    write_atomically(run.path / CURVES, to_json_text(plain) + "\n")


def nats_figure(curves: Mapping[str, ICLCurve], title: str) -> Any:
    """Nats by position of the context, a line for each curve."""
    labels: dict[str, Any] = {"xlabel": "tokens of context", "ylabel": "nats per token"}
    return icl_figure(curves, log=True, title=title, **labels)


def to_plain(curve: ICLCurve) -> dict[str, list[float]]:
    """A curve for JSON."""
    return {name: values.tolist() for name, values in dataclasses.asdict(curve).items()}


def read_curves(path: Path) -> dict[str, dict[str, ICLCurve]]:
    """The curves that a run wrote, of its first seed: by kind of language, then by name."""
    plain = json.loads((path / CURVES).read_text())
    return {
        name: {line: ICLCurve(**_arrays(curve)) for line, curve in of.items()}
        for name, of in plain.items()
    }


def _arrays(curve: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    # What could not be estimated is null.
    return {name: np.asarray(values, np.float64) for name, values in curve.items()}


def report(run: RunDirectory, results: Results, config: Any) -> str:
    """Draws the figures, writes the summary, and returns what to print."""
    draw(run, results, config)
    first = results.languages[0]
    tokens = len(results.history) * results.tokens_per_chunk
    text = [
        f"# Meta-Language: {config.model.kind} of {results.parameters:,} parameters",
        "",
        f"Nats per token on {config.evaluation_sequences:,} unseen languages of each order, context"
        f" {config.evaluation_context:,}; mean over positions around 16 and over the last sixteenth"
        + (f", mean ± standard deviation over {config.seeds} seeds." if config.seeds > 1 else ".")
        + f" The counting models are run on {COUNTED} of the sequences; the adaptive n-gram knows "
        "the order.",
        "",
        table(results.languages),
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
    if results.texts:
        text += [
            f"Natural text (`{config.text_dir}`), {results.texts[0].model.shape[0]} windows:",
            "",
            table([{"text": curves} for curves in results.texts]),
            "",
            f"Tokens of the symbols: {results.symbols}",
            "",
        ]
    if results.demonstrations and results.demonstrations[0]:
        text += [
            "Continuations of contexts in which 15 % of the items are wrong, at temperature 0.3:",
            "",
            demonstration_table(results.demonstrations),
            "",
        ]
    text.append(
        f"{tokens:,} tokens per seed at {throughput(results.history):,.0f} per second over all "
        "seeds."
    )
    numbers = {
        name: {
            "position_16": [at(seed[name].model, 16) for seed in results.languages],
            "end": [late(seed[name].model) for seed in results.languages],
            "unigram_end": late(curves.unigram),
            "ngram_end": late(curves.ngram),
            "floor_end": None if curves.floor is None else late(curves.floor),
        }
        for name, curves in first.items()
    }
    numbers |= {
        "parameters": results.parameters,
        "tokens": tokens,
        "tokens_per_s": throughput(results.history),
    }
    write_summary(run, numbers, "\n".join(text))
    return "\n".join(text) + f"\n\nFigures and summary: {run.path}"
