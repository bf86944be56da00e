"""A memory of what was tried where, in tables, and a read-out that all actions share.

What is remembered of a trial are sums: how often each action was taken in each situation, what it
paid, how often it ended an episode; the same of each situation that was reached; and of each action
the mean code of the moves it made, whereby actions that are permuted from task to task are told
apart. What is learnt is how to read them. It presumes that situations and actions are discrete and
few, which a general memory (a recurrent core, a store of events) does not.

Actions have no weights of their own, but for `identities`: each is embedded by its part of the
tables with one and the same layer, embeddings are pooled, and one head gives the logit of each. So
what holds for an action holds for all, and some may not exist.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import Size, check, check_fields
from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.feedforward import MLP, dense

SumsT = TypeVar("SumsT")


class Experience(NamedTuple):
    """Sums over a trial; the last axis of the first two is count, pay, ends.

    Attributes:
      pairs: float `[..., S, A, 3]`, of actions taken in situations.
      places: float `[..., S, 3]`, of situations reached.
      codes: float `[..., A, C]`, of moves made by actions.
    """

    pairs: jax.Array
    places: jax.Array
    codes: jax.Array


@dataclasses.dataclass(frozen=True)
class ExperienceSettings:
    """Sizes of `ExperienceActorCritic`.

    Attributes:
      code: of the MLP that codes a move; the last is C.
      embedding: of an action.
      sizes: of the torso.
      readout: hidden size of the embedding, and of the head that all actions share.
      identities: whether an action's number is read with its part of the tables, for tasks in
        which it means the same.
    """

    code: tuple[Size, ...] = (64, 16)
    embedding: Size = 64
    sizes: tuple[Size, ...] = (128, 128)
    readout: Size = 128
    identities: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check(bool(self.code), "code", self.code, "at least one size")


class ActionReadout(nn.Module):
    """One head for the logits of all actions, from what is common and what is each one's own.

    Attributes:
      hidden: size of its hidden layer.
    """

    hidden: int = 64

    @nn.compact
    def __call__(self, common: jax.Array, per_action: jax.Array) -> jax.Array:
        """Float `[..., F]`, float `[..., A, G]` -> float `[..., A]`."""
        mixed = dense(self.hidden, name="common")(common)[..., None, :]
        mixed = nn.relu(mixed + dense(self.hidden, name="own")(per_action))
        small = nn.initializers.variance_scaling(1e-2, "fan_in", "normal")
        return dense(1, kernel_init=small, name="logit")(mixed)[..., 0]


class ExperienceActorCritic(nn.Module):
    """A policy and a value for whole trials (`wrappers.Trial`) of discrete tasks; see the module.

    Attributes:
      situations: S.
      actions: A.
      settings: sizes.
    """

    situations: int
    actions: int
    settings: ExperienceSettings = ExperienceSettings()
    reads_none = True

    def setup(self) -> None:
        """The layers."""
        self.code = MLP(self.settings.code)
        self.embed = [dense(self.settings.readout), dense(self.settings.embedding)]
        self.context = dense(self.settings.readout)
        self.torso = MLP(self.settings.sizes)
        self.readout = ActionReadout(self.settings.readout)
        self.value = dense(1)

    def initial_carry(self, batch: int) -> Experience:
        """Returns the sums before the first action."""
        places, actions, dtype = self.situations, self.actions, jnp.result_type(float)
        return Experience(
            jnp.zeros((batch, places, actions, 3), dtype),
            jnp.zeros((batch, places, 3), dtype),
            jnp.zeros((batch, actions, self.settings.code[-1]), dtype),
        )

    def _contribution(self, inputs: AgentInput) -> Experience:
        """Returns the contribution of the last action; zeros where there is none."""
        observation, dtype = inputs.observation, jnp.result_type(float)
        before = jax.nn.one_hot(observation["before"], self.situations, dtype=dtype)
        reached = jax.nn.one_hot(observation["reached"], self.situations, dtype=dtype)
        action = jax.nn.one_hot(inputs.last_action, self.actions, dtype=dtype)  # 0s for -1
        end = (observation["terminated"] | observation["truncated"]).astype(dtype)
        reward = inputs.last_reward.astype(dtype)
        outcome = jnp.stack([jnp.ones_like(end), reward, end], axis=-1)
        outcome = jnp.where(inputs.last_action[..., None] >= 0, outcome, 0)
        code = self.code(jnp.concatenate([before, reached], axis=-1))
        return Experience(
            before[..., :, None, None]
            * (action[..., :, None] * outcome[..., None, :])[..., None, :, :],
            reached[..., :, None] * outcome[..., None, :],
            action[..., :, None] * code[..., None, :],
        )

    def _read(self, inputs: AgentInput, sums: Experience) -> PolicyOutput:
        """The output for what has been tried so far."""
        observation, dtype = inputs.observation, jnp.result_type(float)
        situation = jax.nn.one_hot(observation["now"], self.situations, dtype=dtype)
        elapsed = observation["elapsed"].astype(dtype)
        batch = situation.shape[:-1]
        pairs, places = read_sums(sums.pairs), read_sums(sums.places)
        taken = sums.pairs.sum(-3)[..., :1]
        codes = sums.codes / jnp.maximum(taken, 1)
        local = jnp.einsum("...s,...sax->...ax", situation, pairs)
        by_action = jnp.moveaxis(pairs, -3, -2).reshape(*batch, self.actions, -1)
        whole = read_sums(sums.pairs.sum(-3))
        per_action = jnp.concatenate([by_action, local, whole, codes], axis=-1)
        if self.settings.identities:
            numbers = jnp.eye(self.actions, dtype=dtype)
            numbers = jnp.broadcast_to(numbers, (*batch, *numbers.shape))
            per_action = jnp.concatenate([per_action, numbers], axis=-1)
        # What an action is worth here depends on where this is and on what lies around.
        flat = places.reshape(*batch, -1)
        context = jnp.concatenate([situation, flat, elapsed], axis=-1)
        per_action = nn.relu(self.embed[0](per_action) + self.context(context)[..., None, :])
        per_action = nn.relu(self.embed[1](per_action))
        exists = jnp.ones((*batch, self.actions), bool)
        if "action_mask" in observation:
            exists = observation["action_mask"]
        share = exists / exists.sum(-1, keepdims=True)
        mean = (per_action * share[..., None].astype(dtype)).sum(-2)
        most = jnp.where(exists[..., None], per_action, 0).max(-2)
        common = self.torso(jnp.concatenate([mean, most, context], axis=-1))
        return PolicyOutput(self.readout(common, per_action), self.value(common)[..., 0])

    def unroll(
        self, carry: Experience | None, inputs: AgentInput, starts: jax.Array | None
    ) -> tuple[PolicyOutput, Experience]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        sums = sum_since_starts(self._contribution(inputs), carry, starts)
        return self._read(inputs, sums), jax.tree.map(lambda x: x[-1], sums)

    def step(
        self, carry: Experience, inputs: AgentInput, start: jax.Array
    ) -> tuple[PolicyOutput, Experience]:
        """Inputs `[B, ...]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""

        def accumulate(old: jax.Array, new: jax.Array) -> jax.Array:
            return jnp.where(start.reshape(-1, *(1,) * (old.ndim - 1)), 0, old) + new

        sums = jax.tree.map(accumulate, carry, self._contribution(inputs))
        return self._read(inputs, sums), sums


def read_sums(sums: jax.Array) -> jax.Array:
    """Returns counts, pays and ends as what is easily read: float `[..., 3]` -> `[..., 4]`.

    Symmetric logarithms: Hafner et al. (2023), "DreamerV3", equation 9.
    """
    count = sums[..., :1]
    means = sums[..., 1:] / jnp.maximum(count, 1)
    # A fall off a cliff pays -100 where other steps pay -1, or 1.
    means = jnp.sign(means) * jnp.log1p(jnp.abs(means))
    return jnp.concatenate([jnp.log1p(count), jax.lax.rsqrt(1 + count), means], axis=-1)


def sum_since_starts(added: SumsT, carry: SumsT | None, starts: jax.Array | None) -> SumsT:
    """Returns running sums `[T, B, ...]` over each trial, of what each step adds, `[T, B, ...]`.

    Args:
      added: what is added at each step; also at that of a start, which belongs to the new trial.
      carry: sums before the first step, `[B, ...]`; None for zeros.
      starts: `bool[T, B]`, where a trial starts; None for nowhere.
    """
    sums = jax.tree.map(lambda x: jnp.cumsum(x, axis=0), added)
    begun = jnp.zeros((1, 1), bool)
    if starts is not None:
        # Nothing is left from before the last start.
        time = jnp.arange(starts.shape[0], dtype=jnp.int32)
        last = jax.lax.cummax(jnp.where(starts, time[:, None], -1), axis=0)
        begun = last >= 0

        def since(total: jax.Array, step: jax.Array) -> jax.Array:
            like = (*last.shape, *(1,) * (total.ndim - 2))
            place = jnp.maximum(last, 0).reshape(like)
            before = jnp.take_along_axis(total - step, place, axis=0)
            return total - jnp.where(begun.reshape(like), before, 0)

        sums = jax.tree.map(since, sums, added)
    if carry is None:
        return sums

    def with_carry(total: jax.Array, old: jax.Array) -> jax.Array:
        kept = ~begun.reshape(*begun.shape, *(1,) * (total.ndim - 2))
        return total + jnp.where(kept, old[None], 0)

    return jax.tree.map(with_carry, sums, carry)


def trial_spaces(observation_space: spaces.Space, actions: spaces.Space) -> tuple[int, int]:
    """Returns the number of situations and of actions in whole trials of discrete tasks.

    Raises:
      ValueError: for spaces of another kind.
    """
    entries = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
    situations = entries.get("now")
    accepted_values = "whole trials (wrappers.Trial) of discrete situations"
    fits = isinstance(situations, spaces.Discrete) and "reached" in entries
    check(fits, "observation_space", observation_space, accepted_values)
    check(isinstance(actions, spaces.Discrete), "actions", actions, "Discrete")
    return situations.n, actions.n  # type: ignore[attr-defined]


def experience_network(
    observation_space: spaces.Space,
    actions: spaces.Space,
    settings: ExperienceSettings | None = None,
) -> Network:
    """Returns the network for whole trials of discrete tasks.

    Args:
      observation_space: of a `wrappers.Trial`, padded or not.
      actions: of the same, discrete.
      settings: sizes.

    Raises:
      ValueError: for spaces of another kind.
    """
    count, choices = trial_spaces(observation_space, actions)
    sizes = settings or ExperienceSettings()
    return as_network(ExperienceActorCritic(count, choices, sizes))
