"""Tables of random decision processes in the making; see `any_mdp`.

A table is drawn with its states in a row, from the start to the goal. Rewards are corrected until
the way there is worth while, or the table is given up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import DTypeLike

from gpicljax.envs._checks import Count, NotNegative, Probability, Real
from gpicljax.random import uniform

_STARTS = 3
"""Episodes start in one of the first three states."""
_ROUNDS = 5
"""How often the rewards of a table are corrected before it is given up."""
_DISCOUNT = 0.99
"""The discount of the values that rewards are corrected by."""
SHORTEST, LONGEST = 100, 500
"""Bounds of the steps of an episode, but for tables of very many or very few states."""
_ITEMS, _ORDERS = 3, 5


def most_steps(states: int) -> int:
    """Returns the longest horizon that a table of so many states may draw."""
    return max(min(8 * states, LONGEST), max(4 * states, SHORTEST) + 1)


@struct.dataclass
class Params:
    """The distribution over tables; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      states: `int32[2]`, range of the number of states, up to the static `max_states`.
      actions: `int32[]`, number of different actions, up to the static `max_actions`. An action
        beyond them does what action `a % actions` does.
      horizon: `int32[]`, the most steps of an episode. A task of n states draws its own from
        max(4 n, 100) to max(min(8 n, 500), 4 n), and keeps to this one if it is smaller.
      forward: float `[]`, the longest way ahead of a step, as a share of the states.
      backward: float `[]`, the longest way back of a step, as a share of the states.
      pitfalls: float `[2]`, range of the share of states that end an episode badly; a share below
        0 is none.
      goal_ends: float `[]`, chance that the last state ends an episode well. Otherwise it pays
        again and again.
      reward_noise: float `[]`, standard deviations of rewards, as a multiple of the published
        ones.
      branching: `int32[]`, the states that each action can lead to (Garnet processes only, which
        have nothing of the five fields above).
      reward_scale: float `[]`, standard deviation of the mean rewards of actions (Garnet processes
        only).
      density: float `[]`, share of the observations that a hidden state can show.
    """

    states: jax.Array
    actions: jax.Array
    horizon: Count
    forward: Probability
    backward: Probability
    pitfalls: Real
    goal_ends: Probability
    reward_noise: NotNegative
    branching: Count
    reward_scale: NotNegative
    density: Probability


@struct.dataclass
class Table:
    """A table in the making: its states in a row, the goal last.

    Attributes:
      chances: float `[S, A, S]`, 0 in rows of states that end an episode or do not exist.
      leaving: as in `Task`, likewise `arriving` and both kinds of noise.
      arriving: float `[S]`.
      leaving_noise: float `[S, A]`.
      arriving_noise: float `[S]`.
      over: `bool[S]`, see `Task`.
      start: float `[S]`, the chances of the first state.
    """

    chances: jax.Array
    leaving: jax.Array
    arriving: jax.Array
    leaving_noise: jax.Array
    arriving_noise: jax.Array
    over: jax.Array
    start: jax.Array


# Solving a table in the making ---------------------------------------------------------------
#
# By policy iteration, which needs a few linear systems where value iteration needs hundreds of
# sweeps; tests compare it with `environment.action_values`.


def _solution(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """x of `matrix @ x = vector`, by elimination; the diagonal has to dominate, as it does here."""

    def eliminate(k: jax.Array, rows: jax.Array) -> jax.Array:
        row = rows[k] / rows[k, k]
        return (rows - rows[:, k, None] * row).at[k].set(row)

    rows = jnp.concatenate([matrix, vector[:, None]], 1)
    return jax.lax.fori_loop(0, vector.size, eliminate, rows)[:, -1]


def _rewards(table: Table) -> jax.Array:
    """Returns mean rewards, float `[S, A]`; 0 where an episode is over."""
    paid = table.leaving + table.chances @ table.arriving
    return jnp.where(table.over[:, None], 0, paid)


def values_of(table: Table, policy: jax.Array, discount: jax.Array | float) -> jax.Array:
    """Returns the values of actions, float `[S, A]`, under the policy (float `[S, A]`)."""
    rewards = _rewards(table)
    onward = (policy[:, :, None] * table.chances).sum(1)
    identity = jnp.eye(table.over.size, dtype=rewards.dtype)
    states = _solution(identity - discount * onward, (policy * rewards).sum(1))
    return rewards + discount * table.chances @ states


def _greedy(values: jax.Array) -> jax.Array:
    """Returns the policy that takes the first best action, float `[S, A]`."""
    return jax.nn.one_hot(values.argmax(-1), values.shape[-1], dtype=values.dtype)


def best_values(
    table: Table, values: jax.Array, discount: jax.Array | float, rounds: int
) -> jax.Array:
    """Returns the best values of actions, float `[S, A]`, improved from others in some rounds."""
    return jax.lax.fori_loop(
        0, rounds, lambda _, values: values_of(table, _greedy(values), discount), values
    )


# Drawing a table -----------------------------------------------------------------------------


def dtype_of(params: Params) -> Any:
    """Returns the type of the numbers of a distribution: JAX's default float type."""
    return jnp.asarray(params.forward).dtype


