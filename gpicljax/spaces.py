"""Action and observation spaces: frozen, hashable descriptions whose methods are jittable.

They hold Python numbers only, so a space may sit in a static argument. `sample` and `contains`
work on one unbatched value; `vmap` adds a batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from gpicljax.checks import check, check_at_least, refusal

__all__ = ["Box", "Dict", "Discrete", "MultiDiscrete", "Space"]


class Space:
    """The interface of every space: draw a member, and tell members from other values.

    Example:
      >>> import jax
      >>> space = Box(-1.0, 1.0, (2,))
      >>> jax.jit(space.contains)(jax.numpy.array([0.5, 2.0])).item()
      False
    """

    def sample(self, key: jax.Array, mask: Any = None) -> Any:
        """Draws a member uniformly; `mask` marks the legal choices of a discrete space."""
        raise NotImplementedError(
            f"{type(self).__name__} has no sample(key, mask), which is to return a member"
        )

    def contains(self, value: object) -> jax.Array:
        """Returns whether `value` has the space's shape, kind of dtype and range, as `bool[]`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no contains(value), which is to return bool[]"
        )


def _is_integer(value: jax.Array) -> bool:
    return jnp.issubdtype(value.dtype, jnp.integer)


@dataclasses.dataclass(frozen=True)
class Discrete(Space):
    """The integers 0 .. n - 1, as a scalar `int32[]`.

    Example:
      >>> import jax
      >>> space = Discrete(3)
      >>> bool(space.contains(2)), bool(space.contains(3))
      (True, False)
      >>> int(space.sample(jax.random.key(0), mask=jax.numpy.array([False, True, False])))
      1
    """

    n: int

    def __post_init__(self) -> None:
        check_at_least(1, n=self.n)

    @property
    def shape(self) -> tuple[int, ...]:
        """The empty shape of a scalar."""
        return ()

    def sample(self, key: jax.Array, mask: Any = None) -> jax.Array:
        """Uniform over the members, or over those with a true `mask: bool[n]`."""
        if mask is None:
            return jax.random.randint(key, (), 0, self.n, jnp.int32)
        return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)).astype(jnp.int32)

    def contains(self, value: object) -> jax.Array:
        """Returns whether `value` is an integer scalar within 0 .. n - 1."""
        value = jnp.asarray(value)
        if value.shape != () or not _is_integer(value):
            return jnp.zeros((), bool)
        return (value >= 0) & (value < self.n)


@dataclasses.dataclass(frozen=True)
class MultiDiscrete(Space):
    """Arrays of integers, each entry within 0 .. its number in `nvec` - 1, as `int32[*shape]`.

    `nvec` is a tuple of integers, or of further such tuples: `MultiDiscrete(((3, 5), (3, 5)))` are
    the choices of two agents that choose from 3 and from 5 each.

    Example:
      >>> space = MultiDiscrete((3, 5))
      >>> space.shape, space.sizes
      ((2,), (3, 5))
    """

    nvec: tuple[Any, ...]

    def __post_init__(self) -> None:
        try:
            sizes = np.array(self.nvec, np.int64)
        except (TypeError, ValueError):
            sizes = np.zeros(0)
        check(sizes.size and sizes.min() >= 1, "nvec", self.nvec, "integers >= 1, of one depth")

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of `nvec`."""
        return np.shape(self.nvec)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Returns the number of members of each entry, all entries in one row."""
        return tuple(int(n) for n in np.ravel(self.nvec))

    def sample(self, key: jax.Array, mask: Any = None) -> jax.Array:
        """Each entry uniform over its members, or those with a true `mask: bool[*shape, max]`."""
        if mask is None:
            return jax.random.randint(key, self.shape, 0, jnp.asarray(self.nvec), jnp.int32)
        logits = jnp.where(mask, 0.0, -jnp.inf)
        return jax.random.categorical(key, logits, axis=-1).astype(jnp.int32)

    def contains(self, value: object) -> jax.Array:
        """Returns whether `value` has integers of the right shape with every entry in range."""
        value = jnp.asarray(value)
        if value.shape != self.shape or not _is_integer(value):
            return jnp.zeros((), bool)
        return jnp.all((value >= 0) & (value < jnp.asarray(self.nvec)))


