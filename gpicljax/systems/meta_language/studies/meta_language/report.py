"""The tables and figures of `meta_language.py`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve, icl_profile
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.play.replay import write_replay
from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.systems.meta_language.data.text import SymbolMap
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.systems.meta_language.measures import adaptive_ngram
from gpicljax.viz.curves import icl_figure, learning_curves
from gpicljax.viz.style import save_figure

CURVES = "curves.json"
"""The measure that is replayed token by token."""
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
        models: Iterable[np.ndarray],
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


class Demonstration(NamedTuple):
    """Contexts with mistakes, to be continued.

    Attributes:
      kind: of what they consist.
      prompts: `int32[N, T]`.
      maps: which token stands for which symbol, in each of them.
      judge: `text -> (complete items, wrong ones)`.
    """

    kind: str
    prompts: np.ndarray
    maps: Sequence[SymbolMap]
    judge: Callable[[str], Any]

    @property
    def name(self) -> str:
        """Kind and length."""
        return f"{self.kind} after {self.prompts.shape[1]}"


class Measures(NamedTuple):
    """What is measured of every model; `RunResult.measured` has the results in the same places.

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
    """What the report needs to know besides measurements.

    Attributes:
      env: the environment.
      vocabulary: number of tokens.
      symbols: which token stood for which letter of the text; None without text.
      demonstrations: what was continued.
    """

    env: MetaLanguage
    vocabulary: int
    symbols: SymbolMap | None
    demonstrations: Sequence[Demonstration]


def languages(outcome: RunResult) -> list[dict[str, Curves]]:
    """Curves of every seed by kind of language."""
    found: list[dict[str, Curves]] = [{} for _ in outcome.sound]
    for name, measured in outcome.measured.languages.items():
        _, order, _ = outcome.program.measures.languages[name].arguments
        nats, vocabulary = outcome.seeds(measured.nats), outcome.program.more.vocabulary
        each = Curves.of_each(
            nats, measured.tokens[0], vocabulary, int(order) - 1, measured.floor[0]
        )
        for curves, one in zip(found, each, strict=True):
            curves[name] = one
    return found


def texts(outcome: RunResult) -> list[Curves]:
    """Curves of natural text for every seed; none without text."""
    if outcome.measured.text is None:
        return []
    (windows,) = outcome.program.measures.text.arguments
    nats = outcome.seeds(outcome.measured.text)
    return Curves.of_each(nats, windows, outcome.program.more.vocabulary, 4)


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


def demonstration_table(outcome: RunResult) -> str:
    """Wrong items by length of the context, over all seeds that are sound."""
    lines = ["| demonstration | context | items | wrong, % | example |", "|---|---|---|---|---|"]
    for one in outcome.program.more.demonstrations:
        continued = outcome.measured.continued[one.name][outcome.sound]
        said = [[m.decode(t) for m, t in zip(one.maps, seed, strict=True)] for seed in continued]
        if not said:
            continue
        items, wrong = np.sum([one.judge(text) for seed in said for text in seed], axis=0)
        share = f"{100 * wrong / items:.0f}" if items else "-"
        example = said[0][0][:48].replace("\n", "/").replace("|", "/")
        context = one.prompts.shape[1]
        lines.append(f"| {one.kind} | {context} | {items} | {share} | `{example}` |")
    return "\n".join(lines)


def draw(
    outcome: RunResult, seeds: Sequence[Mapping[str, Curves]], of_text: Sequence[Curves]
) -> None:
    """Draws every figure, of the first seed where it is one seed's."""
    run, what = outcome.run, f"{outcome.config.model.kind}, {outcome.parameters:,} parameters"
    if len(outcome.steps) > 1:
        loss = outcome.curve("nats")
        labels: dict[str, Any] = {"xlabel": "tokens per seed", "ylabel": "training loss, nats"}
        figure = learning_curves(outcome.steps, loss, title=what, **labels)
        save_figure(figure, run.figures / "training.png")
    lines = {name: curves.lines() for name, curves in seeds[0].items()}
    by_order = {name: of["model"] for name, of in lines.items()}
    figures = {"by_order": ("Unseen languages", by_order)}
    chosen = "n = 3" if "n = 3" in lines else next(iter(lines))
    figures["beside_counting"] = f"Unseen languages, {chosen}", lines[chosen]
    if of_text:
        lines[TEXT] = of_text[0].lines()
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


def replay(outcome: RunResult) -> str:
    """Writes the page of an unseen language, token by token; says so in words."""
    whose, episode = outcome.first_sound(outcome.measured.episode)
    length = int(episode.length)
    came = episode.states.context[1 : length + 1, -1]
    chances = np.exp(episode.actions[:length])
    best = np.argsort(-chances, axis=-1)[:, :3]
    said = [[f"{i} ({row[i]:.0%})" for i in few] for few, row in zip(best, chances, strict=True)]
    attainable = episode.aux["log_probs"][np.arange(length), came]
    lost = np.cumsum(attainable - episode.rewards[:length])
    readings = {
        "the model expects": [*(", ".join(few) for few in said), "\u2013"],
        "reward of the true distribution": ["\u2013", *(f"{x:+.2f}" for x in attainable)],
        "lost so far, nats": [f"{x:.1f}" for x in np.append(0.0, lost)],
    }
    env, actions = outcome.program.more.env, [few[0] for few in said]
    return write_replay(outcome, env, episode, whose, actions=actions, readings=readings)


def report(outcome: RunResult) -> Report:
    """Draws the figures, and says what was found."""
    config, seeds, of_text = outcome.config, languages(outcome), texts(outcome)
    draw(outcome, seeds, of_text)
    first = seeds[0]
    text = [
        f"# Meta-Language: {config.model.kind} of {outcome.parameters:,} parameters",
        "",
        f"Nats per token on {config.evaluation_sequences:,} unseen languages of each order, context"
        f" {config.evaluation_context:,}; mean over positions around 16 and over the last sixteenth"
        + (f", mean ± standard deviation over {config.seeds} seeds." if config.seeds > 1 else ".")
        + f" The counting models are run on {COUNTED} of the sequences; the adaptive n-gram knows "
        "the order.",
        "",
        table(seeds),
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
    if of_text:
        text += [
            f"Natural text (`{config.text_dir}`), {of_text[0].model.shape[0]} windows:",
            "",
            table([{"text": curves} for curves in of_text]),
            "",
            f"Tokens of the symbols: {outcome.program.more.symbols}",
            "",
        ]
    if outcome.program.more.demonstrations:
        text += [
            "Continuations of contexts in which 15 % of the items are wrong, at temperature 0.3:",
            "",
            demonstration_table(outcome),
            "",
        ]
    speed = f"{throughput(outcome.history):,.0f} per second over all seeds"
    text += [f"{outcome.observations:,} tokens per seed at {speed}.", "", replay(outcome)]
    numbers = {
        name: {
            "position_16": [at(seed[name].model, 16) for seed in seeds],
            "end": [late(seed[name].model) for seed in seeds],
            "unigram_end": late(curves.unigram),
            "ngram_end": late(curves.ngram),
            "floor_end": None if curves.floor is None else late(curves.floor),
        }
        for name, curves in first.items()
    }
    numbers |= {
        "parameters": outcome.parameters,
        "tokens": outcome.observations,
        "tokens_per_s": throughput(outcome.history),
    }
    return Report("\n".join(text), numbers)
