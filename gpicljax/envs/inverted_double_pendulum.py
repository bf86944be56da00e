"""InvertedDoublePendulum-v4 and -v5: balance two poles on a cart, without MuJoCo.

The scene has three degrees of freedom and one constraint, the rail's ends, so that MuJoCo's
physics has a closed form: a 3 x 3 mass matrix, a soft constraint of one row, Runge-Kutta's rule
with five substeps of 10 ms. With its default params this is Gymnasium's, within rounding.

MuJoCo leaves behind the tip and the constraint force of the *fourth stage* of the last substep,
not those of the final state; reward, end and observation use them, there and here.

Source: Gymnasium 1.3, `gymnasium/envs/mujoco/inverted_double_pendulum_v5.py` and its model file;
MuJoCo's documentation, "Computation", on soft constraints.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Transition
from gpicljax.envs._canvas import Canvas
from gpicljax.envs._checks import Count, NotNegative, Positive, Real, check_values
from gpicljax.envs._constants import PhysicalEnvironment
from gpicljax.envs._integrate import Vector, runge_kutta

SUBSTEP, SUBSTEPS = 0.01, 5
RAIL, MARGIN = 1.0, 0.01  # the cart's range, and where its ends begin to push
SIDEWAYS = 1e-5  # the model's gravity is not quite vertical, m/s^2
_RADIUS = 0.045  # of the poles, which are capsules
_SOFTEST, _HARDEST, _WIDTH, _TIME_CONSTANT = 0.9, 0.95, 0.001, 0.02  # solimp and solref
_DAMPING = 2 / (_HARDEST * _TIME_CONSTANT)
_STIFFNESS = 1 / (_HARDEST * _TIME_CONSTANT) ** 2


@struct.dataclass
class Constants:
    """The physical constants: ranges in `Params`, values in `Task`."""

    cart_mass: Positive
    pole_mass_1: Positive
    pole_mass_2: Positive
    length_1: Positive
    length_2: Positive
    damping: NotNegative
    gravity: Real
    force: NotNegative
    horizon: Count


@struct.dataclass
class Params(Constants):
    """The distribution over carts; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      cart_mass: float `[2]`, kg.
      pole_mass_1: float `[2]`, of the lower pole, kg.
      pole_mass_2: float `[2]`, of the upper pole, kg.
      length_1: float `[2]`, of the lower pole, m.
      length_2: float `[2]`, of the upper pole, m.
      damping: float `[2]`, of all three joints, N s/m and N m s/rad.
      gravity: float `[2]`, m/s^2.
      force: float `[2]`, the motor's, N.
      horizon: `int32[]`, steps until an episode is truncated.
    """


@struct.dataclass
class Task(Constants):
    """One cart with its poles: float `[]` each; `horizon` is `int32[]`.

    The first nine are the values drawn from the ranges of `Params`; what follows from them:

    Attributes:
      mass: of everything, kg.
      moment_1: mass times lever of what hangs on the lower pole's angle, kg m.
      moment_2: the same for the upper pole's angle.
      inertia_1: about the cart's hinge, of the lower pole and the other as a point, kg m^2.
      inertia_2: of the upper pole about its hinge, kg m^2.
      coupling: of the two angles' accelerations, kg m^2.
      softness: the cart's inverse inertia with the poles upright, 1/kg.
    """

    mass: jax.Array
    moment_1: jax.Array
    moment_2: jax.Array
    inertia_1: jax.Array
    inertia_2: jax.Array
    coupling: jax.Array
    softness: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      position: three of float `[]`: the cart's, m; angle of the lower pole from upright; angle of
        the upper pole relative to the lower one, radians.
      velocity: three of float `[]`, their rates.
      rail: float `[]`, force of the rail's ends on the cart as MuJoCo reports it, N.
      steps: `int32[]`, steps taken.
    """

    position: Vector
    velocity: Vector
    rail: jax.Array
    steps: jax.Array


