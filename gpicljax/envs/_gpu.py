"""Programs of one instance as a GPU kernel, which runs them for a whole batch.

XLA starts at least one kernel for each round of a loop, and the host waits for the device where a
loop's end depends on data. A program that loops hundreds of times over a few numbers spends its
time on that. Within a kernel neither costs anything, and no instance waits for the loops of others.

A kernel of Triton has no small arrays, but any number of scalars. So the program is evaluated with
a scalar for every number of its arrays. What moves numbers within arrays is then free, and what
computes is written out for each number.

An instance has a warp of its own, whose threads all compute the same. With an instance per thread,
every loop would need masks, and Triton compiles a program of thousands of operations on vectors for
hours: for each load and store it searches all of them.

Without this module, each environment would write its step a second time, as the body of a
`pallas_call` with an instance for each point of the grid and one warp: scalars are loaded from the
references, loops and conditions of `jax.lax` compute with them, and scalars are stored.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.extend.core import Primitive, Var
from jax.interpreters import mlir
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from gpicljax.batching import as_one_batch

T = TypeVar("T")

Scalars = np.ndarray  # an array of the program: of numbers, or of traced scalars too (`object`)

_SHORT = 8  # loops of up to this many rounds are written out


def one_kernel_on_gpu(function: Callable[..., T], elsewhere: Callable[..., T]) -> Callable[..., T]:
    """A function that is one kernel for a whole batch on NVIDIA's GPUs, from Ampere on.

    The kernel is traced where a program is compiled for such a GPU, and nowhere else.

    Args:
      function: of trees of arrays, for one instance. It returns a tree like its first argument, and
        consists of elementwise operations, reductions, `gather`, loops and conditions.
      elsewhere: the same for other platforms.

    Returns:
      The function of one instance. Its `vmap`s become one call.
    """

    def batch(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        results = _kernel.bind(*leaves, tree=tree, function=function, elsewhere=elsewhere)
        return jax.tree.unflatten(jax.tree.structure(arguments[0]), results)

    # As a program of its own, `vmap` goes through it once; through a branch it would do so twice.
    batched, cpu = as_one_batch(batch), jax.jit(elsewhere)

    def call(*arguments: Any) -> T:
        return jax.lax.platform_dependent(*arguments, cpu=cpu, default=batched)

    return call


def in_kernel(function: Callable[..., T], *arguments: Any, interpret: bool = False) -> T:
    """`vmap(function)(*arguments)` by a kernel.

    Args:
      function: see `one_kernel_on_gpu`.
      *arguments: trees of arrays `[B, ...]`.
      interpret: whether XLA interprets the kernel, for tests without a GPU.

    Returns:
      A tree like the first argument.
    """
    leaves, tree = jax.tree.flatten(arguments)
    size, shapes = len(leaves[0]), [x.shape[1:] for x in leaves]

    def flat(*leaves: Any) -> list[Any]:
        return jax.tree.leaves(function(*jax.tree.unflatten(tree, leaves)))

    structs = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
    program: Any = jax.make_jaxpr(flat)(*structs)

    def block(*refs: Any) -> None:
        instance = pl.program_id(0)
        arrays = [
            _object_array([ref[instance, i] for i in range(ref.shape[1])], shape)
            for ref, shape in zip(refs, shapes, strict=False)
        ]
        results = _evaluate(program, arrays)
        for ref, result in zip(refs[len(leaves) :], results, strict=True):
            for i, x in enumerate(_scalars([result])):
                ref[instance, i] = x

    results = pl.pallas_call(
        block,
        grid=(size,),
        out_shape=[
            jax.ShapeDtypeStruct((size, math.prod(x.shape)), x.dtype) for x in program.out_avals
        ],
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
    )(*(x.reshape(size, -1) for x in leaves))
    results = [x.reshape(size, *y.shape) for x, y in zip(results, program.out_avals, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(arguments[0]), results)


# The kernel as a primitive, which nothing looks into before a platform is known -------------------

_kernel = Primitive("one_kernel")
_kernel.multiple_results = True


@_kernel.def_abstract_eval
def _(*leaves: Any, tree: Any, **_: Any) -> list[ShapedArray]:
    first: Any = jax.tree.unflatten(tree, leaves)[0]
    return [ShapedArray(x.shape, x.dtype) for x in jax.tree.leaves(first)]


def _on_gpu(*leaves: jax.Array, tree: Any, function: Callable, elsewhere: Callable) -> list[Any]:
    if _has_old_gpu():
        return _on_others(*leaves, tree=tree, function=function, elsewhere=elsewhere)
    return jax.tree.leaves(in_kernel(function, *jax.tree.unflatten(tree, leaves)))


def _on_others(*leaves: jax.Array, tree: Any, function: Callable, elsewhere: Callable) -> list[Any]:
    del function
    return jax.tree.leaves(jax.vmap(elsewhere)(*jax.tree.unflatten(tree, leaves)))


def _gpus() -> list[Any]:
    """Those of NVIDIA of this machine."""
    try:
        return jax.local_devices(backend="cuda")
    except RuntimeError:
        return []


def _has_old_gpu() -> bool:
    """Whether this machine has a GPU from before Ampere, for which Triton does not compile."""
    return any(float(device.compute_capability) < 8 for device in _gpus())


_lowered_on_gpu = mlir.lower_fun(_on_gpu, multiple_results=True)


@contextlib.contextmanager
def _simulated_gpu() -> Iterator[None]:
    """Lowers kernels on a machine without a GPU, too, which JAX 0.11 refuses."""
    if _gpus() or jax.__version_info__ < (0, 11):
        yield
        return
    # The oldest generation with which kernels work; XLA knows the one to compile for.
    ampere = AbstractDevice("NVIDIA A100", 108, "gpu")
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=ampere)):
        yield


def _lower_on_gpu(context: Any, *arguments: Any, **parameters: Any) -> Any:
    with _simulated_gpu(), warnings.catch_warnings():
        # JAX 0.11 and 0.12, the latest that this package takes, warn of the end of this backend.
        warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        return _lowered_on_gpu(context, *arguments, **parameters)


mlir.register_lowering(_kernel, mlir.lower_fun(_on_others, multiple_results=True))
mlir.register_lowering(_kernel, _lower_on_gpu, platform="cuda")


# Evaluation with scalars --------------------------------------------------------------------------


def _evaluate(program: Any, arguments: Sequence[Scalars]) -> list[Scalars]:
    """Returns the results of a program."""
    jaxpr = program.jaxpr
    values = dict(zip(jaxpr.constvars, map(np.asarray, program.consts), strict=True))
    values |= zip(jaxpr.invars, arguments, strict=True)

    def read(x: Any) -> Scalars:
        return values[x] if isinstance(x, Var) else np.asarray(x.val, x.aval.dtype)

    for equation in jaxpr.eqns:
        results = _equation(equation, [read(x) for x in equation.invars])
        values |= zip(equation.outvars, results, strict=True)
    return [read(x) for x in jaxpr.outvars]


def _equation(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    name, parameters = equation.primitive.name, equation.params
    if name == "platform_index":  # the branch that is no platform's own
        return [np.asarray(parameters["platforms"].index(None), np.int32)]
    if structure := {"while": _loop, "scan": _scan, "cond": _branch}.get(name):
        return structure(equation, arguments)
    for inner in ("jaxpr", "call_jaxpr"):
        if name != "reduce" and inner in parameters:
            return _evaluate(parameters[inner], arguments)
    if name in _MOVES:
        return [_MOVES[name](*arguments, **parameters)]
    if name == "unstack":
        (whole,), axis = arguments, parameters["axis"]
        return [part.squeeze(axis) for part in np.split(whole, whole.shape[axis], axis)]
    if name == "iota":
        aval = equation.outvars[0].aval
        return [np.indices(aval.shape, aval.dtype)[parameters["dimension"]]]
    if name in _NUMBERS and all(x.dtype != object for x in arguments):
        return [np.asarray(_NUMBERS[name](*arguments), equation.outvars[0].aval.dtype)]
    if name == "reduce" or name in _FOLDS:
        return _reduce(equation, arguments)
    return _elementwise(equation, arguments)


def _elementwise(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    shape = equation.outvars[0].aval.shape
    if {"axis", "dimension", "dimension_numbers"} & equation.params.keys():
        raise NotImplementedError(f"{equation.primitive} in a kernel")
    if all(x.dtype != object for x in arguments):  # Triton does not take numbers alone everywhere
        arguments = [_object_array(_scalars([x]), x.shape) for x in arguments]
    spread = [np.broadcast_to(x, shape).ravel() for x in arguments]
    columns = [_bind(equation, scalars) for scalars in zip(*spread, strict=True)]
    return [_object_array(x, shape) for x in zip(*columns, strict=True)]


def _broadcast(x: Scalars, shape: tuple, broadcast_dimensions: tuple, **_: Any) -> Scalars:
    sizes = dict(zip(broadcast_dimensions, x.shape, strict=True))
    return np.broadcast_to(x.reshape([sizes.get(i, 1) for i in range(len(shape))]), shape)


def _slice(x: Scalars, start_indices: tuple, limit_indices: tuple, strides: Any) -> Scalars:
    strides = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


def _dynamic_slice(x: Scalars, *starts: Scalars, slice_sizes: tuple) -> Scalars:
    return x[_slice_index(x, starts, slice_sizes)]


def _dynamic_update_slice(x: Scalars, part: Scalars, *starts: Scalars) -> Scalars:
    x = x.astype(object)
    x[_slice_index(x, starts, part.shape)] = part
    return x


def _slice_index(x: Scalars, starts: Sequence[Scalars], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Returns the index of a slice; its start must be known."""
    places = zip(map(int, starts), sizes, x.shape, strict=True)
    clipped_starts = [min(max(start, 0), whole - size) for start, size, whole in places]
    return tuple(slice(i, i + size) for i, size in zip(clipped_starts, sizes, strict=True))


