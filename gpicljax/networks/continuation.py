"""A memory of what followed, and what paid, whenever things looked as they do now.

For symbols in, symbols out. What is stored is raw: the last n events, and the m events that came
after them; every step is one, or every step at which something was seen. It is found by the former
and read by the latter, so that a sequence that was seen once can be continued, and a choice that
paid can be repeated; a network only learns how alike is alike enough, and where in what followed to
look.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks import ring
from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.feedforward import MLP, dense


class Entries(NamedTuple):
    """Contexts and what became of them.

    Attributes:
      context: float `[B, N, n F]`.
      after: float `[B, N, m F]`, the m events that followed, the latest first.
      action: float `[B, N, 1]`, the number of the action before the first of them.
      key: float `[B, N, H (w + 1)]`, what each head finds them by, and how it favours them: as they
        were when they were stored. Cached for acting; recomputed during learning.
    """

    context: jax.Array
    after: jax.Array
    action: jax.Array
    key: jax.Array


class Continuations(NamedTuple):
    """The memory of a trial.

    Attributes:
      recent: float `[B, n, F]`, the last steps as features, the latest at the end; zeros before the
        trial.
      last: float `[B, n + m, F]`, the last events, likewise.
      actions: `int32[B, n + m]`, the action before each of them.
      time: `int32[B]`, how many events the trial has had, at most 2**31 - 1.
      stored: what lies in the slots; whatever it is where nothing was stored.
      written: `int32[B]`, how many have been stored, also of those that are overwritten by now.
    """

    recent: jax.Array
    last: jax.Array
    actions: jax.Array
    time: jax.Array
    stored: Entries
    written: jax.Array


class Continuation(nn.Module):
    """An actor-critic that looks up what followed when the last n events were like these.

    A step's features are the bits of the symbol seen and of the action before, and the reward
    before. Head h weighs a stored context k for the present one q by a Gaussian kernel of their
    distance after a learnt projection, times a learnt factor for what followed and a learnt decay
    with age, and relative to a learnt constant, which stands for nothing found. It reads the mean
    of what followed. Learnt gates choose places in it and in the last n steps, whose bits vote
    for the symbols that they spell; and with kernels that are not normalised it counts, for every
    action, how often it paid and how often it cost. A context is stored m events later, once what
    follows is known.

    With `silence`, a step at which that was seen is no event: a text is then found again whatever
    the pauses in it were, and whatever was said in them.

    With `vectors`, the layers that choose are told the last n steps by learnt vectors of symbols
    and actions instead of bits, and are normalised: for answers that have to be calculated from
    several symbols.

    Attributes:
      symbols: how many there are to be seen, numbered from 0.
      choices: how many actions there are.
      context: n.
      following: m.
      slots: contexts kept; the oldest are overwritten.
      heads: H.
      width: of the projections.
      hidden: sizes of the layers that choose where to look.
      silence: the symbol that stands for nothing; None if there is none.
      vectors: width of the learnt vectors; 0 for bits.

    Source: a cache of continuations as in Grave et al. (2017) and Khandelwal et al. (2020), found
    by kernels and with values of actions as in Pritzel et al. (2017); gates and projections are
    trained through whole lifetimes here.
    """

    symbols: int
    choices: int
    context: int = 4
    following: int = 8
    slots: int = 256
    heads: int = 4
    width: int = 16
    hidden: tuple[int, ...] = (128,)
    silence: int | None = None
    vectors: int = 0

    @property
    def _features(self) -> int:
        symbol, action = (binary(n).shape[1] for n in (self.symbols, self.choices))
        return symbol + action + 1

    @property
    def _places(self) -> int:
        """Places that can be read: in what each head found, and in the last steps."""
        return self.heads * self.following + self.context

    @property
    def _span(self) -> int:
        return self.context + self.following

    def setup(self) -> None:
        """Projections, kernels, the layers that choose, and the heads."""
        float_ = jnp.result_type(float)
        find = (self.context * self._features, self.heads, self.width)
        # From heads that look at the latest event to those that look at many.
        reach = jnp.geomspace(1, max(1, self.context / 2), self.heads, dtype=float_)
        ago = jnp.exp(-jnp.arange(self.context, dtype=float_)[:, None] / reach)
        ago = ago / jnp.sqrt(jnp.square(ago).mean(0))
        near = jnp.repeat(ago, self._features, axis=0)[..., None]
        normal = nn.initializers.normal(find[0] ** -0.5)
        self.project = self.param("project", lambda *draw: near * normal(*draw), find, float_)
        zeros, size = nn.initializers.zeros, self.following * self._features
        # To the first head all contexts are alike, to the others few are.
        scales = jnp.full(self.heads, 3.0, float_).at[0].set(-6.0)
        self.sharpness = self.param("sharpness", lambda _: scales)
        self.favour = self.param("favour", zeros, (size, self.heads), float_)
        self.decay = self.param("decay", nn.initializers.constant(-5.0), (self.heads,), float_)
        self.nothing = self.param("nothing", nn.initializers.constant(-2.0), (self.heads,), float_)
        if self.vectors:
            shape = 2, max(self.symbols, self.choices), self.vectors
            self.vector_of = self.param("vector_of", nn.initializers.normal(1.0), shape, float_)
        self.torso = MLP(self.hidden, normalise=self.vectors > 0)
        self.gates = dense(2 * self._places + 2 * self.heads)
        self.policy = dense(self.choices)
        self.value = dense(1)

    def initial_carry(self, batch: int) -> Continuations:
        """Returns the empty carry."""
        float_, size = jnp.result_type(float), self._features
        sizes = self.context * size, self.following * size, 1, self.heads * (self.width + 1)
        return Continuations(
            recent=jnp.zeros((batch, self.context, size), float_),
            last=jnp.zeros((batch, self._span, size), float_),
            actions=jnp.full((batch, self._span), -1, jnp.int32),
            time=jnp.zeros(batch, jnp.int32),
            stored=Entries(*(jnp.zeros((batch, self.slots, n), float_) for n in sizes)),
            written=jnp.zeros(batch, jnp.int32),
        )

    def unroll(
        self, carry: Continuations, inputs: AgentInput, starts: jax.Array
    ) -> tuple[PolicyOutput, Continuations]:
        """Inputs `[T, B]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        span, batch = self._span, starts.shape[1]
        trial = jnp.cumsum(starts.T.astype(jnp.int32), axis=1)
        steps = self._encode_step(inputs).swapaxes(0, 1)
        latest = inputs.last_action.T.astype(jnp.int32)
        is_event = self._eventful(inputs).T

        # Events come close together, behind those of before; each step then sees the last ones,
        # `[B, T, n + m, F]`, the latest first, but nothing of the trial before.
        count = jnp.cumsum(is_event.astype(jnp.int32), axis=1)
        row = jnp.arange(batch)[:, None]
        at = row, jnp.where(is_event, span + count - 1, span + len(starts))
        ago = span + count[..., None] - 1 - jnp.arange(span)

        def last(before: jax.Array, x: jax.Array) -> jax.Array:
            room = jnp.concatenate([before, jnp.zeros_like(x)], axis=1)
            return room.at[at].set(x, mode="drop")[row[..., None], ago]

        in_trial = last(jnp.zeros((batch, span), trial.dtype), trial) == trial[..., None]
        events = last(carry.last, steps) * in_trial[..., None]
        actions = last(carry.actions, latest)
        entry = self._entry(events, actions[..., self.following - 1])
        recent = ring.latest(carry.recent, steps, trial, self.context)

        # Nothing that is stored is as these parameters have it, or carries their gradients.
        stored_keys = self._key(carry.stored.context, carry.stored.after)
        old_entries = carry.stored._replace(key=stored_keys)
        before = count - is_event
        first = jax.lax.cummax(jnp.where(starts.T, before, 0), axis=1)
        time = jnp.where(trial > 0, before - first, carry.time[:, None] + before)
        write = (is_event & (time >= self.following)).T
        view = ring.view(carry.written, write, starts, self.slots)
        entries = [jnp.concatenate(x, axis=1) for x in zip(old_entries, entry, strict=True)]
        output = self._output(recent, events, Entries(*entries), view)
        stored = [
            ring.store(old, carry.written, new, write, starts)
            for old, new in zip(old_entries, entry, strict=True)
        ]
        return jax.tree.map(lambda x: x.swapaxes(0, 1), output), Continuations(
            recent=recent[:, -1, ::-1],
            last=events[:, -1, ::-1],
            actions=actions[:, -1, ::-1],
            time=time[:, -1] + is_event[:, -1],
            stored=Entries(*(x for x, _ in stored)),
            written=stored[0][1],
        )

    def step(
        self, carry: Continuations, inputs: AgentInput, start: jax.Array
    ) -> tuple[PolicyOutput, Continuations]:
        """Inputs `[B]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        keep, is_event = ~start, self._eventful(inputs)
        written, time = carry.written * keep, carry.time * keep
        encoded = self._encode_step(inputs)[:, None]
        latest = inputs.last_action.astype(jnp.int32)[:, None]
        recent = carry.recent * keep[:, None, None]
        recent = jnp.concatenate([recent[:, 1:], encoded], axis=1)
        last = carry.last * keep[:, None, None]
        shifted = jnp.concatenate([last[:, 1:], encoded], axis=1)
        last = jnp.where(is_event[:, None, None], shifted, last)
        actions = jnp.concatenate([carry.actions[:, 1:], latest], axis=1)
        actions = jnp.where(is_event[:, None], actions, carry.actions)
        events = last[:, None, ::-1]
        entry = self._entry(events, actions[:, None, -self.following])
        number, filled = ring.numbers(written, self.slots)
        view = ring.View(filled[:, None], (written[:, None] - number)[:, None])
        output = self._output(recent[:, None, ::-1], events, carry.stored, view)

        # One row of every array is written, in its place.
        write = is_event & (time >= self.following)
        at = jnp.arange(len(written)), jnp.where(write, written % self.slots, self.slots)
        stored = [
            old.at[at].set(new[:, 0], mode="drop")
            for old, new in zip(carry.stored, entry, strict=True)
        ]
        return jax.tree.map(lambda x: x[:, 0], output), Continuations(
            recent, last, actions, time + is_event, Entries(*stored), written + write
        )

    def _eventful(self, inputs: AgentInput) -> jax.Array:
        """Returns whether anything was seen at steps, `bool[...]`."""
        if self.silence is None:
            return jnp.ones(inputs.observation.shape, bool)
        return inputs.observation != self.silence

    def _entry(self, events: jax.Array, action: jax.Array) -> Entries:
        """Returns the entries to store, of the last events `[B, T, n + m, F]`."""
        flat = events.reshape(*events.shape[:2], -1)
        cut = self.following * self._features
        actions = action[..., None].astype(flat.dtype)
        context, after = flat[..., cut:], flat[..., :cut]
        return Entries(context, after, actions, self._key(context, after))

    def _output(
        self, recent: jax.Array, events: jax.Array, entries: Entries, view: ring.View
    ) -> PolicyOutput:
        """Returns outputs `[B, T, ...]` of steps `[B, T, n, F]` and events `[B, T, n + m, F]`."""
        flat = (x[:, :, : self.context].reshape(*x.shape[:2], -1) for x in (recent, events))
        current, text = flat
        return self._heads(current, text, *self._read(text, entries, view))

    def _key(self, context: jax.Array, after: jax.Array) -> jax.Array:
        """Returns the keys of entries `[B, N, ...]`, `[B, N, H (w + 1)]`."""
        projected = jnp.einsum("bnf,fhw->bnhw", context, self.project)
        favoured = (after @ self.favour)[..., None]
        key = jnp.concatenate([projected, favoured], axis=-1)
        return key.reshape(*key.shape[:2], -1)

    def _encode_step(self, inputs: AgentInput) -> jax.Array:
        """Returns the features of steps, `[..., F]`."""
        symbol = jnp.asarray(binary(self.symbols))[inputs.observation]
        action = jnp.asarray(binary(self.choices))[jnp.maximum(inputs.last_action, 0)]
        action = jnp.where((inputs.last_action >= 0)[..., None], action, 0)
        reward = inputs.last_reward[..., None]
        parts = [x.astype(jnp.result_type(float)) for x in (symbol, action, reward)]
        return jnp.concatenate(parts, axis=-1)

    def _vectors(self, flat: jax.Array) -> jax.Array:
        """Returns learnt vectors of the symbols and actions of steps `[B, T, n F]`; 0 for none."""
        steps = flat.reshape(*flat.shape[:2], self.context, self._features)
        symbol_and_action = jnp.split(steps[..., :-1], [binary(self.symbols).shape[1]], axis=-1)
        vectors = []
        for bits, vector_of in zip(symbol_and_action, self.vector_of, strict=True):
            number = ((bits > 0) * 2 ** jnp.arange(bits.shape[-1])).sum(-1)
            vectors.append(jnp.where(bits[..., :1] != 0, vector_of[number], 0))
        return jnp.concatenate(vectors, -1).reshape(*flat.shape[:2], -1)

    def _read(
        self, context: jax.Array, entries: Entries, view: ring.View
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns next events `[B, T, H, m F]`, weights `[B, T, H]`, and pay `[B, T, H, A, 2]`."""
        after, key = entries.after, entries.key
        key = key.reshape(*key.shape[:2], self.heads, -1).swapaxes(1, 2)
        projected, favoured = key[..., :-1], key[..., -1]
        action = entries.action[..., 0].astype(jnp.int32)
        paid = after[..., -1]  # the reward of the event just behind the context
        query = jnp.einsum("btf,fhw->bhtw", context, self.project)
        distance = (
            jnp.square(query).sum(-1)[..., None]
            + jnp.square(projected).sum(-1)[:, :, None]
            - 2 * jnp.einsum("bhtw,bhnw->bhtn", query, projected)
        )
        per_head = (slice(None), None, None)
        scores = -nn.softplus(self.sharpness)[per_head] * distance
        scores -= nn.softplus(self.decay)[per_head] * view.age[:, None].astype(scores.dtype)
        similarity = jnp.where(view.visible[:, None], jnp.exp(scores), 0)
        scores = jnp.where(view.visible[:, None], scores + favoured[:, :, None], -jnp.inf)
        nothing = self.nothing[per_head]
        top = jax.lax.stop_gradient(jnp.maximum(scores.max(-1, keepdims=True), nothing))
        weights = jnp.exp(scores - top)
        total = weights.sum(-1) + jnp.exp(nothing - top)[..., 0]
        # One product per instance: written as one of four axes, XLA turns `after` over first.
        flat = (weights / total[..., None]).reshape(len(after), -1, after.shape[1])
        followed = (flat @ after).reshape(*total.shape, -1).swapaxes(1, 2)
        share = (weights.sum(-1) / total).swapaxes(1, 2)
        # Rows of kernels are added up by action: those that paid, then those that cost.
        row = jnp.where(paid > 0, action, jnp.where(paid < 0, action + self.choices, -1))
        pay = jax.vmap(lambda rows, kernels: jax.ops.segment_sum(kernels, rows, 2 * self.choices))(
            row, jnp.einsum("bhtn->bnth", similarity)
        )
        pay = pay.reshape(len(pay), 2, self.choices, *pay.shape[2:])
        return followed, share, jnp.einsum("bsath->bthas", pay)

    def _heads(
        self,
        current: jax.Array,
        text: jax.Array,
        followed: jax.Array,
        share: jax.Array,
        pay: jax.Array,
    ) -> PolicyOutput:
        flat = followed.reshape(*followed.shape[:2], -1)
        sums = jnp.tanh(pay.sum(-2)).reshape(*pay.shape[:2], -1)
        if self.vectors:
            inputs = [self._vectors(current)]
        else:
            inputs = [current] if self.silence is None else [current, text]
        hidden = self.torso(jnp.concatenate([*inputs, flat, share, sums], axis=-1))
        gates = self.gates(hidden)
        places = self._places
        symbol, action = binary(self.symbols), binary(self.choices)
        bits = jnp.concatenate([flat, current], axis=-1)
        bits = bits.reshape(*bits.shape[:2], places, self._features)
        spelt = bits[..., : symbol.shape[1]], bits[..., symbol.shape[1] : -1]
        codes = jnp.asarray(action, bits.dtype)
        votes = [
            jnp.einsum("btp,btpk->btk", gates[..., i * places : (i + 1) * places], spelling)
            for i, spelling in enumerate(spelt)
        ]
        logits = self.policy(hidden)
        if symbol.shape == action.shape:  # a symbol can be said as it was seen
            votes[1] = votes[1] + votes[0]
        # Two symbols that differ in one bit then differ by the vote for it.
        logits += votes[1] @ codes.T / 2
        worth = gates[..., 2 * places :].reshape(*pay.shape[:2], self.heads, 2)
        logits += jnp.einsum("bths,bthas->bta", worth, jnp.tanh(pay))
        return PolicyOutput(logits, self.value(hidden)[..., 0])


def binary(count: int) -> np.ndarray:
    """Returns the binary digits of so many numbers, as -1 and 1: `[count, digits]`."""
    digits = max(1, (count - 1).bit_length())
    return 2 * ((np.arange(count)[:, None] >> np.arange(digits)) & 1) - 1
