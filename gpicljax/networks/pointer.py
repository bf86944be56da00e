"""A memory of symbols, and heads that point into it and output the symbols that they point at.

Inputs and outputs are symbols, and the memory is a text: the last symbols observed. Heads score its
places by the symbols there, by their distance from the end, and by the length of the match of the
text before them with the end of the text, or with the last actions. A head can output symbols that
it never met in training, and move on by itself in the course of an answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.continuation import binary
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.feedforward import MLP, dense

BEFORE, BEHIND = 8, 4
"""Symbols up to a place, and behind it, that make up its key."""
LONGEST, ACTIONS, LAGS = 16, 8, 8
"""Longest matches with the text and with the last actions, and the longest jump from a match."""
PERIODS = (2.5, 128.0)
"""The shortest and the longest wave that encode distances from the end of the text."""
TICKS = 32
"""Cap on the steps since the last symbol."""
RATES = (2, 2, 1, 0, 0, 0)
"""By how many half places heads move on per step of an answer, in turn."""


class Text(NamedTuple):
    """The carry: the symbols and actions of a trial that are remembered.

    Attributes:
      tape: `int32[B, N]`, the last symbols observed, the latest at the end; -1 before them.
      actions: `int32[B, ACTIONS]`, the last actions but the one before the present step.
      recent: float `[B, n, F]`, the last steps as features, the latest at the end.
      elapsed: `int32[B]`, steps since the last of these symbols.
      spoke: `bool[B]`, whether an action followed them.
    """

    tape: jax.Array
    actions: jax.Array
    recent: jax.Array
    elapsed: jax.Array
    spoke: jax.Array


class Reading(NamedTuple):
    """The text at T steps, after the text of earlier calls; M places in all.

    Attributes:
      tape: `int32[B, M]`, symbols.
      trials: `int32[B, M]`, the trial of each symbol; -1 of none.
      end: `int32[B, T]`, places up to each step.
      trial: `int32[B, T]`, the trial of each step.
      elapsed: `int32[B, T]`, steps since the last symbol.
      actions: `int32[B, T, ACTIONS]`, actions since then, the latest first; -2 before.
    """

    tape: jax.Array
    trials: jax.Array
    end: jax.Array
    trial: jax.Array
    elapsed: jax.Array
    actions: jax.Array


class Pointer(nn.Module):
    """An actor-critic that can output the symbols that it points at.

    With `silence`, that symbol is part of the text unless an action followed the text's last
    symbol: gaps between words belong to the text, pauses during an answer do not.

    A head scores every place by learnt keys of the symbols around it, by its distance from the
    end, by the symbols in a row before it that are also the last of the text (each counts with a
    learnt weight), and by how many of those before it are the last actions; likewise before
    places up to `LAGS` further back. Weights of all these are chosen at every step. Some heads
    point so many places further as steps have passed since the last symbol, some half as many, some
    stay. The policy is a mixture of the heads' symbols and of logits of its own; its weights depend
    on the symbols read, on the heads' agreement, and on the lengths of matches.

    Attributes:
      symbols: number of symbols, numbered from 0.
      choices: number of actions, equal to `symbols`, as heads copy symbols.
      context: n, steps and symbols that are read without pointing.
      slots: N, symbols that are kept.
      heads: number of pointers.
      width: of keys.
      hidden: sizes of the layers before the pointers' queries and before the mixture's weights.
      silence: the symbol that stands for nothing; None if there is none.

    Source: pointers as in See et al. (2017); matches as in suffix predictors, and as the heads of
    Olsson et al. (2022) find them; moving on as in Graves et al. (2014).
    """

    symbols: int
    choices: int
    context: int = 6
    slots: int = 256
    heads: int = 6
    width: int = 16
    hidden: tuple[int, ...] = (128,)
    silence: int | None = None

    def setup(self) -> None:
        """Keys, the layers that choose, and the heads."""
        float_, size = jnp.result_type(float), binary(self.symbols).shape[1] + 1
        normal = nn.initializers.normal
        for name, count in (("up_to", BEFORE), ("behind", BEHIND)):
            shape = (count, size, self.heads, self.width)
            kernel = self.param(name, normal((count * size) ** -0.5), shape, float_)
            setattr(self, name, kernel)
        # Each symbol of a match counts at first.
        softplus_of_one = nn.initializers.constant(0.5413)
        self.weight = self.param("weight", softplus_of_one, (self.symbols,), float_)
        # Heads that move on look for the present text, others for the last actions.
        moves = np.array([self._rate(head) > 0 for head in range(self.heads)])
        habits = np.zeros((self.heads, 2 + 2 * LAGS))
        habits[:, 2], habits[:, 2 + LAGS], habits[:, 0] = 2.0 * moves, 1.0 * ~moves, -2.0
        self.habits = self.param("habits", lambda _: jnp.asarray(habits, float_))
        self.torso = MLP(self.hidden)
        self.queries = dense(self.heads * (2 * self.width + 2 + 2 * LAGS))
        self.judge = MLP(self.hidden[-1:])
        self.gates = dense(self.heads + 1)
        self.policy = dense(self.choices)
        self.value = dense(1)

    def _rate(self, head: int) -> int:
        return RATES[head % len(RATES)]

    def initial_carry(self, batch: int) -> Text:
        """Returns the empty carry."""
        size = sum(binary(n).shape[1] for n in (self.symbols, self.choices)) + 1
        return Text(
            tape=jnp.full((batch, self.slots), -1, jnp.int32),
            actions=jnp.full((batch, ACTIONS), -1, jnp.int32),
            recent=jnp.zeros((batch, self.context, size), jnp.result_type(float)),
            elapsed=jnp.zeros(batch, jnp.int32),
            spoke=jnp.zeros(batch, bool),
        )

    def step(self, carry: Text, inputs: AgentInput, start: jax.Array) -> tuple[PolicyOutput, Text]:
        """Inputs `[B]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        single_step = jax.tree.map(lambda x: x[None], (inputs, start))
        output, carry = self.unroll(carry, *single_step)
        return jax.tree.map(lambda x: x[0], output), carry

    def unroll(
        self, carry: Text, inputs: AgentInput, starts: jax.Array
    ) -> tuple[PolicyOutput, Text]:
        """Inputs `[T, B]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        symbols, actions, rewards, starts = (x.swapaxes(0, 1) for x in (*inputs, starts))
        symbols, actions = symbols.astype(jnp.int32), actions.astype(jnp.int32)
        reading, spoke, last_actions = self._read_text(carry, symbols, actions, starts)
        features = jnp.concatenate(
            [_encode(symbols, self.symbols)[..., :-1], _encode(actions, self.choices)[..., :-1]], -1
        )
        features = jnp.concatenate([features, rewards[..., None].astype(features.dtype)], -1)
        steps = jnp.concatenate([carry.recent, features], 1)
        padded_trials = jnp.pad(reading.trial, ((0, 0), (self.context, 0)))
        length, n = symbols.shape[1], self.context
        rows = np.arange(length)[:, None] + np.arange(n, 0, -1)
        in_trial = padded_trials[:, rows] == reading.trial[..., None]
        recent = steps[:, rows] * in_trial[..., None]
        output = self._output(reading, recent)
        row = jnp.arange(len(symbols))[:, None]
        places = reading.end[:, -1:] - self.slots + jnp.arange(self.slots)
        kept = reading.trials[row, places] == reading.trial[:, -1:]
        after = Text(
            tape=jnp.where(kept, reading.tape[row, places], -1),
            actions=last_actions,
            recent=recent[:, -1, ::-1],
            elapsed=reading.elapsed[:, -1],
            spoke=spoke,
        )
        return jax.tree.map(lambda x: x.swapaxes(0, 1), output), after

    def _read_text(
        self, carry: Text, symbols: jax.Array, last_actions: jax.Array, starts: jax.Array
    ) -> tuple[Reading, jax.Array, jax.Array]:
        """Returns the text, whether an answer is under way, and the last actions."""
        batch, length = symbols.shape
        time = jnp.arange(length)
        silence = -1 if self.silence is None else self.silence
        is_symbol = (symbols != silence) | starts
        is_action = (last_actions >= 0) & (last_actions != silence) & ~starts
        # The last step with an action, and the last with a symbol.
        first = jnp.where(carry.spoke, -1, -3)[:, None]
        action_step = jax.lax.cummax(jnp.maximum(jnp.where(is_action, time, -3), first), axis=1)
        symbol_step = jax.lax.cummax(jnp.where(is_symbol, time, -2), axis=1)
        is_answering = action_step > symbol_step
        event = is_symbol | ~is_answering
        before = -1 - carry.elapsed[:, None]
        latest = jax.lax.cummax(jnp.where(event, time, before), axis=1)
        elapsed = time - latest
        trial = jnp.cumsum(starts, 1, dtype=jnp.int32)

        count = jnp.cumsum(event, 1, dtype=jnp.int32)
        row = jnp.arange(batch)[:, None]
        room = self.slots + length
        at = row, jnp.where(event, self.slots + count - 1, room)
        empty = jnp.full((batch, length), -1, jnp.int32)
        tape = jnp.concatenate([carry.tape, empty], 1).at[at].set(symbols, mode="drop")
        tape_trials = jnp.concatenate([jnp.where(carry.tape < 0, -1, 0), empty], 1)
        tape_trials = tape_trials.at[at].set(trial, mode="drop")

        actions = jnp.concatenate([carry.actions, last_actions], 1)
        ago = ACTIONS + time[:, None] - np.arange(ACTIONS)
        recent_actions = jnp.where(np.arange(ACTIONS) < elapsed[..., None], actions[:, ago], -2)
        reading = Reading(tape, tape_trials, self.slots + count, trial, elapsed, recent_actions)
        return reading, is_answering[:, -1], actions[:, -ACTIONS:]

    def _output(self, text: Reading, recent: jax.Array) -> PolicyOutput:
        """Returns outputs `[B, T, ...]` after steps `[B, T, n, F]`, the latest first."""
        batch, length = text.end.shape
        row = jnp.arange(batch)[:, None, None]
        codes = _encode(text.tape, self.symbols)
        last = text.end[..., None] - 1 - jnp.arange(self.context)
        in_trial = text.trials[row, last] == text.trial[..., None]
        inputs = [recent, codes[row, last] * in_trial[..., None]]
        ticks = jax.nn.one_hot(jnp.minimum(text.elapsed, TICKS - 1), TICKS)
        inputs = [x.reshape(batch, length, -1) for x in inputs] + [ticks]
        hidden = self.torso(jnp.concatenate(inputs, -1))

        chance, match = self._point(text, codes, hidden)
        chance = self._advance(text, chance)
        read = jnp.einsum("bthm,bmf->bthf", chance, codes)
        following = _shift(codes.swapaxes(1, 2), -1).swapaxes(1, 2)
        has_successor = jnp.arange(text.tape.shape[1]) < text.end[..., None] - 1
        following = jnp.einsum("bthm,bmf->bthf", chance * has_successor[:, :, None], following)
        # Whether two heads read the same, as far as each is sure of what it reads.
        first, second = np.triu_indices(self.heads, 1)
        same = ((1 + read[..., first, :-1] * read[..., second, :-1]) / 2).prod(-1)
        reads = [x.reshape(batch, length, -1) for x in (read, following, match)]
        hidden = self.judge(jnp.concatenate([hidden, *reads, same], -1))
        gates = nn.softmax(self.gates(hidden))
        policy_chances = nn.softmax(self.policy(hidden))
        copied = self._symbol_chances(text, jnp.einsum("bth,bthm->btm", gates[..., 1:], chance))
        # What no head found is left to the policy's own choice.
        rest = 1 - copied.sum(-1, keepdims=True)
        logits = jnp.log(jnp.maximum(rest, 0) * policy_chances + copied + 1e-6)
        return PolicyOutput(logits, self.value(hidden)[..., 0])

    def _point(
        self, text: Reading, codes: jax.Array, hidden: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Chances of places `[B, T, H, M]`, sums below 1; and the heads' matches `[B, T, H, 2]`."""
        batch, length = text.end.shape
        count, width = text.tape.shape[1], self.width
        queries = self.queries(hidden).reshape(batch, length, self.heads, -1)
        content, place, more = jnp.split(queries, [width, 2 * width], -1)
        more = more + self.habits
        place_now = jnp.arange(count)
        age = text.end[..., None] - 1 - place_now
        in_trial = text.trials[:, None] == text.trial[..., None]
        # The oldest are too near to the symbols that are overwritten.
        readable = in_trial & (age >= 0) & (age < self.slots - LONGEST - LAGS)

        # By the symbols around it.
        up_to, behind = self._content_scores(text, codes, content)
        whole = (age >= BEHIND)[:, :, None]
        scores = up_to + jnp.where(whole, behind, 0)
        # By its distance from the end.
        scores += self._distance_scores(text, place)
        scores -= nn.softplus(more[..., :1]) * age[:, :, None] / LONGEST
        # By the text, and the last actions, before it or further back.
        symbols_before = self._text_with_trials(text)
        long, weighed = self._matches(text, symbols_before)
        echoed = self._action_matches(text, symbols_before)
        lags = [_shift(x, lag) for x in (weighed, echoed) for lag in range(LAGS)]
        long, weighed = (
            functools.reduce(jnp.maximum, [_shift(x, lag) for lag in range(LAGS)])
            for x in (long, weighed)
        )
        scores += jnp.einsum("bthl,btlm->bthm", more[..., 2:], jnp.stack(lags, 2))
        scores = jnp.where(readable[:, :, None], scores, -1e9)
        nothing = more[..., 1:2]
        top = jax.lax.stop_gradient(jnp.maximum(scores.max(-1, keepdims=True), nothing))
        raised = jnp.where(readable[:, :, None], jnp.exp(scores - top), 0)
        chance = raised / (raised.sum(-1, keepdims=True) + jnp.exp(nothing - top))
        match_lengths = jnp.stack([long, weighed], -1) / LONGEST
        return chance, jnp.einsum("bthm,btmc->bthc", chance, match_lengths)

    def _distance_scores(self, text: Reading, query: jax.Array) -> jax.Array:
        """Scores of places by their distance from the end: sums of waves, `[B, T, H, M]`."""
        count = self.width // 2
        waves = 2 * np.pi / np.geomspace(*PERIODS, count)
        turn = (text.end[..., None] - 1).astype(query.dtype) * waves
        turn = jnp.stack([jnp.cos(turn), jnp.sin(turn)])[:, :, :, None]
        even, odd = query[..., :count], query[..., count : 2 * count]
        # As seen from the first place, of which all others have the same waves.
        turned = [even * turn[0] + odd * turn[1], even * turn[1] - odd * turn[0]]
        angles = np.arange(text.tape.shape[1])[:, None] * waves
        table = np.concatenate([np.cos(angles), np.sin(angles)], 1)
        fixed = jnp.asarray(table, query.dtype) / count**0.5
        return jnp.einsum("bthw,mw->bthm", jnp.concatenate(turned, -1), fixed)

    def _content_scores(
        self, text: Reading, codes: jax.Array, content: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Scores of places by their surroundings, twice `[B, T, H, M]`."""
        scores = []
        for kernel, first in ((self.up_to, 0), (self.behind, -BEHIND)):
            backs = range(first, first + len(kernel))
            same_trial = [_shift(text.trials, back, -1) == text.trials for back in backs]
            if content.shape[1] < self.width:
                # A product for each place of the window, for few steps; else one for all of it.
                projected = jnp.einsum("bthw,nfhw->nbthf", content, kernel)
                parts = jnp.einsum("nbthf,bmf->nbthm", projected, codes)
                pairs = zip(backs, parts, same_trial, strict=True)
                scores.append(sum(_shift(x, back) * mask[:, None, None] for back, x, mask in pairs))
                continue
            rows = codes.swapaxes(1, 2)
            pairs = zip(backs, same_trial, strict=True)
            window = [_shift(rows, back) * mask[:, None] for back, mask in pairs]
            flat = kernel.reshape(-1, *kernel.shape[2:])
            keys = jnp.einsum("bfm,fhw->bmhw", jnp.concatenate(window, 1), flat)
            scores.append(jnp.einsum("bthw,bmhw->bthm", content, keys))
        up_to, behind = scores
        return up_to, behind

    def _matches(
        self, text: Reading, symbols_before: Callable[[int], jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        """Symbols before places that are the last of the text, `[B, T, M]`; and their weight."""
        row = jnp.arange(len(text.tape))[:, None]
        weight = nn.softplus(self.weight)
        long = weighed = jnp.zeros((*text.end.shape, text.tape.shape[1]), weight.dtype)
        matching = jnp.ones((), bool)
        for back in range(LONGEST):
            last = text.tape[row, jnp.maximum(text.end - 1 - back, 0)]
            symbol = last + self.symbols * text.trial
            matching &= symbols_before(back + 1)[:, None] == symbol[..., None]
            long += matching
            weighed += jnp.where(matching, weight[jnp.maximum(last, 0)][..., None], 0)
        return long, weighed

    def _action_matches(
        self, text: Reading, symbols_before: Callable[[int], jax.Array]
    ) -> jax.Array:
        """Returns lengths of matches of texts before places with the last actions, `[B, T, M]`."""
        long = jnp.zeros((*text.end.shape, text.tape.shape[1]), self.weight.dtype)
        matching = jnp.ones((), bool)
        for back in range(ACTIONS):
            action = text.actions[..., back]
            symbol = jnp.where(action < 0, -2, action + self.symbols * text.trial)
            matching &= symbols_before(back + 1)[:, None] == symbol[..., None]
            long += matching
        return long

    def _text_with_trials(self, text: Reading) -> Callable[[int], jax.Array]:
        """Returns a function of a distance: symbols that far before places, by trial, `[B, M]`."""
        count = text.tape.shape[1]
        whole = jnp.where(text.trials < 0, -1, text.tape + self.symbols * text.trials)
        whole = jnp.pad(whole, ((0, 0), (LONGEST, 0)), constant_values=-1)
        # Laid down once, so that what is compared are parts of it.
        whole = jax.lax.optimization_barrier(whole)
        return lambda back: whole[:, LONGEST - back : LONGEST - back + count]

    def _advance(self, text: Reading, chance: jax.Array) -> jax.Array:
        """Chances of places after moving on, `[B, T, H, M]`; none beyond the end."""
        count = text.tape.shape[1]
        moved = []
        for head in range(self.heads):
            head_chance, rate = chance[:, :, head], self._rate(head)
            if rate:
                at = jnp.arange(count) - (text.elapsed * rate // 2)[..., None]
                chances = jnp.take_along_axis(head_chance, jnp.maximum(at, 0), 2)
                head_chance = jnp.where(at >= 0, chances, 0)
            moved.append(head_chance)
        in_text = jnp.arange(count) < text.end[..., None]
        return jnp.stack(moved, 2) * in_text[:, :, None]

    def _symbol_chances(self, text: Reading, chance: jax.Array) -> jax.Array:
        """Chances of symbols `[B, T, S]`, from those of places `[B, T, M]`."""
        if chance.shape[1] > 1:
            symbols = jax.nn.one_hot(text.tape, self.symbols, dtype=chance.dtype)
            return jnp.einsum("btm,bms->bts", chance, symbols)
        at = jnp.where(text.tape < 0, self.symbols, text.tape)
        sums = jax.vmap(
            lambda x, where: jnp.zeros(self.symbols, x.dtype).at[where].add(x, mode="drop")
        )
        return sums(chance[:, 0], at)[:, None]


def _shift(x: jax.Array, count: int, empty: int = 0) -> jax.Array:
    """Returns `x[..., M]` moved by `count` places, to later ones if positive; `empty` fills the
    rest.
    """
    size = x.shape[-1]
    room = [(0, 0)] * (x.ndim - 1) + [(max(count, 0), max(-count, 0))]
    padded = jnp.pad(x, room, constant_values=empty)
    return padded[..., :size] if count >= 0 else padded[..., -size:]


def _encode(symbol: jax.Array, count: int) -> jax.Array:
    """Returns the bits of symbols as -1 and 1, and a 1; zeros for none, `[..., digits + 1]`."""
    table = np.pad(binary(count), ((0, 0), (0, 1)), constant_values=1)
    coded = jnp.asarray(table, jnp.result_type(float))[jnp.maximum(symbol, 0)]
    return jnp.where((symbol >= 0)[..., None], coded, 0)
