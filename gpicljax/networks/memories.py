"""The networks with a memory that agents choose from by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import jax
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import Size, check, check_at_least, check_choice, check_fields
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.dnc import DNC
from gpicljax.networks.dual_coding import DualCoding
from gpicljax.networks.esbn import ESBN
from gpicljax.networks.event_store import Event, EventStore, Metric, event_of
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.feedforward import dense
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.recurrent import GRUStack, LSTMStack
from gpicljax.networks.transformer import Transformer
from gpicljax.typing import ArrayTree

MemoryKind = Literal[
    "lstm",
    "gru",
    "delta",
    "dnc",
    "dnc-unlinked",
    "esbn",
    "dcem",
    "linear-attention",
    "transformer",
    "events",
]
# Memories of one layer, and what that layer is.
SINGLE = {
    "delta": "the layer of fast weights",
    "dnc": "the controller",
    "dnc-unlinked": "the controller",
    "esbn": "the controller",
    "dcem": "the controller",
}
CACHES: tuple[MemoryKind, ...] = ("transformer",)
"""Memories that hold what they have computed of many steps: too large for a replay buffer, and
stale in it."""


class Projected(nn.Module):
    """A core of fixed width behind a linear layer from features of any size.

    Attributes:
      width: of the core's inputs.
      core: a module with `initial_carry`, `step` and `unroll` over vectors.
    """

    width: int
    core: Any

    def setup(self) -> None:
        """The linear layer."""
        self.project = dense(self.width)

    def initial_carry(self, batch: int) -> Any:
        """Returns the core's carry for `batch` instances."""
        return self.core.initial_carry(batch)

    def unroll(
        self, carry: ArrayTree, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Any]:
        """`float[T, B, F]`, `bool[T, B]` -> outputs `float[T, B, width]`, and the carry."""
        return self.core.unroll(carry, self.project(inputs), starts)

    def step(self, carry: ArrayTree, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Runs one step: `float[B, F]`, `bool[B]` -> `float[B, width]`, and the carry."""
        return self.core.step(carry, self.project(inputs), start)


@dataclasses.dataclass(frozen=True)
class MemorySettings:
    """Kind and size of a network's memory; see `memory`.

    Attributes:
      memory: kind of the memory.
      core: sizes of its layers; those of attention are equal, other kinds but LSTM and GRU have
        one; of the event store, that of queries and keys, all heads together.
      heads: of all kinds but LSTM, GRU and ESBN.
      window: steps that a transformer attends to.
      slots: events that are kept, rows of the neural computer's memory (dnc), or steps that ESBN
        and dual coding (dcem) look back to.
      tied_keys: whether the event store asks by the projection by which it finds.
      event_metric: by what the event store compares keys, see `EventStore`.
      event_keys: what events are found by: entries of the observation, last_action, last_reward.
      event_values: what is stored beside it; if neither is named, everything is a key. Where they
        are named, they are the two streams of dual coding (dcem).
      event_when: NAME=NUMBER, the steps that are stored; every step if empty.

    Raises:
      ValueError: for sizes that the kind of memory cannot have.

    Example:
      >>> from gpicljax import spaces
      >>> settings = MemorySettings("gru", core=(32,))
      >>> core, event = settings.make(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(2))
      >>> core.sizes, event
      ((32,), None)
    """

    memory: MemoryKind = "lstm"
    core: tuple[Size, ...] = (128,)
    heads: Size = 4
    window: Size = 128
    slots: Size = 64
    tied_keys: bool = False
    event_metric: Metric = "dot"
    event_keys: tuple[str, ...] = ()
    event_values: tuple[str, ...] = ()
    event_when: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.memory == "events":
            width_of_head(self.core, self.heads, "queries and keys")
            _moment(self.event_when)
        else:
            memory(self.memory, self.core, self.heads, self.window, self.slots)

    def check_carries(self, carries: str) -> None:
        """Refuses caches in a replay buffer; see `r2d2.R2D2Config.carries`."""
        small = carries == "none" or self.memory not in CACHES
        check(small, "carries", carries, f"none, for the memory {self.memory}")

    def make(
        self, observation_space: spaces.Space, actions: spaces.Space
    ) -> tuple[Any, Callable[[AgentInput], Event] | None]:
        """Returns the memory, and what a step is to it where it stores events."""
        event, keys, values = None, (), ()
        if self.memory == "events" or (
            self.memory == "dcem" and (self.event_keys or self.event_values)
        ):
            names = self.event_keys, self.event_values
            when = _moment(self.event_when)
            event, keys, values = event_of(observation_space, actions, *names, when)
        if self.memory == "events":
            width = width_of_head(self.core, self.heads, "queries and keys")
            shape = sum(keys), sum(values), self.slots, self.heads, width
            return EventStore(*shape, self.tied_keys, self.event_metric, keys, values), event
        return memory(self.memory, self.core, self.heads, self.window, self.slots), event


def width_of_head(core: Sequence[int], heads: int, description: str) -> int:
    """Returns the size of each head of a layer whose size is given for all of them together.

    Raises:
      ValueError: unless there is one size, and the heads divide it.
    """
    check(len(core) == 1, "core", core, f"one size, of {description}")
    check(core[0] % heads == 0, "core", core, f"a multiple of {heads}")
    return core[0] // heads


def _moment(words: str) -> tuple[str, int] | None:
    """Parses NAME=NUMBER for `event_of`."""
    name, equals, number = (part.strip() for part in words.partition("="))
    check(not words or number.isdigit(), "event_when", words, "NAME=NUMBER, or nothing")
    return (name, int(number)) if equals else None


def memory(
    kind: MemoryKind,
    sizes: Sequence[int],
    heads: int = 4,
    window: int = 128,
    slots: int = 64,
) -> nn.Module:
    """Returns a network with a memory, over vectors of features.

    Args:
      kind: LSTM or GRU layers; a layer of fast weights with the delta rule; a differentiable
        neural computer, with or without temporal links; an Emergent Symbol Binding Network, with
        keys and values of a half and a quarter of its size; a dual-coding episodic memory, whose
        codes are two of the same features; blocks of linear attention; or a transformer, whose
        memory is the last `window` steps of every layer.
      sizes: of the layers. Those of attention are equally wide; the others have one.
      heads: of all kinds but LSTM, GRU and ESBN.
      window: steps that a transformer's layer attends to, the current one included.
      slots: rows of the neural computer's memory; steps that ESBN and DCEM look back to.

    Returns:
      A module with `initial_carry`, `step` and `unroll`; its outputs are float `[..., sizes[-1]]`.

    Raises:
      ValueError: for sizes that the kind cannot have.
    """
    check_choice("memory", kind, [name for name in get_args(MemoryKind) if name != "events"])
    check(len(sizes) > 0, "core", sizes, "at least one size")
    check_at_least(1, heads=heads, window=window, slots=slots)
    if kind == "lstm":
        return LSTMStack(tuple(sizes))
    if kind == "gru":
        return GRUStack(tuple(sizes))
    layers, width = len(sizes), sizes[-1]
    if kind in SINGLE:
        check(layers == 1, "core", sizes, f"one size, of {SINGLE[kind]}")
    if kind == "esbn":
        return ESBN(width, keys=-(-width // 2), values=-(-width // 4), slots=slots)
    unit = 2 * heads if kind == "transformer" else heads
    named = "2 x heads" if kind == "transformer" else "heads"
    check(width % unit == 0, "core", sizes, f"multiples of {named} = {unit}")
    if kind == "delta":
        return DeltaMemory(width, heads, width // heads)
    if kind in ("dnc", "dnc-unlinked"):
        return DNC(width, slots, width // heads, heads, links=kind == "dnc")
    if kind == "dcem":
        return DualCoding(width, slots, width // heads, heads)
    check(len(set(sizes)) == 1, "core", sizes, f"layers of one size, for {kind}")
    if kind == "linear-attention":
        return Projected(width, LinearTransformer(layers, width, heads, 4 * width))
    return Projected(width, Transformer(layers, width, heads, window=window))