def _gather(x: Scalars, indices: Scalars, dimension_numbers: Any, **_: Any) -> Scalars:
    """Selects each scalar among all those that its index may point at."""
    axes = dimension_numbers.start_index_map
    if len(axes) != x.ndim or dimension_numbers.offset_dims:
        raise NotImplementedError("gather of more than single numbers in a kernel")
    results = np.empty(indices.shape[:-1], object)
    for i in np.ndindex(results.shape):
        index = list(zip(indices[i], axes, strict=True))
        for place in np.ndindex(x.shape):
            parts = [(part, place[axis]) for part, axis in index]
            if any(a != b for a, b in parts if not isinstance(a, jax.Array)):
                continue
            matches = [jax.lax.eq(a, a.dtype.type(b)) for a, b in parts if isinstance(a, jax.Array)]
            if results[i] is None or not matches:
                results[i] = x[place]
            else:
                matches = functools.reduce(jax.lax.bitwise_and, matches)
                results[i] = jax.lax.select(matches, x[place], results[i])
    return results


# What only moves scalars.
_MOVES: dict[str, Callable[..., Scalars]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda *x, dimension: np.concatenate(x, dimension),
    "copy": lambda x: x,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "reshape": lambda x, new_sizes, **_: x.reshape(new_sizes),
    "rev": lambda x, dimensions: np.flip(x, dimensions),
    "slice": _slice,
    "squeeze": lambda x, dimensions: x.squeeze(dimensions),
    "stack": lambda *x, axis: np.stack(x, axis),
    "transpose": lambda x, permutation: x.transpose(permutation),
}