def _capsule(mass: jax.Array, length: jax.Array) -> jax.Array:
    """Moment of inertia of a pole about its centre, across it."""
    ball = mass * 4 * _RADIUS / (4 * _RADIUS + 3 * length)
    rod = mass - ball
    return rod * (3 * _RADIUS**2 + length**2) / 12 + ball * (
        2 * _RADIUS**2 / 5 + length * (3 * _RADIUS + 2 * length) / 8
    )


@dataclasses.dataclass(frozen=True)
class InvertedDoublePendulum(PhysicalEnvironment[Params, Task, State]):
    """Keep the tip of the upper pole above 1 m. The action is a force, float `[1]` in [-1, 1].

    The reward is 10 for being alive, minus 0.01 x^2 + (y - 2)^2 of the tip, minus 0.001 and 0.005
    times the squared angular velocities. An episode terminates when the tip is at 1 m or lower and
    is truncated after `params.horizon` steps. `info` has the three parts of the reward, as
    Gymnasium's v5 reports them. A step has no noise; an episode starts with positions uniform in
    [-0.1, 0.1] and velocities normal with standard deviation 0.1.

    Observation: the cart's position, the sines and the cosines of the angles, the velocities and
    the rail's force, the last four clipped to [-10, 10], float `[9]`.

    Args:
      version: 5; or 4, whose observation has two more entries that are always 0 (the hinges'
        constraint forces), float `[11]`, and which pays the 10 on the terminating step too.

    Raises:
      ValueError: for another version.

    Example:
      >>> import jax
      >>> env = InvertedDoublePendulum(version=4)
      >>> task = env.sample_task(jax.random.key(0), env.make_params(length_2=(0.5, 0.7)))
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> observation.shape
      (11,)
    """

    version: Literal[4, 5] = 5

    params_type: ClassVar[type] = Params
    task_type: ClassVar[type] = Task
    steps_limit: ClassVar[int] = 1000
    constants: ClassVar[dict[str, float]] = {
        "cart_mass": 10.471975511965978,
        "pole_mass_1": 4.198738581522758,
        "pole_mass_2": 4.198738581522758,
        "length_1": 0.6,
        "length_2": 0.6,
        "damping": 0.05,
        "gravity": 9.81,
        "force": 500.0,
    }

    def validate(self, params: Params) -> None:
        """Raises ValueError for malformed ranges, or poles too short to stand above 1 m."""
        super().validate(params)
        lower, upper = np.asarray(params.length_1), np.asarray(params.length_2)
        accepted_values = "poles of more than 1 m together, or every episode ends at once"
        fine = lower[..., 0] + upper[..., 0] > 1
        check_values("length_1, length_2", (lower, upper), fine, accepted_values)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Constants drawn from their ranges, and what the equations of motion make of them."""
        drawn = self.sample_constants(key, params)
        length_1, length_2 = drawn["length_1"], drawn["length_2"]
        mass_1, mass_2 = drawn["pole_mass_1"], drawn["pole_mass_2"]
        mass = drawn["cart_mass"] + mass_1 + mass_2
        moment_1 = mass_1 * length_1 / 2 + mass_2 * length_1
        moment_2 = mass_2 * length_2 / 2
        inertia_1 = _capsule(mass_1, length_1) + mass_1 * length_1**2 / 4 + mass_2 * length_1**2
        inertia_2 = _capsule(mass_2, length_2) + mass_2 * length_2**2 / 4
        coupling = moment_2 * length_1
        bound = inertia_2 * moment_1**2 + inertia_1 * moment_2**2
        bound -= 2 * coupling * moment_1 * moment_2
        softness = 1 / (mass - bound / (inertia_1 * inertia_2 - coupling**2))
        return Task(
            **drawn,
            mass=mass,
            moment_1=moment_1,
            moment_2=moment_2,
            inertia_1=inertia_1,
            inertia_2=inertia_2,
            coupling=coupling,
            softness=softness,
        )

    def initial(self, key: jax.Array, task: Task) -> State:
        """Nearly upright, nearly at rest, in the middle of the rail."""
        del task
        dtype = jnp.result_type(float)
        position_key, velocity_key = jax.random.split(key)
        position = jax.random.uniform(position_key, (3,), dtype, -0.1, 0.1)
        velocity = 0.1 * jax.random.normal(velocity_key, (3,), dtype)
        zero = jnp.zeros((), dtype)
        return State(tuple(position), tuple(velocity), zero, jnp.zeros((), jnp.int32))

    def _acceleration(
        self, position: Vector, velocity: Vector, push: jax.Array, task: Task
    ) -> tuple[Vector, jax.Array]:
        """Accelerations of the three coordinates; and the rail's force.

        The equations are written in the poles' angles from upright, lower (1) and upper (2), and
        solved by eliminating both.
        """
        (x, angle_1, bend), (speed, turn_1, bending) = position, velocity
        angle_2, turn_2 = angle_1 + bend, turn_1 + bending
        sin_1, cos_1 = jnp.sin(angle_1), jnp.cos(angle_1)
        sin_2, cos_2 = jnp.sin(angle_2), jnp.cos(angle_2)
        # The mass matrix: `cross` and `inertia` of the poles, `tie` of each with the cart.
        tie_1, tie_2 = task.moment_1 * cos_1, task.moment_2 * cos_2
        cross = task.coupling * (cos_1 * cos_2 + sin_1 * sin_2)
        swing = task.coupling * (sin_1 * cos_2 - cos_1 * sin_2)
        force = (
            push
            + task.moment_1 * sin_1 * turn_1**2
            + task.moment_2 * sin_2 * turn_2**2
            + task.mass * SIDEWAYS
            - task.damping * speed
        )
        torque_1 = (
            task.moment_1 * (task.gravity * sin_1 + SIDEWAYS * cos_1)
            - swing * turn_2**2
            - task.damping * (turn_1 - bending)
        )
        torque_2 = (
            task.moment_2 * (task.gravity * sin_2 + SIDEWAYS * cos_2)
            + swing * turn_1**2
            - task.damping * bending
        )
        scale = 1 / (task.inertia_1 * task.inertia_2 - cross**2)
        share_1 = (task.inertia_2 * tie_1 - cross * tie_2) * scale
        share_2 = (task.inertia_1 * tie_2 - cross * tie_1) * scale
        lightness = 1 / (task.mass - tie_1 * share_1 - tie_2 * share_2)
        free = (force - share_1 * torque_1 - share_2 * torque_2) * lightness
        # The nearer end of the rail pushes back within its margin.
        inward = jnp.where(x > 0, -1.0, 1.0).astype(x.dtype)
        depth = MARGIN - (RAIL - jnp.abs(x))
        share = jnp.clip(depth / _WIDTH, 0, 1)
        blend = jnp.where(share <= 0.5, 2 * share**2, 1 - 2 * (1 - share) ** 2)
        hardness = _SOFTEST + (_HARDEST - _SOFTEST) * blend
        reference = _STIFFNESS * hardness * depth - _DAMPING * inward * speed
        give = lightness + (1 - hardness) / hardness * task.softness
        rail = jnp.where(depth > 0, inward * jnp.maximum(reference - inward * free, 0) / give, 0)
        rate = free + lightness * rail
        left_1, left_2 = torque_1 - tie_1 * rate, torque_2 - tie_2 * rate
        rate_1 = (task.inertia_2 * left_1 - cross * left_2) * scale
        rate_2 = (task.inertia_1 * left_2 - cross * left_1) * scale
        return (rate, rate_1, rate_2 - rate_1), rail

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step, five substeps, without noise."""
        del noise
        dtype = state.rail.dtype
        push = task.force * jnp.clip(action[0].astype(dtype), -1, 1)

        def substep(_: jax.Array, loop: tuple) -> tuple:
            return runge_kutta(
                lambda position, velocity: self._acceleration(position, velocity, push, task),
                loop[0],
                loop[1],
                SUBSTEP,
            )

        loop = (state.position, state.velocity, state.position, state.rail)
        position, velocity, last, rail = jax.lax.fori_loop(0, SUBSTEPS, substep, loop)
        angle_1, angle_2 = last[1], last[1] + last[2]
        x = last[0] + task.length_1 * jnp.sin(angle_1) + task.length_2 * jnp.sin(angle_2)
        y = task.length_1 * jnp.cos(angle_1) + task.length_2 * jnp.cos(angle_2)
        terminated = y <= 1
        alive = jnp.where(terminated & (self.version == 5), 0, 10).astype(dtype)
        distance = 0.01 * x**2 + (y - 2) ** 2
        speed = 1e-3 * velocity[1] ** 2 + 5e-3 * velocity[2] ** 2
        steps = state.steps + 1
        return Transition(
            State(position, velocity, rail, steps),
            alive - distance - speed,
            terminated,
            steps >= task.horizon,
            {
                "reward_survive": alive,
                "distance_penalty": -distance,
                "velocity_penalty": -speed,
            },
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Position, sines, cosines, velocities, forces, float `[9]` or `[11]`."""
        x, angle, bend = state.position
        hinges = [jnp.zeros_like(x)] * (2 if self.version == 4 else 0)
        forces = [jnp.clip(v, -10, 10) for v in (*state.velocity, state.rail)]
        return jnp.stack(
            [x, jnp.sin(angle), jnp.sin(bend), jnp.cos(angle), jnp.cos(bend), *forces, *hinges]
        )

    def action_space(self, task: Task | None = None) -> spaces.Box:
        """Returns the share of the motor's force."""
        return spaces.Box(-1.0, 1.0, (1,))

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Nine or eleven numbers without bounds, as in Gymnasium."""
        return spaces.Box(-np.inf, np.inf, (9 if self.version == 5 else 11,))

    def physical_state(self, state: State) -> jax.Array:
        """MuJoCo's `qpos`, `qvel` and the cart's entry of `qfrc_constraint`, float `[7]`."""
        return jnp.stack([*state.position, *state.velocity, state.rail])

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with positions, velocities and rail force from float `[7]`.

        The force is only observed: it does not affect what follows. The step count stays.
        """
        *moving, rail = jnp.asarray(vector, jnp.result_type(float))
        return State(tuple(moving[:3]), tuple(moving[3:]), rail, state.steps)

    def describe(self, state: State, task: Task) -> str:
        """Returns cart, angles from upright and step, in one line."""
        x, angle, bend = (float(value) for value in state.position)
        return (
            f"cart at {x:+.2f}, poles {angle:+.2f} and {angle + bend:+.2f} rad from upright, "
            f"step {int(state.steps)} of {int(task.horizon)}"
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """The cart on its rail with both poles; the dotted line is as low as the tip may get.

        Returns:
          `uint8[200, 320, 3]`.
        """
        canvas = Canvas(200, 320, -1.6, -0.55, 100.0, (236, 240, 245))
        canvas.box(-1.6, -0.55, 1.6, -0.25, (196, 204, 190))
        dots = jnp.maximum(jnp.abs(canvas.y - 1) - 0.006, jnp.abs(canvas.x % 0.1 - 0.05) - 0.025)
        canvas.paint(dots, (200, 70, 70))
        canvas.rod((-RAIL, 0.0), (RAIL, 0.0), 0.025, (76, 76, 178))
        for end in (-RAIL - 0.12, RAIL + 0.12):
            canvas.box(end - 0.03, -0.25, end + 0.03, 0.1, (110, 110, 120))
        x, angle, bend = state.position
        canvas.rod((x - 0.1, 0.0), (x + 0.1, 0.0), 0.1, (178, 178, 30))
        hinge = jnp.stack([x, jnp.zeros_like(x)])
        elbow = hinge + task.length_1 * jnp.stack([jnp.sin(angle), jnp.cos(angle)])
        tip = elbow + task.length_2 * jnp.stack([jnp.sin(angle + bend), jnp.cos(angle + bend)])
        canvas.rod(hinge, elbow, _RADIUS, (20, 150, 150))
        canvas.rod(elbow, tip, _RADIUS, (70, 190, 190))
        for joint in (hinge, elbow):
            canvas.disc(joint, 0.03, (50, 50, 60))
        canvas.disc(tip, 0.03, (204, 60, 60))
        return canvas.finish()


version_4 = functools.partial(InvertedDoublePendulum, version=4)
version_5 = functools.partial(InvertedDoublePendulum, version=5)
