"""A game: an environment, an episode in progress, and the keys that act in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.rollout import HostBatch
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Picture = NDArray[np.uint8]

AGAIN, ANEW, MAP, QUIT = "r", "n", "m", "q"
_LETTERS = "0123456789abcdefghijkloptuvwxyz"


def controls(env: Environment, count: int) -> tuple[tuple[str, str], ...]:
    """Returns name and key of each of an environment's `count` actions, as far as there are keys.

    A wrapper may add actions to those that the environment names.
    """
    if len(env.controls) == count:
        return env.controls
    return tuple((f"action {i}", letter) for i, letter in zip(range(count), _LETTERS, strict=False))


class NotPlayableError(ValueError):
    """The environment cannot be played by hand."""


class PlaySession:
    """An environment, an episode in progress, and what its keys do.

    Args:
      env: the environment.
      params: the distribution over tasks; the environment's default if None.
      seed: of tasks and episodes.

    Attributes:
      actions: the action that each key stands for.
      names: what each key does, in words.
      steps: of the episode.
      reward: of the last step.
      total: reward of the episode.
      over: how the episode ended; empty while it goes on.

    Raises:
      NotPlayableError: if there are several agents, or actions are not Discrete.

    Example:
      >>> import gpicljax
      >>> game = PlaySession(gpicljax.make("CliffWalking-v1"), seed=0)
      >>> sorted(game.actions)
      ['ArrowDown', 'ArrowLeft', 'ArrowRight', 'ArrowUp']
      >>> game.press("ArrowUp")
      >>> game.facts()
      {'step': '1', 'reward': '-1', 'so far': '-1'}
    """

    def __init__(self, env: Environment, params: ArrayTree = None, seed: int = 0) -> None:
        """Starts the first episode; see the class."""
        self.env = env
        self._params = env.default_params if params is None else params
        self._key = jax.random.key(seed)
        self._views = _views(env)
        self.map_shown = len(self._views) < 2
        space = env.action_space()
        if env.num_agents is not None or not isinstance(space, spaces.Discrete):
            interface = (
                f"{env.num_agents} agents" if env.num_agents is not None else f"actions {space}"
            )
            raise NotPlayableError(
                f"{env.name} has {interface}; accepted: one agent with Discrete actions"
            )
        pairs = controls(env, space.n)
        self.actions = {key: action for action, (_, key) in enumerate(pairs)}
        self.names = {key: name for name, key in pairs}
        self.names |= {AGAIN: "new episode", ANEW: "new task"}
        if len(self._views) > 1:
            self.names[MAP] = "map"
        # One endless trial at a time: the player says when the next one begins.
        self._batch = HostBatch(VectorEnv(env, 1, resets="fresh", params=self._params))
        self.start(new_task=True)

    @property
    def state(self) -> Any:
        """The environment's state."""
        return self._instance.state

    @property
    def task(self) -> Any:
        """The environment's task."""
        return self._instance.task

    def start(self, *, new_task: bool = False) -> None:
        """Begins an episode."""
        self._key, key = jax.random.split(self._key)
        task = None if new_task else jax.tree.map(lambda x: x[None], self.task)
        self._instance = self._batch.start(key, task=task)[0]
        self.steps, self.reward, self.total, self.over = 0, 0.0, 0.0, ""

    def compile(self) -> None:
        """Compiles all that keys bring about, which would keep the first of them waiting."""
        self._batch.compile(self._key, np.int32(0))
        self._batch.start(self._key, task=jax.tree.map(lambda x: x[None], self.task))
        for view in self._views.values():
            view(self.state, self.task)
        self.words()

    def press(self, key: str) -> None:
        """Does what a key stands for; keys that stand for nothing do nothing."""
        if key in (AGAIN, ANEW):
            self.start(new_task=key == ANEW)
        elif key == MAP and MAP in self.names:
            self.map_shown = not self.map_shown
        elif key in self.actions and not self.over:
            moved = self._instance.step(np.int32(self.actions[key]))
            self.reward = float(moved.reward)
            self.steps, self.total = self.steps + 1, self.total + self.reward
            if moved.terminated or moved.truncated:
                ending = "is over" if moved.terminated else "has reached its time limit"
                self.over = f"The episode {ending}. {AGAIN}: another one, {ANEW}: a new task."

    def pictures(self) -> dict[str, Picture]:
        """Returns the pictures by name, `uint8[H, W, 3]` each; the map only while it is asked
        for.
        """
        shown = [*self._views.items()][: None if self.map_shown else 1]
        return {name: np.asarray(view(self.state, self.task)) for name, view in shown}

    def facts(self) -> dict[str, str]:
        """Returns the numbers to show beside them."""
        return {
            "step": str(self.steps),
            "reward": f"{self.reward:+.4g}",
            "so far": f"{self.total:+.4g}",
        }

    def words(self) -> str:
        """Returns the situation in words, or the observation where there is nothing else to
        show.
        """
        with contextlib.suppress(NotImplementedError):
            return self.env.describe(self.state, self.task)
        if self._views:
            return ""
        observation = self._instance.request.timestep.observation
        paths, _ = jax.tree_util.tree_flatten_with_path(observation)
        parts = [(jax.tree_util.keystr(path, simple=True, separator="."), x) for path, x in paths]
        return "\n".join(f"{name or 'observation'}: {np.asarray(x).tolist()}" for name, x in parts)


def _views(env: Environment) -> dict[str, Callable[[Any, Any], jax.Array]]:
    """Returns the compiled views of an environment by name; none where it is shown in words."""
    views: dict[str, Callable[[Any, Any], jax.Array]] = {}
    space = env.observation_space()
    if _is_picture(space):
        views["what the agent sees"] = env.observe
    elif isinstance(space, spaces.Dict):
        for name, entry in space.items:
            if _is_picture(entry):
                views["what the agent sees"] = lambda state, task, name=name: env.observe(
                    state, task
                )[name]
    if env.can_render:
        views["from above" if views else "picture"] = env.render
    return {name: jax.jit(view) for name, view in views.items()}


def _is_picture(space: spaces.Space) -> bool:
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) == 3
        and space.shape[-1] == 3
        and space.jax_dtype == np.uint8
    )
