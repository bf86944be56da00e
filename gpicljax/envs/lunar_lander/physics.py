"""One step of the world: free flight for everyone, contacts for those near the ground.

`advance` takes one world. Under `vmap` the whole batch flies first; then the instances that touch
the ground, or come close to it, are gathered in groups and only these pay for contacts. On a GPU
each instance does what it needs by itself, in one kernel.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gpicljax.batching import batch_last
from gpicljax.envs._gpu import one_kernel_on_gpu
from gpicljax.envs.lunar_lander.flight import POSITION_ITERATIONS, fly
from gpicljax.envs.lunar_lander.landing import land
from gpicljax.envs.lunar_lander.scene import World
from gpicljax.typing import ArrayTree

_PATIENCE = 4


def _group(size: int) -> int:
    # 16 instances cost a third more than 8 do, and a batch of trained agents lands as one.
    return min(size, max(16, size // 8))


def _advance_all(world: World, heights: jax.Array, over: jax.Array) -> World:
    """A step of a batch: leaves `[..., B]`, with velocities that forces have changed already."""
    flown, holds = fly(world, heights, _PATIENCE)
    size = heights.shape[-1]
    group = _group(size)

    def rest(loop: tuple) -> tuple:
        need, result = loop
        (indices,) = jnp.nonzero(need, size=group, fill_value=size)
        indices = indices.astype(jnp.int32)
        unsettled, ground = jax.tree.map(lambda x: x[..., indices], (world, heights))
        landed = land(unsettled, ground)
        result = jax.tree.map(
            lambda old, new: old.at[..., indices].set(new, mode="drop"), result, landed
        )
        return need.at[indices].set(False, mode="drop"), result

    need = ~holds & ~over
    return jax.lax.while_loop(lambda loop: loop[0].any(), rest, (need, flown))[1]


def advance_one(world: World, heights: jax.Array, over: jax.Array) -> World:
    """`_advance_all` for one instance."""
    world, heights = _add_batch((world, heights))
    flown, holds = fly(world, heights, _PATIENCE)
    need = ~holds[0] & ~over
    return _drop_batch(jax.lax.cond(need, lambda: land(world, heights), lambda: flown))


def fly_one(world: World, heights: jax.Array) -> World:
    """Runs a step of one instance without contacts."""
    world, heights = _add_batch((world, heights))
    return _drop_batch(fly(world, heights, POSITION_ITERATIONS)[0])


def _add_batch(tree: ArrayTree) -> Any:
    """Returns one instance as a batch."""
    return jax.tree.map(lambda x: x[..., None], tree)


def _drop_batch(tree: ArrayTree) -> Any:
    return jax.tree.map(lambda x: x[..., 0], tree)


_advance = one_kernel_on_gpu(advance_one, elsewhere=batch_last(_advance_all))
_fly = one_kernel_on_gpu(fly_one, elsewhere=fly_one)


@jax.jit
def advance(world: World, heights: jax.Array, over: jax.Array) -> World:
    """Runs one step of 0.02 s. Compiled once for all callers outside `jit`.

    Args:
      world: unbatched; forces and engines have changed the velocities already.
      heights: float `[11]`, the ground.
      over: `bool[]`, the result is of no interest and need not be right.
    """
    return _advance(world, heights, over)


@jax.jit
def fly_alone(world: World, heights: jax.Array) -> World:
    """Runs a step high above the ground, unbatched: as `advance`, but without contacts."""
    return _fly(world, heights)
