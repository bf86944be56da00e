"""A memory of a trial that is read by value iteration: what was tried, and what it led to.

It keeps a list of the trial's steps, and sums of them by situation and action. To choose an action
it plans: what an action was seen to lead to counts as often as it was seen, and beside it counts
what the action probably does, as the code of the moves that it has made in this trial tells, by
weights that are learnt over all tasks. What is worth going to (pay, ends, and the
worth of finding out) is read from the sums by layers that all situations share. Some steps of value
iteration follow, and the values of the actions here are most of the logits.

Until an action has led elsewhere there is nothing to plan, as on bandits. The logits are then an
index of each action, from its own sums and the time that is left.

Value iteration is built in, and is no finding of training. What is learnt is what the world does
where it was not seen yet, what is worth exploring, and how far to trust either. It presumes
situations and actions that are discrete and few, as `networks.experience` does.

Sources: value iteration within a network: Tamar et al. (2016), "Value iteration networks"; a worth
of exploring that falls with the count: Strehl & Littman (2008).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax import spaces
from gpicljax.batching import select
from gpicljax.checks import Count, Natural, Size, check, check_fields
from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.experience import read_sums, sum_since_starts, trial_spaces
from gpicljax.networks.feedforward import MLP, dense
from gpicljax.networks.policies import legal_actions


class Steps(NamedTuple):
    """The last N steps of a trial, the latest one last; -1 where there is none.

    Attributes:
      pair: `int32[..., N]`, situation times A plus action.
      reached: `int32[..., N]`, the situation that it led to.
    """

    pair: jax.Array
    reached: jax.Array


class Sums(NamedTuple):
    """Sums over a trial, apart before and after the episode had paid if P is 2.

    Attributes:
      pairs: float `[..., P, S, A, 2]`, count and pay of actions taken in situations.
      places: float `[..., P, S, 3]`, count, pay and ends of situations reached.
      codes: float `[..., A, C]`, of moves made by actions.
    """

    pairs: jax.Array
    places: jax.Array
    codes: jax.Array


class PlanningCarry(NamedTuple):
    """The memory: `steps`, `sums`, and `episode`: float `[..., 2]`, its steps and pay."""

    steps: Steps
    sums: Sums
    episode: jax.Array


@dataclasses.dataclass(frozen=True)
class PlanningSettings:
    """Sizes and switches of `PlanningActorCritic`.

    Attributes:
      sweeps: steps of value iteration.
      slots: N, steps of a trial that are remembered one by one.
      grid: side of a square of cells, counted row by row, in which the actions are known to mean
        left, right, up, down and stay; 0 where what they do has to be found out.
      splits_episodes: whether sums are kept apart before and after the episode has paid.
      code: of the MLP that codes a move; the last is C.
      hidden: of the layers that read situations.
      readout: hidden size of the head that all actions share.
      index: hidden sizes of the index; it is not used where moves are known.
    """

    sweeps: Count = 12
    slots: Size = 200
    grid: Natural = 0
    splits_episodes: bool = False
    code: tuple[Size, ...] = (64, 16)
    hidden: Size = 32
    readout: Size = 32
    index: tuple[Size, ...] = (128, 128)

    def __post_init__(self) -> None:
        check_fields(self)
        check(bool(self.code), "code", self.code, "at least one size")


class PlanningActorCritic(nn.Module):
    """A policy and a value for whole trials (`wrappers.Trial`) of discrete tasks; see the module.

    Attributes:
      situations: S.
      actions: A.
      settings: sizes and switches.
    """

    situations: int
    actions: int
    settings: PlanningSettings = PlanningSettings()
    reads_none = True

    def setup(self) -> None:
        """The layers, and the moves."""
        sizes, count = self.settings, self.situations
        self.parts = 2 if sizes.splits_episodes else 1
        self.code = MLP(sizes.code)
        if not sizes.grid:
            shape = (sizes.code[-1], count, count)
            self.moves = self.param("moves", nn.initializers.normal(0.3), shape)
            self.usual_moves = self.param("usual_moves", nn.initializers.zeros, shape[1:])
            # Weights, as softplus of these, of a step that another action made from here, and of
            # one that came here, beside the moves that are learnt over all tasks.
            self.likeness = self.param("likeness", nn.initializers.constant(-3.0), (2,))
        self.place = self.param(
            "place", nn.initializers.normal(0.1), (self.parts, count, sizes.hidden)
        )
        self.local, self.common = dense(sizes.hidden), dense(sizes.hidden)
        self.second = dense(sizes.hidden)
        small = nn.initializers.variance_scaling(0.1, "fan_in", "normal")
        self.judge = dense(4 if sizes.grid else 5, kernel_init=small)
        # Weights of what is presumed, as softplus of these: of moves, of pay and ends, and of the
        # pay where an action leads beside its own.
        self.trust = self.param("trust", nn.initializers.constant(-1.5), (3,))
        self.discount = self.param("discount", nn.initializers.constant(2.0), (self.parts,))
        self.reward_scale = self.param("reward_scale", nn.initializers.zeros, ())
        self.sharpness = self.param("sharpness", nn.initializers.constant(1.0), ())
        self.readout = dense(sizes.readout)
        self.correction, self.value = dense(1, kernel_init=small), dense(1)
        self.index, self.index_out = MLP(sizes.index), dense(1, kernel_init=small)

    # What is remembered ----------------------------------------------------------------------

    def initial_carry(self, batch: int) -> PlanningCarry:
        """Returns the memory before the first action."""
        places, actions, dtype = self.situations, self.actions, jnp.result_type(float)
        parts = 2 if self.settings.splits_episodes else 1
        none = jnp.full((batch, self.settings.slots), -1, jnp.int32)
        sums = Sums(
            jnp.zeros((batch, parts, places, actions, 2), dtype),
            jnp.zeros((batch, parts, places, 3), dtype),
            jnp.zeros((batch, actions, self.settings.code[-1]), dtype),
        )
        return PlanningCarry(Steps(none, none), sums, jnp.zeros((batch, 2), dtype))

    def _last_step(self, inputs: AgentInput) -> Steps:
        """Returns the last step, leaves `[...]`; -1 where there is none."""
        seen, is_step = inputs.observation, inputs.last_action >= 0
        pair = (seen["before"] * self.actions + inputs.last_action).astype(jnp.int32)
        return Steps(
            jnp.where(is_step, pair, -1), jnp.where(is_step, seen["reached"].astype(jnp.int32), -1)
        )

    def _next_episode(self, episode: jax.Array, inputs: AgentInput) -> jax.Array:
        """Returns the steps and the pay of the episode in progress."""
        seen, dtype = inputs.observation, episode.dtype
        is_step = (inputs.last_action >= 0).astype(dtype)
        longer = episode + jnp.stack([is_step, is_step * inputs.last_reward.astype(dtype)], -1)
        over = seen["terminated"] | seen["truncated"] | (inputs.last_action < 0)
        return jnp.where(over[..., None], 0, longer)

    def _part(self, episode: jax.Array) -> jax.Array:
        """Returns which part of the sums an episode's next step belongs to, one-hot `[..., P]`."""
        if self.parts == 1:
            return jnp.ones_like(episode[..., :1])
        has_paid = (episode[..., 1] > 0).astype(episode.dtype)
        return jnp.stack([1 - has_paid, has_paid], -1)

    def _compress(self, reward: jax.Array) -> jax.Array:
        """Returns rewards whose large ones are smaller, since one may be a hundred times others."""
        scale = jnp.exp(self.reward_scale)
        return jnp.arcsinh(scale * reward) / scale

    def _contribution(self, inputs: AgentInput, part: jax.Array) -> Sums:
        """Returns what the last step adds to the sums."""
        seen, dtype = inputs.observation, jnp.result_type(float)
        before = jax.nn.one_hot(seen["before"], self.situations, dtype=dtype)
        reached = jax.nn.one_hot(seen["reached"], self.situations, dtype=dtype)
        action = jax.nn.one_hot(inputs.last_action, self.actions, dtype=dtype)  # 0s for -1
        is_step = (inputs.last_action >= 0).astype(dtype)
        end = (seen["terminated"] | seen["truncated"]).astype(dtype)
        pay = self._compress(inputs.last_reward.astype(dtype))
        outcome = jnp.stack([is_step, is_step * pay, is_step * end], -1)
        code = self.code(jnp.concatenate([before, reached], axis=-1))
        pair = before[..., :, None] * action[..., None, :]
        places = reached[..., :, None] * outcome[..., None, :]
        pairs = pair[..., None] * outcome[..., None, None, :2]
        return Sums(
            _split(part, pairs, 3),
            _split(part, places, 2),
            action[..., :, None] * code[..., None, :],
        )

    # Reading it ------------------------------------------------------------------------------

    def _neighbours(self) -> jax.Array:
        """Returns the chances of being next to each other, float `[S, S]`."""
        if not self.settings.grid:
            return nn.softmax(self.usual_moves)
        following = grid_moves(self.settings.grid)
        return jnp.asarray((following[..., None] == np.arange(self.situations)).mean(1, np.float32))

    def _moves(self, sums: Sums, steps: Steps, is_visible: jax.Array, lure: jax.Array) -> jax.Array:
        """Returns the chances of what actions lead to, float `[..., S, A, S]`.

        Args:
          sums: over the trial.
          steps: of every instance, leaves `[B, L]`.
          is_visible: `bool[..., B, L]`, those that count.
          lure: float `[..., S]`, by how much a situation is likelier to be reached than usually.
        """
        codes = _mean_codes(sums)
        logits = jnp.einsum("...ac,cst->...sat", codes, self.moves) + self.usual_moves[:, None]
        usual = nn.softmax(logits + lure[..., None, None, :])
        led = self._counts(steps, is_visible).astype(usual.dtype)
        trust, like, taken = nn.softplus(self.trust[0]), nn.softplus(self.likeness), led.sum(-1)
        from_here = led.sum(-2)  # by any action
        to_here = from_here.swapaxes(-1, -2)
        near = like[0] * from_here + like[1] * to_here
        presumed = (usual + near[..., None, :]) / (1 + near.sum(-1))[..., None, None]
        return (led + trust * presumed) / (taken + trust)[..., None]

    def _counts(self, steps: Steps, is_visible: jax.Array) -> jax.Array:
        """Returns how often each action led where, `int32[..., S, A, S]`; see `_moves`."""
        shape = self.situations, self.actions, self.situations
        cell = jnp.maximum(steps.pair * self.situations + steps.reached, 0)
        visible = is_visible.reshape(-1, cell.shape[-1]).astype(jnp.int32)
        cells = jnp.broadcast_to(cell, is_visible.shape).reshape(visible.shape)
        rows = jnp.arange(len(cells))[:, None]
        counts = jnp.zeros((len(cells), math.prod(shape)), jnp.int32).at[rows, cells].add(visible)
        return counts.reshape(*is_visible.shape[:-1], *shape)

    def _trial_so_far(
        self, inputs: AgentInput, sums: Sums, episode: jax.Array, part: jax.Array
    ) -> jax.Array:
        """Returns features of the whole trial and of the episode, float `[..., F]`."""
        stats, dtype = read_sums(sums.places), episode.dtype
        elapsed = inputs.observation["elapsed"].astype(dtype)
        length = episode[..., :1] / jnp.asarray([8.0, 16.0, 32.0, 64.0], dtype)
        state = jnp.concatenate([elapsed, jnp.tanh(length), jnp.log1p(jnp.abs(episode))], -1)
        whole = jnp.concatenate([stats.max(-2), stats.mean(-2)], -1)
        whole = jnp.concatenate([whole.reshape(*state.shape[:-1], -1), state], -1)
        return (part[..., :, None] * whole[..., None, :]).reshape(*whole.shape[:-1], -1)

    def _judge(self, sums: Sums, part: jax.Array, whole: jax.Array) -> tuple[jax.Array, ...]:
        """Returns what each situation is taken for, float `[..., S]` each.

        They are the pay and the chance of an end to presume, the worth of going there, that of
        trying an action there, and, where moves are not known, the lure, see `_moves`.
        """
        near, stats = self._neighbours(), read_sums(sums.places)  # [S, S], [..., P, S, 4]
        mine = part[..., None, None]
        own = jnp.moveaxis(jnp.concatenate([mine * stats, (1 - mine) * stats], -1), -3, -2)
        own = own.reshape(*own.shape[:-2], -1)
        around = jnp.einsum("st,...tf->...sf", near, own)
        hidden = self.local(jnp.concatenate([own, around], -1)) + self.common(whole)[..., None, :]
        hidden = nn.relu(hidden + _of_part(part[..., -1], self.place, 3))
        judged = self.judge(nn.relu(self.second(hidden)))
        pay, end, *others = jnp.moveaxis(judged, -1, 0)
        return 0.3 + pay, nn.sigmoid(end), *others

    def _plan(
        self,
        sums: Sums,
        part: jax.Array,
        whole: jax.Array,
        exists: jax.Array,
        seen: tuple[Steps, jax.Array],
    ) -> jax.Array:
        """Returns the values of actions in situations, float `[..., S, A]`, by value iteration.

        Args:
          sums: over the trial.
          part: of the sums, see `_part`.
          whole: see `_trial_so_far`.
          exists: `bool[..., A]`, actions that there are.
          seen: steps, and which of them count, see `_moves`.
        """
        presumed_pay, presumed_end, curiosity, bonus, *lure = self._judge(sums, part, whole)
        trust, side = nn.softplus(self.trust), self.settings.grid
        moves = jnp.asarray(grid_moves(side)) if side else self._moves(sums, *seen, *lure)

        def expect(worth: jax.Array) -> jax.Array:
            return worth[..., moves] if side else jnp.einsum("...sat,...t->...sa", moves, worth)

        has_paid = part[..., -1]
        visits, pay, ends = jnp.moveaxis(_of_part(has_paid, sums.places, 3), -1, 0)
        pay = (pay + trust[1] * presumed_pay) / (visits + trust[1])
        ends = (ends + trust[1] * presumed_end) / (visits + trust[1])
        count, paid = jnp.moveaxis(_of_part(has_paid, sums.pairs, 4), -1, 0)
        at_once = (paid + trust[2] * expect(pay)) / (count + trust[2])
        at_once = at_once + bonus[..., None] / (1 + 4 * count)
        onward = nn.sigmoid(_of_part(has_paid, self.discount, 1))[..., None] * (1 - ends)

        def sweep(worth: jax.Array) -> jax.Array:
            return at_once + expect(curiosity + onward * worth)

        def best(values: jax.Array) -> jax.Array:
            return jnp.where(exists[..., None, :], values, -jnp.inf).max(-1)

        worth, _ = jax.lax.scan(
            lambda worth, _: (best(sweep(worth)), None),
            jnp.zeros_like(pay),
            None,
            self.settings.sweeps,
        )
        return sweep(worth)

    def _read(
        self,
        inputs: AgentInput,
        sums: Sums,
        episode: jax.Array,
        steps: Steps,
        is_visible: jax.Array,
    ) -> PolicyOutput:
        """The output for what has been tried so far."""
        part, observation = self._part(episode), inputs.observation
        whole = self._trial_so_far(inputs, sums, episode, part)
        legal = legal_actions(observation, self.actions)
        exists = jnp.broadcast_to(legal, (*episode.shape[:-1], self.actions))
        values = self._plan(sums, part, whole, exists, (steps, is_visible))
        here = jax.nn.one_hot(observation["now"], self.situations, dtype=values.dtype)
        count, paid = jnp.moveaxis(_of_part(part[..., -1], sums.pairs, 4), -1, 0)
        q, tried, earned = (jnp.einsum("...s,...sa->...a", here, x) for x in (values, count, paid))
        top = jnp.where(exists, q, -jnp.inf).max(-1, keepdims=True)
        bottom = jnp.where(exists, q, jnp.inf).min(-1, keepdims=True)
        spread = jax.lax.stop_gradient(jnp.maximum(top - bottom, 1e-3))
        gap = jnp.where(exists, (q - jax.lax.stop_gradient(top)) / spread, 0)
        local = read_sums(jnp.stack([tried, earned, jnp.zeros_like(tried)], -1))[..., :3]
        taken = jnp.log1p(sums.pairs[..., 0].sum((-3, -2)))
        own = [gap[..., None], local, taken[..., None], _mean_codes(sums)]
        # More than this, such as the time or a second layer, learns to overrule the plan.
        hidden = nn.relu(self.readout(jnp.concatenate(own, -1)))
        logits = jnp.exp(self.sharpness) * gap + self.correction(hidden)[..., 0]
        if not self.settings.grid:
            has_stayed = (steps.pair // self.actions == steps.reached) | ~is_visible
            index = self._index(inputs, local, exists)
            logits = jnp.where(has_stayed.all(-1, keepdims=True), index, logits)
        return PolicyOutput(logits, self.value(jnp.concatenate([whole, top], -1))[..., 0])

    def _index(self, inputs: AgentInput, local: jax.Array, exists: jax.Array) -> jax.Array:
        """Returns an index of each action from its own sums and the time, float `[..., A]`."""
        elapsed = inputs.observation["elapsed"].astype(local.dtype)
        common = jnp.concatenate([elapsed, exists.mean(-1, keepdims=True, dtype=local.dtype)], -1)
        common = jnp.broadcast_to(common[..., None, :], (*local.shape[:-1], common.shape[-1]))
        return self.index_out(self.index(jnp.concatenate([local, common], -1)))[..., 0]

    def unroll(
        self, carry: PlanningCarry | None, inputs: AgentInput, starts: jax.Array | None
    ) -> tuple[PolicyOutput, PlanningCarry]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        time, batch = inputs.last_action.shape
        old = self.initial_carry(batch) if carry is None else carry
        begins = jnp.zeros((time, batch), bool) if starts is None else starts

        def follow(episode: jax.Array, step: tuple[AgentInput, jax.Array]) -> tuple[Any, Any]:
            before = jnp.where(step[1][:, None], 0, episode)
            after = self._next_episode(before, step[0])
            return after, (before, after)

        _, (before, episode) = jax.lax.scan(follow, old.episode, (inputs, begins))
        added = self._contribution(inputs, self._part(before))
        sums = sum_since_starts(added, None if carry is None else carry.sums, starts)

        # Of all steps, those before the carry and the new ones, each time sees the last N of its
        # own trial.
        new = jax.tree.map(lambda x: x.T, self._last_step(inputs))
        steps = (
            new
            if carry is None
            else jax.tree.map(lambda *x: jnp.concatenate(x, -1), old.steps, new)
        )
        earlier = steps.pair.shape[-1] - time
        number = jnp.cumsum(steps.pair >= 0, -1)
        trial = jnp.cumsum(jnp.pad(begins.T, ((0, 0), (earlier, 0))), -1)
        now, place = jnp.arange(time) + earlier, jnp.arange(steps.pair.shape[-1])
        is_recent = number[:, now].T[..., None] - number < self.settings.slots
        is_own = trial[:, now].T[..., None] == trial
        is_visible = is_recent & is_own & (place <= now[:, None, None]) & (steps.pair >= 0)
        output = self._read(inputs, sums, episode, steps, is_visible)

        # The last N visible ones, in order, for the carry.
        order = jnp.argsort(is_visible[-1], axis=-1, stable=True)[:, -self.settings.slots :]
        kept = jax.tree.map(
            lambda x: jnp.take_along_axis(jnp.where(is_visible[-1], x, -1), order, -1), steps
        )
        missing = self.settings.slots - order.shape[-1]
        kept = jax.tree.map(
            lambda x: jnp.pad(x, ((0, 0), (max(missing, 0), 0)), constant_values=-1), kept
        )
        return output, PlanningCarry(kept, jax.tree.map(lambda x: x[-1], sums), episode[-1])

    def step(
        self, carry: PlanningCarry, inputs: AgentInput, start: jax.Array
    ) -> tuple[PolicyOutput, PlanningCarry]:
        """Inputs `[B, ...]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        carry = select(start, self.initial_carry(start.shape[0]), carry)
        episode = self._next_episode(carry.episode, inputs)
        added = self._contribution(inputs, self._part(carry.episode))
        sums = jax.tree.map(jnp.add, carry.sums, added)
        new = self._last_step(inputs)
        longer = jax.tree.map(
            lambda old, last: jnp.concatenate([old[:, 1:], last[:, None]], -1), carry.steps, new
        )
        steps = select(new.pair >= 0, longer, carry.steps)
        output = self._read(inputs, sums, episode, steps, steps.pair >= 0)
        return output, PlanningCarry(steps, sums, episode)


def _mean_codes(sums: Sums) -> jax.Array:
    """Returns the mean code of each action's moves, float `[..., A, C]`."""
    return sums.codes / jnp.maximum(sums.pairs[..., 0].sum((-3, -2)), 1)[..., None]


def _split(part: jax.Array, added: jax.Array, ndim: int) -> jax.Array:
    """Returns what is added to each part of the sums, float `[..., P, *rest]`.

    Args:
      part: one-hot `[..., P]`.
      added: float `[..., *rest]`.
      ndim: number of the axes `rest`.
    """
    # A product over the axis of parts crashes jaxlib 0.10.2 like `_of_part`'s sum, by its gradient.
    shares = jnp.moveaxis(part, -1, 0)
    return jnp.stack([x.reshape(*x.shape, *(1,) * ndim) * added for x in shares], -1 - ndim)


def _of_part(part: jax.Array, values: jax.Array, ndim: int) -> jax.Array:
    """Returns the values of a part.

    Args:
      part: float `[...]`, its number, 0 or 1.
      values: float `[..., P, *rest]`, or `[P, *rest]` for all.
      ndim: number of the axes `[P, *rest]`.
    """
    # A weighted sum over the axis crashes the CPU compiler of jaxlib 0.10.2 under `vmap`.
    first, *others = jnp.moveaxis(values, -ndim, 0)
    if not others:
        return first
    return first + part.reshape(*part.shape, *(1,) * (ndim - 1)) * (others[0] - first)


def grid_moves(size: int) -> np.ndarray:
    """Returns where left, right, up, down and stay lead in a square of cells, `int32[S, 5]`."""
    row, column = np.divmod(np.arange(size * size), size)
    last = size - 1
    sides = np.maximum(column - 1, 0), np.minimum(column + 1, last)
    rows = np.maximum(row - 1, 0), np.minimum(row + 1, last)
    cells = *(row * size + c for c in sides), *(r * size + column for r in rows)
    return np.stack([*cells, np.arange(size * size)], -1).astype(np.int32)


def planning_network(
    observation_space: spaces.Space,
    actions: spaces.Space,
    settings: PlanningSettings | None = None,
) -> Network:
    """Returns the network for whole trials of discrete tasks.

    Args:
      observation_space: of a `wrappers.Trial`, padded or not.
      actions: of the same, discrete.
      settings: sizes and switches.

    Raises:
      ValueError: for spaces of another kind, or a grid that they are not.
    """
    count, choices = trial_spaces(observation_space, actions)
    sizes = settings or PlanningSettings()
    if sizes.grid:
        fits = (count, choices) == (sizes.grid**2, 5)
        accepted_values = f"0, or the side of a square of {count} cells with 5 actions"
        check(fits, "grid", sizes.grid, accepted_values)
    return as_network(PlanningActorCritic(count, choices, sizes))
