"""Controllers that are told a system's physics: those of their task, or of the average task.

One looks ahead (model predictive control): at every step it tries sequences of actions in the
simulator, looks for better ones around the best (the cross-entropy method), plays the first action
of what it found, and goes on from the rest at the next step. The other keeps a system upright by
linear feedback, which is optimal for the simulator's linearisation and quadratic costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.batching import select
from gpicljax.checks import check_choice
from gpicljax.envs._constants import PhysicalEnvironment
from gpicljax.interface import Agent, TimeStep
from gpicljax.typing import ArrayTree

Physics = Mapping[str, jax.Array]


def _pendulum(seen: jax.Array) -> jax.Array:
    return jnp.stack([jnp.arctan2(seen[1], seen[0]), seen[2]])


def _double_pendulum(seen: jax.Array) -> jax.Array:
    angles = jnp.arctan2(seen[1:3], seen[3:5])
    return jnp.concatenate([seen[:1], angles, seen[5:9]])


STATES: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "Pendulum": _pendulum,
    "InvertedDoublePendulum": _double_pendulum,
}
"""Physical states from observations, by the environment's name."""


def mean_physics(env: PhysicalEnvironment, params: ArrayTree) -> dict[str, jax.Array]:
    """Returns the mean of each physical constant over tasks, float `[]` each."""
    return {name: jnp.asarray(getattr(params, name)).mean() for name in env.constants}


def _task(env: PhysicalEnvironment, key: jax.Array, physics: Physics) -> Any:
    """Returns the task with these constants and no end."""
    ranges = {name: jnp.stack([value, value]) for name, value in physics.items()}
    return env.sample_task(key, env.params_type(**ranges, horizon=jnp.int32(2**30)))


def _physics(timestep: TimeStep, is_told: bool, params: ArrayTree) -> Any:
    """Returns the constants that a controller goes by, float `[B]` each."""
    if is_told:
        return timestep.privileged
    return jax.tree.map(lambda x: jnp.broadcast_to(x, timestep.reward.shape), params)


def predictive_controller(
    env: PhysicalEnvironment,
    is_told: bool,
    horizon: int = 30,
    samples: int = 48,
    elites: int = 8,
    iterations: int = 3,
    spread: float = 0.6,
) -> Agent:
    """Returns the controller.

    Args:
      env: Pendulum or InvertedDoublePendulum: all of the state is observed.
      is_told: whether it reads its task's physics from `timestep.privileged`. Otherwise its
        parameters are the physics that it presumes, as from `mean_physics`.
      horizon: steps that it looks ahead.
      samples: sequences of actions that are tried in an iteration.
      elites: how many of them the next iteration is drawn around.
      iterations: of an action.
      spread: standard deviation of the first iteration, in halves of the range of actions.

    Returns:
      The agent, for environments of one agent.

    Raises:
      ValueError: for another environment.

    Source: the cross-entropy method in model predictive control, as in Chua et al. (2018), "PETS",
    where the model is learnt.

    Example:
      >>> import gpicljax
      >>> agent = predictive_controller(gpicljax.make("Pendulum-v1"), is_told=True, horizon=5)
      >>> agent.initial_carry(2).shape
      (2, 5, 1)
    """
    check_choice("env", env.name, tuple(STATES))
    space = env.action_space()
    assert isinstance(space, spaces.Box)
    middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
    to_state = STATES[env.name]

    def initial_carry(batch: int) -> jax.Array:
        return jnp.zeros((batch, horizon, *space.shape))

    def plan(key: jax.Array, physics: Physics, mean: jax.Array, seen: jax.Array) -> jax.Array:
        """Returns the best sequence that is found, in halves of the range, `[H, D]`."""
        task = _task(env, key, physics)
        start = env.with_physical_state(env.initial(key, task), to_state(seen))

        def total(actions: jax.Array) -> jax.Array:
            def step(carry: Any, action: jax.Array) -> Any:
                state, goes_on = carry
                moved = env.transition(key, state, middle + half * action, task)
                return (moved.state, goes_on & ~moved.terminated), moved.reward * goes_on

            _, rewards = jax.lax.scan(step, (start, jnp.bool_(True)), actions)
            return rewards.sum()

        def improve(found: Any, key: jax.Array) -> Any:
            mean, deviation = found
            noise = jax.random.normal(key, (samples, *mean.shape), mean.dtype)
            tried = jnp.clip(mean + deviation * noise, -1, 1).at[0].set(mean)
            _, best = jax.lax.top_k(jax.vmap(total)(tried), elites)
            chosen = tried[best]
            return (chosen.mean(0), chosen.std(0) + 0.05), None

        first = mean, jnp.full_like(mean, spread)
        (mean, _), _ = jax.lax.scan(improve, first, jax.random.split(key, iterations))
        return mean

    def act(
        keys: jax.Array, params: ArrayTree, carry: jax.Array, timestep: TimeStep
    ) -> tuple[jax.Array, None, jax.Array]:
        carry = select(timestep.episode_start, initial_carry(len(keys)), carry)
        physics = _physics(timestep, is_told, params)
        found = jax.vmap(plan)(keys, physics, carry, timestep.observation)
        action = (middle + half * found[:, 0]).astype(space.dtype)
        return action, None, jnp.concatenate([found[:, 1:], jnp.zeros_like(found[:, :1])], 1)

    return Agent(initial_carry, act)


