"""The networks with a memory that agents choose from by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
from flax import linen as nn

from gpicljax.checks import check, check_at_least, check_choice
from gpicljax.networks.dnc import DNC
from gpicljax.networks.dual_coding import DualCoding
from gpicljax.networks.esbn import ESBN
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.feedforward import dense
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.recurrent import GRUStack, LSTMStack
from gpicljax.networks.transformer import Transformer

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
]
# Of one layer.
SINGLE = {
    "delta": "the layer of fast weights",
    "dnc": "the controller",
    "dnc-unlinked": "the controller",
    "esbn": "the controller",
    "dcem": "the controller",
}


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
        """The core's carry for `batch` instances."""
        return self.core.initial_carry(batch)

    def unroll(self, carry: Any, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, Any]:
        """`float[T, B, F]`, `bool[T, B]` -> outputs `float[T, B, width]`, and the carry."""
        return self.core.unroll(carry, self.project(inputs), starts)

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """One step: `float[B, F]`, `bool[B]` -> `float[B, width]`, and the carry."""
        return self.core.step(carry, self.project(inputs), start)


def memory(
    kind: MemoryKind,
    sizes: Sequence[int],
    heads: int = 4,
    window: int = 128,
    slots: int = 64,
) -> nn.Module:
    """A network with a memory, over vectors of features.

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

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(memory("transformer", (32, 32), heads=2, window=16))
      >>> network.initial_carry(5).keys.shape  # [B, layers, heads, window, d]
      (5, 2, 2, 16, 16)
      >>> memory("delta", (32, 32))
      Traceback (most recent call last):
      ValueError: core: got (32, 32); accepted: one size, of the layer of fast weights
    """
    check_choice("memory", kind, MemoryKind.__args__)
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
