"""Trials on a page: a lake or a room as far as it is known, or a row of pulls for each arm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpicljax import spaces
from gpicljax.agents.bandits import MOST_PULLS, gittins_bernoulli
from gpicljax.environment import Environment
from gpicljax.envs._bandit import Bandit
from gpicljax.envs.bernoulli_bandit import BernoulliBandit
from gpicljax.evaluation.returns import Episode
from gpicljax.play.drawing import Drawing, draw_episode
from gpicljax.play.match import Match, Player
from gpicljax.systems.in_context_rl.env import PADDED, trial_settings
from gpicljax.systems.in_context_rl.measures.playing import learning_source
from gpicljax.typing import ArrayTree
from gpicljax.viz.arms import arms_stage
from gpicljax.wrappers.trial import Trial, TrialState
from gpicljax.wrappers.wrapper import Wrapper, innermost

ACTIONS = 200
"""Actions of a trial."""
_SHIPPED = {"DarkRoom": "dark_room_planning"}
"""Shipped agents of tasks that are too large for the agent of all families."""
_TILE = 48  # pixels
_FOG, _DOT = np.array([128, 134, 142], np.uint8), np.array([213, 94, 0], np.uint8)


def match(env: Environment, params: ArrayTree) -> Match:
    """Returns how trials of an environment are played: beside the shipped agent and a program."""
    situations, actions = env.observation_space(), env.action_space()
    assert isinstance(situations, spaces.Discrete) and isinstance(actions, spaces.Discrete)
    is_padded = situations.n <= PADDED[0] and actions.n <= PADDED[1]
    name, program = learning_source(Trial(env, ACTIONS), searches=True)
    return Match(
        trial_settings(ACTIONS, is_padded).wrap(env),
        params,
        draw_trial,
        Player(program),
        name,
        shipped="in_context_rl_mixture" if is_padded else _SHIPPED.get(env.name, ""),
        rules=f"You have {ACTIONS} actions. Episodes follow each other, and the task stays the "
        "same: find out what pays, and then earn it as often as you can.",
    )


def bandit_match(env: BernoulliBandit, params: Any) -> Match:
    """Returns how a bandit of many pulls is played: beside the Gittins index."""
    pulls = int(env.horizon(params))
    program = gittins_bernoulli(env.action_space(), pulls) if pulls <= MOST_PULLS else None
    return Match(
        env,
        params,
        draw_trial,
        program and Player(program),
        "Gittins index",
        rules=f"You have {pulls} pulls of arms that pay 1 or nothing, some more often than others.",
    )


def draw_trial(
    env: Environment,
    episode: Episode,
    *,
    revealed: bool = True,
    last_only: bool = False,
    **how: Any,
) -> Drawing:
    """Draws a trial; see `play.drawing.draw_episode`.

    Cells in which the player has not been are dark, and the means of arms are hidden, until
    everything is revealed.
    """
    drawing = draw_episode(env, episode, last_only=last_only, **how)
    bandit = innermost(env)
    if isinstance(bandit, Bandit):
        task = _unwrap(env, episode.states, episode.task)[1]
        means = np.asarray(bandit.means(task)) if revealed else None
        arms = bandit.action_space().n
        stage = arms_stage(np.minimum(episode.actions, arms - 1), episode.rewards, arms, means)
        return drawing._replace(stage=stage)
    states: TrialState = episode.states
    numbers = np.cumsum(states.terminated | states.truncated)
    readings = {"episode": [str(number + 1) for number in numbers]}
    drawing = drawing._replace(readings=readings)
    cells = _cells(env, states, episode.task)
    if drawing.frames is None or drawing.frame_steps is None:
        return drawing
    if cells is None:  # the picture is of what has to be found out
        return drawing if revealed else drawing._replace(frames=None, frame_steps=None)
    frames = []
    steps = [len(numbers) - 1] if last_only else drawing.frame_steps
    for frame, step in zip(drawing.frames, steps, strict=True):
        way = cells[0, : step + 1][numbers[: step + 1] == numbers[step]]
        seen = frame if revealed else _darken(frame, cells[:, : step + 1])
        frames.append(_mark(seen, way))
    title = "The lake or room" if revealed else "As far as it is known"
    return drawing._replace(frames=np.stack(frames), picture_title=title)


def _unwrap(env: Environment, states: Any, task: Any) -> tuple[Any, Any]:
    """Returns states and task of the environment within all wrappers."""
    while isinstance(env, Wrapper):
        states, task, env = env.inner(states), env.inner_task(task), env.env
    return states, task


def _cells(env: Environment, states: TrialState, task: Any) -> NDArray[np.int64] | None:
    """Returns row and column where actions began and where they led to, `int[2, T, 2]`."""
    inner, own_task = _unwrap(env, states, task)
    if hasattr(inner, "row"):
        begun = np.stack([inner.row, inner.column], -1)
        columns = int(own_task.columns)
    elif hasattr(inner, "position") and np.ndim(inner.position) == 2:
        begun = np.asarray(inner.position)
        columns = innermost(env).size  # type: ignore[attr-defined]
    else:
        return None
    reached = np.stack(np.divmod(np.asarray(states.reached), columns), -1)
    return np.stack([begun, reached])


def _mark(frame: NDArray[np.uint8], way: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Returns a picture of tiles with a dot where the player has been in this episode."""
    marked = frame.copy()
    for row, column in way[(way != way[-1:]).any(-1)]:
        top, left = _TILE * row + _TILE // 2 - 4, _TILE * column + _TILE // 2 - 4
        marked[top : top + 8, left : left + 8] = _DOT
    return marked


def _darken(frame: NDArray[np.uint8], cells: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Returns a picture of tiles without those that the player has not entered."""
    rows, columns = (side // _TILE for side in frame.shape[:2])
    is_known = np.zeros((rows, columns), bool)
    is_known[cells[..., 0], cells[..., 1]] = True
    mask = is_known.repeat(_TILE, 0).repeat(_TILE, 1)[..., None]
    return np.where(mask, frame, _FOG)
