"""Pendulum-v1: swing a pendulum up and hold it there, with a weak motor.

With its default params this is Gymnasium's, exactly. Each task may have its own gravity, mass,
length, time step and greatest speed.

Source: Gymnasium 1.3, `gymnasium/envs/classic_control/pendulum.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import Transition
from gpicljax.envs._canvas import Canvas
from gpicljax.envs._checks import Count, Positive, Real
from gpicljax.envs._constants import PhysicalEnvironment


@struct.dataclass
class Constants:
    """The physical constants: ranges in `Params`, values in `Task`."""

    gravity: Real
    mass: Positive
    length: Positive
    time_step: Positive
    max_speed: Positive
    horizon: Count


@struct.dataclass
class Params(Constants):
    """The distribution over pendulums; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      gravity: float `[2]`, m/s^2.
      mass: float `[2]`, kg.
      length: float `[2]`, m.
      time_step: float `[2]`, s.
      max_speed: float `[2]`, greatest angular speed, rad/s.
      horizon: `int32[]`, steps until an episode is truncated.
    """


@struct.dataclass
class Task(Constants):
    """One pendulum: a value, float `[]`, for each of the ranges of `Params`."""


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      angle: float `[]`, radians from upright, never wrapped.
      speed: float `[]`, rad/s.
      torque: float `[]`, the last torque, for pictures only.
      steps: `int32[]`, steps taken.
    """

    angle: jax.Array
    speed: jax.Array
    torque: jax.Array
    steps: jax.Array


def _single(x: jax.Array) -> jax.Array:
    """`x` rounded to float32, its dtype kept."""
    return x if x.dtype == jnp.float32 else jax.lax.reduce_precision(x, 8, 23)


def wrap_angle(angle: jax.Array) -> jax.Array:
    """Returns the angle within [-pi, pi)."""
    return angle - 2 * np.pi * jnp.floor((angle + np.pi) / (2 * np.pi))


