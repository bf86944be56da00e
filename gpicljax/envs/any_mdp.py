"""Random Markov decision processes, some of which hide their state.

A task is a table: where every action leads from every state, and what it pays. Nothing carries over
from one task to the next but how such tables are drawn, so that an agent has to learn to learn.

Sources: Wang et al. (2025), "Towards large-scale in-context reinforcement learning by meta-training
in randomized worlds" (AnyMDP), with the sampler's statistics as in FutureAGI's Xenoverse,
`xenoverse/anymdp` (June 2026); Archibald, McKinnon & Thomas (1995), "On the generation of Markov
decision processes" (Garnet). The manual's page on classic tasks says which statistics are kept.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import Environment, Transition, TransitionModel, action_values
from gpicljax.envs._checks import (
    Count,
    NotNegative,
    Probability,
    Real,
    check_order,
    check_pair,
    check_values,
    widened,
)
from gpicljax.random import uniform

STARTS = 3
"""Episodes start in one of the first three states."""
ROUNDS = 5
"""How often the rewards of a table are corrected before it is given up."""
DISCOUNT = 0.99
"""The discount of the values that rewards are corrected by."""
_FEWEST = 4
_ITEMS, _ORDERS = 3, 5
_SHORTEST, _LONGEST = 100, 500


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
class Task:
    """One table, of S states and A actions.

    Attributes:
      cumulative: float `[S, A, S]`, the chances of the following states, summed up.
      leaving: float `[S, A]`, the part of a step's mean reward that its state and action give.
      arriving: float `[S]`, the part that the following state gives.
      leaving_noise: float `[S, A]`, the same of the reward's standard deviation.
      arriving_noise: float `[S]`, likewise.
      over: `bool[S]`, whether arriving there ends the episode; true of states that do not exist.
      start: float `[S]`, the chances of the first state, summed up.
      emission: float `[S, O]`, the chances of the observations, summed up; None where the state
        is seen.
      states: `int32[]`, how many exist.
      horizon: `int32[]`, steps until an episode is truncated.
      accepted: `bool[]`, whether the table has passed the tests of a good task; see `AnyMDP`.
    """

    cumulative: jax.Array
    leaving: jax.Array
    arriving: jax.Array
    leaving_noise: jax.Array
    arriving_noise: jax.Array
    over: jax.Array
    start: jax.Array
    emission: jax.Array | None
    states: jax.Array
    horizon: jax.Array
    accepted: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      position: `int32[]`, the state of the process.
      seen: `int32[]`, the observation: the position, unless it is hidden.
      steps: `int32[]`, steps taken.
    """

    position: jax.Array
    seen: jax.Array
    steps: jax.Array


@struct.dataclass
class _Table:
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


def _rewards(table: _Table) -> jax.Array:
    """Mean rewards, float `[S, A]`; 0 where an episode is over."""
    paid = table.leaving + table.chances @ table.arriving
    return jnp.where(table.over[:, None], 0, paid)


def _values_of(table: _Table, policy: jax.Array, discount: Any) -> jax.Array:
    """The values of actions, float `[S, A]`, if the policy (float `[S, A]`) goes on."""
    rewards = _rewards(table)
    onward = (policy[:, :, None] * table.chances).sum(1)
    identity = jnp.eye(table.over.size, dtype=rewards.dtype)
    states = _solution(identity - discount * onward, (policy * rewards).sum(1))
    return rewards + discount * table.chances @ states


def _greedy(values: jax.Array) -> jax.Array:
    """The policy that takes the first best action, float `[S, A]`."""
    return jax.nn.one_hot(values.argmax(-1), values.shape[-1], dtype=values.dtype)


def _best_values(table: _Table, values: jax.Array, discount: Any, rounds: int) -> jax.Array:
    """The best values of actions, float `[S, A]`, improved from others in some rounds."""
    return jax.lax.fori_loop(
        0, rounds, lambda _, values: _values_of(table, _greedy(values), discount), values
    )


# Drawing a table -----------------------------------------------------------------------------


def _dtype(params: Params) -> Any:
    return jnp.asarray(params.forward).dtype


