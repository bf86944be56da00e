"""A game: an environment, an episode in progress, other players, and keys that act in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import Episode
from gpicljax.play.drawing import Draw, Drawing, controls, describe_state, draw_episode
from gpicljax.play.match import Player
from gpicljax.rollout import HostBatch, as_host_agent
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Picture = NDArray[np.uint8]

AGAIN, ANEW, REVEAL, QUIT = "r", "n", "m", "q"
_STREAM_KEYS = {AGAIN: "F2", ANEW: "F4", REVEAL: "F8"}
"""Keys that take their places where every character is a byte of the stream."""


def is_stream(env: Environment) -> bool:
    """Returns whether one agent reads and says bytes, `Discrete(256)` both."""
    members = env.observation_space(), env.action_space()
    bytes_both = all(isinstance(x, spaces.Discrete) and x.n == 256 for x in members)
    return env.num_agents is None and bytes_both


class NotPlayableError(ValueError):
    """The environment cannot be played by hand."""


class Recording:
    """An episode in progress, step by step.

    Args:
      instance: of a `HostBatch`, at the start of an episode.

    Attributes:
      seen: the observations, one for each situation.
      actions: one for each step.
      rewards: likewise.
      ending: how the episode ended; empty while it goes on.
    """

    def __init__(self, instance: Any) -> None:
        """Begins with the first situation; see the class."""
        self.instance = instance
        self.seen = [instance.request.timestep.observation]
        self.rewards: list[float] = []
        self.ending = ""
        self.actions: list[Any] = []
        self._states = [jax.device_get(instance.state)]

    def step(self, action: Any) -> None:
        """Acts once; nothing happens once the episode is over."""
        if self.ending:
            return
        moved = self.instance.step(action)
        self.actions.append(action)
        self.rewards.append(float(moved.reward))
        self.seen.append(moved.observation)
        self._states.append(jax.device_get(self.instance.state))
        if moved.terminated or moved.truncated:
            self.ending = "is over" if moved.terminated else "has reached its time limit"

    @property
    def state(self) -> Any:
        """Returns the environment's state."""
        return self._states[-1]

    def episode(self) -> Episode:
        """Returns the episode as far as it has come."""
        states = jax.tree.map(_stack, *self._states)
        actions = np.asarray(self.actions, np.int32)
        rewards: Any = np.asarray(self.rewards)
        task = jax.device_get(self.instance.task)
        length: Any = np.int32(len(actions))
        return Episode(task, states, actions, rewards, {}, length)


def _stack(*values: Any) -> NDArray[Any]:
    """Returns leaves of states as one array; of typed keys, which NumPy does not know, objects."""
    if not jnp.issubdtype(values[0].dtype, jax.dtypes.prng_key):
        return np.stack(values)
    keys = np.empty(len(values), object)
    for i, key in enumerate(values):
        keys[i] = key
    return keys


