"""The ranking of the General AI Challenge's first round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpicljax.checks import check


class Entrant(NamedTuple):
    """An entrant of the challenge's ranking.

    Attributes:
      name: the agent's name.
      solved: tasks of the sequence that it cleared, on average over runs.
      steps: steps of a run, on average.
      gradual: whether it learns gradually; None if that was not tested.
      remembers: whether it forgets nothing; None if that was not tested.

    Example:
      >>> Entrant("learner", solved=46, steps=2e5, gradual=True, remembers=True).is_verified
      True
      >>> Entrant("table", solved=46, steps=9e4, gradual=False).is_verified
      False
    """

    name: str
    solved: float
    steps: float
    gradual: bool | None = None
    remembers: bool | None = None

    @property
    def is_verified(self) -> bool:
        """Returns whether both were tested and hold."""
        return bool(self.gradual) and bool(self.remembers)


def ranking(contestants: Sequence[Entrant]) -> list[Entrant]:
    """Returns the challenge's order: the fewest steps among verified entrants come first.

    An entrant that cleared more tasks precedes one that cleared fewer (the document ranks only
    entrants that clear all). Entrants that are not verified come last, so that the runner-up moves
    up.

    Raises:
      ValueError: if two have the same name.

    Source: evaluation criteria of the General AI Challenge's first round, quantitative prize.

    Example:
      >>> table = Entrant("table", solved=46, steps=9e4, gradual=False, remembers=True)
      >>> learner = Entrant("learner", solved=46, steps=2e5, gradual=True, remembers=True)
      >>> [entrant.name for entrant in ranking([table, learner])]
      ['learner', 'table']
    """
    names = [entrant.name for entrant in contestants]
    check(len(set(names)) == len(names), "contestants", names, "names that differ")
    return sorted(contestants, key=lambda x: (not x.is_verified, -x.solved, x.steps))
