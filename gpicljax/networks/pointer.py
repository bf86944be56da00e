"""A transformer over symbols that can also say what it points at.

Inputs and outputs are symbols. The policy is a mixture of logits of its own and of the symbols that
its heads point at among those observed before: what to say can be a place, so that rules about
places hold for symbols that were never met there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks import ring
from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.feedforward import dense
from gpicljax.networks.transformer import Transformer

NOTHING = np.array([-1.0, -1.0, 0.0])
"""Symbol, action and reward of a step that is none."""


class PointerCarry(NamedTuple):
    """The carry: what a trial has had so far.

    Attributes:
      core: the transformer's cache.
      recent: float `[B, R, 3]`, symbol, action and reward of the last steps, the latest at the end;
        -1, -1 and 0 before the trial.
      keys: float `[B, N, d]`, keys of the last N steps.
      symbols: float `[B, N, 1]`, the symbols observed then.
      written: `int32[B]`, number of steps of the trial.
    """

    core: Any
    recent: jax.Array
    keys: jax.Array
    symbols: jax.Array
    written: jax.Array


class Pointer(nn.Module):
    """An actor-critic that can output the symbols that it points at.

    Each head scores the steps before in its window by the products of a query, of the present
    state of the transformer, and of keys, of its states then, and by how long ago they are. A head
    outputs the symbols observed there, in proportion to the softmax of the scores. Gates weigh the
    heads and a linear layer.

    Attributes:
      symbols: number of symbols, numbered from 0, and of actions, as heads copy symbols.
      core: the transformer. It has as many heads as there are pointers; its width d is that of all
        their keys together, its window the N steps that are pointed to.
      context: n, steps of which each state is told directly, the present one included.
      repeats: R, steps before, at least n - 1, of which each state is told whether the symbol was
        the same as now.
      vectors: width of the learnt vectors of symbols and of actions.

    Source: pointer-generator networks of See et al. (2017), over a transformer.
    """

    symbols: int
    core: Transformer
    context: int = 6
    repeats: int = 16
    vectors: int = 16

    def setup(self) -> None:
        """The layers around the transformer."""
        normal, float_ = nn.initializers.normal(1.0), jnp.result_type(float)
        for name in ("vector_of", "vector_of_action"):
            setattr(self, name, self.param(name, normal, (self.symbols, self.vectors), float_))
        heads = self.core.heads
        # From some twenty steps to the whole window and more.
        decays = lambda _: jnp.linspace(-3.0, -7.0, heads, dtype=float_)  # noqa: E731
        self.decay = self.param("decay", decays)
        self.embed, self.keys, self.queries = (dense(self.core.width) for _ in range(3))
        self.gates = dense(heads + 1)
        self.policy, self.value = dense(self.symbols), dense(1)

    @property
    def _window(self) -> int:
        assert self.core.window is not None
        return self.core.window

    def initial_carry(self, batch: int) -> PointerCarry:
        """Returns the empty carry."""
        zeros = jnp.zeros((batch, self._window, self.core.width + 1), jnp.result_type(float))
        recent = jnp.broadcast_to(jnp.asarray(NOTHING, zeros.dtype), (batch, self.repeats, 3))
        core, written = self.core.initial_carry(batch), jnp.zeros(batch, jnp.int32)
        return PointerCarry(core, recent, zeros[..., 1:], zeros[..., :1], written)

    def step(
        self, carry: PointerCarry, inputs: AgentInput, start: jax.Array
    ) -> tuple[PolicyOutput, PointerCarry]:
        """Inputs `[B]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        written = carry.written * ~start
        recent = jnp.where(start[:, None, None], NOTHING, carry.recent)
        recent = jnp.concatenate([recent, _as_rows(inputs)[:, None]], 1)
        state, core = self.core.step(carry.core, self._features(recent), start)
        number, filled = ring.numbers(written, self._window)
        view = ring.View(filled[:, None], (written[:, None] - number)[:, None])
        output = self._output(state[:, None], carry.keys, carry.symbols, view)
        at = jnp.arange(len(written)), written % self._window
        keys = carry.keys.at[at].set(self.keys(state))
        symbols = carry.symbols.at[at].set(inputs.observation[..., None].astype(keys.dtype))
        after = PointerCarry(core, recent[:, 1:], keys, symbols, written + 1)
        return jax.tree.map(lambda x: x[:, 0], output), after

    def unroll(
        self, carry: PointerCarry, inputs: AgentInput, starts: jax.Array
    ) -> tuple[PolicyOutput, PointerCarry]:
        """Inputs `[T, B]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        trial = jnp.cumsum(starts.T, 1, dtype=jnp.int32)
        rows = _as_rows(inputs).swapaxes(0, 1)
        recent = ring.latest(carry.recent, rows, trial, self.repeats + 1, NOTHING)[:, :, ::-1]
        features = self._features(recent).swapaxes(0, 1)
        state, core = self.core.unroll(carry.core, features, starts)
        state = state.swapaxes(0, 1)
        write = jnp.ones(starts.shape, bool)
        view = ring.view(carry.written, write, starts, self._window)
        # A key, and the symbol there.
        before = jnp.concatenate([carry.keys, carry.symbols], -1)
        entries = jnp.concatenate([self.keys(state), rows[..., :1].astype(state.dtype)], -1)
        seen = jnp.concatenate([before, entries], 1)
        output = self._output(state, seen[..., :-1], seen[..., -1:], view)
        kept, written = ring.store(before, carry.written, entries, write, starts)
        after = PointerCarry(core, recent[:, -1, 1:], kept[..., :-1], kept[..., -1:], written)
        return jax.tree.map(lambda x: x.swapaxes(0, 1), output), after

    def _features(self, recent: jax.Array) -> jax.Array:
        """Returns the transformer's inputs, float `[..., d]`, of steps `[..., R + 1, 3]`."""
        same = recent[..., :-1, 0] == recent[..., -1:, 0]
        parts = [same.astype(recent.dtype), recent[..., -self.context :, 2]]
        for entry, vector_of in enumerate((self.vector_of, self.vector_of_action)):
            number = recent[..., -self.context :, entry].astype(jnp.int32)
            vectors = jnp.where(number[..., None] >= 0, vector_of[number], 0)
            parts.append(vectors.reshape(*vectors.shape[:-2], -1))
        return self.embed(jnp.concatenate(parts, -1))

    def _output(
        self, state: jax.Array, keys: jax.Array, symbols: jax.Array, view: ring.View
    ) -> PolicyOutput:
        """Returns outputs `[B, T, ...]` of states `[B, T, d]` and M steps to point at."""
        query, key = (
            x.reshape(*x.shape[:2], self.core.heads, -1) for x in (self.queries(state), keys)
        )
        scores = jnp.einsum("bthw,bmhw->bhtm", query, key) * query.shape[-1] ** -0.5
        scores -= nn.softplus(self.decay)[:, None, None] * view.age[:, None].astype(scores.dtype)
        gates = nn.softmax(self.gates(state))
        weights = ring.attend(scores, view.visible[:, None])
        places = jnp.einsum("bth,bhtm->btm", gates[..., 1:], weights)
        rows = np.ogrid[: places.shape[0], : places.shape[1], :1]
        at = *rows[:2], symbols[:, None, :, 0].astype(int)
        copied = jnp.zeros((*places.shape[:2], self.symbols), places.dtype).at[at].add(places)
        # What no head points at is left to the policy's own choice.
        rest = 1 - copied.sum(-1, keepdims=True)
        chances = jnp.maximum(rest, 0) * nn.softmax(self.policy(state)) + copied
        return PolicyOutput(jnp.log(chances + 1e-6), self.value(state)[..., 0])


def _as_rows(inputs: AgentInput) -> jax.Array:
    """Returns symbol, last action and last reward, float `[..., 3]`."""
    return jnp.stack([x.astype(jnp.result_type(float)) for x in inputs], -1)
