"""Acrobot-v1: swing the free end of a double pendulum up, with a motor between the links only.

With its default params this is Gymnasium's, exactly: states, rewards, ends. Each task may have its
own masses, lengths, gravity and motor.

Source: Sutton & Barto (1998), "Reinforcement learning: an introduction", section 11.3; Gymnasium
1.3, `gymnasium/envs/classic_control/acrobot.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Transition
from gpicljax.envs._canvas import Canvas
from gpicljax.envs._checks import Count, NotNegative, Positive, Real
from gpicljax.envs._constants import PhysicalEnvironment
from gpicljax.envs._integrate import Vector, runge_kutta

Equations = Literal["book", "nips"]


@struct.dataclass
class Constants:
    """The physical constants: ranges in `Params`, values in `Task`."""

    mass_1: Positive
    mass_2: Positive
    length_1: Positive
    length_2: Positive
    centre_1: NotNegative
    centre_2: NotNegative
    inertia: Positive
    gravity: Real
    torque: NotNegative
    time_step: Positive
    max_speed_1: Positive
    max_speed_2: Positive
    horizon: Count


@struct.dataclass
class Params(Constants):
    """The distribution over acrobots; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      mass_1: float `[2]`, of the upper link, kg.
      mass_2: float `[2]`, of the lower link, kg.
      length_1: float `[2]`, of the upper link, m.
      length_2: float `[2]`, of the lower link, m; matters to pictures only, as in Gymnasium.
      centre_1: float `[2]`, from the upper link's pivot to its centre of mass, m.
      centre_2: float `[2]`, from the lower link's pivot to its centre of mass, m.
      inertia: float `[2]`, moment of inertia of either link, kg m^2.
      gravity: float `[2]`, m/s^2.
      torque: float `[2]`, the motor's, N m.
      time_step: float `[2]`, s.
      max_speed_1: float `[2]`, greatest angular speed of the upper link, rad/s.
      max_speed_2: float `[2]`, greatest angular speed of the lower link, rad/s.
      horizon: `int32[]`, steps until an episode is truncated.
    """


@struct.dataclass
class Task(Constants):
    """One acrobot: a value, float `[]`, for each of the ranges of `Params`."""


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      angle_1: float `[]`, of the upper link from hanging down, radians.
      angle_2: float `[]`, of the lower link relative to the upper one, radians.
      speed_1: float `[]`, rad/s.
      speed_2: float `[]`, rad/s.
      steps: `int32[]`, steps taken.
    """

    angle_1: jax.Array
    angle_2: jax.Array
    speed_1: jax.Array
    speed_2: jax.Array
    steps: jax.Array


def _wrap_angle(angle: jax.Array) -> jax.Array:
    """Returns the angle within [-pi, pi], both ends included."""
    turn = 2 * np.pi
    above = jnp.maximum(jnp.ceil((angle - np.pi) / turn), 0)
    below = jnp.maximum(jnp.ceil((-np.pi - angle) / turn), 0)
    return angle - turn * (above - below)


