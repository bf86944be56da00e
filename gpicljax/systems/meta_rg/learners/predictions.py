"""Predictions of R2D2's players beside values, which teach their memory to keep something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp

from gpicljax.agents.r2d2 import Auxiliary
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG

Predicted = Literal["feedback", "stimulus"]


def prediction(env: MetaRG, predicted: Predicted, weight: float) -> Auxiliary:
    """Returns the regression of the coming feedback, or of the stimulus that is seen.

    Args:
      env: the game.
      predicted: its name. The feedback, which is the speaker's stimulus, counts in the step before
        it is shown; the reconstruction of the present stimulus, as in the paper, always counts.
      weight: of its loss.
    """

    def feedback(observation: Any, following: Mapping[str, jax.Array]) -> tuple[Any, Any]:
        del observation
        is_feedback = following["round"] == env.num_rounds + 1
        return following["stimulus"], is_feedback.astype(following["stimulus"].dtype)

    def stimulus(observation: Mapping[str, jax.Array], following: Any) -> tuple[Any, Any]:
        del following
        return observation["stimulus"], jnp.ones_like(observation["previous_reward"])

    target = feedback if predicted == "feedback" else stimulus
    return Auxiliary(predicted, target, weight)
