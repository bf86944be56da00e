"""A training state as a flat table of arrays, and back."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Leaf: TypeAlias = jax.Array | np.ndarray | jax.ShapeDtypeStruct
"""A leaf of a training state, or its abstract form."""

Spec = dict[str, Any]
"""What a checkpoint records of a leaf: `name`, `shape`, `dtype`, and `impl` for typed keys."""


def named_leaves(tree: object) -> list[tuple[str, Any]]:
    """Returns the leaves of a pytree with readable, unique names, in the pytree's order.

    Args:
      tree: any pytree; None is structure, not a leaf.

    Returns:
      Pairs such as `("0003.params.Dense_0.kernel", leaf)`.
    """
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(f"{i:04d}.{_dotted_name(path)}", leaf) for i, (path, leaf) in enumerate(leaves)]


def _dotted_name(path: jax.tree_util.KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".")


def is_key(leaf: object) -> bool:
    """Returns whether a leaf (an array or its abstract form) holds typed random keys."""
    return jnp.issubdtype(getattr(leaf, "dtype", np.int32), jax.dtypes.prng_key)


def spec(name: str, leaf: object) -> Spec:
    """Describes a leaf, concrete or abstract, so that two descriptions can be compared.

    Args:
      name: the leaf's name.
      leaf: an array, a `jax.ShapeDtypeStruct`, a numpy scalar or a Python number.

    Returns:
      `name`, `shape` and `dtype` as JSON values.

    Raises:
      TypeError: for a leaf that cannot be stored.
    """
    if isinstance(leaf, bool | int | float):
        return {"name": name, "shape": [], "dtype": f"Python {type(leaf).__name__}"}
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(f"state: got {leaf!r} at {name}; accepted: arrays and numbers")
    return {"name": name, "shape": list(shape), "dtype": str(dtype)}


def is_spread(leaf: object) -> bool:
    """Returns whether an array (or its abstract form) has parts on devices of other processes."""
    sharding = getattr(leaf, "sharding", None)
    return sharding is not None and not sharding.is_fully_addressable


def to_storage(leaf: jax.Array | np.ndarray | float) -> np.ndarray | jax.Array:
    """Returns the form in which a leaf is stored; typed keys become their `uint32` data.

    Returns:
      A numpy array of the same values; a JAX array if it is spread over several processes, each of
      which stores its part.
    """
    leaf = jax.random.key_data(leaf) if is_key(leaf) else leaf
    return leaf if isinstance(leaf, jax.Array) and is_spread(leaf) else np.asarray(leaf)


def storage_target(like: Leaf | float) -> np.ndarray | jax.ShapeDtypeStruct:
    """Returns the template by which storage restores a leaf.

    Returns:
      A numpy array of any values; for a leaf that is spread over several processes, an abstract
      array with its sharding.
    """
    if isinstance(like, bool | int | float):
        return np.asarray(like)
    data = jax.eval_shape(jax.random.key_data, like) if is_key(like) else like
    if isinstance(like, jax.Array | jax.ShapeDtypeStruct) and is_spread(
        like
    ):  # the sharding of keys leaves the axis of their data alone
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=like.sharding)
    return np.empty(data.shape, data.dtype)


def from_storage(value: np.ndarray | jax.Array, like: Leaf | float, impl: str | None) -> Any:
    """Makes a leaf of stored values.

    Args:
      value: what storage had for `storage_target(like)`.
      like: the leaf to be replaced, or its abstract form. A Python number gives a Python number, a
        numpy array a numpy array, all else a JAX array: with the sharding of `like` if it has been
        put somewhere on purpose, free to move (uncommitted, on the default device) otherwise.
      impl: the random generator of typed keys.
    """
    if isinstance(like, bool | int | float):
        return type(like)(np.asarray(value).item())
    if isinstance(like, np.ndarray | np.generic):
        value = np.asarray(value)
        return value.astype(like.dtype)[()] if isinstance(like, np.generic) else value
    if isinstance(value, jax.Array):
        array = value
    elif is_spread(like):
        array = jax.make_array_from_callback(value.shape, like.sharding, lambda part: value[part])
    else:
        # Always a copy: the training loop donates these buffers, and numpy must not share them.
        array = jnp.array(value)
    if impl is not None:
        array = jax.random.wrap_key_data(array, impl=impl)
    placed = like.committed if isinstance(like, jax.Array) else like.sharding is not None
    return jax.device_put(array, like.sharding) if placed and not is_spread(like) else array
