"""A program that counts what actions lead to, and plans by value iteration over its counts.

It knows no more than an agent that learns: situations and actions are numbers, and what an action
leads to is known once it has been seen in this trial. Its two numbers say what an action that was
not tried is worth, and how much that weighs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.batching import select
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.policies import legal_actions
from gpicljax.typing import ArrayTree


class Counts(NamedTuple):
    """Counts of a trial's steps; S situations, A actions.

    Attributes:
      led: float `[B, S, A, S]`, how often an action led where; ends of episodes are left out.
      tried: float `[B, S, A]`, how often an action was taken.
      paid: float `[B, S, A]`, what it paid, summed.
      value: float `[B, S]`, where the last value iteration stopped.
      action: `int32[B]`, the last action; -1 at the start of a trial.
    """

    led: jax.Array
    tried: jax.Array
    paid: jax.Array
    value: jax.Array
    action: jax.Array


def planner(
    situations: int,
    actions: int,
    unknown: float,
    weight: float = 0.0,
    discount: float = 0.99,
    sweeps: int = 8,
) -> Agent:
    """Returns the planner of whole trials (`wrappers.Trial`) of discrete tasks.

    An action that was taken n times is worth `(n * estimate + weight * unknown) / (n + weight)`,
    where the estimate is its mean pay and the discounted mean value of where it led; nothing
    follows the end of an episode. Value iteration goes on from the values of the step before.

    Args:
      situations: S.
      actions: A.
      unknown: worth of what was not tried: above what there is to gain, it makes curious.
      weight: how many tries the unknown counts as.
      discount: of an episode's rewards.
      sweeps: of value iteration at every step.

    Returns:
      The agent; its `aux` has `shares`, float `[B, A]`, even over its best actions.

    Source: optimism in the face of uncertainty over a learnt model: R-max, Brafman & Tennenholtz
    (2002).

    Example:
      >>> planner(16, 4, unknown=0.5).initial_carry(2).led.shape
      (2, 16, 4, 16)
    """

    def initial_carry(batch: int) -> Counts:
        shape, dtype = (batch, situations, actions), jnp.result_type(float)
        none = jnp.zeros(shape, dtype)
        return Counts(
            led=jnp.zeros((*shape, situations), dtype),
            tried=none,
            paid=none,
            value=jnp.full(shape[:2], unknown, dtype),
            action=jnp.full(batch, -1, jnp.int32),
        )

    def act(keys: jax.Array, params: ArrayTree, carry: Counts, timestep: TimeStep) -> Any:
        del params
        seen, batch = timestep.observation, keys.shape[0]
        carry = select(timestep.trial_start, initial_carry(batch), carry)
        rows, is_taken = jnp.arange(batch), (carry.action >= 0).astype(carry.paid.dtype)
        pair = rows, seen["before"], jnp.maximum(carry.action, 0)
        led = carry.led.at[(*pair, seen["reached"])].add(is_taken * ~seen["terminated"])
        tried = carry.tried.at[pair].add(is_taken)
        paid = carry.paid.at[pair].add(is_taken * timestep.reward)
        total = tried + weight
        legal = jnp.broadcast_to(legal_actions(seen, actions), (batch, actions))

        def sweep(value: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            gained = paid + discount * jnp.einsum("bsat,bt->bsa", led, value)
            estimate = (gained + weight * unknown) / jnp.maximum(total, 1e-9)
            worth = jnp.where(total > 0, estimate, unknown)
            worth = jnp.where(legal[:, None], worth, -jnp.inf)
            return worth.max(-1), worth[rows, seen["now"]]

        value, worth = jax.lax.scan(sweep, carry.value, None, sweeps)
        best = worth[-1] >= worth[-1].max(-1, keepdims=True) - 1e-6
        action = jax.vmap(jax.random.categorical)(keys, jnp.where(best, 0.0, -jnp.inf))
        action = action.astype(jnp.int32)
        shares = best / best.sum(-1, keepdims=True)
        return action, {"shares": shares}, Counts(led, tried, paid, value, action)

    return Agent(initial_carry, act, lambda carry, action: carry._replace(action=action))
