"""Gymnasium-Robotics' Fetch on MuJoCo as an environment: the reference for the model.

A step calls the simulator on the host, with the state that it is given, and gives back the next
one. So it is a pure function like any other environment's, to be jitted and batched; but each call
takes the host's time, about a millisecond, on one core, wherever the rest runs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from benchmarks.mujoco_fetch import simulator as host
from gpicljax.environment import Transition
from gpicljax.envs.fetch.env import ELEMENTS, GOAL, REACH, FetchTask, Task


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      words: `uint32[W, 2]`, the simulator's state, whatever the precision here.
      observation: float `[25]`, what the simulator shows of it.
      goal: float `[3]`, where the block is to be, in metres.
      steps: `int32[]`, steps taken.
    """

    words: jax.Array
    observation: jax.Array
    goal: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class FetchSimulator(FetchTask[State]):
    """Fetch on MuJoCo; for actions, observations and rewards see `FetchTask`.

    It needs `pip install "gpicljax[fetch]"` as soon as it is played; pictures need a way to draw
    without a screen, EGL or OSMesa.

    Args:
      task: which of the three.
      reward: `sparse` or `dense`.
    """

    def initial(self, key: jax.Array, task: Task) -> State:
        """Block and goal somewhere, from a seed for the simulator's own generator."""
        del task
        seed = jax.random.bits(key, (), jnp.uint32)
        first = self._ask(lambda seed: self._host.start(seed), seed)
        return State(first.words, first.observation, first.goal, jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Twenty steps of 2 ms of the simulator."""
        del noise
        after = self._ask(lambda *arguments: self._host.step(*arguments), state.words, action)
        state = State(after.words, after.observation, after.goal, state.steps + 1)
        block = after.observation[3:6]
        return Transition(
            state,
            after.reward if self.reward == "sparse" else self.goal_reward(block, after.goal),
            jnp.zeros((), bool),
            state.steps >= task.horizon,
            {"success": jnp.linalg.norm(block - after.goal) < REACH},
        )

    def observe(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the observation, the goal that is achieved and the one that is desired."""
        return {
            "observation": state.observation,
            "achieved_goal": state.observation[3:6],
            "desired_goal": state.goal,
        }

    @property
    def can_render(self) -> bool:
        """Returns whether MuJoCo finds a way to draw without a screen."""
        return self._host.can_see

    def render(self, state: State, task: Task) -> jax.Array:
        """MuJoCo's picture; the goal is a red dot.

        Returns:
          `uint8[240, 240, 3]`.
        """
        if not self.can_render:
            raise self._missing("render")
        shape = jax.ShapeDtypeStruct((*host.PICTURE, 3), jnp.uint8)
        picture = lambda words: self._host.picture(words)  # noqa: E731
        return jax.pure_callback(picture, shape, state.words, vmap_method="broadcast_all")

    @property
    def _host(self) -> host.Simulator:
        return host.simulator(self.task)

    def _ask(self, function: Any, *arguments: jax.Array) -> host.Outcome:
        """Returns the simulator's next time step, in JAX's default precision."""
        dtype = jnp.result_type(float)

        def answer(*arguments: Any) -> host.Outcome:
            outcome = function(*arguments)
            return host.Outcome(outcome.words, *(np.asarray(x, dtype) for x in outcome[1:]))

        kinds = host.Outcome(
            jax.ShapeDtypeStruct((self._host.size, 2), jnp.uint32),
            jax.ShapeDtypeStruct((ELEMENTS,), dtype),
            jax.ShapeDtypeStruct((GOAL,), dtype),
            jax.ShapeDtypeStruct((), dtype),
        )
        return jax.pure_callback(answer, kinds, *arguments, vmap_method="broadcast_all")


def push(reward: Literal["sparse", "dense"] = "sparse") -> FetchSimulator:
    """Push on MuJoCo."""
    return FetchSimulator("push", reward)


def slide(reward: Literal["sparse", "dense"] = "sparse") -> FetchSimulator:
    """Slide on MuJoCo."""
    return FetchSimulator("slide", reward)


def pick_and_place(reward: Literal["sparse", "dense"] = "sparse") -> FetchSimulator:
    """PickAndPlace on MuJoCo."""
    return FetchSimulator("pick_and_place", reward)
