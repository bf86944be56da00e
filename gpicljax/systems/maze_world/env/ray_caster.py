"""Frames of a batch of poses in mazes, at the speed of the processor.

The stages are kept apart: rays, walls, records of columns and rows, a word for every pixel, its
colour, bytes. Merged, XLA:CPU would follow every pixel's ray anew. There, a few frames at a time
are painted from their records to their bytes, so that all that a pixel needs stays in the nearest
cache, and no beams are looked for where there are none.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gpicljax.envs._stages import run_stage
from gpicljax.systems.maze_world.env import rays, shading
from gpicljax.systems.maze_world.env.rays import Mazes, Rays, Screen, Shots
from gpicljax.typing import ArrayTree

_TILE = 64  # frames whose rays are cast together on a CPU
_PAINTED = 1 << 14  # pixels that are painted together on a CPU, for two frames or more

T = TypeVar("T")


def frames(screen: Screen, table: np.ndarray, mazes: Mazes, shots: Shots) -> jax.Array:
    """Frames, each of which is the same whatever the others are.

    Args:
      screen: size and field of view.
      table: `uint32[S * 64 * 64]`, texels of all textures.
      mazes: M of them.
      shots: F of them.

    Returns:
      `uint8[F, H, W, 3]`.
    """
    tiled = functools.partial(in_tiles, screen, table)
    return lax.platform_dependent(
        mazes, shots, cpu=tiled, default=functools.partial(at_once, screen, table)
    )


def _light(table: np.ndarray) -> int:
    """Bits for brightness in a word, beside a texel's index."""
    return min(32 - math.ceil(math.log2(len(table))), 17)


def _bytes(colours: jax.Array) -> jax.Array:
    """`uint8[F, H, W, 3]`."""
    flat = lax.bitcast_convert_type(colours.reshape(-1), jnp.uint8)[:, :3]
    return flat.reshape(*colours.shape, 3)


def _with_bar(screen: Screen, bar: jax.Array, strip: jax.Array) -> jax.Array:
    """Returns the bar painted over its rows, `uint32[F, h, W]`; `bar` is that of `Shots`."""
    column = np.arange(screen.width, dtype=np.int32)
    covered = (column >= bar[:, :1]) & (column < bar[:, 1:2])
    colour = lax.bitcast_convert_type(bar[:, 2], jnp.uint32)
    return jnp.where(covered[:, None], colour[:, None, None], strip)


def at_once(screen: Screen, table: np.ndarray, mazes: Mazes, shots: Shots) -> jax.Array:
    """Frames made side by side, as accelerators like it; see `frames`."""
    light = _light(table)
    keep = lax.optimization_barrier
    cast = keep(rays.cast(screen, mazes, shots))
    reached = rays.trace(mazes, shots, cast)
    depth = reached.depth(cast)
    most = mazes.landmarks.shape[1]
    nearest = keep(rays.nearest_beams(most, mazes, shots, cast, depth))
    columns, rows, beams = keep(
        (
            shading.columns(screen, light, mazes, shots, depth, reached),
            shading.rows(screen, mazes, shots),
            shading.beams(screen, mazes, shots, nearest),
        )
    )
    words = shading.pixels(screen, light, mazes, shots, columns, rows)
    colours = shading.colours(light, jnp.asarray(table), words, beams)
    first, last = screen.bar_rows()
    strip = _with_bar(screen, shots.bar, colours[:, first:last])
    return _bytes(keep(colours.at[:, first:last].set(strip)))


def in_tiles(screen: Screen, table: np.ndarray, mazes: Mazes, shots: Shots) -> jax.Array:
    """Frames made a few at a time, as a CPU's caches like it; see `frames`."""
    count = shots.maze.shape[0]
    result = jnp.zeros((count, screen.height, screen.width, 3), jnp.uint8)
    size = math.ceil(count / max(math.ceil(count / _TILE), 1))

    def tile(first: jax.Array, result: jax.Array) -> jax.Array:
        return _tile(screen, table, mazes, _part(shots, first, size), first, result)

    return _in_parts(count, size, tile, result)


