"""Trials as streams of symbols: one alphabet for every environment that declares a code.

A stream is `TRIAL`, an observation, and then for each step `ACTION` and what was done, `REWARD` and
what it paid, and `OBSERVATION` and what was seen; `END` stands between the episodes of a trial.
Values share the symbols 0 .. 255: discrete ones stand for themselves, numbers for the nearest of
their levels. What an environment says most of the time need not be written: an action that does
nothing, a reward of nothing.

An environment declares its code in `Environment.symbols`. Where its observations and actions are
discrete and its rewards are levels, `read_stream` returns all that `write_stream` was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.checks import check
from gpicljax.environment import Environment
from gpicljax.interface import TimeStep
from gpicljax.typing import ArrayTree

VALUES = 256
"""Symbols that stand for values; markers have the numbers from here on."""
TRIAL, END, OBSERVATION, ACTION, REWARD = range(VALUES, VALUES + 5)
SYMBOLS = VALUES + 5
"""The size of the alphabet."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A part of an observation that is written, value by value.

    Attributes:
      read: from an observation to the values, `[...]`.
      levels: numbers that values are rounded to, ascending; none for values that are integers.
      is_shown: from an observation to whether it is written, `bool[]`; None for always.
      marker: a symbol that is written in its place; -1 for none.
    """

    read: Callable[[Any], jax.Array] = lambda observation: observation
    levels: tuple[float, ...] = ()
    is_shown: Callable[[Any], jax.Array] | None = None
    marker: int = -1


@dataclasses.dataclass(frozen=True)
class SymbolCode:
    """The declaration of how an environment's trials are written.

    Attributes:
      rewards: levels of rewards, ascending.
      observation: entries of an observation, in the order in which they are written.
      acts: whether actions are written; else there is nothing to choose but a prediction of the
        next observation.
      silence: the action that is not written; None where all are.
      nothing: the reward that is not written; None where all are.

    Raises:
      ValueError: for levels that do not ascend, or are more than there are values, and for a
        reward of nothing that is none of the levels.

    Example:
      >>> SymbolCode(rewards=(0.0, 1.0)).nothing
      0.0
      >>> SymbolCode(rewards=(1.0, 0.0))
      Traceback (most recent call last):
      ValueError: rewards: got (1.0, 0.0); accepted: up to 256 ascending numbers
    """

    rewards: tuple[float, ...]
    observation: tuple[Entry, ...] = (Entry(),)
    acts: bool = True
    silence: int | None = None
    nothing: float | None = 0.0

    def __post_init__(self) -> None:
        for name, levels in [("rewards", self.rewards)] + [
            (f"observation[{i}].levels", entry.levels) for i, entry in enumerate(self.observation)
        ]:
            ascends = len(levels) <= VALUES and list(levels) == sorted(set(levels))
            check(ascends, name, levels, f"up to {VALUES} ascending numbers")
        fits = self.nothing is None or self.nothing in self.rewards or not self.rewards
        check(fits, "nothing", self.nothing, "one of the rewards, or None where all are written")


def levels(low: float, high: float, count: int) -> tuple[float, ...]:
    """Returns evenly spaced numbers from `low` to `high`."""
    return tuple(np.linspace(low, high, count).tolist())


def nearest_level(value: jax.Array, ladder: Sequence[float]) -> jax.Array:
    """Returns the index of the level of a ladder nearest to each number, `int32[...]`."""
    borders = (np.asarray(ladder)[1:] + np.asarray(ladder)[:-1]) / 2
    return jnp.searchsorted(jnp.asarray(borders, value.dtype), value).astype(jnp.int32)


def code_of(env: Environment) -> SymbolCode:
    """Returns an environment's code, whose values the alphabet holds.

    Raises:
      NotImplementedError: if it declares none.
      ValueError: for actions, or values of an observation, that are more than there are symbols.
    """
    code, actions = env.symbols(), env.action_space()
    if code.acts:
        fits = isinstance(actions, spaces.Discrete) and actions.n <= VALUES
        check(fits, f"{env.name}'s actions", actions, f"Discrete(n), n up to {VALUES}")
    largest = _largest_member(env.observation_space())
    for entry in code.observation:
        if entry.marker < 0 and not entry.levels:
            value = int(np.max(entry.read(largest), initial=0))
            check(value < VALUES, f"{env.name}'s observations", value, f"values below {VALUES}")
    return code


def _largest_member(space: spaces.Space) -> Any:
    """Returns the member of a space whose discrete parts are as large as they can be."""
    if isinstance(space, spaces.Dict):
        return {name: _largest_member(part) for name, part in space.items}
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.nvec) - 1
    assert isinstance(space, spaces.Box), space
    return np.zeros(space.shape)


class Written(NamedTuple):
    """Symbols of one time step, K at most.

    Attributes:
      symbols: `int32[B, K]`.
      is_written: `bool[B, K]`, which of them are.
      action: K or the index of the symbol that is the action before this time step, `[]`.
    """

    symbols: jax.Array
    is_written: jax.Array
    action: int


def write_step(code: SymbolCode, action: jax.Array, timestep: TimeStep) -> Written:
    """Writes an action and the time step that it led to.

    Args:
      code: the declaration.
      action: `int32[B]`, ignored where an episode starts.
      timestep: leaves `[B, ...]`.
    """
    batch = timestep.reward.shape[:1]
    yes = jnp.ones(batch, bool)
    follows = ~timestep.episode_start & ~timestep.trial_start
    parts: list[tuple[Any, jax.Array]] = [
        (TRIAL, timestep.trial_start),
        (END, timestep.episode_start & ~timestep.trial_start),
    ]
    interrupts = jnp.zeros(batch, bool)
    at = 3
    if code.acts:
        has_acted = follows if code.silence is None else follows & (action != code.silence)
        parts += [(ACTION, has_acted), (action, has_acted)]
        interrupts |= has_acted
    if code.rewards:
        level = nearest_level(timestep.reward, code.rewards)
        is_paid = follows
        if code.nothing is not None:
            is_paid = follows & (level != code.rewards.index(code.nothing))
        parts += [(REWARD, is_paid), (level, is_paid)]
        interrupts |= is_paid
    values: list[tuple[Any, jax.Array]] = []
    for entry in code.observation:
        is_shown = yes if entry.is_shown is None else jax.vmap(entry.is_shown)(timestep.observation)
        if entry.marker >= 0:
            values.append((entry.marker, is_shown))
            continue
        read = jax.vmap(entry.read)(timestep.observation).reshape(*batch, -1)
        read = nearest_level(read, entry.levels) if entry.levels else read.astype(jnp.int32)
        values += [(read[:, i], is_shown) for i in range(read.shape[1])]
    if values:
        is_any = jnp.stack([is_shown for _, is_shown in values]).any(0)
        parts += [(OBSERVATION, interrupts & is_any), *values]
    symbols = jnp.stack([jnp.broadcast_to(jnp.asarray(x, jnp.int32), batch) for x, _ in parts], 1)
    is_written = jnp.stack([is_shown for _, is_shown in parts], 1)
    return Written(symbols, is_written, at if code.acts else len(parts))


def align_left(kept: jax.Array, size: int, *rows: jax.Array) -> tuple[jax.Array, ...]:
    """Returns what is kept of some rows side by side from place 0 on, `[B, size]` each.

    Args:
      kept: `bool[B, K]`.
      size: places; what does not fit is left out, and those beyond the end are 0.
      *rows: `[B, K]` each.
    """
    place = jnp.where(kept, jnp.cumsum(kept, 1) - 1, size)
    at = jnp.arange(len(kept))[:, None], place
    return tuple(jnp.zeros((len(x), size), x.dtype).at[at].set(x, mode="drop") for x in rows)


class Stream(NamedTuple):
    """Streams of L symbols; leaves `[L, B]`.

    Attributes:
      symbols: `int32`; 0 where a stream has ended before.
      is_written: `bool`.
      starts: `bool`, a trial starts here.
      label: `int32`, the action that should have been taken where the symbol is one; else the
        symbol.
      is_action: `bool`, the symbol is an action.
    """

    symbols: jax.Array
    is_written: jax.Array
    starts: jax.Array
    label: jax.Array
    is_action: jax.Array


def write_stream(
    code: SymbolCode,
    actions: jax.Array,
    timesteps: TimeStep,
    length: int,
    labels: jax.Array | None = None,
) -> Stream:
    """Writes a batch of trials, symbol by symbol.

    Args:
      code: the declaration.
      actions: `int32[T, B]`, taken at each time step.
      timesteps: leaves `[T, B, ...]`.
      length: L; what does not fit is left out.
      labels: `int32[T, B]`, actions that should have been taken; by default those that were.
    """
    labels = actions if labels is None else labels

    def before(x: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])

    steps, batch = timesteps.reward.shape
    flat = jax.tree.map(lambda x: x.reshape(steps * batch, *x.shape[2:]), timesteps)
    taken, meant = (before(x).reshape(steps * batch, -1)[:, 0] for x in (actions, labels))
    written = write_step(code, taken, flat)
    count = written.symbols.shape[1]
    is_action = jnp.zeros(written.symbols.shape, bool)
    label = written.symbols
    if code.acts:
        is_action = is_action.at[:, written.action].set(written.is_written[:, written.action])
        label = label.at[:, written.action].set(meant)

    def in_order(x: jax.Array) -> jax.Array:
        return x.reshape(steps, batch, count).swapaxes(0, 1).reshape(batch, steps * count)

    kept = in_order(written.is_written)
    rows = kept, *(in_order(x) for x in (written.symbols, label, is_action))
    present, symbols, label, acted = (x.T for x in align_left(kept, length, *rows))
    return Stream(symbols, present, present & (symbols == TRIAL), label, acted)


class ReadStep(NamedTuple):
    """A step that was read from a stream.

    Attributes:
      start: "trial", "episode" or "" where neither starts.
      action: the action that led here; None at a start and where there is none.
      reward: what it paid; None at a start and where there is none.
      observation: the values that were seen, markers included.
    """

    start: str
    action: int | None
    reward: float | None
    observation: tuple[int, ...]


def read_stream(code: SymbolCode, symbols: Sequence[int], observation: ArrayTree) -> list[ReadStep]:
    """Returns the steps of a stream.

    Args:
      code: the declaration; entries that are not always shown have a marker at their end.
      symbols: of one stream.
      observation: one of the environment, or its shapes.

    Raises:
      ValueError: for a stream that the code cannot have written.
    """
    groups = _groups(code, observation)
    steps: list[ReadStep] = []
    rest = [int(symbol) for symbol in symbols]
    markers = {entry.marker for entry in code.observation} - {-1}

    def take(count: int, others: Collection[int] = ()) -> list[int]:
        check(len(rest) >= count, "symbols", f"{len(rest)} at the end", f"{count}: whole steps")
        taken = rest[:count]
        del rest[:count]
        fits = all(0 <= symbol < VALUES or symbol in others for symbol in taken)
        check(fits, "symbols", taken, f"values, from 0 to {VALUES - 1}")
        return taken

    def skip(marker: int) -> bool:
        has_marker = rest[:1] == [marker]
        del rest[: int(has_marker)]
        return has_marker

    while rest:
        start = "trial" if skip(TRIAL) else "episode" if skip(END) else ""
        check(bool(steps) or start == "trial", "symbols", rest[0], "a stream that starts a trial")
        action, reward = (None, None) if start else (code.silence, code.nothing)
        if not start:
            if code.acts and skip(ACTION):
                action = take(1)[0]
            if skip(REWARD):
                level = take(1)[0]
                accepted_values = f"a reward's level, below {len(code.rewards)}"
                check(level < len(code.rewards), "symbols", level, accepted_values)
                reward = code.rewards[level]
            skip(OBSERVATION)
        seen: list[int] = []
        for count, marker in groups:
            if marker < 0 or rest[count - 1 : count] == [marker]:
                seen += take(count, markers)
        steps.append(ReadStep(start, action, reward, tuple(seen)))
    return steps


def _groups(code: SymbolCode, observation: ArrayTree) -> list[tuple[int, int]]:
    """Returns how many symbols are shown together, and the marker at their end; -1 for always."""
    groups: list[tuple[int, int]] = []
    pending = 0
    for entry in code.observation:
        is_marker = entry.marker >= 0
        pending += 1 if is_marker else jax.eval_shape(entry.read, observation).size
        if entry.is_shown is None or is_marker:
            groups.append((pending, entry.marker if entry.is_shown else -1))
            pending = 0
    check(not pending, "code.observation", "entries without a marker", "one that can be read")
    return groups
