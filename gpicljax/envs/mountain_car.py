"""MountainCar-v0: swing an underpowered car out of a valley.

With its default params this is Gymnasium's, exactly: states, rewards, ends. Each task may have
its own engine, gravity, walls and goal.

Source: Moore (1990), "Efficient memory-based learning for robot control"; Gymnasium 1.3,
`gymnasium/envs/classic_control/mountain_car.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Transition
from gpicljax.envs._canvas import Canvas
from gpicljax.envs._checks import Count, NotNegative, Positive, Real, check_values
from gpicljax.envs._constants import PhysicalEnvironment

ACTIONS = ("left", "nothing", "right")


@struct.dataclass
class Constants:
    """The physical constants: ranges in `Params`, values in `Task`."""

    force: NotNegative
    gravity: NotNegative
    max_speed: Positive
    min_position: Real
    max_position: Real
    goal_position: Real
    goal_velocity: Real
    horizon: Count


@struct.dataclass
class Params(Constants):
    """The distribution over valleys; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      force: float `[2]`, the engine's acceleration, per step and step.
      gravity: float `[2]`, the slope's greatest acceleration.
      max_speed: float `[2]`, greatest speed, per step.
      min_position: float `[2]`, the left wall.
      max_position: float `[2]`, the right wall.
      goal_position: float `[2]`, where the flag stands.
      goal_velocity: float `[2]`, least velocity that counts at the flag.
      horizon: `int32[]`, steps until an episode is truncated.
    """


@struct.dataclass
class Task(Constants):
    """One valley and its car: a value, float `[]`, for each of the ranges of `Params`."""


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      position: float `[]`; the valley's floor is near -0.52.
      velocity: float `[]`, per step.
      steps: `int32[]`, steps taken.
    """

    position: jax.Array
    velocity: jax.Array
    steps: jax.Array


def height(x: jax.Array) -> jax.Array:
    """Returns the ground's height, as Gymnasium draws it."""
    return 0.45 * jnp.sin(3 * x) + 0.55