@dataclasses.dataclass(frozen=True)
class Box(Space):
    """Arrays of one shape and dtype with every entry within [low, high].

    `dtype=None` means JAX's default float (float32, or float64 under `JAX_ENABLE_X64`).

    Example:
      >>> space = Box(-1.0, 1.0, (2,))
      >>> bool(space.contains(np.array([0.5, -1.0], np.float32)))
      True
      >>> bool(space.contains(np.array([0.5, -1.5], np.float32)))
      False
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()
    dtype: Any = None

    def __post_init__(self) -> None:
        check(self.low <= self.high, "low", self.low, f"numbers up to high = {self.high}")

    @property
    def jax_dtype(self) -> Any:
        """The dtype of members, `dtype=None` resolved."""
        return jnp.result_type(float) if self.dtype is None else jnp.dtype(self.dtype)

    def sample(self, key: jax.Array, mask: Any = None) -> jax.Array:
        """Uniform where both bounds are finite or its dtype's; `mask` must be None.

        Floats with an infinite bound are normal, and beyond the other bound the nearest member.
        """
        check(mask is None, "mask", mask, "None: a Box has no single choices")
        dtype = self.jax_dtype
        if dtype == jnp.dtype(bool):
            drawn = jax.random.bernoulli(key, 0.5, self.shape)
            return (drawn | (self.low > 0)) & (self.high >= 1)
        if jnp.issubdtype(dtype, jnp.integer):
            return _integers(key, self.shape, dtype, *self.limits(dtype))
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return jnp.clip(jax.random.normal(key, self.shape, dtype), self.low, self.high)
        low, high = self.limits(dtype)
        if high - low <= float(jnp.finfo(dtype).max):
            return jax.random.uniform(key, self.shape, dtype, low, high)
        # The distance of the bounds is infinite in this dtype.
        share = jax.random.uniform(key, self.shape, dtype)
        return jnp.clip(low * (1 - share) + high * share, low, high)

    def limits(self, dtype: DTypeLike) -> tuple[Any, Any]:
        """The bounds as Python numbers; those beyond a dtype's range, its least or greatest."""
        if jnp.issubdtype(dtype, jnp.integer):
            low, high = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
            return (
                max(low, math.ceil(self.low)) if self.low > low else low,
                min(high, math.floor(self.high)) if self.high < high else high,
            )
        largest = float(jnp.finfo(dtype).max)
        return max(self.low, -largest), min(self.high, largest)

    def contains(self, value: object) -> jax.Array:
        """Whether `value` has the shape and dtype and lies within the bounds (NaN does not)."""
        value = jnp.asarray(value)
        if value.shape != self.shape or value.dtype != self.jax_dtype:
            return jnp.zeros((), bool)
        low, high = self.low, self.high
        if jnp.issubdtype(value.dtype, jnp.integer):
            low, high = (np.array(end, value.dtype) for end in self.limits(value.dtype))
        return jnp.all((value >= low) & (value <= high))


@dataclasses.dataclass(frozen=True)
class UnevenBox(Box):
    """A Box whose entries have bounds of their own, within `low` and `high`.

    Attributes:
      bounds: the least and the greatest value of every entry, all entries in one row.
    """

    bounds: tuple[tuple[float, float], ...] = ()

    def _ends(self) -> tuple[jax.Array, jax.Array]:
        dtype = self.jax_dtype
        within = [Box(low, high).limits(dtype) for low, high in self.bounds]
        low, high = (jnp.asarray(np.array(end, dtype)) for end in zip(*within, strict=True))
        return low.reshape(self.shape), high.reshape(self.shape)

    def sample(self, key: jax.Array, mask: Any = None) -> jax.Array:
        """Draws a member as a Box does; beyond an entry's bounds, the nearest value."""
        return jnp.clip(super().sample(key, mask), *self._ends())

    def contains(self, value: object) -> jax.Array:
        """Returns whether a Box contains the value, and every entry lies within its bounds."""
        value = jnp.asarray(value)
        if value.shape != self.shape:
            return jnp.zeros((), bool)
        low, high = self._ends()
        return super().contains(value) & jnp.all((value >= low) & (value <= high))


def _integers(
    key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike, low: int, high: int
) -> jax.Array:
    """Integers uniform over low .. high, both included, whatever the dtype can hold."""
    if low >= -(2**31) and high < 2**31 - 1:
        return jax.random.randint(key, shape, low, high + 1, dtype)
    least, greatest = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
    if (low, high) == (least, greatest):
        unsigned = jnp.dtype(f"uint{jnp.iinfo(dtype).bits}")
        return jax.lax.bitcast_convert_type(jax.random.bits(key, shape, unsigned), dtype)
    # `randint` leaves out the upper end, and that must be within the dtype too.
    shift = int(high == greatest)
    start, stop = (np.array(end, dtype) for end in (low - shift, high + 1 - shift))
    return jax.random.randint(key, shape, start, stop, dtype) + np.array(shift, dtype)


