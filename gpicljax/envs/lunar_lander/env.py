"""The environment: engines, wind, observation and reward around the physics."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import DTypeLike

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import (
    Count,
    NotNegative,
    Probability,
    check_order,
    check_pair,
    expand_ranges,
)
from gpicljax.envs.lunar_lander import joint, physics, scene, view
from gpicljax.envs.lunar_lander.scene import HEIGHT, SCALE, STEP, WIDTH, World

ACTIONS = ("nothing", "left engine", "main engine", "right engine")
_FEET = 18 / SCALE  # how high the craft's origin stands over the pad when it has landed
_RANGES = ("gravity", "wind_power", "turbulence_power", "main_engine", "side_engine")


@struct.dataclass
class Params:
    """The distribution over tasks; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      gravity: float `[2]`, range of the vertical acceleration, m/s^2.
      wind_power: float `[2]`, range of the greatest horizontal force of the wind, newtons.
      turbulence_power: float `[2]`, range of the wind's greatest torque, newton metres.
      main_engine: float `[2]`, range of the main engine's power (Gymnasium: 13).
      side_engine: float `[2]`, range of the side engines' power (Gymnasium: 0.6).
      first_force: float `[]`, greatest component of the force of an episode's first step, newtons.
      roughness: float `[]`, the ground's heights, before smoothing, lie within pad height times
        (1 - roughness, 1 + roughness).
      horizon: `int32[]`, steps until an episode is truncated.
    """

    gravity: Annotated[jax.Array, Range(above=-12, below=0)]
    wind_power: NotNegative
    turbulence_power: NotNegative
    main_engine: NotNegative
    side_engine: NotNegative
    first_force: NotNegative
    roughness: Probability
    horizon: Count


@struct.dataclass
class Task:
    """A ground to land on, and the constants of the craft and the place.

    Attributes:
      ground: float `[11]`, height at x = 0, 2, ..., 20 metres.
      gravity: float `[]`, see `Params`; so are the others.
      wind_power: float `[]`.
      turbulence_power: float `[]`.
      main_engine: float `[]`.
      side_engine: float `[]`.
      first_force: float `[]`.
      horizon: `int32[]`.
    """

    ground: jax.Array
    gravity: jax.Array
    wind_power: jax.Array
    turbulence_power: jax.Array
    main_engine: jax.Array
    side_engine: jax.Array
    first_force: jax.Array
    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      world: the bodies and everything the physics carries, see `scene.World`.
      wind: `int32[2]`, time indices of the wind's force and of its torque.
      potential: float `[]`, the shaping term of the reward at the last observation.
      steps: `int32[]`, steps taken.
    """

    world: World
    wind: jax.Array
    potential: jax.Array
    steps: jax.Array


