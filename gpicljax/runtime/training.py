"""The training of an experiment: chunks of updates of all runs, side by side or one alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.runtime.lanes import Lanes
from gpicljax.runtime.loop import watched
from gpicljax.runtime.mesh import AXIS, make_mesh, per_lane, per_part, shard_parts

if TYPE_CHECKING:
    from gpicljax.runtime.experiment import Program, Spread


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
      running: as it begins; with a leading axis of lanes unless one run is alone.
      advance: `(running, n: int32[]) -> (running, ())`, by n updates. The bits do not depend on how
        a chunk is cut into such stretches: there is one program for all of them.
      finish: `running -> (running, metrics)`, at a chunk's end.
      alone: whether it is a single run that is spread over all devices.
    """

    running: Any
    advance: Callable[..., tuple[Any, tuple[()]]]
    finish: Callable[[Any], Any]
    alone: bool


def start_training(
    program: Program, lanes: Lanes, keys: jax.Array, cells: Any, updates: int
) -> Training:
    """Begins all runs: a single one on all devices where it can be spread, else side by side.

    Args:
      program: what is trained.
      lanes: the runs.
      keys: typed keys, one for each run.
      cells: what distinguishes their cells, a pytree of arrays with a leading axis of runs.
      updates: of a chunk.

    Example:
      >>> from gpicljax.runtime.experiment import Program
      >>> program = Program("counting", lambda key, cell: cell, lambda x: (x + 1, {"x": x}), 1)
      >>> lanes = Lanes(("seed 0", "seed 1"), make_mesh(1))
      >>> keys = jax.random.split(jax.random.key(0), 2)
      >>> training = start_training(program, lanes, keys, jnp.array([0, 10]), updates=4)
      >>> training.advance(training.running, jnp.int32(3))[0].state.tolist()
      [3, 13]
    """
    if lanes.count == 1 and program.spread is not None:
        return _one_run(program, program.spread, keys[0], updates)
    return _side_by_side(program, lanes, keys, cells, updates)


def _begin(program: Program, key: jax.Array, cell: Any) -> _Running:
    state = program.init(key, cell)
    metrics = jax.eval_shape(program.update, state)[1] if program.observations else {}
    dtypes = {name: jnp.result_type(x.dtype, jnp.float32) for name, x in metrics.items()}
    return _Running(state, {n: jnp.zeros(x.shape, dtypes[n]) for n, x in metrics.items()})


def _advance(update: Callable[[Any], Any]) -> Callable[..., tuple[_Running, tuple[()]]]:
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
    program: Program, lanes: Lanes, keys: jax.Array, cells: Any, updates: int
) -> Training:
    """All runs, each on one device."""
    begin = functools.partial(_begin, program)
    return Training(
        per_lane(begin, lanes.mesh)(*lanes.spread((keys, cells))),
        per_lane(_advance(program.update), lanes.mesh, (0, None), donate_argnums=0),
        per_lane(_finish(program, updates), lanes.mesh, donate_argnums=0),
        alone=False,
    )


def _one_run(program: Program, spread: Spread, key: jax.Array, updates: int) -> Training:
    """A single run spread over all devices."""
    mesh = make_mesh(math.gcd(spread.instances, len(jax.devices())))
    cell = next(iter(program.cells.values()))
    running = jax.jit(functools.partial(_begin, program))(key, cell)

    def partition(batch: Any, whole: Any) -> Any:
        return _Running(spread.partition(batch, whole), whole)

    return Training(
        shard_parts(running, mesh, partition),
        per_part(_advance(spread.update(mesh.size, AXIS)), mesh, partition, more=1),
        per_part(_finish(program, updates), mesh, partition),
        alone=True,
    )
