"""The stage of a bandit's page: a row of actions for each arm, and its mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.viz.episode_page import Stage


def arms_stage(
    actions: ArrayLike, rewards: ArrayLike, arms: int, means: ArrayLike | None = None
) -> Stage:
    """Draws the actions of a trial, one row for each arm, coloured by their rewards.

    Args:
      actions: `int[T]`, the arms that were taken.
      rewards: float `[T]`, what each action paid.
      arms: A, how many there are.
      means: float `[A]`, what each arm pays on average; None where that is not known.

    Raises:
      ValueError: if an argument has another shape, or an arm is unknown.
    """
    pulled, paid = np.asarray(actions), np.asarray(rewards, np.float64)
    is_valid = pulled.ndim == 1 and bool(((pulled >= 0) & (pulled < arms)).all())
    check(is_valid, "actions", pulled, f"int[T] from 0 to {arms - 1}")
    check_array(paid.shape == pulled.shape, "rewards", paid, f"float[{pulled.size}]")
    shown_means = None if means is None else np.asarray(means, np.float64)
    check_array(
        shown_means is None or shown_means.shape == (arms,), "means", shown_means, f"float[{arms}]"
    )
    data = {
        "count": arms,
        "pulled": pulled.astype(int).tolist(),
        "paid": paid.tolist(),
        # As they are: rounded twice, a number would differ from the one in words.
        "means": None if shown_means is None else shown_means.tolist(),
    }
    return Stage(Path(__file__).with_name("arms.html"), {"arms": data})
