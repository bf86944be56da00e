"""Training of readers, of all kinds of agents or without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.runtime import named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.reader import TrainedReader, train_readers
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import Config


def kind_of(name: str) -> str:
    """Returns the kind of an agent, by its name."""
    return name.partition(" ")[0]


def train_seeds(
    config: Config, name: str, episodes: Episodes, seeds: Sequence[int]
) -> list[TrainedReader]:
    """Trains a reader for each seed; the name tells apart readers of different episodes."""
    root = named_key(config.seed, name)
    return train_readers(
        [jax.random.fold_in(root, np.uint32(seed)) for seed in seeds],
        episodes,
        config.reader,
        decimals=config.decimals,
        jit=_jit_within_memory,
    )


def _jit_within_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    return within_memory(jax.jit(function), "the training of a reader")


class OtherKindReaders(NamedTuple):
    """Readers that have each seen all kinds of agents but one.

    Attributes:
      readers: of each seed, one for each kind that is asked about.
      reader_numbers: `int[N]`, number of the reader that is asked about each episode.
    """

    readers: list[list[TrainedReader]]
    reader_numbers: np.ndarray


def train_other_kind_readers(
    config: Config, name: str, training_episodes: Episodes, test_episodes: Episodes
) -> OtherKindReaders | None:
    """Trains readers without one kind each; returns None if one of them would have no agents."""
    kinds = list(dict.fromkeys(map(kind_of, test_episodes.agents)))
    is_other_kind = [
        np.array([kind_of(agent) != kind for agent in training_episodes.agents]) for kind in kinds
    ]
    if not all(mask.any() for mask in is_other_kind):
        return None
    trained = [
        train_seeds(
            config,
            f"{name} without {kind}",
            take_episodes(training_episodes, mask),
            range(config.seeds),
        )
        for kind, mask in zip(kinds, is_other_kind, strict=True)
    ]
    readers = [list(seed_readers) for seed_readers in zip(*trained, strict=True)]
    return OtherKindReaders(
        readers, np.array([kinds.index(kind_of(agent)) for agent in test_episodes.agents])
    )