@dataclasses.dataclass(frozen=True)
class Dict(Space):
    """Dictionaries with one named space per entry. Build it with `Dict.of(name=space, ...)`.

    Example:
      >>> space = Dict.of(image=Box(0, 255, (8, 8), jnp.uint8), life=Discrete(4))
      >>> list(space.spaces), space["life"]
      (['image', 'life'], Discrete(n=4))
    """

    items: tuple[tuple[str, Space], ...]

    @classmethod
    def of(cls, mapping: Mapping[str, Space] | None = None, **spaces: Space) -> Dict:
        """Returns a Dict of the given named spaces, in the given order."""
        return cls(tuple({**(mapping or {}), **spaces}.items()))

    @property
    def spaces(self) -> dict[str, Space]:
        """The entries as a new dictionary."""
        return dict(self.items)

    def __getitem__(self, name: str) -> Space:
        return self.spaces[name]

    def sample(self, key: jax.Array, mask: Any = None) -> dict[str, Any]:
        """Returns a dictionary with one sample per entry; `mask` is a dictionary of masks."""
        keys = jax.random.split(key, len(self.items))
        masks = mask or {}
        return {
            name: space.sample(k, masks.get(name))
            for (name, space), k in zip(self.items, keys, strict=True)
        }

    def contains(self, value: object) -> jax.Array:
        """Returns whether `value` has exactly these entries, each inside its space."""
        if not isinstance(value, Mapping) or set(value) != set(self.spaces):
            return jnp.zeros((), bool)
        inside = [space.contains(value[name]) for name, space in self.items]
        return jnp.all(jnp.stack(inside))


def check_member(space: Space, value: object, argument: str, batch: tuple[int, ...] = ()) -> Any:
    """Returns a value as arrays, if it has the shape and kind of dtype of the space's members.

    For integers any integer dtype will do, for floats integers too. This looks at nothing that is
    not known when a program is traced.

    Args:
      space: the space.
      value: a member, or a batch of them.
      argument: its name in messages.
      batch: the leading axes of a batch.

    Raises:
      ValueError: for another shape, another kind of dtype, or other entries of a Dict.
    """
    if isinstance(space, Dict):
        entries = value if isinstance(value, Mapping) else {}
        fits = isinstance(value, Mapping) and set(entries) == set(space.spaces)
        check(fits, argument, value, f"a dictionary of {', '.join(space.spaces)}")
        return {
            name: check_member(entry, entries[name], f"{argument}[{name!r}]", batch)
            for name, entry in space.items
        }
    if (shape := getattr(space, "shape", None)) is None:
        return value
    dtype = jnp.dtype(space.jax_dtype if isinstance(space, Box) else jnp.int32)
    accepted_values = f"{dtype}{[*batch, *shape]}, {'each ' if batch else ''}in {space}"
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except ValueError:  # ragged
        raise ValueError(refusal(argument, value, accepted_values)) from None
    kinds = {"f": (jnp.floating, jnp.integer), "b": (bool,)}.get(dtype.kind, (jnp.integer,))
    kind = any(jnp.issubdtype(array.dtype, kind) for kind in kinds)
    arrays = isinstance(value, jax.Array | np.ndarray)
    received = jax.ShapeDtypeStruct(array.shape, array.dtype) if arrays else value
    check(kind and array.shape == (*batch, *shape), argument, received, accepted_values)
    return jnp.asarray(array, None if array.dtype.kind == dtype.kind != "b" else dtype)


def nearest(space: Space, value: Any) -> Any:
    """The member that is nearest to an array of the right shape; where that is NaN it stays so."""
    if isinstance(space, Dict):
        return {name: nearest(entry, value[name]) for name, entry in space.items}
    if isinstance(space, Box):
        if space.dtype == bool or (math.isinf(space.low) and math.isinf(space.high)):
            return value
        low, high = space.limits(value.dtype)
        if jnp.issubdtype(value.dtype, jnp.floating):
            low, high = space.low, space.high  # infinite ones may stay so
    elif (counts := getattr(space, "n", None) or getattr(space, "nvec", None)) is not None:
        low, high = 0, np.asarray(counts) - 1
    else:
        return value
    low, high = (np.broadcast_to(end, value.shape).astype(value.dtype) for end in (low, high))
    return jax.lax.clamp(low, value, high)