@dataclasses.dataclass(frozen=True)
class Pendulum(PhysicalEnvironment[Params, Task, State]):
    """Swing up and stay up. The action is a torque, float `[1]` in N m, clipped to the limit.

    The reward is -(angle^2 + 0.1 speed^2 + 0.001 torque^2) of the state *before* the step, the
    angle within [-pi, pi). An episode never terminates and is truncated after `params.horizon`
    steps. The observation is cosine and sine of the angle, and the speed, float `[3]`. A step has
    no noise; an episode starts with an angle uniform in [-pi, pi] and a speed uniform in [-1, 1].

    Gymnasium's actions are float32, so the torque, its square and its acceleration are rounded to
    float32 before they join a float64 state. So they are here, under `JAX_ENABLE_X64` too.

    Args:
      max_torque: the greatest torque, N m.

    Raises:
      ValueError: unless `max_torque` is positive.

    Example:
      >>> import jax
      >>> env = Pendulum()
      >>> task = env.sample_task(jax.random.key(0), env.make_params(length=(0.5, 1.5)))
      >>> state = env.with_physical_state(env.initial(jax.random.key(1), task), [0.5, -1.0])
      >>> env.describe(state, task)
      'pendulum 0.50 rad from upright, turning at -1.00 rad/s, step 0 of 200'
    """

    max_torque: Annotated[float, Range(above=0)] = 2.0

    params_type: ClassVar[type] = Params
    task_type: ClassVar[type] = Task
    coordinates: ClassVar[tuple[str, ...]] = ("angle", "speed")
    steps_limit: ClassVar[int] = 200
    constants: ClassVar[dict[str, float]] = {
        "gravity": 10.0,
        "mass": 1.0,
        "length": 1.0,
        "time_step": 0.05,
        "max_speed": 8.0,
    }

    def initial(self, key: jax.Array, task: Task) -> State:
        """Anywhere, turning slowly."""
        del task
        dtype = jnp.result_type(float)
        angle, speed = jax.random.uniform(key, (2,), dtype, -1, 1)
        zero = jnp.zeros((), dtype)
        return State(np.pi * angle, speed, zero, jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step, without noise."""
        del noise
        dtype = state.angle.dtype
        torque = jnp.clip(_single(action[0].astype(dtype)), -self.max_torque, self.max_torque)
        torque_cost = _single(np.float32(0.001).astype(dtype) * _single(torque * torque))
        cost = wrap_angle(state.angle) ** 2 + 0.1 * state.speed**2 + torque_cost
        push = _single(_single(3.0 / (task.mass * task.length**2)) * torque)
        pull = 3 * task.gravity / (2 * task.length) * jnp.sin(state.angle)
        speed = state.speed + (pull + push) * task.time_step
        speed = jnp.clip(speed, -task.max_speed, task.max_speed)
        steps = state.steps + 1
        return Transition(
            State(state.angle + speed * task.time_step, speed, torque, steps),
            -cost,
            jnp.zeros((), bool),
            steps >= task.horizon,
            {},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Cosine and sine of the angle, and the speed, float `[3]`."""
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])

    def action_space(self, task: Task | None = None) -> spaces.Box:
        """Returns the torque."""
        return spaces.Box(-self.max_torque, self.max_torque, (1,))

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Three numbers; see `observation_bounds`."""
        return spaces.Box(-np.inf, np.inf, (3,))

    def observation_bounds(self, params: Params) -> tuple[Any, Any]:
        """Bounds of cosine and sine, and the greatest speed."""
        speed = params.max_speed[1]
        return [-1, -1, -speed], [1, 1, speed]

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "A pendulum hangs from a joint. You see the cosine and the sine of its angle from "
            "upright, and its angular speed; your action is the torque at the joint. Each step "
            "costs more the further it is from upright, the faster it turns and the more torque "
            "you use."
        )

    def describe(self, state: State, task: Task) -> str:
        """Angle, speed and step, in one line."""
        return (
            f"pendulum {float(wrap_angle(state.angle)):.2f} rad from upright, turning at "
            f"{float(state.speed):+.2f} rad/s, step {int(state.steps)} of {int(task.horizon)}"
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns the rod on its axle, and the last torque as an arc whose length grows with it.

        Positive angles and torques turn anticlockwise, as in Gymnasium's pictures.

        Returns:
          `uint8[200, 200, 3]`.
        """
        canvas = Canvas(200, 200, -1.25, -1.25, 80.0, (250, 250, 250))
        canvas.paint(jnp.abs(jnp.hypot(canvas.x, canvas.y) - 1.0) - 0.004, (222, 222, 226))
        canvas.rod((0.0, 1.06), (0.0, 1.14), 0.01, (60, 150, 80))
        length = task.length / (jnp.maximum(task.length, 1.0))
        tip = length * jnp.stack([-jnp.sin(state.angle), jnp.cos(state.angle)])
        canvas.rod((0.0, 0.0), tip, 0.1, (204, 77, 77))
        canvas.disc((0.0, 0.0), 0.045, (40, 40, 44))
        # An arc round the axle, from straight above to one side.
        reach = 2.4 * state.torque / self.max_torque
        bearing = jnp.arctan2(-canvas.x, canvas.y)  # anticlockwise from above
        within = jnp.abs(bearing - reach / 2) - jnp.abs(reach) / 2
        ring = jnp.abs(jnp.hypot(canvas.x, canvas.y) - 0.28) - 0.015
        canvas.paint(jnp.maximum(ring, 0.28 * within), (40, 90, 200))
        end = 0.28 * jnp.stack([-jnp.sin(reach), jnp.cos(reach)])
        heading = jnp.sign(reach) * jnp.stack([-jnp.cos(reach), -jnp.sin(reach)])
        side = jnp.stack([-heading[1], heading[0]])
        head = jnp.stack([end + 0.1 * heading, end + 0.06 * side, end - 0.06 * side])
        canvas.polygon(jnp.where(jnp.abs(reach) > 0.1, head, head + 99), (40, 90, 200))
        return canvas.finish()
