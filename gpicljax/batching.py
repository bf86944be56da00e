"""Tools for batches of instances: selection, definite dtypes, work for a few of many, and functions
of one instance that `vmap` turns into one call for the whole batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_batching import custom_vmap
from jax.extend.core import jaxpr_as_fun, jaxprs_in_params

from gpicljax.typing import ArrayTree

__all__ = ["strip_weak_types"]

T = TypeVar("T")
P = ParamSpec("P")


def select(condition: jax.Array, on_true: Any, on_false: Any) -> Any:
    """`where` over two pytrees; `condition` broadcasts from the left. Typed keys allowed."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, on_true, on_false)


def strip_weak_types(tree: ArrayTree) -> Any:
    """Leaves as arrays of definite dtypes, also Python numbers: `params` are carried state.

    Example:
      >>> values = strip_weak_types({"rate": 0.1, "count": 3})
      >>> jax.tree.map(lambda x: (x.dtype.name, x.weak_type), values)
      {'count': ('int32', False), 'rate': ('float32', False)}
    """

    def leaf(x: jax.Array | np.ndarray | float) -> jax.Array:
        if isinstance(x, bool | int | float):
            dtype = jnp.result_type(float) if isinstance(x, float) else jnp.int32
            return jnp.asarray(x, bool if isinstance(x, bool) else dtype)
        return jax.lax.convert_element_type(x, jnp.asarray(x).dtype)

    return jax.tree.map(leaf, tree)


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A pytree of concrete numbers and arrays, equal to another one with the same content.

    So that what holds parameters can still be compared and hashed by value.

    Attributes:
      tree: the pytree, its leaves as NumPy arrays of a definite dtype.
    """

    tree: Any

    @classmethod
    def of(cls, tree: ArrayTree) -> Constant:
        """Makes one from a pytree of concrete leaves."""
        return cls(jax.tree.map(np.asarray, strip_weak_types(tree)))

    @property
    def value(self) -> Any:
        """The pytree, its leaves as JAX arrays."""
        return jax.tree.map(jnp.asarray, self.tree)

    @functools.cached_property
    def _content(self) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(self.tree)
        return structure, tuple((leaf.shape, leaf.dtype.str, leaf.tobytes()) for leaf in leaves)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Constant) and self._content == value._content

    def __hash__(self) -> int:
        return hash(self._content)


def unshare(tree: T, *others: Any) -> T:
    """Returns the tree with a buffer of its own for every leaf, so that it can be donated.

    Without `jit`, functions that pass an argument on, or return one array twice, share buffers; a
    donated state can have none twice, and takes those of its arguments along.

    Args:
      tree: pytree of arrays.
      *others: pytrees whose leaves the tree must not share.
    """
    taken = {id(x) for x in jax.tree.leaves(others)}

    def copy_shared(x: jax.Array) -> jax.Array:
        if isinstance(x, Tracer):
            return x
        if id(x) in taken:
            return jnp.copy(x)
        taken.add(id(x))
        return x

    return jax.tree.map(copy_shared, tree)


def donatable(init: Callable[P, T]) -> Callable[P, T]:
    """Returns the function, whose result can be donated; see `unshared`."""

    @functools.wraps(init)
    def start(*arguments: P.args, **named: P.kwargs) -> T:
        return unshare(init(*arguments, **named), arguments, named)

    return start


@custom_vmap
def any_across_vmap(flag: jax.Array) -> jax.Array:
    """Returns whether a flag holds in any instance of a `vmap`, the same for all.

    For the condition of a `while_loop` whose rounds change nothing where the flag does not hold any
    more. With a condition that differs between instances, `vmap` makes a loop that chooses between
    old and new in every round, and so copies all that the loop carries.

    Args:
      flag: `bool[]`.
    """
    return flag


@any_across_vmap.def_vmap
def _(_: int, batched: Any, flag: jax.Array) -> tuple[jax.Array, bool]:
    # Nested `vmap`s: the instances of the outer ones are asked in turn.
    return any_across_vmap(flag.any(0) if batched[0] else flag), False


def bound_rounds(ask: Callable[..., T], most: Any, *arguments: Any) -> T:
    """Returns the condition or count of a loop: `ask(*arguments)`, or `most` on a GPU.

    For rounds that change nothing once the work is done. A GPU asks the host in every round whether
    there is another, unless their number is known when the program is compiled.

    Args:
      ask: of arrays; the number of rounds that are needed, or whether one more is.
      most: the most rounds that can be needed, or True beside another condition that ends them.
      *arguments: of `ask`.
    """

    def always(*arguments: Any) -> Any:
        shape = jax.eval_shape(ask, *arguments)
        return jnp.full(shape.shape, most, shape.dtype)

    return jax.lax.platform_dependent(*arguments, cpu=ask, tpu=ask, default=always)


def short_loop(rounds: int, body: Callable[[jax.Array, T], T], carry: T) -> T:
    """`fori_loop(0, rounds, body, carry)`, which an accelerator unrolls.

    It would start several kernels in each round, and one for all rounds that are unrolled.
    """
    loop, unrolled = (
        functools.partial(jax.lax.fori_loop, 0, rounds, body, unroll=unroll)
        for unroll in (False, True)
    )
    return jax.lax.platform_dependent(carry, cpu=loop, default=unrolled)


def update_compacted(
    need: jax.Array, current: ArrayTree, make: Callable[[jax.Array], Any], group: int
) -> Any:
    """Replaces the entries of `current` marked by `need` with `make(indices)`.

    On a CPU in groups, so that only the marked ones are paid for. On an accelerator a loop whose
    end depends on data costs a round trip to the host in every round, and a kernel costs as much
    for few instances as for all: there `make` is called for all, and `need` chooses, unless `make`
    has such a loop itself, or one of more than `ROUNDS` rounds, or computes more than `EVERYWHERE`
    numbers for an instance. The results are the same.

    Args:
      need: `bool[B]`.
      current: pytree with leaves `[B, ...]`.
      make: maps `int32[group]` instance indices to a pytree with leaves `[group, ...]`; an index
        of B marks an unused place of the last group.
      group: instances per round; the number of rounds is `ceil(need.sum() / group)`.

    Returns:
      `current` with the marked entries replaced.
    """

    return _for_kinds(need.astype(jnp.int32), current, [(make, group)])


def _for_kinds(
    kind: jax.Array, current: ArrayTree, works: Sequence[tuple[Callable[[jax.Array], Any], int]]
) -> Any:
    """`update_compacted` with function and group of each kind from 1 on; 0 of `int32[B]`: none."""

    def few(kind: jax.Array, current: ArrayTree) -> Any:
        counts = _running_count(kind == np.arange(1, len(works) + 1)[:, None])
        for count, (make, group) in zip(counts, works, strict=True):
            current = _for_counted(count, current, make, group)
        return current

    def all_(kind: jax.Array, current: ArrayTree) -> Any:
        for number, (make, group) in enumerate(works, 1):
            current = _everywhere(kind == number, current, make, group)
        return current

    return jax.lax.platform_dependent(kind, current, cpu=few, default=all_)


EVERYWHERE = 2**17
"""Numbers that an accelerator may compute for every instance, although few instances need them."""
ROUNDS = 64
"""The longest loop that it may run for them: every round launches kernels of its own."""


def _everywhere(
    need: jax.Array, current: ArrayTree, make: Callable[[jax.Array], Any], group: int
) -> Any:
    """`update_compacted` where nothing waits for data, or, if `make` is expensive, where few do."""
    indices = jnp.arange(need.size, dtype=jnp.int32)
    closed, shapes = jax.make_jaxpr(make, return_shape=True)(indices)
    if _count_numbers(closed.jaxpr) > EVERYWHERE * need.size:
        return _for_counted(jnp.cumsum(need), current, make, group)
    leaves = jaxpr_as_fun(closed)(indices)
    return select(need, jax.tree.unflatten(jax.tree.structure(shapes), leaves), current)


_VIEWS = ("broadcast_in_dim", "reshape", "squeeze")
"""Operations that compute nothing."""


def _count_numbers(jaxpr: Any) -> float:
    """Returns how many numbers a program computes; infinity with long or data-dependent loops."""
    total = 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "while" or (name == "scan" and equation.params["length"] > ROUNDS):
            return float("inf")
        inner = list(jaxprs_in_params(equation.params))
        if platforms := equation.params.get("branches_platforms"):
            inner = [x for x, names in zip(inner, platforms, strict=True) if names != ("cpu",)]
        times = equation.params["length"] if name == "scan" else 1
        total += times * sum(map(_count_numbers, inner))
        if not inner and name not in _VIEWS:
            total += sum(x.aval.size for x in equation.outvars)
    return total


def _for_counted(
    count: jax.Array, current: ArrayTree, make: Callable[[jax.Array], Any], group: int
) -> Any:
    """`update_compacted` from how many are marked up to and including each, `int32[B]`."""
    if count.size == 1:
        # A loop would be no loop to XLA: with one instance `make` depends on no round, and is
        # moved in front of it, and so called whether or not anything is marked.
        def replace(current: ArrayTree) -> Any:
            fresh = make(jnp.zeros(1, jnp.int32))
            fresh = jax.tree.map(lambda c, f: f.astype(c.dtype), current, fresh)
            return select(count > 0, fresh, current)

        is_any = any_across_vmap(count[0] > 0)
        return jax.lax.cond(is_any, replace, lambda current: current, current)
    places = jnp.arange(1, group + 1, dtype=jnp.int32)

    def body(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        done, current = loop
        # The r-th marked instance is where the running count first reaches r.
        indices = first_reaching(count, done + places)
        fresh = make(indices)
        current = jax.tree.map(
            lambda c, f: c.at[indices].set(f.astype(c.dtype), mode="drop"), current, fresh
        )
        return done + group, current

    start = jnp.zeros((), jnp.int32)
    # Where nothing is left to replace, no index is in range.
    left = lambda loop: any_across_vmap(loop[0] < count[-1])  # noqa: E731
    return jax.lax.while_loop(left, body, (start, current))[1]


def first_reaching(sums: jax.Array, values: jax.Array, side: str = "left") -> jax.Array:
    """`searchsorted`, `int32[N]`, of which an accelerator makes one kernel.

    Args:
      sums: `[B]`, in ascending order.
      values: `[N]`.
      side: as of `jnp.searchsorted`.
    """
    bisected, compared = (
        functools.partial(jnp.searchsorted, side=side, method=method)
        for method in ("scan", "compare_all")
    )
    places = jax.lax.platform_dependent(sums, values, cpu=bisected, default=compared)
    return places.astype(jnp.int32)


def _running_count(marks: jax.Array) -> jax.Array:
    """`cumsum` along the last axis, of `bool[..., B]`: exact up to 2**24.

    By products of matrices, which XLA has compiled already: of a `cumsum` it makes loops in loops.
    """
    return _running_sums(marks.astype(jnp.float32)).astype(jnp.int32)


def _running_sums(values: jax.Array, width: int = 64) -> jax.Array:
    """`cumsum` along the last axis, of `float32[..., B]`: in rows, whose ends are then summed."""
    size = values.shape[-1]
    upper = np.triu(np.ones((width, width), np.float32))
    exact = jax.lax.Precision.HIGHEST
    if size <= width:
        return jnp.matmul(values, upper[:size, :size], precision=exact)
    rows = -(-size // width)
    room = [(0, 0)] * (values.ndim - 1) + [(0, rows * width - size)]
    table = jnp.pad(values, room).reshape(*values.shape[:-1], rows, width)
    within = jnp.matmul(table, upper, precision=exact)
    ends = within[..., -1]
    sums = within + (_running_sums(ends, width) - ends)[..., None]
    return sums.reshape(*values.shape[:-1], rows * width)[..., :size]


def restart(
    fresh: Callable[[jax.Array, Any], Any],
    done: jax.Array,
    key: jax.Array,
    current: ArrayTree,
    params: ArrayTree,
) -> Any:
    """`fresh(key, params)` where `done`, else `current`: a reset that only the ended ones pay for.

    Trainers of the gymnax kind `vmap` a step that resets itself, and a `vmap` turns "if done" into
    "compute both and choose": every instance would pay for a new task and a new episode at every
    step. Under any `vmap` the instances that ended are compacted, as in `VectorEnv`.

    Args:
      fresh: `(key, params) -> ` a pytree like `current`, unbatched.
      done: `bool[]`.
      key: a typed key.
      current: pytree of arrays.
      params: pytree of arrays.
    """
    return make_switch_compacted([fresh])(done.astype(jnp.int32), current, key, params)


def make_switch_compacted(
    makes: Sequence[Callable[..., Any]], groups: Callable[[int], Sequence[int]] | None = None
) -> Callable[..., Any]:
    """Returns a function that makes what few instances need, which pay for it alone.

    It takes a kind `int32[]` within 0 .. len(makes), a pytree `current` and arguments, and returns
    `makes[kind - 1](*arguments)`, or `current` if the kind is 0. Keep it, so that it is traced only
    once.

    For work that few instances need at a step, of one kind or another. Alone, an instance does what
    it needs. Under any `vmap` those that need the same are compacted, one kind after another, so
    that no instance pays for what another needs; the results are the same.

    Args:
      makes: functions of the arguments that return a pytree like `current`, unbatched. They must
        not close over traced values.
      groups: of a batch's size, how many instances of each kind are worked on together; by default
        a sixteenth of the batch, and at least 8.
    """

    # What is made alone is traced first; a batch is then made of its trace.
    makes = [jax.jit(make) for make in makes]

    def batch(kind: jax.Array, current: ArrayTree, *arguments: Any) -> Any:
        sizes = groups(kind.size) if groups else [max(8, kind.size // 16)] * len(makes)
        works = [
            (functools.partial(_make_selected, make, arguments), min(kind.size, group))
            for make, group in zip(makes, sizes, strict=True)
        ]
        return _for_kinds(kind, current, works)

    def alone(kind: jax.Array, current: ArrayTree, *arguments: Any) -> Any:
        branches = [lambda: current, *(functools.partial(make, *arguments) for make in makes)]
        return jax.lax.switch(kind, branches)

    # As programs of their own they keep their constants to themselves: a `cond` under `vmap` would
    # hand these over once for each instance.
    return as_one_batch(jax.jit(batch), jax.jit(alone))


def _make_selected(make: Callable[..., Any], arguments: Any, indices: jax.Array) -> Any:
    """Returns what `make` makes of the arguments at `int32[group]` places of a batch."""
    return jax.vmap(make)(*jax.tree.map(lambda x: x[indices], arguments))


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of one instance that `vmap` turns back into one call of `function`.

    With the batch as their last axis, loops consist of long rows that vectorise, and what has ended
    early can be left out. A batch of batches becomes one larger batch.

    Args:
      function: of pytrees of arrays `[..., B]`, with such a result.

    Returns:
      A function of the same pytrees without the last axis.
    """

    def batch(*arguments: Any) -> Any:
        moved = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), arguments)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), function(*moved))

    return as_one_batch(batch)