# What indices are computed with: no choice is needed for places that are known before.
_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "convert_element_type": np.asarray,
    "div": np.divide,
    "eq": np.equal,
    "lt": np.less,
    "mul": np.multiply,
    "ne": np.not_equal,
    "rem": np.fmod,
    "select_n": lambda which, *cases: np.where(which, cases[-1], cases[0]),
    "sign": np.sign,
    "sub": np.subtract,
}
_FOLDS = {
    "reduce_and": jax.lax.bitwise_and,
    "reduce_max": jax.lax.max,
    "reduce_min": jax.lax.min,
    "reduce_or": jax.lax.bitwise_or,
    "reduce_sum": jax.lax.add,
}


def _reduce(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    name, parameters, results = equation.primitive.name, equation.params, equation.outvars
    axes = parameters["dimensions" if name == "reduce" else "axes"]
    shape = results[0].aval.shape
    # Start values change nothing, and are left out.
    arrays = [np.moveaxis(x, axes, range(len(axes))) for x in arguments[: len(results)]]
    arrays = [x.reshape(-1, math.prod(shape)) for x in arrays]

    def fold(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        if name == "reduce":
            operands = [_object_array([x], ()) for x in (*a, *b)]
            return [x[()] for x in _evaluate(parameters["jaxpr"], operands)]
        return [_FOLDS[name](*a, *b)]

    columns = [
        functools.reduce(fold, zip(*(x[:, i] for x in arrays), strict=True))
        for i in range(math.prod(shape))
    ]
    return [_object_array(x, shape) for x in zip(*columns, strict=True)]


def _loop(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    parameters, variables = equation.params, equation.outvars
    first, second = parameters["cond_nconsts"], parameters["body_nconsts"]
    for_condition, for_body = arguments[:first], arguments[first : first + second]

    def is_unfinished(scalars: list[Any]) -> Any:
        arrays = [*for_condition, *_arrays(scalars, variables)]
        return _evaluate(parameters["cond_jaxpr"], arrays)[0][()]

    def iterate(scalars: list[Any]) -> list[Any]:
        arrays = [*for_body, *_arrays(scalars, variables)]
        return _scalars(_evaluate(parameters["body_jaxpr"], arrays))

    start = _scalars(arguments[first + second :])
    return _arrays(jax.lax.while_loop(is_unfinished, iterate, start), variables)


def _scan(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    parameters, variables = equation.params, equation.outvars
    body = parameters["jaxpr"].jaxpr
    # Carries have the same shape inside and outside, scanned arrays have one axis less inside.
    # Versions of JAX differ in how they tell the two apart.
    inside = [x.aval.shape for x in (*body.invars, *body.outvars)]
    if inside != [x.shape for x in arguments] + [x.aval.shape for x in variables]:
        raise NotImplementedError("scan over arrays in a kernel")
    constants = arguments[: len(arguments) - len(variables)]
    arrays = arguments[len(constants) :]
    if parameters["length"] <= _SHORT:
        for _ in range(parameters["length"]):
            arrays = _evaluate(parameters["jaxpr"], [*constants, *arrays])
        return arrays

    def iterate(_: jax.Array, scalars: list[Any]) -> list[Any]:
        arrays = [*constants, *_arrays(scalars, variables)]
        return _scalars(_evaluate(parameters["jaxpr"], arrays))

    scalars = jax.lax.fori_loop(0, parameters["length"], iterate, _scalars(arrays))
    return _arrays(scalars, variables)


def _branch(equation: Any, arguments: list[Scalars]) -> list[Scalars]:
    index, *arguments = arguments
    branches, variables = equation.params["branches"], equation.outvars
    if index.dtype != object:
        return _evaluate(branches[int(index)], arguments)
    chosen = [lambda x=x: _scalars(_evaluate(x, arguments)) for x in branches]
    return _arrays(jax.lax.switch(index[()], chosen), variables)


def _bind(equation: Any, arguments: Sequence[Any]) -> list[Any]:
    results = equation.primitive.bind(*arguments, **equation.params)
    return list(results) if equation.primitive.multiple_results else [results]


def _object_array(values: Sequence[Any], shape: tuple[int, ...]) -> Scalars:
    """Returns an array of scalars."""
    scalars = np.empty(len(values), object)
    for i, x in enumerate(values):  # NumPy would look into them
        scalars[i] = x
    return scalars.reshape(shape)


def _scalars(arrays: Sequence[Scalars]) -> list[Any]:
    """Returns all scalars of arrays, traced."""
    scalars = [x for array in arrays for x in array.ravel()]
    return [x if isinstance(x, jax.Array) else jax.lax.select(True, x, x) for x in scalars]


def _arrays(scalars: Sequence[Any], variables: Sequence[Any]) -> list[Scalars]:
    """Returns the inverse of `_scalars`: arrays of the variables' shapes."""
    rest, shapes = iter(scalars), [x.aval.shape for x in variables]
    return [_object_array([next(rest) for _ in range(math.prod(shape))], shape) for shape in shapes]
