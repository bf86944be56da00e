"""Readers of fewer kinds and fewer agents: what makes up for a kind that they have not read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.questions import Queries, take_queries
from gpicljax.systems.mental_modelling.measures.reader import reader_answers
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import Config
from gpicljax.systems.mental_modelling.studies.mental_modelling.training import (
    kind_of,
    train_seeds,
)

KINDS, AGENTS = (1, 2, 3, 5), (2, 4, 8, 16)


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
    config: Config,
    name: str,
    training_episodes: Episodes,
    agents: Sequence[str],
    asked: Sequence[tuple[Queries, Answers]],
) -> Iterator[dict[str, Any]]:
    """Yields the lead over the null of readers of one seed each, by what they have read.

    Args:
      config: of the study; each seed leaves out another kind that is asked about.
      name: of the task.
      training_episodes: of which the agents of other kinds are read.
      agents: the name of the agent of each episode that is asked about.
      asked: queries with a history, and what the null answers.
    """
    kinds = list(dict.fromkeys(map(kind_of, agents)))
    for seed, count, number in itertools.product(range(config.seeds), KINDS, AGENTS):
        left_out = kinds[seed % len(kinds)]
        others = [agent for agent in training_episodes.agents if kind_of(agent) != left_out]
        if not (read := draw_agents(others, count, number, config.seed + seed)):
            continue
        episodes = take_episodes(training_episodes, np.isin(training_episodes.agents, read))
        reader = train_seeds(config, f"{name} {count} of {number}", episodes, [seed])[0]
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