def _in_parts(count: int, size: int, function: Callable[[jax.Array, T], T], carry: T) -> T:
    """Calls `function(first, carry)` for parts of equal size, of which the last may overlap."""
    if count == 0:
        return carry
    if count <= size:
        return function(jnp.int32(0), carry)
    last = np.int32(count - size)
    return lax.fori_loop(
        np.int32(0),
        np.int32(math.ceil(count / size)),
        lambda i, carry: function(jnp.minimum(i * np.int32(size), last), carry),
        carry,
    )


def _part(tree: ArrayTree, first: jax.Array, size: int) -> Any:
    return jax.tree.map(lambda v: lax.dynamic_slice_in_dim(v, first, size), tree)


def _tile(
    screen: Screen,
    table: np.ndarray,
    mazes: Mazes,
    shots: Shots,
    first: jax.Array,
    result: jax.Array,
) -> jax.Array:
    """Paints the frames of `shots` into `result`, from frame number `first` on."""
    light = _light(table)
    texels = jnp.asarray(table)
    bits = lax.bitcast_convert_type(shots.pose[0, 2], jnp.uint32)
    apart = functools.partial(run_stage, (bits * bits) & 3 != 2)  # no square is

    def walls(mazes: Mazes, shots: Shots, cast: Rays, reached: rays.Reached) -> Any:
        depth = reached.depth(cast)
        return depth, rays.count_beams(mazes, shots, cast, depth)

    def records(mazes: Mazes, shots: Shots, depth: jax.Array, reached: rays.Reached) -> Any:
        columns = shading.columns(screen, light, mazes, shots, depth, reached)
        return columns, shading.rows(screen, mazes, shots)

    cast = apart(functools.partial(rays.cast, screen), mazes, shots)
    reached = rays.trace(mazes, shots, cast)
    depth, overlaps = apart(walls, mazes, shots, cast, reached)
    columns, rows = apart(records, mazes, shots, depth, reached)

    def draw_with_beams(
        slots: int, words: jax.Array, mazes: Mazes, shots: Shots, cast: Rays, depth: jax.Array
    ) -> jax.Array:
        if not slots:
            return shading.colours(light, texels, words, None)
        find = functools.partial(rays.nearest_beams, slots)
        nearest = apart(find, mazes, shots, cast, depth)
        beams = apart(functools.partial(shading.beams, screen), mazes, shots, nearest)
        return shading.colours(light, texels, words, beams)

    # The programs by how many beams they have room for. A frame gets the same from all that do.
    most = mazes.landmarks.shape[1]
    slots = [n for n in (0, 1, shading.FEW) if n < most] + [most]
    programs = [functools.partial(draw_with_beams, n) for n in slots]

    def paint(start: jax.Array, result: jax.Array) -> jax.Array:
        tile_shots, *records = _part((shots, columns, rows), start, together)
        words = apart(functools.partial(shading.pixels, screen, light), mazes, tile_shots, *records)
        room = np.array(slots[:-1], np.int32)
        needed = jnp.sum(jnp.max(_part(overlaps, start, together)) > room, dtype=jnp.int32)
        scene = mazes, tile_shots, *_part((cast, depth), start, together)
        colours = lax.switch(needed, programs, words, *scene)

        top, bottom = (np.int32(row) for row in screen.bar_rows())

        def write(i: jax.Array, result: jax.Array) -> jax.Array:
            frame, bar = _part((colours, tile_shots.bar), i, 1)
            corner = first + start + i, np.int32(0), np.int32(0), np.int32(0)
            result = lax.dynamic_update_slice(result, _bytes(frame), corner)
            strip = _bytes(_with_bar(screen, bar, frame[:, top:bottom]))
            return lax.dynamic_update_slice(result, strip, (corner[0], top, *corner[2:]))

        return lax.fori_loop(np.int32(0), np.int32(together), write, result)

    count = shots.maze.shape[0]
    together = min(max(2, _PAINTED // (screen.height * screen.width)), count)
    return _in_parts(count, together, paint, result)
