"""Rules that act in the tasks without any training: kinds of agents that cost a simulation alone.

Each agent of a kind has numbers of its own: how strongly it acts, how often it acts at random and
how often it repeats its last action. What it wants to do beside that is a controller's, a small
random network's, or nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import agents, spaces
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.registration import id_without_version

HABIT = "habit"
"""The rule's name in the catalogue."""
_UNITS = 16


@dataclasses.dataclass(frozen=True)
class Habit:
    """Settings of a rule.

    Attributes:
      policy: what it wants to do: as a `controller` of the task, as a `mixture` of that and a
        random network, or, where there is no controller, as the network; or nothing, `sticky`.
    """

    policy: Literal["controller", "mixture", "sticky"] = "mixture"


@struct.dataclass
class HabitParams:
    """The numbers of one agent.

    Attributes:
      gain: float `[]`, how strongly it acts.
      noise: float `[]`, share of random actions; deviation of the noise on numbers.
      repeat: float `[]`, how often the last action is repeated.
      share: float `[]`, of the random network in a mixture.
      read: float `[F, U]`, weights of the random network.
      write: float `[U, A]`.
    """

    gain: jax.Array
    noise: jax.Array
    repeat: jax.Array
    share: jax.Array
    read: jax.Array
    write: jax.Array


def _choose(*scores: jax.Array | float) -> jax.Array:
    return jnp.stack([jnp.asarray(score, jnp.result_type(float)) for score in scores])