_Draws = dict[str, jax.Array]


def _draws(key: jax.Array, size: int, actions: int, dtype: DTypeLike) -> _Draws:
    """Returns all that one attempt at AnyMDP's table leaves to chance, by name.

    It comes from one call of the generator, for calls take long to compile: standard normal
    numbers, and then uniform ones in [0, 1).
    """
    pairs = size, actions
    normal = {
        "start": (_STARTS,),
        "weights": (size, size),
        "waves": (3, _ITEMS),
        "rises": (size,),
        "costs": pairs,
        "costs_noise": pairs,
        "step": (),
    }
    even = {
        "pits": (8, size),
        "starts": (),
        "pit_share": (),
        "goal_ends": (),
        "windows": (2, size),
        "centres": pairs,
        "widths": (size,),
        "wave_shares": (5, _ITEMS),
        "scales": (2,),
        "level": (),
        "places_noise": (size,),
        "charged": pairs,
        "has_step": (),
        "corrections": (_ROUNDS, 3),
    }
    shapes = normal | even
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    row = uniform(key, (int(ends[-1]),), dtype)
    parts = dict(zip(shapes, jnp.split(row, ends[:-1]), strict=True))
    drawn = {name: parts[name].reshape(shape) for name, shape in shapes.items()}
    return drawn | {name: normal_draw(drawn[name]) for name in normal}


def normal_draw(share: jax.Array) -> jax.Array:
    """Standard normal numbers, from uniform ones in [0, 1)."""
    dtype = share.dtype
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    return np.sqrt(2).astype(dtype) * jax.lax.erf_inv(jnp.maximum(2 * share - 1, low))


def _exponential(share: jax.Array) -> jax.Array:
    """Exponential numbers of mean 1, from uniform ones in [0, 1)."""
    return -jnp.log1p(-share)


