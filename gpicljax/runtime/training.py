"""The training of an experiment: chunks of updates of all runs, side by side or one alone.

Runs that learn from the same data go through it together, each on all devices.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from gpicljax.runtime.dry_run import compile_within_memory
from gpicljax.runtime.loop import watched
from gpicljax.runtime.mesh import (
    AXIS,
    ENVIRONMENT_COMPILE,
    make_mesh,
    per_part,
    per_replica,
    shard_parts,
)
from gpicljax.runtime.program import Program, Sharding
from gpicljax.runtime.replicas import Replicas
from gpicljax.typing import ArrayTree


class _Running(NamedTuple):
    """One run in the middle of a chunk: all that the rest of it depends on.

    Attributes:
      state: the trainer's.
      sums: of the metrics of this chunk's updates so far.
    """

    state: Any
    sums: dict[str, jax.Array]

    @property
    def params(self) -> Any:
        """The agent's parameters."""
        return self.state.params


class Training(NamedTuple):
    """All runs of an experiment, as they begin and compiled.

    Attributes:
      running: as it begins; with a leading axis of replicas unless one run is alone.
      advance: `(running, n: int32[]) -> (running, ())`, by n updates. The bits do not depend on how
        a chunk is cut into such stretches: there is one program for all of them.
      finish: `running -> (running, metrics)`, at a chunk's end.
      replicas: the runs on the leading axis, as `running` holds them; None for a single one that is
        spread over all devices.
    """

    running: Any
    advance: Callable[..., tuple[Any, tuple[()]]]
    finish: Callable[[Any], Any]
    replicas: Replicas | None


def start_training(
    program: Program, replicas: Replicas, keys: jax.Array, cells: Any, updates: int
) -> Training:
    """Begins all runs: a single one, or those that share data, on all devices; else side by side.

    Args:
      program: what is trained; it has agents.
      replicas: the runs.
      keys: typed keys, one for each run.
      cells: what distinguishes their cells, a pytree of arrays with a leading axis of runs.
      updates: of a chunk.

    Example:
      >>> from gpicljax.runtime.program import Program
      >>> program = Program("counting", lambda key, cell: cell, lambda x: (x + 1, {"x": x}), 1)
      >>> replicas = Replicas(("seed 0", "seed 1"), make_mesh(1))
      >>> keys = jax.random.split(jax.random.key(0), 2)
      >>> training = start_training(program, replicas, keys, jnp.array([0, 10]), updates=4)
      >>> training.advance(training.running, jnp.int32(3))[0].state.tolist()
      [3, 13]
    """
    if program.sharding is not None and program.sharding.together:
        return _together(program, program.sharding, replicas, keys, cells, updates)
    if replicas.count == 1 and program.sharding is not None:
        return _one_run(program, program.sharding, keys[0], updates)
    return _side_by_side(program, replicas, keys, cells, updates)


def _begin(program: Program, key: jax.Array, cell: ArrayTree) -> _Running:
    assert program.init is not None
    state = program.init(key, cell)
    metrics = (
        jax.eval_shape(program.update, state)[1] if program.update and program.observations else {}
    )
    dtypes = {name: jnp.result_type(x.dtype, jnp.float32) for name, x in metrics.items()}
    return _Running(state, {n: jnp.zeros(x.shape, dtypes[n]) for n, x in metrics.items()})


def _begun(begin: Any, *arguments: Any) -> Any:
    """What is running at the start; a start that does not fit in memory is refused."""
    compiled, _ = compile_within_memory(begin, "the start of the training", *arguments)
    return compiled(*arguments)


def _advance(update: Callable[[Any], Any] | None) -> Callable[..., tuple[_Running, tuple[()]]]:
    if update is None:
        return lambda running, n: (running, ())

    def step(_: Any, running: _Running) -> _Running:
        state, metrics = update(running.state)
        return _Running(state, {n: total + metrics[n] for n, total in running.sums.items()})

    return lambda running, n: (jax.lax.fori_loop(0, n, step, running), ())


def _finish(program: Program, updates: int) -> Callable[[_Running], Any]:
    """Means of the metrics, then what comes between two chunks."""

    def finish(running: _Running) -> tuple[_Running, dict[str, jax.Array]]:
        means = {name: total / updates for name, total in running.sums.items()}
        sums = jax.tree.map(jnp.zeros_like, running.sums)
        return _Running(program.between(running.state), sums), means

    return watched(finish)


def _side_by_side(
    program: Program, replicas: Replicas, keys: jax.Array, cells: Any, updates: int
) -> Training:
    """All runs, each on one device."""
    begin = per_replica(
        functools.partial(_begin, program), replicas.mesh, compiler_options=ENVIRONMENT_COMPILE
    )
    return Training(
        _begun(begin, *replicas.spread((keys, cells))),
        per_replica(_advance(program.update), replicas.mesh, (0, None), donate_argnums=0),
        per_replica(_finish(program, updates), replicas.mesh, donate_argnums=0),
        replicas,
    )


def _together(
    program: Program,
    sharding: Sharding,
    replicas: Replicas,
    keys: jax.Array,
    cells: Any,
    updates: int,
) -> Training:
    """All runs on all devices; the cells of a seed share what its update makes once."""
    mesh = make_mesh(math.gcd(sharding.instances, len(jax.devices())))
    count, update = len(program.cells), sharding.update(mesh.size, AXIS)
    begin = jax.vmap(functools.partial(_begin, program))
    running = _begun(jax.jit(begin, compiler_options=ENVIRONMENT_COMPILE), keys, cells)

    def of_all(state: ArrayTree) -> Any:
        """Runs lie cell by cell; seeds come one after the other."""
        seeds = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]).swapaxes(0, 1), state)
        return jax.tree.map(
            lambda x: x.swapaxes(0, 1).reshape(replicas.count, *x.shape[2:]),
            jax.lax.map(update, seeds),
        )

    every = update if replicas.count == count else of_all
    return Training(
        *_on_all_devices(sharding, mesh, running, every, jax.vmap(_finish(program, updates))),
        dataclasses.replace(replicas, mesh=mesh, copied=True),
    )


def _one_run(program: Program, sharding: Sharding, key: jax.Array, updates: int) -> Training:
    """A single run sharding over all devices."""
    mesh = make_mesh(math.gcd(sharding.instances, len(jax.devices())))
    cell = next(iter(program.cells.values()))
    begin = functools.partial(_begin, program)
    running = _begun(jax.jit(begin, compiler_options=ENVIRONMENT_COMPILE), key, cell)
    update, finish = sharding.update(mesh.size, AXIS), _finish(program, updates)
    return Training(*_on_all_devices(sharding, mesh, running, update, finish), None)


def _on_all_devices(
    sharding: Sharding, mesh: Mesh, running: Any, update: Any, finish: Any
) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """What is running, and the programs that go on with it, over the mesh."""

    def partition(batch: Any, whole: Any) -> Any:
        return _Running(sharding.partition(batch, whole), whole)

    return (
        shard_parts(running, mesh, partition),
        per_part(_advance(update), mesh, partition, more=1),
        per_part(finish, mesh, partition),
    )