def repeat(space: Space, count: int) -> Space:
    """Returns the space of `count` stacked members, e.g. the actions of several agents.

    Discrete and MultiDiscrete become a MultiDiscrete with their numbers repeated, a Box gains a
    leading axis, a Dict does so entry by entry.

    Raises:
      TypeError: if the space cannot be stacked into one of the native kinds.
    """
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * count)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete((space.nvec,) * count)
    if isinstance(space, Box):
        return dataclasses.replace(space, shape=(count, *space.shape))
    if isinstance(space, Dict):
        return Dict(tuple((name, repeat(entry, count)) for name, entry in space.items))
    raise TypeError(refusal("space", space, "Discrete, MultiDiscrete, Box, Dict"))


def of_one_agent(space: Space, count: int) -> Space:
    """Returns one agent's part of a space with a leading agent axis; undoes `repeat`.

    Raises:
      TypeError: if the space does not give each of them the same.
    """
    if isinstance(space, Dict):
        return Dict(tuple((name, of_one_agent(entry, count)) for name, entry in space.items))
    shape = getattr(space, "shape", ())
    if shape[:1] == (count,):
        if isinstance(space, MultiDiscrete) and len(set(space.nvec)) == 1:
            choices = space.nvec[0]
            return MultiDiscrete(choices) if isinstance(choices, tuple) else Discrete(choices)
        if isinstance(space, Box):
            return dataclasses.replace(space, shape=shape[1:])
        # A space of its own, such as both players' `[decision, tokens]`, with the choices of one.
        nvec = getattr(space, "nvec", ())
        if not isinstance(space, MultiDiscrete) and shape[1:] == (len(nvec),):
            return MultiDiscrete(nvec)
    raise TypeError(refusal("space", space, f"what gives each of {count} agents the same"))


def flat_parts(space: Space) -> tuple[int, ...]:
    """Returns the sizes of the parts of `flatten(space, value)`.

    The one-hot code of an integer is a part; so is each number of a box, of size 1.
    """
    if isinstance(space, Discrete):
        return (space.n,)
    if isinstance(space, MultiDiscrete):
        return tuple(space.sizes)
    if isinstance(space, Box):
        return (1,) * math.prod(space.shape)
    if isinstance(space, Dict):
        return tuple(size for _, entry in space.items for size in flat_parts(entry))
    raise TypeError(refusal("space", space, "Discrete, MultiDiscrete, Box, Dict"))


def flat_size(space: Space) -> int:
    """Returns the number of entries of `flatten(space, value)`."""
    return sum(flat_parts(space))


def flatten(space: Space, value: Any) -> jax.Array:
    """Returns one float vector per member: integers one-hot, boxes ravelled, dictionaries in order.

    Args:
      space: the space of the unbatched value.
      value: a member, with any leading batch axes; of a `MultiDiscrete` also floats
        `[..., flat_size(space)]`, which stand for it already, such as chances of its values.

    Returns:
      float `[..., flat_size(space)]`.
    """
    dtype = jnp.result_type(float)
    if isinstance(space, Discrete):
        return jax.nn.one_hot(value, space.n, dtype=dtype)
    if isinstance(space, MultiDiscrete):
        value = jnp.asarray(value)
        if jnp.issubdtype(value.dtype, jnp.floating) and value.shape[-1] == flat_size(space):
            return value
        value = value.reshape(*value.shape[: value.ndim - len(space.shape)], -1)
        parts = [jax.nn.one_hot(value[..., i], n, dtype=dtype) for i, n in enumerate(space.sizes)]
        return jnp.concatenate(parts, axis=-1)
    if isinstance(space, Box):
        value = jnp.asarray(value)
        batch = value.shape[: value.ndim - len(space.shape)]
        return value.reshape(*batch, flat_size(space)).astype(dtype)
    if isinstance(space, Dict):
        parts = [flatten(entry, value[name]) for name, entry in space.items]
        return jnp.concatenate(parts, axis=-1)
    raise TypeError(refusal("space", space, "Discrete, MultiDiscrete, Box, Dict"))


def observed_values(observation: Any) -> dict[str, Any]:
    """Returns the entries of an observation by their names, as numbers or lists of them."""
    leaves = jax.tree_util.tree_leaves_with_path(observation)
    parts = [(jax.tree_util.keystr(path, simple=True, separator="."), x) for path, x in leaves]
    return {name or "observation": np.asarray(x).tolist() for name, x in parts}
