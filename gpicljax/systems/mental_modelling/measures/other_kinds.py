"""Readers that have read no agent of a kind, and what they need to have read instead."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.questions import Queries, take_queries
from gpicljax.systems.mental_modelling.measures.reader import TrainedReader, reader_answers
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers

Train = Callable[[str, Episodes, Sequence[int] | None], list[TrainedReader]]
"""Trains a reader of episodes for each seed, or for all of a study; the name tells them apart."""
KINDS, AGENTS = (1, 2, 3, 5), (2, 4, 8, 16)
"""Numbers of kinds and agents that are read."""


def kind_of(name: str) -> str:
    """Returns the kind of an agent, by its name."""
    return name.partition(" ")[0]


class OtherKindReaders(NamedTuple):
    """Readers that have each seen all kinds of agents but one.

    Attributes:
      readers: of each seed, one for each kind that is asked about.
      reader_numbers: `int[N]`, number of the reader that is asked about each episode.
    """

    readers: list[list[TrainedReader]]
    reader_numbers: np.ndarray


def train_other_kind_readers(
    train: Train, name: str, training_episodes: Episodes, test_episodes: Episodes
) -> OtherKindReaders | None:
    """Trains readers without one kind each; returns None if one of them would have no agents."""
    kinds = list(dict.fromkeys(map(kind_of, test_episodes.agents)))
    is_other_kind = [
        np.array([kind_of(agent) != kind for agent in training_episodes.agents]) for kind in kinds
    ]
    if not all(mask.any() for mask in is_other_kind):
        return None
    trained = [
        train(f"{name} without {kind}", take_episodes(training_episodes, mask), None)
        for kind, mask in zip(kinds, is_other_kind, strict=True)
    ]
    readers = [list(seed_readers) for seed_readers in zip(*trained, strict=True)]
    return OtherKindReaders(
        readers, np.array([kinds.index(kind_of(agent)) for agent in test_episodes.agents])
    )


def draw_agents(agents: Sequence[str], kinds: int, count: int, seed: int) -> list[str]:
    """Returns the names of so many agents, spread over so many kinds; empty if there are not."""
    rng = np.random.default_rng(seed)
    by_kind = {
        kind: rng.permutation([agent for agent in dict.fromkeys(agents) if kind_of(agent) == kind])
        for kind in rng.permutation(sorted({*map(kind_of, agents)}))
    }
    chosen = [*by_kind.values()][:kinds]
    turns = [name for turn in itertools.zip_longest(*chosen) for name in turn if name is not None]
    fits = len(chosen) == kinds <= count <= len(turns)
    return [str(name) for name in turns[:count]] if fits else []


def leads_by_amount(
    train: Train,
    name: str,
    seeds: Sequence[int],
    training_episodes: Episodes,
    agents: Sequence[str],
    asked: Sequence[tuple[Queries, Answers]],
) -> Iterator[dict[str, Any]]:
    """Yields the lead over the null of readers of one seed each, by what they have read.

    Args:
      train: see `Train`.
      name: of the task.
      seeds: of readers, each of which leaves out another kind that is asked about.
      training_episodes: of which the agents of other kinds are read.
      agents: the name of the agent of each episode that is asked about.
      asked: queries with a history, and what the null answers.
    """
    kinds = list(dict.fromkeys(map(kind_of, agents)))
    for seed, count, number in itertools.product(seeds, KINDS, AGENTS):
        left_out = kinds[seed % len(kinds)]
        others = [agent for agent in training_episodes.agents if kind_of(agent) != left_out]
        if not (read := draw_agents(others, count, number, seed)):
            continue
        episodes = take_episodes(training_episodes, np.isin(training_episodes.agents, read))
        (reader,) = train(f"{name} {count} of {number}", episodes, [seed])
        is_asked = np.array([kind_of(agent) == left_out for agent in agents])
        leads = []
        for queries, null in asked:
            indices = np.flatnonzero(is_asked[queries.episode])
            some = take_queries(queries, indices)
            right = score_answers(some, reader_answers(reader, some)).right.mean()
            leads.append(float(right - score_answers(queries, null).right[indices].mean()))
        yield {
            "kinds": count,
            "agents": number,
            "seed": seed,
            "left_out": left_out,
            "lead": float(np.mean(leads)),
        }