def _gust(index: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Returns the wind's share of its greatest force or torque at a time index."""
    t = index.astype(dtype)
    return jnp.tanh(jnp.sin(0.02 * t) + jnp.sin(np.pi * 0.01 * t))


@dataclasses.dataclass(frozen=True)
class LunarLander(Environment[Params, Task, State]):
    """Land between the flags, softly and upright, on little fuel.

    Actions: 0 nothing, 1 left, 2 main, 3 right engine. With `continuous`, two numbers in [-1, 1]:
    the main engine fires at 50 to 100 % above 0, a side engine beyond +-0.5.

    The observation is Gymnasium's: position relative to the pad and velocity, both scaled, angle,
    angular velocity, contact of the two legs. Gymnasium's bounds for it are nominal (it does not
    clip), so the space here has none. An episode terminates with reward -100 when the hull touches
    the ground or leaves the screen sideways, and with +100 when the craft has come to rest; it is
    truncated after `params.horizon` steps. After its termination nothing moves any more, with
    reward 0.

    The noise of a step is the dispersion of the engines, see `draw_noise`. What else is random can
    be supplied too: `scene.terrain` makes a task's ground from its draws, and `initial_from` an
    episode from the first force and the wind's indices.

    Args:
      continuous: whether actions are continuous.

    Example:
      >>> import jax
      >>> env = LunarLander()
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> observation.shape
      (8,)
    """

    continuous: bool = False

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Gymnasium's constants, without wind."""
        dtype = jnp.result_type(float)

        def both(value: float) -> jax.Array:
            return jnp.full(2, value, dtype)

        return Params(
            gravity=both(-10.0),
            wind_power=both(0.0),
            turbulence_power=both(0.0),
            main_engine=both(13.0),
            side_engine=both(0.6),
            first_force=jnp.asarray(1000.0, dtype),
            roughness=jnp.asarray(1.0, dtype),
            horizon=jnp.asarray(1000, jnp.int32),
        )

    def make_params(self, **overrides: Any) -> Params:
        """Returns the params; one number for a range is both its ends."""
        return super().make_params(**expand_ranges(overrides, _RANGES))

    def validate(self, params: Params) -> None:
        """Raises ValueError for a range out of order, gravity not within (-12, 0), and the like."""
        super().validate(params)
        for name in _RANGES:
            check_pair(name, getattr(params, name))
            check_order(name, getattr(params, name))

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns a random ground, and constants drawn from their ranges."""
        dtype = jnp.result_type(float)
        # One draw for everything: each call of the generator takes a second to compile.
        shares = jax.random.uniform(key, (len(_RANGES) + 12,), dtype)

        def draw(name: str) -> jax.Array:
            low, high = jnp.asarray(getattr(params, name), dtype)
            return low + shares[_RANGES.index(name)] * (high - low)

        deviation = 2 * shares[len(_RANGES) :] - 1
        return Task(
            ground=scene.terrain(HEIGHT / 4 * (1 + params.roughness * deviation)).astype(dtype),
            first_force=jnp.asarray(params.first_force, dtype),
            horizon=jnp.asarray(params.horizon, jnp.int32),
            **{name: draw(name) for name in _RANGES},
        )

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """`initial_from` with what it needs drawn."""
        dtype = jnp.result_type(float)
        shares = jax.random.uniform(key, (4,), dtype)
        force = task.first_force * (2 * shares[:2] - 1)
        wind = jnp.floor(19_998 * shares[2:]).astype(jnp.int32) - 9999
        return self.initial_from(force, wind, task)

    def initial_from(self, force: jax.Array, wind: jax.Array, task: Task) -> State:
        """The start of an episode. As in Gymnasium, it takes one step, with the engines off.

        Args:
          force: float `[2]`, on the lander during this step, newtons (Gymnasium: +-1000).
          wind: `int32[2]`, time indices of the wind's force and torque (Gymnasium: -9999 .. 9998).
          task: the task.

        Returns:
          The state.
        """
        dtype = jnp.result_type(float)
        world = scene.first_world(dtype)
        wind = jnp.asarray(wind, jnp.int32)
        world, wind = self._blow(world, wind, task)
        push = STEP / scene.MASS[0] * jnp.asarray(force, dtype)
        world = self._kick(world, push[0], push[1], jnp.zeros((), dtype))
        # High above the ground: no contacts, which would have to be compiled.
        world = physics.fly_alone(self._fall(world, task), task.ground)
        state = State(world, wind, jnp.zeros((), dtype), jnp.zeros((), jnp.int32))
        return dataclasses.replace(state, potential=self._potential(self.observe(state, task)))

    def _kick(self, world: World, vx: jax.Array, vy: jax.Array, spin: jax.Array) -> World:
        """Returns the lander's velocity changed."""
        change = jnp.stack([vx, vy, spin])
        return dataclasses.replace(world, velocity=world.velocity.at[:, 0].add(change))

    def _fall(self, world: World, task: Task) -> World:
        return dataclasses.replace(world, velocity=world.velocity.at[1].add(STEP * task.gravity))

    def _blow(self, world: World, wind: jax.Array, task: Task) -> tuple[World, jax.Array]:
        """The wind's force and torque, which act on a craft that does not stand on the ground."""
        free = ~world.legs.any()
        gust, twist = jnp.where(free, _gust(wind, world.pose.dtype), 0)
        vx = STEP * scene.INVERSE_MASS[0] * task.wind_power * gust
        spin = STEP * scene.INVERSE_INERTIA[0] * task.turbulence_power * twist
        return self._kick(world, vx, jnp.zeros_like(vx), spin), wind + free

    def _powers(
        self, action: jax.Array, dtype: DTypeLike
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Power of the main and of the side engines, and on which side (-1 left, 1 right)."""
        if self.continuous:
            action = jnp.clip(jnp.asarray(action, dtype), -1, 1)
            main = jnp.where(action[0] > 0, (action[0] + 1) * 0.5, 0)
            strength = jnp.abs(action[1])
            return main, jnp.where(strength > 0.5, strength, 0), jnp.sign(action[1])
        main = jnp.asarray(action == 2, dtype)
        side = jnp.asarray((action == 1) | (action == 3), dtype)
        return main, side, jnp.asarray(action - 2, dtype)

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Returns the scatter of the engines' thrust, float `[2]`, uniform in [-1, 1)."""
        return jax.random.uniform(key, (2,), state.world.pose.dtype, -1.0, 1.0)

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Runs one step with its noise given.

        Args:
          state: the state.
          action: `int32[]` in 0 .. 3, or float `[2]`.
          noise: float `[2]` in [-1, 1], see `draw_noise`.
          task: the task.

        Returns:
          The transition; `info["crashed"]` and `info["landed"]`, `bool[]`, say how it ended.
        """
        world, wind = self._blow(state.world, state.wind, task)
        dtype = world.pose.dtype
        main, side, direction = self._powers(action, dtype)
        d0, d1 = jnp.asarray(noise, dtype) / SCALE
        sin, cos = jnp.sin(world.pose[2, 0]), jnp.cos(world.pose[2, 0])
        # Everything below is relative to the lander's origin, (0, -rise) from its centre of mass.
        x0, y0 = sin * scene.RISE[0], -cos * scene.RISE[0]

        ox = sin * (4 / SCALE + 2 * d0) - cos * d1
        oy = -cos * (4 / SCALE + 2 * d0) - sin * d1
        jx, jy = -ox * task.main_engine * main, -oy * task.main_engine * main
        torque = (x0 + ox) * jy - (y0 + oy) * jx

        away = 3 * d1 + direction * 12 / SCALE
        ox, oy = sin * d0 - cos * away, -cos * d0 - sin * away
        kx, ky = -ox * task.side_engine * side, -oy * task.side_engine * side
        # 17 and 14 differ in the reference too.
        torque += (x0 + ox - sin * 17 / SCALE) * ky - (y0 + oy + cos * 14 / SCALE) * kx

        mass, inertia = scene.INVERSE_MASS[0], scene.INVERSE_INERTIA[0]
        world = self._kick(world, mass * (jx + kx), mass * (jy + ky), inertia * torque)
        over = self._over(state)
        world = physics.advance(self._fall(world, task), task.ground, over)

        # Nothing moves after the end.
        world = jax.tree.map(lambda old, new: jnp.where(over, old, new), state.world, world)
        steps = state.steps + 1
        moved = State(world, jnp.where(over, state.wind, wind), state.potential, steps)
        potential = jnp.where(over, state.potential, self._potential(self.observe(moved, task)))
        reward = potential - state.potential - 0.3 * main - 0.03 * side
        terminated = self._over(moved)
        reward = jnp.where(terminated, jnp.where(world.asleep, 100, -100), reward)
        return Transition(
            dataclasses.replace(moved, potential=potential),
            jnp.where(over, 0, reward).astype(dtype),
            terminated,
            steps >= task.horizon,
            {"crashed": world.crashed, "landed": world.asleep},
        )

    def _origin(self, state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x and y of the lander's origin (below its centre of mass), and its angle."""
        x, y, angle = state.world.pose[:, 0]
        return x + scene.RISE[0] * jnp.sin(angle), y - scene.RISE[0] * jnp.cos(angle), angle

    def _over(self, state: State) -> jax.Array:
        """Returns whether the episode has terminated."""
        outside = jnp.abs((self._origin(state)[0] - WIDTH / 2) / (WIDTH / 2)) >= 1
        return state.world.crashed | state.world.asleep | outside

    def _potential(self, observation: jax.Array) -> jax.Array:
        x, y, vx, vy, angle, _, leg0, leg1 = observation
        distance = jnp.sqrt(x * x + y * y) + jnp.sqrt(vx * vx + vy * vy) + jnp.abs(angle)
        return -100 * distance + 10 * leg0 + 10 * leg1

    def observe(self, state: State, task: Task) -> jax.Array:
        """Position, velocity, angle, angular velocity and the legs' contact, float `[8]`."""
        world = state.world
        x, y, angle = self._origin(state)
        vx, vy, spin = world.velocity[:, 0]
        values = [
            (x - WIDTH / 2) / (WIDTH / 2),
            (y - (HEIGHT / 4 + _FEET)) / (HEIGHT / 2),
            vx * (WIDTH / 2 * STEP),
            vy * (HEIGHT / 2 * STEP),
            angle,
            20 * STEP * spin,
            *world.legs.astype(angle.dtype),
        ]
        return jnp.stack(values)

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Space:
        """Four actions, or two numbers in [-1, 1]."""
        return spaces.Box(-1.0, 1.0, (2,)) if self.continuous else spaces.Discrete(4)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Eight numbers."""
        return spaces.Box(-np.inf, np.inf, (8,))

    def observation_bounds(self, params: Params) -> tuple[Any, Any]:
        """Gymnasium's, which are nominal: a craft that falls for long is faster."""
        del params
        high = [2.5, 2.5, 10, 10, 2 * np.pi, 10, 1, 1]
        return [-x for x in high[:6]] + [0, 0], high

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        return (
            ("engines off", "ArrowDown"),
            ("left engine", "ArrowLeft"),
            ("main engine", "ArrowUp"),
            ("right engine", "ArrowRight"),
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs.

        Returns:
          `observation`: float `[8]`, see `observe`; `clearance`: float `[]`, height of the
          lander's origin above the ground below it, metres; `ground`: float `[11]`, see `Task`;
          `gust`: float `[2]`, force (N) and torque (N m) that the wind is about to exert;
          `gravity`, `main_engine`, `side_engine`: float `[]`, see `Params`.
        """
        x, y, _ = self._origin(state)
        free = ~state.world.legs.any()
        powers = jnp.stack([task.wind_power, task.turbulence_power])
        places = scene.EDGE * jnp.arange(scene.NUM_EDGES + 1, dtype=x.dtype)
        return {
            "observation": self.observe(state, task),
            "clearance": y - jnp.interp(x, places, task.ground),
            "ground": task.ground,
            "gust": jnp.where(free, powers * _gust(state.wind, x.dtype), 0),
            "gravity": task.gravity,
            "main_engine": task.main_engine,
            "side_engine": task.side_engine,
        }

    def physical_state(self, state: State) -> jax.Array:
        """Bodies and joints as Box2D has them, float `[26]`.

        For the lander and the two legs, one after the other: x and y of the origin, angle, velocity
        of the centre of mass, angular velocity. Then, for both joints: the impulses x, y, of the
        limit and of the motor, from which the next step starts.
        """
        world = state.world
        angle = world.pose[2]
        rise = jnp.asarray(scene.RISE, angle.dtype)
        x, y = world.pose[0] + rise * jnp.sin(angle), world.pose[1] - rise * jnp.cos(angle)
        bodies = jnp.concatenate([jnp.stack([x, y, angle]), world.velocity])
        return jnp.concatenate([bodies.T.ravel(), world.joint.T.ravel()])

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with bodies and joints from a vector as `physical_state` returns it.

        Each joint counts as at the limit that its angle is at. Contacts, their impulses and
        everything else stay.
        """
        vector = jnp.asarray(vector, state.world.pose.dtype)
        x, y, angle, *velocity = vector[:18].reshape(3, 6).T
        rise = jnp.asarray(scene.RISE, angle.dtype)
        x, y = x - rise * jnp.sin(angle), y + rise * jnp.cos(angle)
        impulses = vector[18:].reshape(2, 4).T
        limit = joint.limit_states(angle[:, None])[:, 0]
        world = dataclasses.replace(
            state.world,
            pose=jnp.stack([x, y, angle]),
            velocity=jnp.stack(velocity),
            joint=impulses,
            limit=limit,
        )
        return dataclasses.replace(state, world=world)

    def describe(self, state: State, task: Task) -> str:
        """Position over the pad, velocity, angle, legs and step, in one line."""
        x, y, angle = (float(v) for v in self._origin(state))
        vx, vy, _ = (float(v) for v in state.world.velocity[:, 0])
        legs = int(state.world.legs.sum())
        status = "flying" if legs == 0 else f"{legs} leg{'s' if legs > 1 else ''} down"
        if bool(state.world.crashed):
            status = "crashed"
        elif bool(state.world.asleep):
            status = "landed"
        return (
            f"{status}, {x - WIDTH / 2:+.1f} m beside and {y - HEIGHT / 4 - _FEET:+.1f} m above "
            f"the pad, moving ({vx:+.1f}, {vy:+.1f}) m/s, tilted {np.rad2deg(angle):+.0f} degrees, "
            f"step {int(state.steps)} of {int(task.horizon)}"
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns the craft over its ground, the pad between two flags, `uint8[400, 600, 3]`."""
        return view.render(state.world.pose, task.ground)