class PlaySession:
    """An environment, an episode in progress, what its keys do, and other players.

    All play the same episode of the same task, a step for each of the person's.

    Args:
      env: the environment.
      params: the distribution over tasks; the environment's default if None.
      seed: of tasks and episodes.
      players: those that play beside the person, by name.
      draw: draws the episode.
      skip: see `Match`.

    Attributes:
      actions: the action that each key stands for.
      names: what each key does, in words.
      is_stream: whether one byte comes in and one goes out at every step.
      revealed: whether the drawing shows what players do not see.
      recording: the person's episode.
      others: the other players' episodes, by name.

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

    def __init__(
        self,
        env: Environment,
        params: ArrayTree = None,
        seed: int = 0,
        players: Mapping[str, Player] | None = None,
        draw: Draw = draw_episode,
        skip: Callable[[Any], int | None] = lambda state: None,
    ) -> None:
        """Starts the first episode; see the class."""
        self.env = env
        space = env.action_space()
        if env.num_agents is not None or not isinstance(space, spaces.Discrete):
            interface = (
                f"{env.num_agents} agents" if env.num_agents is not None else f"actions {space}"
            )
            raise NotPlayableError(
                f"{env.name} has {interface}; accepted: one agent with Discrete actions"
            )
        self.is_stream = is_stream(env)
        pairs = [] if self.is_stream else controls(env, space.n)
        self.actions = {key: action for action, (_, key) in enumerate(pairs)}
        self.names = {key: name for name, key in pairs}
        if self.is_stream:
            self.actions = {chr(byte): byte for byte in range(256)}
        commands = AGAIN, ANEW, REVEAL
        self._commands = {_STREAM_KEYS[x] if self.is_stream else x: x for x in commands}
        labels = "new episode", "new task", "reveal"
        self.names |= dict(zip(self._commands, labels, strict=True))
        self.revealed = False
        self._draw, self._skip, self._players = draw, skip, players or {}
        agents = {name: as_host_agent(*player[:2]) for name, player in self._players.items()}
        self._agents, self._key = agents, jax.random.key(seed)
        params = env.default_params if params is None else params
        # One endless trial at a time: the player says when the next one begins.
        vec = VectorEnv(env, 1, resets="fresh", params=params, privileged=bool(self._players))
        self._batch = HostBatch(vec)
        self.start(new_task=True)

    @property
    def task(self) -> Any:
        """The environment's task."""
        return self.recording.instance.task

    def start(self, *, new_task: bool = False) -> None:
        """Begins an episode, for all players."""
        self._key, key = jax.random.split(self._key)
        self._begin(key, None if new_task else jax.tree.map(lambda x: x[None], self.task))

    def _begin(self, key: jax.Array, task: ArrayTree) -> None:
        self._begun_by = key, task
        self.recording, *others = (
            Recording(self._batch.start(key, task=task)[0]) for _ in range(1 + len(self._players))
        )
        self.others = dict(zip(self._players, others, strict=True))
        self.revealed = False
        self._skip_on()

    def compile(self) -> None:
        """Compiles all that keys bring about, which would keep the first of them waiting."""
        self._batch.compile(self._key, np.int32(0))
        self._batch.start(self._key, task=jax.tree.map(lambda x: x[None], self.task))
        self._answers()
        self.drawing()
        self._begin(*self._begun_by)  # the players have seen more than they should

    def press(self, key: str) -> None:
        """Does what a key stands for; keys that stand for nothing do nothing."""
        command = self._commands.get(key)
        if command in (AGAIN, ANEW):
            self.start(new_task=command == ANEW)
        elif command == REVEAL:
            self.revealed = not self.revealed
        elif key in self.actions and not self.over:
            self._act(self.actions[key])
            self._skip_on()

    def _act(self, action: int) -> None:
        answers = self._answers()
        self.recording.step(np.int32(action))
        for name, answer in answers.items():
            self.others[name].step(answer)

    def _skip_on(self) -> None:
        """Goes on to where there is something to choose."""
        while not self.over and (action := self._skip(self.recording.state)) is not None:
            self._act(action)

    def _answers(self) -> dict[str, Any]:
        """Returns the actions of the other players whose episodes go on."""
        playing = {name: x for name, x in self.others.items() if not x.ending}
        return {name: self._agents[name]({0: x.instance.request})[0] for name, x in playing.items()}

    @property
    def over(self) -> str:
        """The end of the episode in words; empty while it goes on."""
        again, anew = list(self._commands)[:2]
        ending = self.recording.ending
        return ending and f"The episode {ending}. {again}: another one, {anew}: a new task."

    def drawing(self, name: str = "", *, whole: bool = False) -> Drawing:
        """Returns what there is to see of the player's episode, or of another's.

        Args:
          name: of another player.
          whole: whether the episode is shown from its start, with what was hidden.
        """
        recording = self.others[name] if name else self.recording
        revealed = self.revealed or whole
        return self._draw(self.env, recording.episode(), revealed=revealed, last_only=not whole)

    def facts(self) -> dict[str, str]:
        """Returns the numbers to show beside them."""
        rewards = self.recording.rewards
        return {
            "step": str(len(rewards)),
            "reward": f"{rewards[-1] if rewards else 0:+.4g}",
            "so far": f"{sum(rewards):+.4g}",
        }

    def words(self) -> str:
        """Returns the situation in words."""
        return describe_state(self.env, self.recording.state, self.task)
