"""Pytrees as few arrays, for programs that are called often and do little.

Every array that a compiled program takes or gives costs about a microsecond, and the first typed
key among them fifty: more than a small environment takes for a step. So a state of fifty numbers
is handed over as a row for each dtype, and keys as the numbers that they are made of.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.typing import ArrayTree

_LARGE = 2**14
"""Arrays of as many elements stay by themselves: they would have to be copied."""


class _LeafType(NamedTuple):
    """Shape, dtype and key implementation of a leaf, of a key those of its data."""

    shape: tuple[int, ...]
    dtype: Any
    key_impl: Hashable


class Layout:
    """The layout of a pytree's leaves in packed rows; the same object for the same structure.

    Args:
      structure: the pytree's.
      leaves: of each leaf, what there is to know.
    """

    def __init__(self, structure: Any, leaves: tuple[_LeafType, ...]) -> None:
        """Assigns the places; see the class."""
        self._structure, self._impls = structure, [leaf.key_impl for leaf in leaves]
        rows: dict[Any, list[int]] = {}
        for number, leaf in enumerate(leaves):
            row = number if math.prod(leaf.shape) >= _LARGE else leaf.dtype
            rows.setdefault(row, []).append(number)
        self._rows = list(rows.values())
        self._places: list[tuple[int, slice, tuple[int, ...]]] = [(0, slice(0), ())] * len(leaves)
        for row, numbers in enumerate(self._rows):
            ends = np.cumsum([math.prod(leaves[number].shape) for number in numbers]).tolist()
            for number, start, end in zip(numbers, [0, *ends], ends, strict=False):
                self._places[number] = row, slice(start, end), leaves[number].shape

    def pack(self, leaves: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        """Returns the rows of such leaves."""
        return tuple(
            jnp.concatenate([leaves[number].reshape(-1) for number in numbers])
            if len(numbers) > 1
            else leaves[numbers[0]]
            for numbers in self._rows
        )

    def unpack(self, rows: Sequence[Any]) -> Any:
        """Returns the pytree again; of NumPy's arrays, as views of them."""
        leaves = [
            rows[row] if rows[row].shape == shape else rows[row][part].reshape(shape)
            for row, part, shape in self._places
        ]
        for number, impl in enumerate(self._impls):
            if impl is not None:
                leaves[number] = jax.random.wrap_key_data(leaves[number], impl=impl)
        return jax.tree.unflatten(self._structure, leaves)


_layout = functools.cache(Layout)


@struct.dataclass
class Packed:
    """A pytree as few arrays.

    Attributes:
      rows: one for each dtype, `[N]`, and one for each large array.
      layout: where the leaves are in them.
    """

    rows: tuple[jax.Array, ...]
    layout: Layout = struct.field(pytree_node=False)

    @property
    def tree(self) -> Any:
        """The pytree."""
        return self.layout.unpack(self.rows)


def pack(tree: ArrayTree) -> Packed:
    """Packs a pytree's arrays into one for each dtype; `.tree` unpacks them."""
    leaves, structure = jax.tree.flatten(tree)
    impls = [
        jax.random.key_impl(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else None
        for x in leaves
    ]
    plain = [
        x if impl is None else jax.random.key_data(x) for x, impl in zip(leaves, impls, strict=True)
    ]
    leaf_types = [_LeafType(x.shape, x.dtype, impl) for x, impl in zip(plain, impls, strict=True)]
    layout = _layout(structure, tuple(leaf_types))
    return Packed(layout.pack(plain), layout)