_Draws = dict[str, jax.Array]


def _draws(key: jax.Array, size: int, actions: int, dtype: Any) -> _Draws:
    """All that one attempt at AnyMDP's table leaves to chance, by name.

    It comes from one call of the generator, for calls take long to compile: standard normal
    numbers, and then uniform ones in [0, 1).
    """
    pairs = size, actions
    normal = {
        "start": (STARTS,),
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
        "corrections": (ROUNDS, 3),
    }
    shapes = normal | even
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    row = uniform(key, (int(ends[-1]),), dtype)
    parts = dict(zip(shapes, jnp.split(row, ends[:-1]), strict=True))
    drawn = {name: parts[name].reshape(shape) for name, shape in shapes.items()}
    return drawn | {name: _normal(drawn[name]) for name in normal}


def _normal(share: jax.Array) -> jax.Array:
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
    """Where episodes start and end.

    Returns:
      The chances of the first state, float `[S]`: positive normal numbers, and 0; which states end
      an episode, `bool[S]`; and whether the last one does, `bool[]`.
    """
    # Which of the three numbers are positive: any, but not none.
    which = 1 + (draws["starts"] * (2**STARTS - 1)).astype(jnp.int32)
    weights = jnp.maximum(jnp.abs(draws["start"]), 1e-6)
    weights = jnp.where(which >> jnp.arange(STARTS) & 1 > 0, weights, 0)
    size = draws["rises"].size
    start = jnp.zeros(size, weights.dtype).at[:STARTS].set(weights / weights.sum())
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
    seen = jnp.cumsum(live)
    further = live & (place[None, :] > place[:, None])
    count = seen[None, :] - seen[:, None]
    second = jnp.where(further & (count == 2), place[None, :] + 1, states).min(1)
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
    """A Garnet process's chances, float `[S, A, S]`: so many successors, cut at random."""
    lots_key, cut_key = jax.random.split(key)
    size, actions = shape
    lots = uniform(lots_key, (size, actions, size), _dtype(params))
    lots = jnp.where(jnp.arange(size) < states, lots, 2)
    chosen = lots.argsort(-1).argsort(-1) < params.branching
    # Pieces of a stick that is cut at uniform places.
    pieces = _exponential(uniform(cut_key, (size, actions, size), _dtype(params)))
    pieces = jnp.where(chosen, pieces + jnp.finfo(pieces.dtype).tiny, 0)
    chances = pieces / pieces.sum(-1, keepdims=True)
    return jnp.where(jnp.arange(size)[:, None, None] < states, chances, 0)


def _wave(draws: _Draws, states: jax.Array) -> jax.Array:
    """A potential, float `[S]`: a random sum of waves, 0 in three cases of four."""
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


def _with_rewards(draws: _Draws, table: _Table, states: jax.Array, goal_ends: jax.Array) -> _Table:
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


