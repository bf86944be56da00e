"""The training of an experiment: chunks of updates of all runs, side by side or one alone.

Runs that learn from the same data go through it together, each on all devices.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from gpicljax.runtime.dry_run import compile_within_memory
from gpicljax.runtime.loop import with_finite_check
from gpicljax.runtime.mesh import (
    AXIS,
    ENVIRONMENT_COMPILE,
    make_mesh,
    options_for,
    parts_like,
    per_part,
    per_replica,
    shard_leading,
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


class Plan(NamedTuple):
    """The compiled training of runs on a mesh; nothing is computed yet.

    Attributes:
      begin: compiled, from `arguments` to what is running.
      arguments: of all replicas; on the mesh already, or to be put on it where `spread` is true.
      spread: whether the replicas begin side by side, each on its device.
      mesh: the devices.
      partition: `(batch, whole) -> prefix of what is running`, see `Sharding.partition`.
      advance: as in `Training`.
      finish: as in `Training`.
      replicas: as in `Training`.
    """

    begin: Callable[..., Any]
    arguments: tuple[Any, ...]
    spread: bool
    mesh: Mesh
    partition: Callable[[Any, Any], Any]
    advance: Callable[..., tuple[Any, tuple[()]]]
    finish: Callable[[Any], Any]
    replicas: Replicas | None

    def running_like(self) -> Any:
        """The shapes of what is running, with the devices that hold it."""
        return parts_like(jax.eval_shape(self.begin, *self.arguments), self.mesh, self.partition)


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
    """
    plan = plan_training(program, replicas, keys, cells, updates, jax.devices())
    arguments = shard_leading(plan.arguments, plan.mesh) if plan.spread else plan.arguments
    running = shard_parts(_begun(plan.begin, *arguments), plan.mesh, plan.partition)
    return Training(running, plan.advance, plan.finish, plan.replicas)


def plan_training(
    program: Program,
    replicas: Replicas,
    keys: jax.Array,
    cells: Any,
    updates: int,
    devices: Sequence[Any],
) -> Plan:
    """Spreads all runs as `start_training` does, over devices that need not be at hand.

    Args:
      program: as for `start_training`.
      replicas: the runs, on some of the devices.
      keys: as for `start_training`.
      cells: as for `start_training`.
      updates: of a chunk.
      devices: all of them.
    """
    if program.sharding is not None and program.sharding.together:
        return _together(program, program.sharding, replicas, keys, cells, updates, devices)
    if replicas.count == 1 and program.sharding is not None:
        return _one_run(program, program.sharding, keys[0], updates, devices)
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
    """Returns the state at the start; refuses a start that does not fit in memory."""
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

    return with_finite_check(finish)


def _side_by_side(
    program: Program, replicas: Replicas, keys: jax.Array, cells: Any, updates: int
) -> Plan:
    """Returns all runs, each on one device."""
    mesh = replicas.mesh
    return Plan(
        per_replica(functools.partial(_begin, program), mesh, compiler_options=ENVIRONMENT_COMPILE),
        replicas.repeat((keys, cells)),
        True,
        mesh,
        lambda batch, whole: batch,
        per_replica(_advance(program.update), mesh, (0, None), donate_argnums=0),
        per_replica(_finish(program, updates), mesh, donate_argnums=0),
        replicas,
    )


def _together(
    program: Program,
    sharding: Sharding,
    replicas: Replicas,
    keys: jax.Array,
    cells: Any,
    updates: int,
    devices: Sequence[Any],
) -> Plan:
    """Returns all runs on all devices; the cells of a seed share what its update makes once."""
    mesh = make_mesh(math.gcd(sharding.instances, len(devices)), devices)
    count, update = len(program.cells), sharding.update(mesh.size, AXIS)

    def of_all(state: ArrayTree) -> Any:
        """Runs lie cell by cell; seeds come one after the other."""
        seeds = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]).swapaxes(0, 1), state)
        return jax.tree.map(
            lambda x: x.swapaxes(0, 1).reshape(replicas.count, *x.shape[2:]),
            jax.lax.map(update, seeds),
        )

    return _on_all_devices(
        sharding,
        mesh,
        jax.vmap(functools.partial(_begin, program)),
        (keys, cells),
        update if replicas.count == count else of_all,
        jax.vmap(_finish(program, updates)),
        dataclasses.replace(replicas, mesh=mesh, copied=True),
    )


def _one_run(
    program: Program, sharding: Sharding, key: jax.Array, updates: int, devices: Sequence[Any]
) -> Plan:
    """Returns a single run sharding over all devices."""
    mesh = make_mesh(math.gcd(sharding.instances, len(devices)), devices)
    cell = next(iter(program.cells.values()))
    update, finish = sharding.update(mesh.size, AXIS), _finish(program, updates)
    begin = functools.partial(_begin, program)
    return _on_all_devices(sharding, mesh, begin, (key, cell), update, finish, None)


def _on_all_devices(
    sharding: Sharding,
    mesh: Mesh,
    begin: Any,
    arguments: tuple[Any, ...],
    update: Any,
    finish: Any,
    replicas: Replicas | None,
) -> Plan:
    """Runs that begin on one device and go on over the mesh."""

    def partition(batch: Any, whole: Any) -> Any:
        return _Running(sharding.partition(batch, whole), whole)

    return Plan(
        jax.jit(begin, compiler_options=options_for(mesh, ENVIRONMENT_COMPILE)),
        arguments,
        False,
        mesh,
        partition,
        per_part(_advance(update), mesh, partition, more=1),
        per_part(finish, mesh, partition),
        replicas,
    )
