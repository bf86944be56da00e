"""A memory that stores what happened as it was seen, and attends to it.

Representations of a memory grow stale in a replay buffer, for the network that made them has since
been trained. Raw events do not: keys are computed when they are read, by today's weights, and
gradients reach the keys of events that lie before the replayed sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import check_choice
from gpicljax.networks import ring
from gpicljax.networks.contract import AgentInput, Core

Metric = Literal["dot", "distance"]
TINY = 1e-5
"""Squared distance below which events are equal to a metric."""
_EXPONENTS = 4.0, 0.25
_SPREAD = 2.0


class Event(NamedTuple):
    """The key, value and write flag of a step.

    Attributes:
      key: float `[..., K]`, what the memory is asked for, and by what the event is found later.
      value: float `[..., V]`, what else is stored.
      write: `bool[...]`, whether the step is stored.
    """

    key: jax.Array
    value: jax.Array
    write: jax.Array


class Stored(NamedTuple):
    """The events of a trial so far; event n lies in slot n modulo the number of slots.

    Attributes:
      events: float `[B, slots, K + V]`.
      written: `int32[B]`, how many have been stored, also of those that are overwritten by now.
    """

    events: jax.Array
    written: jax.Array


class EventStore(Core):
    """Multi-head attention over the events stored before in the trial, and over a null slot.

    Head h scores an event with key k' for a step with key k by `(k Q_h) . (k' K_h)` over the root
    of the width, times a learnt scale; the null slot has a learnt score. The output is, of every
    head, the mean event (keys included) under the softmax of the scores; then the null slot's
    weights: R = H (K + V) + H numbers. A step is stored after it is read: what is seen now cannot
    be its own memory.

    With the metric "distance", the score is `-s log(sum_k (w_k (k - k'))^2 + 1e-5)`, with learnt
    s and w of each head: the softmax weights events by an inverse power of their distance. What
    counts is how many times nearer one event is than another, at any scale of the keys. Weights
    begin far apart, those of one part of the key together, so that each head compares few parts;
    and so do exponents, from 4, which finds the nearest event, to 1/4, which finds most of them.
    The output then says what the events that are found have in common, with each other and with the
    present one: of every head and each part of keys and values, `log(m + 1e-5) / 4`, where m is the
    mean squared distance from the present event, and `log(v + 1e-5) / 4`, where v is the variance;
    the mean difference of each key that is a number; the mean value; and the null slot's weight.
    The logarithm tells small distances apart as well as great ones. The null slot holds zeros.

    Attributes:
      key_size: K.
      value_size: V.
      slots: events kept; the oldest are overwritten. A trial may have 2**31 - 1 of them.
      heads: H.
      width: of queries and keys; not of a distance.
      tied: whether queries and keys have the same projection.
      metric: `"dot"`, a product of projections, or `"distance"`, a weighted Euclidean distance.
      key_parts: sizes of the parts of a key, K in all; by default each of its numbers is one.
      value_parts: likewise of a value, V in all.

    Source: attention as in Vaswani et al. (2017), section 3.2; weights by inverse distance as in
    Shepard (1968); a memory of raw events is this project's.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(EventStore(key_size=3, value_size=2, slots=8))
      >>> event = Event(jnp.zeros((4, 3)), jnp.zeros((4, 2)), jnp.ones(4, bool))
      >>> params = network.init(jax.random.key(0), event)
      >>> reads, memory = network.step(params, network.initial_carry(4), event, jnp.zeros(4, bool))
      >>> reads.shape, memory.written.tolist()
      ((4, 48), [1, 1, 1, 1])
    """

    key_size: int
    value_size: int
    slots: int = 64
    heads: int = 8
    width: int = 16
    tied: bool = False
    metric: Metric = "dot"
    key_parts: Sequence[int] = ()
    value_parts: Sequence[int] = ()
    attends = True

    def setup(self) -> None:
        """Projections or weights, scales and null scores."""
        shape, dtype = (self.key_size, self.heads, self.width), jnp.result_type(float)
        normal, ones = nn.initializers.normal(1.0), nn.initializers.ones
        if self.metric == "distance":
            parts = np.asarray(self._part_sizes()[0])

            def spread(key: jax.Array) -> jax.Array:
                logs = _SPREAD * jax.random.normal(key, (len(parts), self.heads), dtype)
                return jnp.repeat(logs, parts, 0, total_repeat_length=self.key_size)

            self.log_weight = self.param("log_weight", spread)
            exponents = jnp.geomspace(*_EXPONENTS, self.heads, dtype=dtype)
            self.scale = self.param("scale", lambda key: exponents)
        else:
            self.query = self.param("query", normal, shape, dtype)
            self.key = self.query if self.tied else self.param("key", normal, shape, dtype)
            self.scale = self.param("scale", ones, (self.heads,), dtype)
        self.null = self.param("null", nn.initializers.zeros, (self.heads,), dtype)

    def initial_carry(self, batch: int) -> Stored:
        """Returns the empty memory."""
        size = self.key_size + self.value_size
        events = jnp.zeros((batch, self.slots, size), jnp.result_type(float))
        return Stored(events, jnp.zeros(batch, jnp.int32))

    def unroll(self, carry: Stored, inputs: Event, starts: jax.Array) -> tuple[jax.Array, Stored]:
        """Events `[T, B, ...]`, starts `bool[T, B]` -> reads `float[T, B, R]`, and the carry."""
        fresh = jnp.concatenate([inputs.key, inputs.value], -1).swapaxes(0, 1)
        visible = ring.view(carry.written, inputs.write, starts, self.slots).visible
        events = jnp.concatenate([carry.events, fresh], axis=1)
        reads = self._read(fresh, events, visible).swapaxes(0, 1)
        return reads, Stored(*ring.store(*carry, fresh, inputs.write, starts))

    def mean_values(self, reads: jax.Array) -> jax.Array:
        """Returns what each head has read of values, float `[..., H, V]`, of reads `[..., R]`."""
        assert self.metric == "distance"
        values = reads[..., -self.heads * (self.value_size + 1) : -self.heads]
        return values.reshape(*reads.shape[:-1], self.heads, self.value_size)

    def _part_sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the sizes of the parts of keys and of values."""
        keys = tuple(self.key_parts) or (1,) * self.key_size
        return keys, tuple(self.value_parts) or (1,) * self.value_size

    def attention(self, inputs: Event, starts: jax.Array) -> jax.Array:
        """Weights of the events of earlier steps, `float[T, B, H, T]`, from an empty memory on.

        Args:
          inputs: events of T steps, leaves `[T, B, ...]`.
          starts: `bool[T, B]`.
        """
        keys = inputs.key.swapaxes(0, 1)
        empty = jnp.zeros(starts.shape[1], jnp.int32)
        visible = ring.view(empty, inputs.write, starts, self.slots).visible[..., self.slots :]
        weights, rest = self._score(keys, keys, visible)
        shares = weights / (weights.sum(-1) + rest)[..., None]
        return shares.transpose(2, 0, 1, 3)

    def _score(
        self, keys: jax.Array, stored: jax.Array, visible: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """`[B, T, K]`, `[B, N, K]`, `bool[B, T, N]` -> weights of the events `[B, H, T, N]` and of
        nothing `[B, H, T]`, up to a factor."""
        if self.metric == "distance":
            # Differences first: the difference of large squares would be inexact.
            squares = jnp.square(keys[:, :, None] - stored[:, None])
            distances = jnp.einsum("btnk,kh->bhtn", squares, jnp.exp(2 * self.log_weight))
            scores = -self.scale[:, None, None] * jnp.log(distances + TINY)
        else:
            # Both projections at once, on the side of the steps: events are never projected.
            product = jnp.einsum("khw,lhw->khl", self.query, self.key)
            product *= (self.scale / self.width**0.5)[:, None]
            queries = jnp.einsum("btk,khl->bhtl", keys, product)
            scores = jnp.einsum("bhtl,bnl->bhtn", queries, stored)
        scores = jnp.where(visible[:, None], scores, -jnp.inf)
        null = self.null[:, None]
        top = jax.lax.stop_gradient(jnp.maximum(scores.max(-1), null))
        return jnp.exp(scores - top[..., None]), jnp.exp(null - top)

    def _read(self, fresh: jax.Array, events: jax.Array, visible: jax.Array) -> jax.Array:
        """`[B, T, K + V]`, `[B, N, K + V]`, `bool[B, T, N]` -> `[B, T, R]`."""
        keys, stored = fresh[..., : self.key_size], events[..., : self.key_size]
        weights, rest = self._score(keys, stored, visible)
        total = weights.sum(-1) + rest
        means = jnp.einsum("bhtn,bne->bthe", weights, events) / total.swapaxes(1, 2)[..., None]
        nothing = (rest / total).swapaxes(1, 2)[..., None]
        if self.metric == "dot":
            reads = (means, nothing)
        else:
            found = weights / total[..., None]
            reads = *self._compare(fresh, events, found, means, nothing), nothing
        return jnp.concatenate([x.reshape(*nothing.shape[:2], -1) for x in reads], axis=-1)

    def _compare(
        self,
        fresh: jax.Array,
        events: jax.Array,
        weights: jax.Array,
        means: jax.Array,
        nothing: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Distances and variances by part, differences of numbers and mean values.

        Args:
          fresh: the present events, `[B, T, E]`.
          events: those to find, `[B, N, E]`.
          weights: `[B, H, T, N]`, which sum to 1 with those of the null slot.
          means: of the events, `[B, T, H, E]`.
          nothing: weights of the null slot, `[B, T, H, 1]`.

        Returns:
          Four arrays `[B, T, H, ...]`.
        """
        key_parts, value_parts = self._part_sizes()
        sizes, now = key_parts + value_parts, fresh[:, :, None]
        part_of = jnp.asarray(np.repeat(np.eye(len(sizes)), sizes, axis=0), events.dtype)
        # An event that is not visible may be anything: its square times 0 has to be 0.
        squares = jnp.square(now - jnp.clip(events, -1e18, 1e18)[:, None]) @ part_of
        squares = jnp.einsum("bhtn,btnp->bthp", weights, squares)
        squares += nothing * (jnp.square(now) @ part_of)
        differences = means - now
        variances = squares - jnp.square(differences) @ part_of
        is_number = np.repeat(np.equal(key_parts, 1), key_parts)
        logs = (jnp.log(jnp.maximum(x, 0) + TINY) / 4 for x in (squares, variances))
        return (
            *logs,
            differences[..., : self.key_size][..., is_number],
            means[..., self.key_size :],
        )


def event_of(
    observation_space: spaces.Space,
    actions: spaces.Space,
    keys: Sequence[str] = (),
    values: Sequence[str] = (),
    write: tuple[str, int] | None = None,
) -> tuple[Callable[[AgentInput], Event], tuple[int, ...], tuple[int, ...]]:
    """Returns a function from an agent's inputs to the event of a step, by entries' names.

    These are the entries of a dictionary observation (of another one, `"observation"`),
    `"last_action"` and `"last_reward"`.

    Args:
      observation_space: of the unbatched observation.
      actions: the space of actions.
      keys: what makes the key; everything, if neither keys nor values are named.
      values: what makes the value.
      write: a step is stored where this entry has this value; None for every step.

    Returns:
      `inputs -> Event`, over any leading axes, and the sizes of the parts of its key and value.

    Raises:
      ValueError: for an unknown name.
    """

    named_entries = isinstance(observation_space, spaces.Dict)
    if not isinstance(observation_space, spaces.Dict):
        observation_space = spaces.Dict.of(observation=observation_space)
    entry_spaces = dict(observation_space.items)
    entry_spaces |= {"last_action": actions, "last_reward": spaces.Box(-jnp.inf, jnp.inf)}
    named = {"keys": keys, "values": values, "write": () if write is None else write[:1]}
    for argument, names in named.items():
        for name in names:
            check_choice(argument, name, entry_spaces)
    if not keys and not values:
        keys = tuple(entry_spaces)
    parts = [spaces.Dict(tuple((n, entry_spaces[n]) for n in names)) for names in (keys, values)]

    def event(inputs: AgentInput) -> Event:
        entries = inputs.observation if named_entries else {"observation": inputs.observation}
        entries = {**entries, "last_action": inputs.last_action, "last_reward": inputs.last_reward}
        key, value = (_flat(part, entries, inputs.last_reward) for part in parts)
        always = jnp.ones(inputs.last_reward.shape, bool)
        return Event(key, value, always if write is None else entries[write[0]] == write[1])

    return event, spaces.flat_parts(parts[0]), spaces.flat_parts(parts[1])


def _flat(space: spaces.Dict, entries: dict[str, Any], like: jax.Array) -> jax.Array:
    if not space.items:
        return jnp.zeros((*like.shape, 0), jnp.result_type(float))
    return spaces.flatten(space, entries)