def _corrected(
    draws: _Draws, table: _Table, states: jax.Array, goal_ends: jax.Array
) -> tuple[_Table, jax.Array, jax.Array]:
    """Rewards with which pitfalls are worst and the goal is worth going to.

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
        values = _best_values(paid, values, DISCOUNT, 2)
        best = values.max(-1)
        lowest = jnp.where(exists, extra, jnp.inf).min()
        pit = lowest - jnp.where(table.over, jnp.inf, best).min() + 1
        fall = jnp.where(table.start > 0, best, -jnp.inf).max() - best[reach] + amounts[0]
        fine |= (pit <= 0) & (fall <= 0)
        raised = jnp.maximum(2 * fall, amounts[2]) * jnp.where(goal_ends, 1, 1 - DISCOUNT)
        change = pits * jnp.where(pit > 0, -pit - amounts[1], 0)
        change += goal * jnp.where(fall > 0, raised, 0)
        return (jnp.where(fine, extra, extra + change), values, fine), None

    # From nothing, values take some rounds; after a correction, they are nearly right.
    extra = goal.astype(low.dtype)
    paid = dataclasses.replace(table, arriving=table.arriving + extra)
    values = _best_values(paid, jnp.zeros_like(table.leaving), DISCOUNT, 5)
    first = extra, values, jnp.zeros((), bool)
    (extra, values, fine), _ = jax.lax.scan(correct, first, amounts)
    return dataclasses.replace(table, arriving=table.arriving + extra), values, fine


def _worthwhile(table: _Table, values: jax.Array, states: jax.Array, steps: jax.Array) -> jax.Array:
    """Whether a table is a good task, `bool[]`: to be learnt, and not done by staying in a corner.

    Best play gains at least 2 over random play in the steps of an episode, and visits many states:
    its long-run distribution has a Gini impurity above 0.7 and a normalised entropy above 0.35.
    """
    discount = 2.0 ** (-1 / states)
    values = _best_values(table, values, discount, 3)
    even = jnp.full_like(values, 1 / values.shape[1])
    gain = values.max(-1) - _values_of(table, even, discount).max(-1)
    first = table.start > 0
    gain = jnp.where(first, gain, jnp.inf).min() * (1 - discount) * steps
    visits = (_greedy(values)[:, :, None] * table.chances).sum(1)
    visits = jnp.where(table.over[:, None], table.start, visits)
    visits = jax.lax.fori_loop(
        0, jnp.log2(steps).astype(jnp.int32) + 1, lambda _, chain: chain @ chain, visits
    )
    gini = 1 - (visits**2).sum(-1)
    entropy = jax.scipy.special.entr(visits).sum(-1) / jnp.log(states)
    spread = jnp.where(first, (gini > 0.7) & (entropy > 0.35), True).all()
    return spread & (gain >= 2)


@dataclasses.dataclass(frozen=True)
class AnyMDP(Environment[Params, Task, State]):
    """Random tables of chances and rewards, by default AnyMDP's.

    The states of a table stand in a row. Each action leads to a part of a window of it, so that
    an episode makes its way from the start towards the goal, or falls back; some states are
    pitfalls, which end it. Rewards are made of a potential, of places, of costs of actions and of
    the step, and are corrected until the goal is the best place to go to and pitfalls are the
    worst. Tables on which nothing is to be gained, or whose best play stays in a corner, are drawn
    again, up to `tries` times; `Task.accepted`, and `info["accepted"]`, say whether one was found.
    Then the numbers of the states are permuted.

    The observation is the state. With `num_observations` it is hidden, and what is seen is drawn
    at every step from a few observations that the state can show.

    The noise of a step is float `[2]`, or `[3]` of a hidden state, see `draw_noise`.

    Args:
      max_states: the most states that a table may have.
      max_actions: the most actions.
      num_observations: of a state that is hidden; None for one that is seen.
      garnet: whether tables are Garnet processes instead: each action leads to `params.branching`
        states, chosen at random like the chances of them, and its mean reward is a normal number.
        One state is the start, nothing ends an episode but its horizon, and nothing is drawn again.
      tries: how many tables are drawn at most.

    Raises:
      ValueError: for fewer than 4 states, 2 actions, or one observation or try.

    Example:
      >>> import jax
      >>> env = AnyMDP(max_states=8, max_actions=2, garnet=True)
      >>> task = jax.jit(env.sample_task)(jax.random.key(0), env.make_params(branching=2))
      >>> (env.transition_model(task).chance > 0).sum(-1).max().item()
      2
    """

    max_states: Annotated[int, Range(_FEWEST, 512)] = 16
    max_actions: Annotated[int, Range(2, 64)] = 5
    num_observations: Annotated[int, Range(1, 512)] | None = None
    garnet: bool = False
    tries: Annotated[int, Range(1, 1000)] = 16

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Xenoverse's, with as many states and actions as there may be."""
        dtype = jnp.result_type(float)
        most = _most_steps(self.max_states)
        return Params(
            states=jnp.full(2, self.max_states, jnp.int32),
            actions=jnp.asarray(self.max_actions, jnp.int32),
            horizon=jnp.asarray(most, jnp.int32),
            forward=jnp.asarray(0.25, dtype),
            backward=jnp.asarray(0.5, dtype),
            pitfalls=jnp.asarray([-0.2, 0.4], dtype),
            goal_ends=jnp.asarray(0.3, dtype),
            reward_noise=jnp.asarray(1.0, dtype),
            branching=jnp.asarray(2, jnp.int32),
            reward_scale=jnp.asarray(0.1, dtype),
            density=jnp.asarray(min(0.2, 4 / (self.num_observations or 1)), dtype),
        )

    def make_params(self, **overrides: Any) -> Params:
        """As `Environment.make_params`; one number for a range is both its ends."""
        return super().make_params(**widened(overrides, ("states", "pitfalls")))

    def validate(self, params: Params) -> None:
        """Raises ValueError for bad ranges, shares or numbers, and more than the static caps."""
        super().validate(params)
        for name in "states", "pitfalls":
            check_pair(name, getattr(params, name))
            check_order(name, getattr(params, name))
        for name, least, most in (
            ("states", _FEWEST, self.max_states),
            ("actions", 2, self.max_actions),
            ("branching", 1, int(np.min(np.asarray(params.states)))),
        ):
            values = np.asarray(getattr(params, name))
            fine = (values >= least) & (values <= most)
            check_values(name, values, fine, f"{least} .. {most}")
        pits = np.asarray(params.pitfalls)
        check_values("pitfalls", pits, pits < 1, "shares below 1")

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """A table, with the numbers of its states permuted, and how they are seen."""
        keys = jax.random.split(key, 5)
        states = jax.random.randint(keys[0], (), params.states[0], params.states[1] + 1, jnp.int32)
        shortest = jnp.maximum(4 * states, _SHORTEST)
        longest = jnp.maximum(jnp.minimum(8 * states, _LONGEST), shortest + 1)
        share = uniform(keys[1], (1,), _dtype(params))[0]
        steps = jnp.ceil(shortest + share * (longest - shortest))
        table, accepted = self._table(keys[2], params, states, steps)
        order = jax.random.permutation(keys[3], self.max_states)
        chances = table.chances[order][:, :, order]
        over, noise = table.over[order], jnp.asarray(params.reward_noise, chances.dtype)
        # Whatever is done after the end leaves things as they are.
        still = jnp.eye(self.max_states, dtype=chances.dtype)[:, None]
        chances = jnp.where(over[:, None, None], still, chances)
        return Task(
            cumulative=_summed(chances),
            leaving=table.leaving[order],
            arriving=table.arriving[order],
            leaving_noise=noise * table.leaving_noise[order],
            arriving_noise=noise * table.arriving_noise[order],
            over=over,
            start=_summed(table.start[order]),
            emission=self._emission(keys[4], params),
            states=states,
            horizon=jnp.minimum(steps.astype(jnp.int32), params.horizon),
            accepted=accepted,
        )

    def _table(
        self, key: jax.Array, params: Params, states: jax.Array, steps: jax.Array
    ) -> tuple[_Table, jax.Array]:
        """The first good table, or the last that was drawn; and whether it is good, `bool[]`."""
        if self.garnet:
            return self._garnet_table(key, params, states), jnp.ones((), bool)
        different = jnp.arange(self.max_actions) % params.actions
        blank = jnp.zeros((self.max_states, self.max_actions), _dtype(params))

        def attempt(key: jax.Array) -> tuple[_Table, jax.Array]:
            draws = _draws(key, self.max_states, self.max_actions, blank.dtype)
            start, over, goal_ends = _ends(draws, states, params)
            exist = jnp.arange(self.max_actions) < params.actions
            chances = _band(draws, over, states, exist, params)
            place = blank[:, 0]
            table = _Table(chances, blank, place, blank, place, over, start)
            table = _with_rewards(draws, table, states, goal_ends)
            table = dataclasses.replace(
                table,
                chances=table.chances[:, different],
                leaving=table.leaving[:, different],
                leaving_noise=table.leaving_noise[:, different],
            )
            table, values, fine = _corrected(draws, table, states, goal_ends)
            return table, fine & _worthwhile(table, values, states, steps)

        def again(loop: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            count = loop[2] + 1
            return *attempt(jax.random.fold_in(key, count)), count

        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(attempt, key))
        return jax.lax.while_loop(
            lambda loop: ~loop[1] & (loop[2] < self.tries),
            again,
            (*none, jnp.zeros((), jnp.int32)),
        )[:2]

    def _garnet_table(self, key: jax.Array, params: Params, states: jax.Array) -> _Table:
        """A Garnet process that starts in its first state."""
        chances_key, rewards_key = jax.random.split(key)
        shape = self.max_states, self.max_actions
        different = jnp.arange(self.max_actions) % params.actions
        place = jnp.arange(self.max_states)
        none = jnp.zeros(shape, _dtype(params))
        rewards = params.reward_scale * jax.random.normal(rewards_key, shape, none.dtype)
        return _Table(
            chances=_garnet(chances_key, states, shape, params)[:, different],
            leaving=rewards[:, different],
            arriving=none[:, 0],
            leaving_noise=none,
            arriving_noise=none[:, 0],
            over=place >= states,
            start=(place == 0).astype(none.dtype),
        )

    def _emission(self, key: jax.Array, params: Params) -> jax.Array | None:
        """What every state can show, at least one observation, `Task.emission`."""
        count = self.num_observations
        if count is None:
            return None
        shape, keys = (self.max_states, count), jax.random.split(key, 3)
        some = uniform(keys[0], shape, _dtype(params)) < params.density
        one = jax.random.randint(keys[1], (self.max_states, 1), 0, count)
        some |= ~some.any(1, keepdims=True) & (jnp.arange(count) == one)
        weights = 1 - uniform(keys[2], shape, _dtype(params))
        return _summed(jnp.where(some, weights, 0))

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """In one of the first states."""
        draws = jax.random.uniform(key, (2,), task.start.dtype)
        position = _drawn(task.start, (), draws[0])
        return State(position, self._seen(position, draws[1], task), jnp.zeros((), jnp.int32))

    def _seen(self, position: jax.Array, draw: jax.Array, task: Task) -> jax.Array:
        if task.emission is None:
            return position
        return _drawn(task.emission, (position,), draw)

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[2]`, of hidden states `[3]`.

        A uniform number in [0, 1), by which the following state is drawn; a standard normal one,
        by how many standard deviations the reward is off; and a uniform one, by which the
        observation is drawn.
        """
        dtype = task.start.dtype
        hidden = self.num_observations is not None
        # One call of the generator for all.
        draws = jax.random.uniform(key, (4 if hidden else 2,), dtype)
        return jnp.stack([draws[0], _normal(draws[1]), *([draws[2]] if hidden else [])])

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """One step with its noise given, see `draw_noise`; after the end, nothing is paid."""
        here, steps = state.position, state.steps + 1
        position = _drawn(task.cumulative, (here, action), noise[0])
        mean = task.leaving[here, action] + task.arriving[position]
        deviation = task.leaving_noise[here, action] + task.arriving_noise[position]
        return Transition(
            State(position, self._seen(position, noise[-1], task), steps),
            jnp.where(task.over[here], 0, mean + deviation * noise[1]),
            task.over[position],
            steps >= task.horizon,
            {"accepted": task.accepted},
        )

    # Spaces and views ------------------------------------------------------------------------

    def observe(self, state: State, task: Task) -> jax.Array:
        """The state, or what it shows, `int32[]`."""
        return state.seen

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """As many as there are at most."""
        return spaces.Discrete(self.max_actions)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """The states, as many as there are at most, or the observations."""
        return spaces.Discrete(self.num_observations or self.max_states)

    def situation(self, state: State, task: Task) -> jax.Array:
        """The state, `int32[]`."""
        return state.position

    def transition_model(self, task: Task) -> TransitionModel:
        """The table, `[S, A, S]`."""
        chances = jnp.diff(task.cumulative, axis=-1, prepend=0)
        following = jnp.broadcast_to(jnp.arange(self.max_states, dtype=jnp.int32), chances.shape)
        rewards = task.leaving[:, :, None] + task.arriving
        rewards = jnp.where(task.over[:, None, None], 0, rewards)
        return TransitionModel(
            chances, following, rewards, jnp.broadcast_to(task.over, chances.shape)
        )

    def returns(self, task: Task) -> tuple[jax.Array, jax.Array]:
        """What an episode pays on average, float `[]` each, so that scores can be normalised.

        Returns:
          With uniformly random actions; and with the best ones for the steps that are left, by an
          agent that knows the table and sees the state.
        """
        model = self.transition_model(task)
        start = jnp.diff(task.start, prepend=0)
        each = [
            action_values(model, 1.0, 0.0, task.horizon, at_random) for at_random in (True, False)
        ]
        return (start * each[0].mean(-1)).sum(), (start * each[1].max(-1)).sum()

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """What an expert needs.

        Returns:
          `position`: `int32[]`, the state; `chances`: float `[A, S]`, where every action leads to
          from it; `rewards`: float `[A]`, what it pays on average; `over`: `bool[S]`, where an
          episode ends.
        """
        chances = jnp.diff(task.cumulative[state.position], axis=-1, prepend=0)
        paid = task.leaving[state.position] + chances @ task.arriving
        return {
            "position": state.position,
            "chances": chances,
            "rewards": jnp.where(task.over[state.position], 0, paid),
            "over": task.over,
        }

    def describe(self, state: State, task: Task) -> str:
        """The state, the step, and where every action leads to most likely."""
        known = self.privileged(state, task)
        seen = "" if self.num_observations is None else f" seen as {int(state.seen)}"
        text = (
            f"state {int(state.position)} of {int(task.states)}{seen}, "
            f"step {int(state.steps)} of {int(task.horizon)}; most likely actions lead to "
        )
        chances, rewards = np.asarray(known["chances"]), np.asarray(known["rewards"])
        return text + ", ".join(
            f"{row.argmax()} ({row.max():.2f}, paid {reward:.2f})"
            for row, reward in zip(chances, rewards, strict=True)
        )

    def render(self, state: State, task: Task) -> jax.Array:
        """A picture: the table of every action side by side, states down and following ones along.

        The darker, the likelier; the row of the state is red, and columns of ends are grey.

        Returns:
          `uint8[8 * S, A * (8 * S + 8), 3]`.
        """
        chances = jnp.diff(task.cumulative, axis=-1, prepend=0)
        shade = 255 * (1 - jnp.sqrt(jnp.maximum(chances, 0)))[..., None]
        colour = jnp.broadcast_to(shade, (*chances.shape, 3))
        colour = jnp.where(task.over[:, None], jnp.minimum(colour, 200), colour)
        here = (jnp.arange(self.max_states) == state.position)[:, None, None, None]
        pale = jnp.minimum(shade[..., 0], 200)
        red = jnp.stack([jnp.full_like(pale, 255), pale, pale], -1)
        tiles = jnp.where(here, red, colour).astype(jnp.uint8)
        tiles = jnp.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=90)
        rows = tiles.reshape(self.max_states, -1, 3)
        return rows.repeat(8, 0).repeat(8, 1)


def _most_steps(states: int) -> int:
    """The longest horizon that a table of so many states may draw."""
    return max(min(8 * states, _LONGEST), max(4 * states, _SHORTEST) + 1)


def _summed(weights: jax.Array) -> jax.Array:
    """Cumulative chances along the last axis, exactly 1 from the last weight on."""
    sums = jnp.cumsum(weights, -1)
    return sums / sums[..., -1:]


def _drawn(cumulative: jax.Array, row: tuple[jax.Array, ...], draw: jax.Array) -> jax.Array:
    """Which outcome of a row of a table a number in [0, 1) draws, `int32[]`, by bisection.

    It reads a few numbers of the row, which is faster than all of them.
    """
    size, outcome = cumulative.shape[-1], jnp.zeros((), jnp.int32)
    for bit in reversed(range((size - 1).bit_length())):
        last = jnp.minimum(outcome + (2**bit - 1), size - 1)  # of the lower half
        outcome += 2**bit * (draw >= cumulative[*row, last]).astype(jnp.int32)
    return outcome