def as_one_batch(
    batch: Callable[..., Any], unbatched: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Returns a function of one instance whose `vmap`s, however nested, become one call of `batch`.

    Args:
      batch: of pytrees of arrays `[B, ...]`, with such a result.
      unbatched: the same without a batch, and for batches of one; by default a batch of one.

    Returns:
      A function of the same pytrees without the first axis.
    """

    def one(*arguments: Any) -> Any:
        if unbatched is not None:
            return unbatched(*arguments)
        result = batch(*jax.tree.map(lambda x: x[None], arguments))
        return jax.tree.map(lambda x: x[0], result)

    batched_call, single = custom_vmap(batch), custom_vmap(one)

    @batched_call.def_vmap
    def _(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        result = batched_call(*merge_axes(along(size, tuple(batched), arguments)))
        return all_batched(jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), result))

    @single.def_vmap
    def _(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        spread = along(size, tuple(batched), arguments)
        if unbatched is not None and size == 1:
            result = single(*jax.tree.map(lambda x: x[0], spread))
            return all_batched(jax.tree.map(lambda x: x[None], result))
        return all_batched(batched_call(*spread))

    return single


def along(size: int, batched: Any, tree: ArrayTree) -> Any:
    """All leaves with a new leading axis of `size`; what does not vary along it is repeated."""

    def widen(has_axis: bool, x: jax.Array) -> jax.Array:
        return x if has_axis else jnp.broadcast_to(x, (size, *x.shape))

    return jax.tree.map(widen, batched, tree)


def merge_axes(tree: ArrayTree) -> Any:
    """Returns all leaves with their first two axes as one."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def all_batched(tree: ArrayTree) -> tuple[Any, Any]:
    """Returns a result with what `def_vmap` wants to know of it: that every leaf has the axis."""
    return tree, jax.tree.map(lambda _: True, tree)
