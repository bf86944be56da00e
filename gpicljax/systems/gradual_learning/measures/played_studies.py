"""Studies of an agent with frozen weights: which streams it plays, and what they come to.

A study asks for the steps in a curriculum in order, in each task set alone, in one after those that
it builds on, or in one that comes again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpicljax.systems.gradual_learning.env.curriculum import Curriculum, predecessors
from gpicljax.systems.gradual_learning.env.tasks import TASK_SETS
from gpicljax.systems.gradual_learning.measures.criteria import (
    CompletionTimes,
    Efficiency,
    Retention,
    Transfer,
    curriculum_orders,
    efficiency,
    hint_gain,
    learns_gradually,
    retention,
    transfer,
)
from gpicljax.systems.gradual_learning.measures.entrants import Entrant, ranking
from gpicljax.systems.gradual_learning.measures.streams import Streams

REQUIRES = {task.name: task.requires for task in TASK_SETS}
"""By task set, those that it builds on directly."""
WIPED = "memory wiped"
"""The learner whose memory is wiped before every question."""
SYNONYMS, HINTS = "micro19", "micro20"
SIMPLE_KINDS = ("order", "alone")
FIRST_KINDS, ALL_KINDS = (*SIMPLE_KINDS, "after"), (*SIMPLE_KINDS, "after", "again")
"""Kinds of studies; `"again"` depends on what the others come to, and is played after them."""


class Study(NamedTuple):
    """A stream to be played.

    Attributes:
      kind: `"order"`, the curriculum; `"alone"`, one task set; `"after"`, one after those of the
        curriculum that it builds on, in one of their orders, drawn by run; `"again"`, one once
        more after as much of the curriculum as the run clears in `"order"`.
      task: the task set; none of `"order"`.
      run: its number; streams of one number meet the same instances where the order is the same.
      curriculum: curriculum of the stream; of `"again"`, if all is cleared.
    """

    kind: str
    task: str
    run: int
    curriculum: Curriculum


@dataclasses.dataclass(frozen=True)
class Plan:
    """The studies of an evaluation.

    Attributes:
      curriculum: task sets, in order.
      targets: task sets of the studies `"after"` and `"again"`.
      runs: streams of every study.
      threshold: so many instances solved in a row clear a task set.
      budget: steps of a stream.
      params: params of the environment.
    """

    curriculum: tuple[str, ...]
    targets: tuple[str, ...]
    runs: int
    threshold: int
    budget: int
    params: Mapping[str, Any]

    def studies(self, *kinds: str) -> list[Study]:
        """Returns all streams of some kinds; those that are played once more come last."""
        if kinds == ALL_KINDS:
            return self.studies(*FIRST_KINDS) + self.studies("again")
        tasks = {"order": ("",), "alone": self.curriculum}
        return [
            Study(kind, task, run, Curriculum(names, threshold=self.threshold))
            for run in range(self.runs)
            for kind in kinds
            for task in tasks.get(kind, self.targets)
            if (names := self._names(kind, task, run))
        ]

    def _names(self, kind: str, task: str, run: int) -> tuple[str, ...]:
        """Returns the task sets of a stream; none if nothing is to come before the task."""
        if kind != "after":
            before = () if kind == "alone" else self.curriculum
            return (*before, task) if task else before
        needed = set(predecessors(task)) & set(self.curriculum)
        # The graph's own order in the first run, another one in each of the others.
        before = tuple(n for n in curriculum_orders(REQUIRES, run) if n in needed)
        return (*before, task) if before else ()


class PlayedStudies(NamedTuple):
    """The streams of one agent.

    Attributes:
      streams: the streams.
      studies: the study of each of them.
      curriculum: task sets, in order.
    """

    streams: Streams
    studies: Sequence[Study]
    curriculum: tuple[str, ...]

    def indices(self, kind: str, task: str = "") -> list[int]:
        """Returns the indices of the streams of a study, run by run."""
        return [i for i, x in enumerate(self.studies) if (x.kind, x.task) == (kind, task)]

    def in_order(self) -> CompletionTimes:
        """Returns the steps in the curriculum in order."""
        return self.streams.completion_times(self.indices("order"), len(self.curriculum))

    def alone(self, task: str) -> CompletionTimes:
        """Returns the steps in one task set alone."""
        return self.streams.completion_times(self.indices("alone", task), 1)

    def accuracy_alone(self, task: str) -> np.ndarray:
        """Returns the share of right answers to each question of an instance, `[streams, Q]`."""
        return self.streams.accuracy(self.indices("alone", task), [0])

    def efficiency_alone(self) -> Efficiency:
        """Returns the efficiency on every task set alone, as if they were a sequence."""
        times = [self.alone(task) for task in self.curriculum]
        steps, cleared = (np.concatenate([x[i] for x in times], 1) for i in range(2))
        medians = np.median(steps, axis=0)
        return Efficiency(
            steps=medians,
            cleared=cleared.mean(0),
            relative=medians,
            tasks=efficiency(times[0]).tasks,
            total=efficiency(CompletionTimes(steps, cleared)).total,
        )

    def gains_from_predecessors(self) -> dict[str, Transfer]:
        """Returns the transfer from its predecessors for every task set that has some."""
        transfers = {}
        for task in self.curriculum:
            if after := self.indices("after", task):
                places = len(self.studies[after[0]].curriculum.tasks)
                times = self.streams.completion_times(after, places)
                transfers[task] = transfer(self.alone(task), times)
        return transfers

    def gains_over(self, null: PlayedStudies) -> dict[str, Transfer]:
        """Returns how many times faster than a null every task set is cleared alone."""
        return {task: transfer(null.alone(task), self.alone(task)) for task in self.curriculum}

    def gain_from_hints(self, oracle: np.ndarray) -> Transfer | None:
        """Returns the gain from hints beside synonyms; None unless both task sets were measured.

        Args:
          oracle: `float[n]`, steps of an agent that knows the answers, by task set.
        """
        if not {SYNONYMS, HINTS} <= {*self.curriculum}:
            return None
        synonyms, hints = (float(oracle[self.curriculum.index(x)]) for x in (SYNONYMS, HINTS))
        return hint_gain(self.alone(SYNONYMS), self.alone(HINTS), reference=(synonyms, hints))

    def retentions(self) -> dict[str, Retention]:
        """Returns the retention of the targets, from the steps once more after what runs clear."""
        steps, cleared = np.asarray(self.streams.steps), np.asarray(self.streams.cleared)
        reached, retentions = cleared[self.indices("order")], {}
        for place, task in enumerate(self.curriculum):
            if indices := self.indices("again", task):
                cleared_again = np.minimum(cleared[indices], reached)
                # Runs that cleared it in order, and then in this stream before the task came again.
                counts = (reached > place) & (cleared_again >= reached)
                first = CompletionTimes(steps[indices, place][:, None], counts[:, None])
                is_cleared = counts & (cleared[indices] > reached)
                second = CompletionTimes(steps[indices, reached][:, None], is_cleared[:, None])
                retentions[task] = retention(first, second)
        return retentions


class Findings(NamedTuple):
    """The results of several agents on the same streams.

    Attributes:
      agents: efficiency by agent, task sets in order.
      single: efficiency by agent, every task set alone.
      faster: by null and task set, how many times faster the learner is than the null.
      transfers: criterion B by target, of the agents that play all studies.
      retentions: criterion C by target, likewise.
      hints: the learner's gain from hints; None where that was not measured.
      oracle: the oracle's steps on every task set alone.
    """

    agents: dict[str, Efficiency]
    single: dict[str, Efficiency]
    faster: dict[str, dict[str, Transfer]]
    transfers: dict[str, dict[str, Transfer]]
    retentions: dict[str, dict[str, Retention]]
    hints: Transfer | None
    oracle: np.ndarray

    def ranking(self) -> list[Entrant]:
        """Returns the challenge's ranking."""
        entrants = []
        for agent, results in self.agents.items():
            entrant = Entrant(agent, solved=results.tasks.mean, steps=results.total.mean)
            if agent in self.retentions:
                retentions = self.retentions[agent].values()
                entrant = entrant._replace(
                    gradual=learns_gradually([*self.transfers[agent].values()]),
                    remembers=bool(retentions) and all(x.is_retained for x in retentions),
                )
            entrants.append(entrant)
        return ranking(entrants)


def compute_findings(
    played: Mapping[str, PlayedStudies], learner: str, nulls: Sequence[str]
) -> Findings:
    """Computes the criteria of all agents.

    Args:
      played: streams by agent: the learner, the nulls, `"oracle"` and others, in the tables' order.
      learner: name of the agent that was trained.
      nulls: names of those that were not; the learner and the first of them play all studies.
    """
    oracle, whole = played["oracle"].efficiency_alone().steps, (learner, nulls[0])
    return Findings(
        agents={name: efficiency(x.in_order(), oracle) for name, x in played.items()},
        single={name: x.efficiency_alone() for name, x in played.items()},
        faster={name: played[learner].gains_over(played[name]) for name in nulls},
        transfers={name: played[name].gains_from_predecessors() for name in whole},
        retentions={name: played[name].retentions() for name in whole},
        hints=played[learner].gain_from_hints(oracle),
        oracle=oracle,
    )
