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
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import Environment, Transition, TransitionModel, action_values
from gpicljax.envs._checks import check_order, check_pair, check_values, expand_ranges
from gpicljax.envs._random_tables import (
    LONGEST,
    SHORTEST,
    Params,
    dtype_of,
    garnet_table,
    good_table,
    most_steps,
    normal_draw,
)
from gpicljax.random import uniform
from gpicljax.symbols import SymbolCode, levels

_FEWEST = 4


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
      is_accepted: `bool[]`, whether the table has passed the tests of a good task; see `AnyMDP`.
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
    is_accepted: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      position: `int32[]`, the state of the process.
      observation: `int32[]`, the position, unless it is hidden.
      steps: `int32[]`, steps taken.
    """

    position: jax.Array
    observation: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class AnyMDP(Environment[Params, Task, State]):
    """Random tables of chances and rewards, by default AnyMDP's.

    The states of a table stand in a row. Each action leads to a part of a window of it, so that
    an episode makes its way from the start towards the goal, or falls back; some states are
    pitfalls, which end it. Rewards are made of a potential, of places, of costs of actions and of
    the step, and are corrected until the goal is the best place to go to and pitfalls are the
    worst. Tables on which nothing is to be gained, or whose best play stays in a corner, are drawn
    again, up to `tries` times; `Task.is_accepted` and `info["accepted"]` say whether one was found.
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
        most = most_steps(self.max_states)
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
        """Returns the params; one number for a range is both its ends."""
        return super().make_params(**expand_ranges(overrides, ("states", "pitfalls")))

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
        """Returns a table, with the numbers of its states permuted, and how they are seen."""
        keys = jax.random.split(key, 5)
        states = jax.random.randint(keys[0], (), params.states[0], params.states[1] + 1, jnp.int32)
        shortest = jnp.maximum(4 * states, SHORTEST)
        longest = jnp.maximum(jnp.minimum(8 * states, LONGEST), shortest + 1)
        share = uniform(keys[1], (1,), dtype_of(params))[0]
        steps = jnp.ceil(shortest + share * (longest - shortest))
        shape = self.max_states, self.max_actions
        if self.garnet:
            table = garnet_table(keys[2], params, states, shape)
            accepted_values = jnp.ones((), bool)
        else:
            table, accepted_values = good_table(keys[2], params, states, steps, shape, self.tries)
        order = jax.random.permutation(keys[3], self.max_states)
        chances = table.chances[order][:, :, order]
        over, noise = table.over[order], jnp.asarray(params.reward_noise, chances.dtype)
        # Whatever is done after the end leaves things as they are.
        identity = jnp.eye(self.max_states, dtype=chances.dtype)[:, None]
        chances = jnp.where(over[:, None, None], identity, chances)
        return Task(
            cumulative=_cumulate(chances),
            leaving=table.leaving[order],
            arriving=table.arriving[order],
            leaving_noise=noise * table.leaving_noise[order],
            arriving_noise=noise * table.arriving_noise[order],
            over=over,
            start=_cumulate(table.start[order]),
            emission=self._emission(keys[4], params),
            states=states,
            horizon=jnp.minimum(steps.astype(jnp.int32), params.horizon),
            is_accepted=accepted_values,
        )

    def _emission(self, key: jax.Array, params: Params) -> jax.Array | None:
        """Draws the observations that each state can show, at least one, `Task.emission`."""
        count = self.num_observations
        if count is None:
            return None
        shape, keys = (self.max_states, count), jax.random.split(key, 3)
        possible = uniform(keys[0], shape, dtype_of(params)) < params.density
        fallback = jax.random.randint(keys[1], (self.max_states, 1), 0, count)
        possible |= ~possible.any(1, keepdims=True) & (jnp.arange(count) == fallback)
        weights = 1 - uniform(keys[2], shape, dtype_of(params))
        return _cumulate(jnp.where(possible, weights, 0))

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """In one of the first states."""
        draws = jax.random.uniform(key, (2,), task.start.dtype)
        position = _draw_outcome(task.start, (), draws[0])
        return State(
            position, self._draw_observation(position, draws[1], task), jnp.zeros((), jnp.int32)
        )

    def start_chances(self, task: Task, situations: int) -> jax.Array:
        """Those of the table."""
        return jnp.diff(task.start, prepend=0)

    def _draw_observation(self, position: jax.Array, draw: jax.Array, task: Task) -> jax.Array:
        if task.emission is None:
            return position
        return _draw_outcome(task.emission, (position,), draw)

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
        return jnp.stack([draws[0], normal_draw(draws[1]), *([draws[2]] if hidden else [])])

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Runs one step with its noise given, see `draw_noise`; after the end, nothing is paid."""
        origin, steps = state.position, state.steps + 1
        position = _draw_outcome(task.cumulative, (origin, action), noise[0])
        mean = task.leaving[origin, action] + task.arriving[position]
        deviation = task.leaving_noise[origin, action] + task.arriving_noise[position]
        return Transition(
            State(position, self._draw_observation(position, noise[-1], task), steps),
            jnp.where(task.over[origin], 0, mean + deviation * noise[1]),
            task.over[position],
            steps >= task.horizon,
            {"accepted": task.is_accepted},
        )

    # Spaces and views ------------------------------------------------------------------------

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the state, or what it shows, `int32[]`."""
        return state.observation

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the actions of the largest table."""
        return spaces.Discrete(self.max_actions)

    def symbols(self) -> SymbolCode:
        """Returns the code: states, actions, and rewards in 41 bins."""
        return SymbolCode(rewards=levels(-5.0, 5.0, 41), nothing=None)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the states, as many as there are at most, or the observations."""
        return spaces.Discrete(self.num_observations or self.max_states)

    def situation(self, state: State, task: Task) -> jax.Array:
        """Returns the state, `int32[]`."""
        return state.position

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the table, `[S, A, S]`."""
        chances = jnp.diff(task.cumulative, axis=-1, prepend=0)
        following = jnp.broadcast_to(jnp.arange(self.max_states, dtype=jnp.int32), chances.shape)
        rewards = task.leaving[:, :, None] + task.arriving
        rewards = jnp.where(task.over[:, None, None], 0, rewards)
        return TransitionModel(
            chances, following, rewards, jnp.broadcast_to(task.over, chances.shape)
        )

    def returns(self, task: Task) -> tuple[jax.Array, jax.Array]:
        """Returns mean returns of episodes, float `[]` each, so that scores can be normalised.

        Returns:
          With uniformly random actions; and with the best ones for the steps that are left, by an
          agent that knows the table and sees the state.
        """
        model = self.transition_model(task)
        start = jnp.diff(task.start, prepend=0)
        values = [
            action_values(model, 1.0, 0.0, task.horizon, at_random) for at_random in (True, False)
        ]
        return (start * values[0].mean(-1)).sum(), (start * values[1].max(-1)).sum()

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You move between states that have numbers. From each state, every action leads to one "
            "of a few states, with chances of its own that stay the same, and pays an amount that "
            "depends on where you were, what you did and where that led to. Some states may end "
            "the episode."
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs.

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

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the state, or what it shows, and the step."""
        seen = "state" if self.num_observations is None else "observation"
        return f"{seen} {int(state.observation)}, step {int(state.steps)}"

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
        is_current = (jnp.arange(self.max_states) == state.position)[:, None, None, None]
        pale = jnp.minimum(shade[..., 0], 200)
        red = jnp.stack([jnp.full_like(pale, 255), pale, pale], -1)
        tiles = jnp.where(is_current, red, colour).astype(jnp.uint8)
        tiles = jnp.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=90)
        rows = tiles.reshape(self.max_states, -1, 3)
        return rows.repeat(8, 0).repeat(8, 1)


def _cumulate(weights: jax.Array) -> jax.Array:
    """Returns cumulative chances along the last axis, exactly 1 from the last weight on."""
    sums = jnp.cumsum(weights, -1)
    return sums / sums[..., -1:]


def _draw_outcome(cumulative: jax.Array, row: tuple[jax.Array, ...], draw: jax.Array) -> jax.Array:
    """Returns the outcome that a number in [0, 1) draws from a row, `int32[]`, by bisection.

    It reads a few numbers of the row, which is faster than all of them.
    """
    size, outcome = cumulative.shape[-1], jnp.zeros((), jnp.int32)
    for bit in reversed(range((size - 1).bit_length())):
        last = jnp.minimum(outcome + (2**bit - 1), size - 1)  # of the lower half
        outcome += 2**bit * (draw >= cumulative[*row, last]).astype(jnp.int32)
    return outcome
