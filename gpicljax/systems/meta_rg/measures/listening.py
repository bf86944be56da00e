"""Accuracy of decisions where two answers are not equally frequent, or one is preferred.

Source: Table 4 of the Meta-Referential Games paper, whose accuracies below one half need it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpicljax.checks import check


class Confusion(NamedTuple):
    """Decisions by what was true.

    Attributes:
      same: `(said same, said different, not valid)`, where the meanings were the same.
      different: likewise, where they differed.
    """

    same: tuple[int, int, int]
    different: tuple[int, int, int]

    @property
    def games(self) -> int:
        """All games played."""
        return sum(self.same) + sum(self.different)

    @property
    def accuracy(self) -> float:
        """Share of right answers in all games; invalid ones are wrong. NaN without a game."""
        return _share(self.same[0] + self.different[1], self.games)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the accuracies for "same" and "different": 0.5 for always saying "same"."""
        return (
            _share(self.same[0], sum(self.same)) + _share(self.different[1], sum(self.different))
        ) / 2

    @property
    def always_same(self) -> float:
        """Accuracy of always saying "same": the control."""
        return _share(sum(self.same), self.games)

    @property
    def says_same(self) -> float:
        """Share of "same" in valid answers: one half where nothing is preferred."""
        valid = sum(self.same[:2]) + sum(self.different[:2])
        return _share(self.same[0] + self.different[0], valid)

    def in_words(self) -> str:
        """Returns a line."""
        numbers = (self.accuracy, self.balanced_accuracy, self.always_same, self.says_same)
        accuracy, balanced, always, same_share = (f"{100 * x:.1f} %" for x in numbers)
        return (
            f'accuracy {accuracy}, balanced {balanced}, always "same" {always}, '
            f'says "same" {same_share}, {self.same[2] + self.different[2]} not valid'
        )


def confusion(answer: np.ndarray, decided: np.ndarray, valid: np.ndarray) -> Confusion:
    """Counts decisions.

    Args:
      answer: `int[N]`, 0 for the same meaning, 1 for another.
      decided: `int[N]`, what was decided.
      valid: `bool[N]`, whether anything was.

    Raises:
      ValueError: if they do not have one length.

    Example:
      >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([True, True, False]))
      Confusion(same=(1, 1, 0), different=(0, 0, 1))
    """
    answer, decided, valid = (np.asarray(x) for x in (answer, decided, valid))
    lengths = answer.shape, decided.shape, valid.shape
    check(len(set(lengths)) == 1 and answer.ndim == 1, "answer", lengths, "three arrays [N]")

    def counts(truth: int) -> tuple[int, int, int]:
        has_truth = answer == truth
        named = [int((has_truth & valid & (decided == word)).sum()) for word in (0, 1)]
        return (named[0], named[1], int((has_truth & ~valid.astype(bool)).sum()))

    return Confusion(counts(0), counts(1))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
