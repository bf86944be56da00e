"""The page of a run that replays a trained agent's episode in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import Episode
from gpicljax.play.game import controls
from gpicljax.runtime import RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.viz.episode_page import Stage, episode_page
from gpicljax.viz.films import Frames


def write_replay(
    outcome: RunResult,
    env: Environment,
    episode: Episode,
    whose: str,
    *,
    actions: Sequence[str] | None = None,
    readings: Mapping[str, Sequence[str]] | None = None,
    frames: Frames | None = None,
    frame_steps: ArrayLike | None = None,
    stage: Stage | None = None,
) -> str:
    """Writes `figures/episode.html`, an episode in the words of its environment; says so.

    Args:
      outcome: of the run.
      env: the environment.
      episode: the episode, arrays on the host.
      whose: the seed that played it; name and episode are what `RunResult.first_sound` gives.
      actions: names of what was done at each of T steps; those of `action_in_words` by default.
      readings: what else there is to read, by name, for each of T + 1 situations.
      frames: pictures of it, see `viz.episode_page`.
      frame_steps: likewise.
      stage: what else is drawn of it, likewise.

    Returns:
      A sentence for the report.

    Example:
      >>> from gpicljax.runtime import Report
      >>> def report(outcome):
      ...     whose, episode = outcome.first_sound(outcome.measured["an episode"])
      ...     return Report(write_replay(outcome, outcome.program.more, episode, whose), {})
    """
    if not outcome.sound.any():
        return "No episode to replay: no seed is sound."
    length = int(episode.length)
    if actions is None:
        actions = [action_in_words(env, action) for action in episode.actions[:length]]
    rewards = np.asarray(episode.rewards[:length]).reshape(length, -1).mean(1)  # over agents
    situations = [jax.tree.map(lambda x, t=t: x[t], episode.states) for t in range(length + 1)]
    page = episode_page(
        title=outcome.program.title,
        about={
            "steps": f"{length:,}",
            "return": f"{rewards.sum():,.2f}",
            "of": whose,
            "run": outcome.run.path.name,
        },
        words=[env.describe(state, episode.task) for state in situations],
        frames=frames,
        frame_steps=frame_steps,
        actions=actions,
        rewards=rewards,
        readings=readings,
        stage=stage,
    )
    write_atomically(outcome.run.figures / "episode.html", page.encode())
    return (
        f"`figures/episode.html` replays an episode of {whose} step by step ({length:,} steps, "
        f"return {rewards.sum():,.2f})."
    )


def action_in_words(env: Environment, action: Any) -> str:
    """Returns the name of an action, or its numbers."""
    space = env.action_space()
    if isinstance(space, spaces.Discrete):
        names = [name for name, _ in controls(env, space.n)]
        return names[int(action)] if int(action) < len(names) else f"action {int(action)}"
    numbers = np.ravel(action).tolist()
    return " ".join(f"{x:+.2f}" if isinstance(x, float) else f"{x}" for x in numbers)
