"""FetchPush-v4, FetchSlide-v4 and FetchPickAndPlace-v4: an arm brings a block to a goal.

These are Gymnasium-Robotics' own, on MuJoCo: a step calls the simulator on the host, with the
state that it is given, and gives back the next one. So they are pure functions like every other
environment, to be jitted, batched and trained on; but each call takes the host's time, about a
millisecond, on one core, wherever the rest runs.

Source: Plappert et al. (2018), "Multi-goal reinforcement learning"; Gymnasium-Robotics 1.4.2.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count
from gpicljax.envs.fetch import simulator as host

REACH = 0.05
"""As near as this, in metres, the block is at the goal."""


@struct.dataclass
class Params:
    """The distribution over tasks, of which there is one.

    Attributes:
      horizon: `int32[]`, steps until an episode is truncated.
    """

    horizon: Count


@struct.dataclass
class Task:
    """The one task.

    Attributes:
      horizon: `int32[]`, steps until an episode is truncated.
    """

    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      words: `uint32[W, 2]`, the simulator's state, whatever the precision here.
      seen: float `[25]`, what the simulator shows of it.
      goal: float `[3]`, where the block is to be, in metres.
      steps: `int32[]`, steps taken.
    """

    words: jax.Array
    seen: jax.Array
    goal: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Fetch(Environment[Params, Task, State]):
    """A block is to be pushed, hit, or lifted to where the goal is, and to stay there.

    An action is float `[4]` within [-1, 1]: by how much the gripper is to move along x, y and z, in
    units of 5 cm, and whether its fingers open (PickAndPlace alone; else they are closed). Shown
    are 25 numbers (`observation`), the block's position (`achieved_goal`) and the goal
    (`desired_goal`), float `[3]` each. The reward is 0 where the block is within 5 cm of the goal
    and -1 elsewhere. An episode never terminates and is truncated after `params.horizon` steps. A
    step has no noise; an episode starts with block and goal drawn anew. `info["success"]` is
    whether the step was paid 0, `bool[]`.

    It needs `pip install "gpicljax[fetch]"` as soon as it is played; pictures need a way to draw
    without a screen, EGL or OSMesa.

    Args:
      task: which of the three.

    Example:
      >>> env = Fetch("push")
      >>> env.action_space().shape, env.observation_space()["desired_goal"].shape
      ((4,), (3,))
      >>> float(env.goal_reward(jnp.zeros(3), jnp.full(3, 0.02)))
      0.0
    """

    task: Literal["push", "slide", "pick_and_place"] = "push"

    @property
    def name(self) -> str:
        """`FetchPush` and so on."""
        return f"Fetch{self.task.title().replace('_', '')}"

    @property
    def default_params(self) -> Params:
        """50 steps."""
        return Params(jnp.asarray(50, jnp.int32))

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """The task."""
        del key
        return Task(jnp.asarray(params.horizon, jnp.int32))

    def initial(self, key: jax.Array, task: Task) -> State:
        """Block and goal somewhere, from a seed for the simulator's own generator."""
        del task
        seed = jax.random.bits(key, (), jnp.uint32)
        seen = self._ask(lambda seed: self._host.start(seed), seed)
        return State(seen.words, seen.observation, seen.goal, jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Twenty steps of 2 ms of the simulator."""
        del noise
        seen = self._ask(lambda *given: self._host.step(*given), state.words, action)
        steps = state.steps + 1
        return Transition(
            State(seen.words, seen.observation, seen.goal, steps),
            seen.reward,
            jnp.zeros((), bool),
            steps >= task.horizon,
            {"success": seen.reward == 0},
        )

    def observe(self, state: State, task: Task) -> dict[str, jax.Array]:
        """What the simulator shows, what is achieved and what is desired."""
        return {
            "observation": state.seen,
            "achieved_goal": state.seen[3:6],
            "desired_goal": state.goal,
        }

    def goal_reward(self, achieved: jax.Array, desired: jax.Array) -> jax.Array:
        """0 within 5 cm, else -1."""
        distance = jnp.linalg.norm(achieved - desired, axis=-1)
        return -(distance > REACH).astype(jnp.result_type(float)) + 0.0

    def action_space(self, task: Task | None = None) -> spaces.Box:
        """Four numbers."""
        return spaces.Box(-1.0, 1.0, (host.ACTION,))

    def observation_space(self, task: Task | None = None) -> spaces.Dict:
        """Real numbers."""

        def numbers(count: int) -> spaces.Box:
            return spaces.Box(-np.inf, np.inf, (count,))

        return spaces.Dict.of(
            observation=numbers(host.ELEMENTS),
            achieved_goal=numbers(host.GOAL),
            desired_goal=numbers(host.GOAL),
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """How far the block is from the goal, in metres."""
        return {"distance": jnp.linalg.norm(state.seen[3:6] - state.goal)}

    def describe(self, state: State, task: Task) -> str:
        """Gripper, block, goal and step, in one line."""
        gripper, block, goal = (
            "(" + ", ".join(f"{float(x):.3f}" for x in place) + ")"
            for place in (state.seen[:3], state.seen[3:6], state.goal)
        )
        away = float(np.linalg.norm(np.asarray(state.seen[3:6]) - np.asarray(state.goal)))
        return (
            f"gripper at {gripper} m, block at {block}, {100 * away:.1f} cm from the goal at "
            f"{goal}, step {int(state.steps)} of {int(task.horizon)}"
        )

    @property
    def can_render(self) -> bool:
        """Whether MuJoCo finds a way to draw without a screen."""
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

    def _ask(self, function: Any, *given: jax.Array) -> host.Seen:
        """What the simulator makes of it, in JAX's default precision."""
        dtype = jnp.result_type(float)

        def answer(*given: Any) -> host.Seen:
            seen = function(*given)
            return host.Seen(seen.words, *(np.asarray(x, dtype) for x in seen[1:]))

        kinds = host.Seen(
            jax.ShapeDtypeStruct((self._host.size, 2), jnp.uint32),
            jax.ShapeDtypeStruct((host.ELEMENTS,), dtype),
            jax.ShapeDtypeStruct((host.GOAL,), dtype),
            jax.ShapeDtypeStruct((), dtype),
        )
        return jax.pure_callback(answer, kinds, *given, vmap_method="broadcast_all")


def push() -> Fetch:
    """The block is to be pushed along the table."""
    return Fetch("push")


def slide() -> Fetch:
    """A puck is to be hit, for the goal is out of reach."""
    return Fetch("slide")


def pick_and_place() -> Fetch:
    """The block is to be lifted, for half of the goals are in the air."""
    return Fetch("pick_and_place")
