"""Tables of rows that are found by number and belong to a tag, such as a trial or a context.

A row whose tag is another one counts as empty, so that a memory is cleared by a new tag, at no
cost, and a hash table tells contexts apart that fall on the same row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class TaggedRows(NamedTuple):
    """A table for each of B instances.

    Attributes:
      values: float `[B, R, ...]`.
      tags: `uint32[B, R]`.
    """

    values: jax.Array
    tags: jax.Array


def empty_rows(batch: int, rows: int, shape: tuple[int, ...]) -> TaggedRows:
    """Returns tables of so many rows of this shape, whose tags are 0."""
    values = jnp.zeros((batch, rows, *shape), jnp.result_type(float))
    return TaggedRows(values, jnp.zeros((batch, rows), jnp.uint32))


def read_rows(table: TaggedRows, rows: jax.Array, tags: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns rows of every instance, zeros where the tag is another one, and where it is not.

    Args:
      table: the tables.
      rows: `int32[B, S]`, numbers of rows, different ones within an instance.
      tags: `uint32[B, S]`.

    Returns:
      Rows float `[B, S, ...]`, and `bool[B, S]`.
    """
    instance = jnp.arange(rows.shape[0])[:, None]
    options = {"mode": "promise_in_bounds", "unique_indices": True}
    is_own = table.tags.at[instance, rows].get(**options) == tags
    values = table.values.at[instance, rows].get(**options)
    flags = is_own.reshape(*is_own.shape, *[1] * (values.ndim - is_own.ndim))
    return jnp.where(flags, values, 0), is_own


def write_rows(
    table: TaggedRows, rows: jax.Array, tags: jax.Array, values: jax.Array
) -> TaggedRows:
    """Returns the tables with these rows replaced; see `read_rows`."""
    instance = jnp.arange(rows.shape[0])[:, None]
    options = {"mode": "promise_in_bounds", "unique_indices": True}
    return TaggedRows(
        table.values.at[instance, rows].set(values, **options),
        table.tags.at[instance, rows].set(tags, **options),
    )
