"""Nats by position: of models, of nulls on the same sequences, and their differences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve, log_bins
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.networks.contract import Network
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.reading import read_json
from gpicljax.systems.meta_language.measures.nulls import chosen_elsewhere, nulls
from gpicljax.typing import ArrayTree

UNTRAINED = "untrained online memory"
CURVES = "curves.json"


@dataclasses.dataclass(frozen=True)
class Curves:
    """Nats at every position, `float[N, T]` each.

    Attributes:
      model: the trained model's.
      unigram: of counting tokens.
      ngram: of the adaptive n-gram that is best at the end of other sequences.
      orders: how many tokens it looks at.
      regression: of the softmax regression that is best at the end of other sequences.
      mixture: of all n-grams and regressions, weighed by their predictions so far.
      online: of an online memory that is not trained.
      floor: the generator's own; None for natural text.
    """

    model: np.ndarray
    unigram: np.ndarray
    ngram: np.ndarray
    orders: list[int]
    regression: np.ndarray
    mixture: np.ndarray
    online: np.ndarray
    floor: np.ndarray | None

    @classmethod
    def of_models(
        cls,
        models: Iterable[np.ndarray],
        tokens: np.ndarray,
        vocabulary: int,
        floor: np.ndarray | None = None,
    ) -> list[Curves]:
        """Returns each model's curve with the nulls on the same sequences, int `[N, T + 1]`."""
        baselines, rows = nulls(tokens, vocabulary), np.arange(len(tokens))
        last = end(tokens.shape[1] - 1)
        ngrams, regressions = baselines.ngrams, baselines.regressions
        order, rate = (chosen_elsewhere(x, last) for x in (ngrams, regressions))
        counted = ngrams[0], ngrams[order, rows], sorted({int(k) for k in order})
        rest = regressions[rate, rows], baselines.mixture, baselines.online, floor
        return [cls(np.asarray(nats, np.float64), *counted, *rest) for nats in models]

    def lines(self) -> dict[str, ICLCurve]:
        """Returns all curves by name, means over bins of positions."""
        named = {
            "model": self.model,
            "unigram": self.unigram,
            "adaptive n-gram": self.ngram,
            "softmax regression": self.regression,
            "mixture": self.mixture,
            UNTRAINED: self.online,
        }
        if self.floor is not None:
            named["floor"] = self.floor
        bins = log_bins(self.model.shape[1])
        return {name: icl_curve(nats, bins=bins) for name, nats in named.items()}


def at(curve: np.ndarray, position: int) -> float:
    """Returns the mean around a position: a sixteenth of it to either side."""
    reach = max(1, position // 16)
    return float(curve[:, max(0, position - reach) : position + reach].mean())


def end(length: int) -> slice:
    """Returns the last sixteenth of so many positions."""
    return slice(length - max(1, length // 16), length)


def start(length: int) -> slice:
    """Returns the first eighth of so many positions."""
    return slice(max(1, length // 8))


def late(curve: np.ndarray) -> float:
    """Returns the mean over the last sixteenth."""
    return float(curve[:, end(curve.shape[1])].mean())


def difference(
    models: Sequence[np.ndarray], null: np.ndarray, part: slice
) -> tuple[float, float, float]:
    """Returns the models' excess over a null on the same sequences: mean, low and high.

    The half-widths of two t-intervals of 95 % are added in squares: over sequences, of the mean
    over seeds; and, where there are several, over seeds.
    """
    paired = np.stack([(model - null)[:, part].mean(-1) for model in models])
    over = [mean_interval(paired.mean(0)), mean_interval(paired.mean(1))]
    half = math.hypot(*(interval.high - interval.mean for interval in over if interval.count > 1))
    return over[0].mean, over[0].mean - half, over[0].mean + half


def nats_without_memory(
    network: Network, params: ArrayTree, tokens: jax.Array, vocab_size: int
) -> jax.Array:
    """Returns `nats_by` of a model with its memory cleared before every token."""
    vocabulary = jnp.arange(vocab_size, dtype=jnp.int32)
    logits, _ = network.unroll(params, None, vocabulary[None], None)
    nats = -jax.nn.log_softmax(logits[0].astype(jnp.float32))
    return nats[tokens[:, :-1], tokens[:, 1:]]


def write_curves(run: Path, curves: Mapping[str, Mapping[str, ICLCurve]]) -> None:
    """Writes a run's curves, by kind of language, then by name."""
    write_atomically(run / CURVES, to_json_text(curves) + "\n")


def read_curves(path: Path) -> dict[str, dict[str, ICLCurve]]:
    """Returns the curves that a run wrote, of its first seed: by kind of language, then by name.

    Raises:
      OSError: if they cannot be read.
      ValueError: if they are damaged; it names the file.
    """
    try:
        return {
            name: {line: ICLCurve(**_arrays(curve)) for line, curve in curves.items()}
            for name, curves in read_json(path / CURVES).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / CURVES} is damaged ({error})") from error


def _arrays(curve: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    # What could not be estimated is null.
    return {name: np.asarray(values, np.float64) for name, values in curve.items()}
