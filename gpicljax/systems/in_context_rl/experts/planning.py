"""A program that counts what actions lead to, and plans by value iteration over its counts.

It knows no more than an agent that learns: situations and actions are numbers, and what an action
leads to is known once it has been seen in this trial. What it presumes of the rest are a few
numbers, which depend on how tasks are drawn.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.batching import select
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.policies import legal_actions
from gpicljax.typing import ArrayTree


@dataclasses.dataclass(frozen=True)
class Presumptions:
    """Beliefs before the first step, their weights in steps, and the discount.

    Attributes:
      unknown: worth of what was not tried: above what there is to gain, it makes curious.
      weight: of `unknown`.
      pay: mean pay of arriving in a situation that was not seen; its weight is .3.
      average_move: weight of what actions lead to on average from a situation, in this trial, for
        each action there. The average holds half of each step that came here, turned round, and
        half a step to anywhere, where a seen situation is 50 times less likely than another.
      average_pay: weight of the pay of the situations that an action leads to, beside its own pay.
      discount: of an episode's rewards.

    Example:
      >>> Presumptions(unknown=0.5).average_move
      0.0
    """

    unknown: float = 1.0
    weight: float = 0.0
    pay: float = 0.0
    average_move: float = 0.0
    average_pay: float = 0.0
    discount: float = 0.99


PRESUMPTIONS = {
    "FrozenLake": Presumptions(0.5, 0.2),
    "CliffWalking": Presumptions(-5.0),
    "AnyMDP": Presumptions(2.0, 0.2, pay=4.0, average_move=4.0, average_pay=1.0, discount=0.95),
}
"""By name of the environment, the best of some on training tasks."""


class Counts(NamedTuple):
    """Counts of a trial's steps; S situations, A actions.

    Attributes:
      led: float `[B, S, A, S]`, how often an action led where.
      tried: float `[B, S, A]`, how often an action was taken.
      paid: float `[B, S, A]`, what it paid, summed.
      arrived: float `[B, S, 3]`, how often a situation was reached, and the pay and ends of that.
      value: float `[B, S]`, where the last value iteration stopped.
      action: `int32[B]`, the last action; -1 at the start of a trial.
    """

    led: jax.Array
    tried: jax.Array
    paid: jax.Array
    arrived: jax.Array
    value: jax.Array
    action: jax.Array


def planner(
    situations: int,
    actions: int,
    presumed: Presumptions,
    sweeps: int = 8,
) -> Agent:
    """Returns the planner of whole trials (`wrappers.Trial`) of discrete tasks.

    An action is worth its mean pay and the discounted mean value of where it leads, as counts and
    presumptions tell; nothing follows the end of an episode. Value iteration goes on from the
    values of the step before.

    Args:
      situations: S.
      actions: A.
      presumed: beliefs about what was not tried.
      sweeps: of value iteration at every step.

    Returns:
      The agent; its `aux` has `shares`, float `[B, A]`, even over its best actions.

    Source: optimism in the face of uncertainty over a learnt model: R-max, Brafman & Tennenholtz
    (2002).

    Example:
      >>> planner(16, 4, Presumptions(unknown=0.5)).initial_carry(2).led.shape
      (2, 16, 4, 16)
    """

    def initial_carry(batch: int) -> Counts:
        shape, dtype = (batch, situations, actions), jnp.result_type(float)
        none = jnp.zeros(shape, dtype)
        return Counts(
            led=jnp.zeros((*shape, situations), dtype),
            tried=none,
            paid=none,
            arrived=jnp.zeros((batch, situations, 3), dtype),
            value=jnp.full(shape[:2], presumed.unknown, dtype),
            action=jnp.full(batch, -1, jnp.int32),
        )

    def act(keys: jax.Array, params: ArrayTree, carry: Counts, timestep: TimeStep) -> Any:
        del params
        seen, batch = timestep.observation, keys.shape[0]
        carry = select(timestep.trial_start, initial_carry(batch), carry)
        rows, is_taken = jnp.arange(batch), (carry.action >= 0).astype(carry.paid.dtype)
        pair = rows, seen["before"], jnp.maximum(carry.action, 0)
        led = carry.led.at[(*pair, seen["reached"])].add(is_taken)
        tried = carry.tried.at[pair].add(is_taken)
        paid = carry.paid.at[pair].add(is_taken * timestep.reward)
        outcome = is_taken[:, None] * jnp.stack(
            [jnp.ones_like(paid[:, 0, 0]), timestep.reward, seen["terminated"]], -1
        )
        arrived = carry.arrived.at[rows, seen["reached"]].add(outcome)
        visits, pay, ends = jnp.moveaxis(arrived, -1, 0)
        moves = _expected_moves(led, tried, visits, presumed.average_move)
        # Without any weight, mean pay is that of the action alone.
        place_pay = (pay + 0.3 * presumed.pay) / (visits + 0.3)
        gained = paid + presumed.average_pay * jnp.einsum("bsat,bt->bsa", moves, place_pay)
        gained /= jnp.maximum(tried + presumed.average_pay, 1e-9)
        onward = presumed.discount * (1 - ends / jnp.maximum(visits, 1))
        known = tried + presumed.average_move
        total = known + presumed.weight
        legal = jnp.broadcast_to(legal_actions(seen, actions), (batch, actions))

        def improve(value: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            estimate = gained + jnp.einsum("bsat,bt->bsa", moves, onward * value)
            worth = known * estimate + presumed.weight * presumed.unknown
            worth = jnp.where(total > 0, worth / jnp.maximum(total, 1e-9), presumed.unknown)
            worth = jnp.where(legal[:, None], worth, -jnp.inf)
            return worth.max(-1), worth[rows, seen["now"]]

        value, worth = jax.lax.scan(improve, carry.value, None, sweeps)
        best = worth[-1] >= worth[-1].max(-1, keepdims=True) - 1e-6
        action = jax.vmap(jax.random.categorical)(keys, jnp.where(best, 0.0, -jnp.inf))
        action = action.astype(jnp.int32)
        shares = best / best.sum(-1, keepdims=True)
        return action, {"shares": shares}, Counts(led, tried, paid, arrived, value, action)

    return Agent(initial_carry, act, lambda carry, action: carry._replace(action=action))


def _expected_moves(
    led: jax.Array, tried: jax.Array, visits: jax.Array, weight: float
) -> jax.Array:
    """Returns the chances of what actions lead to, float `[B, S, A, S]`; see `Presumptions`."""
    anywhere = jnp.where(visits > 0, 0.02, 1.0)
    anywhere /= anywhere.sum(-1, keepdims=True)
    steps = led.sum(2)
    average = steps + 0.5 * steps.swapaxes(1, 2) + 0.5 * anywhere[:, None]
    average /= average.sum(-1, keepdims=True)
    moves = led + weight * average[:, :, None]
    return moves / jnp.maximum(tried + weight, 1e-9)[..., None]