def _ends(
    draws: _Draws, states: jax.Array, params: Params
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws the states in which episodes start and end.

    Returns:
      The chances of the first state, float `[S]`: positive normal numbers, and 0; which states end
      an episode, `bool[S]`; and whether the last one does, `bool[]`.
    """
    # Which of the three numbers are positive: any, but not none.
    subset = 1 + (draws["starts"] * (2**_STARTS - 1)).astype(jnp.int32)
    weights = jnp.maximum(jnp.abs(draws["start"]), 1e-6)
    weights = jnp.where(subset >> jnp.arange(_STARTS) & 1 > 0, weights, 0)
    size = draws["rises"].size
    start = jnp.zeros(size, weights.dtype).at[:_STARTS].set(weights / weights.sum())
    low, high = params.pitfalls
    share, place = jnp.maximum(low + draws["pit_share"] * (high - low), 0), jnp.arange(size)
    pits = (draws["pits"] < share) & (place < states)
    # The first draw of not too many, or else the first one.
    pits = pits[jnp.argmax(pits.sum(1) < share * states + 1)] & (start == 0)
    goal_ends = draws["goal_ends"] < params.goal_ends
    return start, jnp.where(place == states - 1, goal_ends, pits) | (place >= states), goal_ends


def _windows(
    draws: _Draws, over: jax.Array, states: jax.Array, params: Params
) -> tuple[jax.Array, jax.Array]:
    """The states that each state leads to, from `int32[S]` up to, but without, `int32[S]`."""
    place, live = jnp.arange(over.size, dtype=jnp.int32), ~over
    ahead = jnp.maximum((params.forward * states).astype(jnp.int32) + 1, 2)
    back = jnp.maximum((params.backward * states).astype(jnp.int32) + 1, 2)
    low = jnp.maximum(place - back, 0)
    high = jnp.maximum(jnp.maximum(place - 1, low + 1), 1)
    first = low + (draws["windows"][0] * (high - low)).astype(jnp.int32)
    top = jnp.minimum(place + ahead, states)
    bottom = jnp.minimum(jnp.minimum(place + 1, states - 1), top - 1)
    last = bottom + (draws["windows"][1] * (top - bottom)).astype(jnp.int32)
    # Two states ahead that do not end the episode, if there are two.
    live_count = jnp.cumsum(live)
    candidates = live & (place[None, :] > place[:, None])
    count = live_count[None, :] - live_count[:, None]
    second = jnp.where(candidates & (count == 2), place[None, :] + 1, states).min(1)
    return first, jnp.minimum(jnp.maximum(last, second), states)


def _band(
    draws: _Draws, over: jax.Array, states: jax.Array, actions: jax.Array, params: Params
) -> jax.Array:
    """AnyMDP's chances, float `[S, A, S]`: each action leads to a part of the state's window.

    Args:
      draws: see `_draws`.
      over: `bool[S]`.
      states: `int32[]`.
      actions: `bool[A]`, which of the actions differ.
      params: the distribution.
    """
    size, place = over.size, jnp.arange(over.size)
    first, last = _windows(draws, over, states, params)
    inside = (place >= first[:, None]) & (place < last[:, None])
    weights = jnp.clip(draws["weights"], 0.1, 1)
    itself = jnp.where(place == states - 1, 0, 0.5)
    weights = jnp.where(inside, weights * jnp.where(jnp.eye(size, dtype=bool), itself, 1), 0)
    # Which action leads where: each has a place in the window, and the nearer ones lead there.
    centres = first[:, None] - 1 + draws["centres"] * (last - first + 1)[:, None]
    width = jnp.clip(_exponential(draws["widths"]), 0.2, 1.6)
    distances = (centres[:, :, None] - place) / width[:, None, None]
    logits = jnp.where(actions[:, None], -(distances**2), -jnp.inf)
    logits = jax.nn.log_softmax(logits, 1) + jnp.log(weights)[:, None]
    chances = jax.nn.softmax(jnp.where(actions[:, None], logits, 0), -1)
    return jnp.where(over[:, None, None], 0, chances)


def _garnet(key: jax.Array, states: jax.Array, shape: tuple[int, int], params: Params) -> jax.Array:
    """Returns a Garnet process's chances, float `[S, A, S]`: so many successors, cut at random."""
    lots_key, cut_key = jax.random.split(key)
    size, actions = shape
    lots = uniform(lots_key, (size, actions, size), dtype_of(params))
    lots = jnp.where(jnp.arange(size) < states, lots, 2)
    chosen = lots.argsort(-1).argsort(-1) < params.branching
    # Pieces of a stick that is cut at uniform places.
    pieces = _exponential(uniform(cut_key, (size, actions, size), dtype_of(params)))
    pieces = jnp.where(chosen, pieces + jnp.finfo(pieces.dtype).tiny, 0)
    chances = pieces / pieces.sum(-1, keepdims=True)
    return jnp.where(jnp.arange(size)[:, None, None] < states, chances, 0)


def _wave(draws: _Draws, states: jax.Array) -> jax.Array:
    """Returns a potential, float `[S]`: a random sum of waves, 0 in three cases of four."""
    shares, normals, size = draws["wave_shares"], draws["waves"], draws["rises"].size
    coin, share, scale = shares[0]
    base = jnp.clip(_exponential(scale), 0.2, 5) * (coin >= 0.5)
    box = jnp.maximum(base * (2 * share - 1), 0)
    items = 1 + (shares[3, 0] * _ITEMS).astype(jnp.int32)
    orders = 1 + jnp.floor(_ORDERS * shares[4]) + normals[0]
    factors = normals[1:] * _exponential(shares[1:3]) * box / jnp.sqrt(items)
    factors = jnp.where(jnp.arange(_ITEMS) < items, factors, 0)
    angles = orders * (jnp.arange(size) / (2 * states))[:, None]
    return jnp.sin(angles) @ factors[0] + jnp.cos(angles) @ factors[1]


def _with_rewards(draws: _Draws, table: Table, states: jax.Array, goal_ends: jax.Array) -> Table:
    """AnyMDP's rewards, before they are corrected: potentials, places, costs and steps."""
    place = jnp.arange(table.over.size)
    exists, potential = place < states, _wave(draws, states)
    base, cost = _exponential(draws["scales"]) * np.array([0.2, 0.05], potential.dtype)
    # Places: rising along the row, from some below 0.
    rises = jnp.maximum(draws["rises"], 0) + 0.2 * (place == states - 1)
    heights = jnp.cumsum(jnp.where(exists, rises, 0) * base)
    places = heights - heights[-1] * (0.1 + 0.8 * draws["level"])
    places_noise = base * jnp.maximum(0.6 * draws["places_noise"] - 0.3, 0)
    # Costs of some actions in some states.
    cost = jnp.where(draws["charged"] < 0.3, jnp.minimum(cost, 0.1), 0)
    # Every step costs where there is an end to reach, and pays where there are ends to avoid.
    step = 0.01 * jnp.abs(draws["step"]) * (draws["has_step"] < 0.5)
    step = jnp.where(goal_ends, -step, jnp.where((table.over & exists).any(), step, 0))
    return dataclasses.replace(
        table,
        leaving=potential[:, None] + cost * draws["costs"] + step,
        arriving=jnp.where(table.over, 0, places) - potential,
        leaving_noise=0.3 * cost * jnp.maximum(draws["costs_noise"], 0),
        arriving_noise=jnp.where(table.over, 0, places_noise),
    )


def _correct_rewards(
    draws: _Draws, table: Table, states: jax.Array, goal_ends: jax.Array
) -> tuple[Table, jax.Array, jax.Array]:
    """Corrects rewards so that pitfalls are worst and the goal is worth going to.

    Returns:
      The table, its best values (float `[S, A]`, with a discount of 0.99), and `bool[]`, whether a
      few corrections were enough.
    """
    place = jnp.arange(table.over.size)
    exists, goal = place < states, place == states - 1
    pits, reach = table.over & exists & ~goal, jnp.where(goal_ends, states - 2, states - 1)
    low, high = jnp.array([[2.0, 1.0, 1.0], [5.0, 10.0, 10.0]], table.leaving.dtype)
    amounts = draws["corrections"] * (high - low) + low

    def correct(
        loop: tuple[Any, Any, Any], amounts: jax.Array
    ) -> tuple[tuple[Any, Any, Any], None]:
        extra, values, fine = loop
        paid = dataclasses.replace(table, arriving=table.arriving + extra)
        values = best_values(paid, values, _DISCOUNT, 2)
        best = values.max(-1)
        lowest = jnp.where(exists, extra, jnp.inf).min()
        pit = lowest - jnp.where(table.over, jnp.inf, best).min() + 1
        fall = jnp.where(table.start > 0, best, -jnp.inf).max() - best[reach] + amounts[0]
        fine |= (pit <= 0) & (fall <= 0)
        raised = jnp.maximum(2 * fall, amounts[2]) * jnp.where(goal_ends, 1, 1 - _DISCOUNT)
        change = pits * jnp.where(pit > 0, -pit - amounts[1], 0)
        change += goal * jnp.where(fall > 0, raised, 0)
        return (jnp.where(fine, extra, extra + change), values, fine), None

    # From nothing, values take some rounds; after a correction, they are nearly right.
    extra = goal.astype(low.dtype)
    paid = dataclasses.replace(table, arriving=table.arriving + extra)
    values = best_values(paid, jnp.zeros_like(table.leaving), _DISCOUNT, 5)
    first = extra, values, jnp.zeros((), bool)
    (extra, values, fine), _ = jax.lax.scan(correct, first, amounts)
    return dataclasses.replace(table, arriving=table.arriving + extra), values, fine


def _worthwhile(table: Table, values: jax.Array, states: jax.Array, steps: jax.Array) -> jax.Array:
    """Whether a table is a good task, `bool[]`: to be learnt, and not done by staying in a corner.

    Best play gains at least 2 over random play in the steps of an episode, and visits many states:
    its long-run distribution has a Gini impurity above 0.7 and a normalised entropy above 0.35.
    """
    discount = 2.0 ** (-1 / states)
    values = best_values(table, values, discount, 3)
    even = jnp.full_like(values, 1 / values.shape[1])
    gain = values.max(-1) - values_of(table, even, discount).max(-1)
    first = table.start > 0
    gain = jnp.where(first, gain, jnp.inf).min() * (1 - discount) * steps
    visits = (_greedy(values)[:, :, None] * table.chances).sum(1)
    visits = jnp.where(table.over[:, None], table.start, visits)
    # The number of rounds is known beforehand, so that a GPU need not ask: the last do nothing.
    squared, most = jnp.log2(steps), math.log2(most_steps(len(visits)))
    visits = jax.lax.fori_loop(
        0, int(most) + 1, lambda i, chain: jnp.where(i <= squared, chain @ chain, chain), visits
    )
    gini = 1 - (visits**2).sum(-1)
    entropy = jax.scipy.special.entr(visits).sum(-1) / jnp.log(states)
    spread = jnp.where(first, (gini > 0.7) & (entropy > 0.35), True).all()
    return spread & (gain >= 2)


def good_table(
    key: jax.Array,
    params: Params,
    states: jax.Array,
    steps: jax.Array,
    shape: tuple[int, int],
    tries: int,
) -> tuple[Table, jax.Array]:
    """Returns the first good table of so many tries, or the last that was drawn.

    Args:
      key: a typed key.
      params: the distribution.
      states: `int32[]`, how many exist.
      steps: float `[]`, those of an episode.
      shape: S and A, the most states and actions.
      tries: tables that are drawn at most.

    Returns:
      The table, and whether it is good, `bool[]`.
    """
    size, actions = shape
    different = jnp.arange(actions) % params.actions
    blank = jnp.zeros(shape, dtype_of(params))

    def attempt(key: jax.Array) -> tuple[Table, jax.Array]:
        draws = _draws(key, size, actions, blank.dtype)
        start, over, goal_ends = _ends(draws, states, params)
        exist = jnp.arange(actions) < params.actions
        chances = _band(draws, over, states, exist, params)
        place = blank[:, 0]
        table = Table(chances, blank, place, blank, place, over, start)
        table = _with_rewards(draws, table, states, goal_ends)
        table = dataclasses.replace(
            table,
            chances=table.chances[:, different],
            leaving=table.leaving[:, different],
            leaving_noise=table.leaving_noise[:, different],
        )
        table, values, fine = _correct_rewards(draws, table, states, goal_ends)
        return table, fine & _worthwhile(table, values, states, steps)

    def retry(loop: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        count = loop[2] + 1
        return *attempt(jax.random.fold_in(key, count)), count

    none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(attempt, key))
    return jax.lax.while_loop(
        lambda loop: ~loop[1] & (loop[2] < tries), retry, (*none, jnp.zeros((), jnp.int32))
    )[:2]


def garnet_table(
    key: jax.Array, params: Params, states: jax.Array, shape: tuple[int, int]
) -> Table:
    """Returns a Garnet process that starts in its first state; arguments as of `good_table`."""
    chances_key, rewards_key = jax.random.split(key)
    size, actions = shape
    different = jnp.arange(actions) % params.actions
    place = jnp.arange(size)
    none = jnp.zeros(shape, dtype_of(params))
    rewards = params.reward_scale * jax.random.normal(rewards_key, shape, none.dtype)
    return Table(
        chances=_garnet(chances_key, states, shape, params)[:, different],
        leaving=rewards[:, different],
        arriving=none[:, 0],
        leaving_noise=none,
        arriving_noise=none[:, 0],
        over=place >= states,
        start=(place == 0).astype(none.dtype),
    )