@dataclasses.dataclass(frozen=True)
class Acrobot(PhysicalEnvironment[Params, Task, State]):
    """Lift the tip above the pivot by one link's length. Actions: torque -, none, +.

    The reward is -1 for every step but the one that reaches the height, where the episode
    terminates; it is truncated after `params.horizon` steps. The observation is cosine and sine of
    both angles, and both speeds, float `[6]`. A step has no noise; an episode starts with all
    angles and speeds uniform in [-0.1, 0.1].

    Args:
      equations: `"book"`, Gymnasium's default; or `"nips"`, those of Sutton (1996), which lack the
        centrifugal term of the lower link.

    Raises:
      ValueError: for other `equations`.

    Example:
      >>> import jax
      >>> env = Acrobot()
      >>> task = env.sample_task(jax.random.key(0), env.make_params(mass_1=(0.5, 1.5)))
      >>> state = env.initial(jax.random.key(1), task)
      >>> env.describe(env.with_physical_state(state, [0.0, 0.5, 1.0, 0.0]), task)
      'links at +0.00 and +0.50 rad, turning at +1.00 and +0.00 rad/s, step 0 of 500'
    """

    equations: Equations = "book"

    params_type: ClassVar[type] = Params
    task_type: ClassVar[type] = Task
    coordinates: ClassVar[tuple[str, ...]] = ("angle_1", "angle_2", "speed_1", "speed_2")
    steps_limit: ClassVar[int] = 500
    constants: ClassVar[dict[str, float]] = {
        "mass_1": 1.0,
        "mass_2": 1.0,
        "length_1": 1.0,
        "length_2": 1.0,
        "centre_1": 0.5,
        "centre_2": 0.5,
        "inertia": 1.0,
        "gravity": 9.8,
        "torque": 1.0,
        "time_step": 0.2,
        "max_speed_1": 4 * np.pi,
        "max_speed_2": 9 * np.pi,
    }

    def initial(self, key: jax.Array, task: Task) -> State:
        """Hanging down, nearly at rest."""
        del task
        start = jax.random.uniform(key, (4,), jnp.result_type(float), -0.1, 0.1)
        return State(start[0], start[1], start[2], start[3], jnp.zeros((), jnp.int32))

    def _acceleration(
        self, angles: Vector, speeds: Vector, torque: jax.Array, task: Task
    ) -> tuple[Vector, tuple[()]]:
        """Accelerations of both angles, by Sutton & Barto (1998), figure 11.6."""
        (angle_1, angle_2), (speed_1, speed_2) = angles, speeds
        sin_2, cos_2 = jnp.sin(angle_2), jnp.cos(angle_2)
        lever = task.mass_2 * task.length_1 * task.centre_2
        own_2 = task.mass_2 * task.centre_2**2 + task.inertia
        cross = own_2 + lever * cos_2
        own_1 = task.mass_1 * task.centre_1**2 + task.mass_2 * task.length_1**2 + task.inertia
        whole = own_1 + own_2 + 2 * lever * cos_2
        pull_2 = task.mass_2 * task.centre_2 * task.gravity * jnp.sin(angle_1 + angle_2)
        moment = (task.mass_1 * task.centre_1 + task.mass_2 * task.length_1) * task.gravity
        pull_1 = moment * jnp.sin(angle_1) + pull_2
        pull_1 -= lever * sin_2 * speed_2 * (speed_2 + 2 * speed_1)
        share = cross / whole
        turn = torque + share * pull_1 - pull_2
        if self.equations == "book":
            turn -= lever * speed_1**2 * sin_2
        rate_2 = turn / (own_2 - share * cross)
        return (-(cross * rate_2 + pull_1) / whole, rate_2), ()

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step, without noise."""
        del noise
        torque = (action - 1).astype(state.angle_1.dtype) * task.torque
        angles, speeds, _, _ = runge_kutta(
            lambda angles, speeds: self._acceleration(angles, speeds, torque, task),
            (state.angle_1, state.angle_2),
            (state.speed_1, state.speed_2),
            task.time_step,
        )
        angle_1, angle_2 = (_wrap_angle(angle) for angle in angles)
        speed_1 = jnp.clip(speeds[0], -task.max_speed_1, task.max_speed_1)
        speed_2 = jnp.clip(speeds[1], -task.max_speed_2, task.max_speed_2)
        terminated = -jnp.cos(angle_1) - jnp.cos(angle_2 + angle_1) > 1
        steps = state.steps + 1
        return Transition(
            State(angle_1, angle_2, speed_1, speed_2, steps),
            terminated.astype(angle_1.dtype) - 1,
            terminated,
            steps >= task.horizon,
            {},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Cosine and sine of both angles, both speeds, float `[6]`."""
        a, b = state.angle_1, state.angle_2
        return jnp.stack(
            [jnp.cos(a), jnp.sin(a), jnp.cos(b), jnp.sin(b), state.speed_1, state.speed_2]
        )

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Torque negative, none, positive."""
        return spaces.Discrete(3)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Six numbers; see `observation_bounds`."""
        return spaces.Box(-np.inf, np.inf, (6,))

    def observation_bounds(self, params: Params) -> tuple[Any, Any]:
        """Bounds of cosines and sines, and the greatest speeds."""
        speeds = params.max_speed_1[1], params.max_speed_2[1]
        return [-1, -1, -1, -1, -speeds[0], -speeds[1]], [1, 1, 1, 1, *speeds]

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        return (
            ("torque -1", "ArrowLeft"),
            ("no torque", "ArrowDown"),
            ("torque +1", "ArrowRight"),
        )

    def describe(self, state: State, task: Task) -> str:
        """Returns angles, speeds and step, in one line."""
        a, b, speed_1, speed_2 = (float(x) for x in self.physical_state(state))
        return (
            f"links at {a:+.2f} and {b:+.2f} rad, turning at {speed_1:+.2f} and "
            f"{speed_2:+.2f} rad/s, step {int(state.steps)} of {int(task.horizon)}"
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns both links, the pivot, and the line that the tip must reach.

        Returns:
          `uint8[200, 200, 3]`.
        """
        canvas = Canvas(200, 200, -2.3, -2.3, 200 / 4.6, (250, 250, 250))
        size = 2 / jnp.maximum(task.length_1 + task.length_2, 2.0)
        lower, total = state.angle_1, state.angle_1 + state.angle_2
        elbow = task.length_1 * size * jnp.stack([jnp.sin(lower), -jnp.cos(lower)])
        tip = elbow + task.length_2 * size * jnp.stack([jnp.sin(total), -jnp.cos(total)])
        canvas.rod((-2.3, size), (2.3, size), 0.02, (60, 150, 80))
        canvas.rod((0.0, 0.0), elbow, 0.1, (36, 160, 176))
        canvas.rod(elbow, tip, 0.1, (104, 196, 206))
        canvas.disc((0.0, 0.0), 0.1, (150, 130, 20))
        canvas.disc(elbow, 0.1, (214, 190, 40))
        canvas.disc(tip, 0.05, (204, 60, 60))
        return canvas.finish()