def _pump_car(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Returns scores: accelerate in the direction of motion, unless it is slow."""
    return _choose(-x[1], 0.002 / gain, x[1])


def _pump_acrobot(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Returns scores: the torque that adds energy, mostly by the joint's own motion."""
    power = x[5] - 0.5 * gain * x[4]
    return _choose(-power, 0.1, power)


def _swing_up(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Returns the torque: with the motion below, against angle and motion above."""
    cosine, sine, speed = x
    above = -8.0 * sine - 2.0 * speed
    below = jnp.where(speed >= 0, 2.0, -2.0)
    return (gain * jnp.where(cosine > 0.6, above, below))[None]


def _balance(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Returns the force by the linear-quadratic regulator of the upright position."""
    return (gain * (jnp.asarray(_UPRIGHT_GAINS) @ x[jnp.array([0, 1, 2, 5, 6, 7])]))[None]


def _land(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Returns scores of the engines: lean against the drift, sink the slower the lower it is."""
    place, height, drift, rise, angle, spin = x[:6]
    lean = 0.5 * jnp.tanh(0.7 * place + 1.6 * drift)
    turn = jnp.where(x[6] + x[7] == 0, lean - angle - 1.8 * spin, 0.0)
    brake = -0.12 - 0.35 * jnp.maximum(height, 0.0) - rise
    return _choose(0.1 / gain, turn, 3.0 * brake, -turn)


# Of the environment's linearised step, for squares of place, angles and force.
_UPRIGHT_GAINS = (-0.213, -1.813, -5.569, -0.315, -0.902, -0.848)
_CONTROLLERS: Mapping[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "MountainCar": _pump_car,
    "Acrobot": _pump_acrobot,
    "Pendulum": _swing_up,
    "InvertedDoublePendulum": _balance,
    "LunarLander": _land,
}
"""Scores of actions, or actions, from an observation and a gain near 1."""
_SCALES: Mapping[str, tuple[float, ...]] = {
    "MountainCar": (0.5, 0.03),
    "Acrobot": (1, 1, 1, 1, 3, 5),
    "Pendulum": (1, 1, 4),
    "InvertedDoublePendulum": (0.5, 0.2, 0.2, 1, 1, 1, 2, 3, 5, 1, 1),
    "LunarLander": (0.5, 1, 0.5, 0.7, 0.4, 0.4, 1, 1),
}
"""Typical sizes of what is observed."""


def habit(settings: Habit, env: Environment) -> Agent:
    """Returns the rule for an environment; its parameters are one agent's numbers."""
    name = id_without_version(env.name)
    space: Any = env.action_space()
    observations: Any = env.observation_space()
    discrete = isinstance(space, spaces.Discrete)
    controller = _CONTROLLERS.get(name)

    def features(observation: jax.Array) -> jax.Array:
        if isinstance(observations, spaces.Discrete):
            return jax.nn.one_hot(observation, observations.n)
        return observation / jnp.asarray(_SCALES[name])

    def wish(params: HabitParams, observation: jax.Array) -> jax.Array:
        """Returns scores of actions, or an action."""
        if settings.policy == "sticky":
            return jnp.zeros(params.write.shape[-1])
        wanted = jnp.zeros(()) if controller is None else controller(observation, params.gain)
        if settings.policy == "controller":
            return wanted
        scores = jnp.tanh(features(observation) @ params.read) @ params.write / _UNITS
        size = jnp.maximum(jnp.abs(wanted).max(), 0.1 if discrete else 0.1 * space.high)
        return wanted + params.share * size * scores

    def initial_carry(batch: int) -> Any:
        dtype = jnp.int32 if discrete else jnp.result_type(float)
        return jnp.zeros((batch, *space.shape), dtype)

    def act(keys: jax.Array, params: HabitParams, carry: Any, timestep: TimeStep) -> Any:
        def step(key: jax.Array, last: jax.Array, observation: jax.Array, first: jax.Array) -> Any:
            random_key, noise_key, repeat_key = jax.random.split(key, 3)
            wanted = wish(params, observation)
            noise = 1.0 if settings.policy == "sticky" else params.noise
            if discrete:
                is_noisy = jax.random.uniform(noise_key) < noise
                wanted = jnp.where(is_noisy, space.sample(random_key), wanted.argmax(-1))
                action = wanted.astype(jnp.int32)
            else:
                action = wanted + noise * space.high * jax.random.normal(random_key, space.shape)
            repeats = (jax.random.uniform(repeat_key) < params.repeat) & ~first
            return spaces.nearest(space, jnp.where(repeats, last, action))

        action = jax.vmap(step)(keys, carry, timestep.observation, timestep.episode_start)
        return action, {}, action

    return Agent(initial_carry, act)


def draw_habit(key: jax.Array, settings: Habit, env: Environment) -> HabitParams:
    """Draws the numbers of one agent."""
    keys = jax.random.split(key, 6)
    space: Any = env.action_space()
    observations: Any = env.observation_space()
    count = observations.n if isinstance(observations, spaces.Discrete) else observations.shape[0]
    actions = space.n if isinstance(space, spaces.Discrete) else space.shape[0]
    most_repeat = 0.95 if settings.policy == "sticky" else 0.3
    return HabitParams(
        gain=jnp.exp(jax.random.uniform(keys[0], (), minval=-0.5, maxval=0.5)),
        noise=0.3 * jax.random.uniform(keys[1]) ** 4,
        repeat=most_repeat * jax.random.uniform(keys[2]) ** (1 if most_repeat > 0.5 else 4),
        share=4.0 * jax.random.uniform(keys[5]),
        read=jax.random.normal(keys[3], (count, _UNITS)),
        write=jax.random.normal(keys[4], (_UNITS, actions)),
    )


def vary_weights(params: Any, deviation: float, rng: np.random.Generator) -> Any:
    """Returns an agent's parameters with noise on every number, relative to its size."""

    def vary(x: Any) -> Any:
        noise = rng.normal(size=x.shape) if jnp.issubdtype(x.dtype, jnp.floating) else 0
        return (x * (1 + deviation * noise)).astype(x.dtype)

    return jax.tree.map(vary, params)


agents.register_algorithm(agents.algorithm_from_agent(HABIT, habit, config=Habit, draw=draw_habit))
