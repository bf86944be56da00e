"""What the page of a bandit's trial draws: a row of actions for each arm, and its mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.viz.episode_page import Stage


def arms_stage(
    actions: ArrayLike, rewards: ArrayLike, arms: int, means: ArrayLike | None = None
) -> Stage:
    """The actions of a trial, one row for each arm, coloured by what they paid.

    Args:
      actions: `int[T]`, the arms that were taken.
      rewards: float `[T]`, what each action paid.
      arms: A, how many there are.
      means: float `[A]`, what each arm pays on average; None where that is not known.

    Raises:
      ValueError: if an argument has another shape, or an arm is unknown.
    """
    pulled, paid = np.asarray(actions), np.asarray(rewards, np.float64)
    known = pulled.ndim == 1 and bool(((pulled >= 0) & (pulled < arms)).all())
    check(known, "actions", pulled, f"int[T] from 0 to {arms - 1}")
    check_array(paid.shape == pulled.shape, "rewards", paid, f"float[{pulled.size}]")
    told = None if means is None else np.asarray(means, np.float64)
    check_array(told is None or told.shape == (arms,), "means", told, f"float[{arms}]")
    data = {
        "count": arms,
        "pulled": pulled.astype(int).tolist(),
        "paid": paid.tolist(),
        # As they are: rounded twice, a number would differ from the one in words.
        "means": None if told is None else told.tolist(),
    }
    return Stage(Path(__file__).with_name("arms.html"), {"arms": data})