def balancing_controller(
    env: PhysicalEnvironment,
    is_told: bool,
    weights: Sequence[float] = (0.1, 10.0, 10.0, 0.1, 0.1, 0.1),
    effort: float = 10.0,
    sweeps: int = 300,
) -> Agent:
    """Returns the linear-quadratic regulator of a system that is to stay where its state is 0.

    Args:
      env: InvertedDoublePendulum.
      is_told: as for `predictive_controller`.
      weights: of the squares of cart, angles and velocities in the cost.
      effort: of the square of the action.
      sweeps: of the Riccati equation's iteration.

    Returns:
      The agent; its carry is the feedback, float `[B, 1, 6]`.

    Raises:
      ValueError: for another environment.
    """
    check_choice("env", env.name, ("InvertedDoublePendulum",))
    size, to_state = len(weights), STATES[env.name]

    def feedback(key: jax.Array, physics: Physics) -> jax.Array:
        task = _task(env, key, physics)
        start = env.initial(key, task)

        def step(vector: jax.Array, action: jax.Array) -> jax.Array:
            state = env.with_physical_state(start, jnp.append(vector, 0))
            moved = env.transition(key, state, action, task).state
            return env.physical_state(moved)[:size]

        at_rest = jnp.zeros(size), jnp.zeros(1)
        along, by_action = jax.jacfwd(step, 0)(*at_rest), jax.jacfwd(step, 1)(*at_rest)
        cost, price = jnp.diag(jnp.asarray(weights)), jnp.full((1, 1), effort)

        def gain(ahead: jax.Array) -> jax.Array:
            pull = by_action.T @ ahead
            return jnp.linalg.solve(price + pull @ by_action, pull @ along)

        def back(ahead: jax.Array, _: None) -> tuple[jax.Array, None]:
            return cost + along.T @ ahead @ (along - by_action @ gain(ahead)), None

        return gain(jax.lax.scan(back, cost, None, sweeps)[0])

    def act(
        keys: jax.Array, params: ArrayTree, carry: jax.Array, timestep: TimeStep
    ) -> tuple[jax.Array, None, jax.Array]:
        physics, starts = _physics(timestep, is_told, params), timestep.episode_start
        fresh = jax.lax.cond(starts.any(), lambda: jax.vmap(feedback)(keys, physics), lambda: carry)
        carry = select(starts, fresh, carry)
        states = jax.vmap(to_state)(timestep.observation)[:, :size]
        action = jnp.clip(-jnp.einsum("bas,bs->ba", carry, states), -1, 1)
        return action.astype(jnp.float32), None, carry

    return Agent(lambda batch: jnp.zeros((batch, 1, size)), act)