@dataclasses.dataclass(frozen=True)
class MountainCar(PhysicalEnvironment[Params, Task, State]):
    """Reach the flag on the right hill. Actions: 0 push left, 1 nothing, 2 push right.

    The reward is -1 for every step. An episode terminates at the flag and is truncated after
    `params.horizon` steps. The observation is position and velocity, float `[2]`. A step has no
    noise; an episode starts at rest, at a position uniform in [-0.6, -0.4].

    Example:
      >>> import jax
      >>> env = MountainCar()
      >>> task = env.sample_task(jax.random.key(0), env.make_params(force=(0.001, 0.002)))
      >>> state = env.with_physical_state(env.initial(jax.random.key(1), task), [-0.5, 0.01])
      >>> env.describe(state, task)
      'car at -0.50, speed +0.010, step 0 of 200'
    """

    params_type: ClassVar[type] = Params
    task_type: ClassVar[type] = Task
    coordinates: ClassVar[tuple[str, ...]] = ("position", "velocity")
    steps_limit: ClassVar[int] = 200
    constants: ClassVar[dict[str, float]] = {
        "force": 0.001,
        "gravity": 0.0025,
        "max_speed": 0.07,
        "min_position": -1.2,
        "max_position": 0.6,
        "goal_position": 0.5,
        "goal_velocity": 0.0,
    }

    def validate(self, params: Params) -> None:
        """Raises ValueError for malformed ranges, or walls that shut out the start or the goal."""
        super().validate(params)
        left, right = (np.asarray(x) for x in (params.min_position, params.max_position))
        goal = np.asarray(params.goal_position)
        accepted_values = "at most -0.6, left of where cars start"
        check_values("min_position", left, left[..., 1] <= -0.6, accepted_values)
        fine = (goal[..., 0] > -0.4) & (goal[..., 1] <= right[..., 0])
        accepted_values = f"right of -0.4, where cars start, up to max_position, {right.min():g}"
        check_values("goal_position", goal, fine, accepted_values)

    def initial(self, key: jax.Array, task: Task) -> State:
        """At rest near the valley's floor."""
        del task
        dtype = jnp.result_type(float)
        position = jax.random.uniform(key, (), dtype, -0.6, -0.4)
        return State(position, jnp.zeros((), dtype), jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step, without noise."""
        del noise
        push = (action - 1).astype(state.position.dtype) * task.force
        velocity = state.velocity + (push - jnp.cos(3 * state.position) * task.gravity)
        velocity = jnp.clip(velocity, -task.max_speed, task.max_speed)
        position = jnp.clip(state.position + velocity, task.min_position, task.max_position)
        velocity = jnp.where((position == task.min_position) & (velocity < 0), 0, velocity)
        steps = state.steps + 1
        return Transition(
            State(position, velocity, steps),
            jnp.full_like(position, -1),
            (position >= task.goal_position) & (velocity >= task.goal_velocity),
            steps >= task.horizon,
            {},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Position and velocity, float `[2]`."""
        return jnp.stack([state.position, state.velocity])

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Push left, nothing, push right."""
        return spaces.Discrete(3)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Two numbers; see `observation_bounds`."""
        return spaces.Box(-np.inf, np.inf, (2,))

    def observation_bounds(self, params: Params) -> tuple[Any, Any]:
        """Returns the walls, and the greatest speed."""
        speed = params.max_speed[1]
        return [params.min_position[0], -speed], [params.max_position[1], speed]

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "A weak car stands in a valley. You see its position and its speed; actions 0, 1, 2 "
            "push it left, not at all, right. Every step costs 1, until it is on the hill to the "
            "right: it has to swing up by going back and forth."
        )

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        return (
            ("push left", "ArrowLeft"),
            ("coast", "ArrowDown"),
            ("push right", "ArrowRight"),
        )

    def describe(self, state: State, task: Task) -> str:
        """Returns position, speed and step, in one line."""
        return (
            f"car at {float(state.position):.2f}, speed {float(state.velocity):+.3f}, "
            f"step {int(state.steps)} of {int(task.horizon)}"
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns the car in its valley, and the flag.

        Returns:
          `uint8[200, 300, 3]`.
        """
        canvas = Canvas(200, 300, -1.25, 0.0, 157.0, (205, 228, 245))

        def slope(x: jax.Array) -> jax.Array:
            return 1.35 * jnp.cos(3 * x)

        gap = (canvas.y - height(canvas.x)) / jnp.hypot(1.0, slope(canvas.x))
        canvas.paint(gap, (96, 148, 72))
        canvas.paint(gap + 0.03, (140, 108, 76))
        walls = jnp.maximum(task.min_position - canvas.x, canvas.x - task.max_position)
        canvas.paint(jnp.maximum(-walls, canvas.y - 1.15), (120, 120, 128))
        foot = (task.goal_position, height(task.goal_position))
        canvas.rod(foot, (foot[0], foot[1] + 0.2), 0.006, (60, 60, 60))
        top = foot[1] + 0.2
        flag = jnp.stack(
            [
                jnp.stack([foot[0], top]),
                jnp.stack([foot[0], top - 0.09]),
                jnp.stack([foot[0] + 0.11, top - 0.045]),
            ]
        )
        canvas.polygon(flag, (214, 40, 48))
        angle = jnp.arctan(slope(state.position))
        along = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        up = jnp.stack([-along[1], along[0]])
        middle = jnp.stack([state.position, height(state.position)])

        def at(forward: float, above: float) -> jax.Array:
            return middle + forward * along + above * up

        for corners, colour in (
            (((-0.1, 0.035), (0.1, 0.035), (0.095, 0.085), (-0.095, 0.085)), (40, 62, 140)),
            (((-0.065, 0.085), (0.065, 0.085), (0.035, 0.13), (-0.045, 0.13)), (90, 120, 190)),
        ):
            canvas.polygon(jnp.stack([at(*corner) for corner in corners]), colour)
        for forward in (-0.055, 0.055):
            canvas.disc(at(forward, 0.03), 0.03, (35, 35, 40))
            canvas.disc(at(forward, 0.03), 0.012, (190, 190, 195))
        return canvas.finish()
