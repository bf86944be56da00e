"""First-person views in a maze: a ray caster for poses on a grid of walls.

Textured walls, floor and ceiling, a fog that ends in black at the view range, translucent beams
that stand in the cells of landmarks, and a bar over the picture.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.custom_batching import custom_vmap

from gpicljax.batching import along, merge_axes
from gpicljax.checks import check
from gpicljax.systems.maze_world.env import ray_caster, textures
from gpicljax.systems.maze_world.env.rays import Mazes, Screen, Shots
from gpicljax.systems.maze_world.env.types import Task


@dataclass(frozen=True)
class Camera:
    """The static settings of pictures.

    Pixels are square: the vertical field of view follows from the horizontal one.

    Args:
      height: rows H.
      width: columns W.
      field_of_view: horizontal, degrees.
      textures: a registered set of textures, that of the tasks to be seen.

    Raises:
      ValueError: if there are no pixels, the field of view is not within (0, 170], or the set of
        textures is unknown.
    """

    height: int = 128
    width: int = 128
    field_of_view: float = 108.0
    textures: str = "default"

    def __post_init__(self) -> None:
        resolution, field = (self.height, self.width), self.field_of_view
        check(min(resolution) >= 1, "resolution", resolution, "at least 1 pixel each way")
        check(0 < field <= 170, "field_of_view", field, "degrees above 0, at most 170")
        textures.texture_set(self.textures)


@struct.dataclass
class Bar:
    """A bar painted over rows 10 % to 15 % of the height.

    Attributes:
      left: float `[]`, where it begins, as a share of the width.
      right: float `[]`, where it ends; no bar unless `right > left`.
      colour: `uint8[3]`.
    """

    left: jax.Array
    right: jax.Array
    colour: jax.Array


def render(
    camera: Camera,
    task: Task,
    position: jax.Array,
    heading: jax.Array,
    visible: jax.Array,
    bar: Bar,
) -> jax.Array:
    """Returns a picture of the maze from a pose.

    - Column h looks at `t = tan(field_of_view / 2) (2 h + 1 - W) / W` to the right of the heading
      (the side towards which headings grow), row v equally far below the horizon.
    - Fog takes `clip(2 d / view_range - 1, 0, 1)` of the light over a distance of d metres.
    - Floor and ceiling repeat their texture every metre. They are as bright as their row's distance
      from the horizon; what is further along the heading than the view range is black.
    - A wall spans a texture's width in its cell and its height in a metre, upright and never
      mirrored. It is as bright as the cosine between the ray and the wall's normal.
    - A visible landmark's beam is a slab at the faces by which rays enter its cell, from floor to
      ceiling: 30 % of what is seen is its colour in the fog, 70 % what is behind. There is none for
      the cell of the eye.
    - Colours above 255, which only steep views onto the floor reach, are cut off.

    Under `jax.vmap` (any number of them, over poses, tasks or both) the frames of the whole batch
    are made together, which is what it is built for; each is the same as on its own.

    Args:
      camera: size, field of view and textures.
      task: the maze.
      position: float `[2]`, x and y in metres, within the maze and not in a wall.
      heading: float `[]`, radians.
      visible: `bool[L]`, the landmarks that have a beam.
      bar: see `Bar`.

    Returns:
      `uint8[H, W, 3]`, the first row at the top.

    Source: appendix A.6 of the GPICL benchmarks paper.
    """
    shot = _shot(camera, position, heading, visible, bar)
    several = jax.tree.map(lambda v: v[None], (_seen_of(camera, task), shot))
    return _program(camera)(*several)[0]


def _screen(camera: Camera) -> Screen:
    slope = math.tan(math.radians(camera.field_of_view) / 2)
    return Screen(camera.height, camera.width, slope)


def _shot(
    camera: Camera, position: jax.Array, heading: jax.Array, visible: jax.Array, bar: Bar
) -> Shots:
    """Returns a frame of the first maze, without the leading axis."""
    pose = jnp.append(jnp.asarray(position), heading).astype(jnp.float32)
    red, green, blue = bar.colour.astype(jnp.int32)
    ends = [_column(share, camera.width) for share in (bar.left, bar.right)]
    return Shots(
        maze=jnp.zeros((), jnp.int32),
        pose=jax.lax.stop_gradient(pose),
        visible=_bits(visible),
        bar=jnp.stack([*ends, red | (green << 8) | (blue << 16)]),
    )


def _seen_of(camera: Camera, task: Task) -> Mazes:
    chosen = textures.texture_set(camera.textures)
    walls, grounds = len(chosen.walls), len(chosen.grounds)
    geometry = jnp.stack([task.cell_size, task.wall_height, task.eye_height, task.view_range])
    return Mazes(
        cells=jnp.where(task.walls, task.textures.astype(jnp.uint16) + 1, 0).astype(jnp.uint16),
        landmarks=task.landmarks.astype(jnp.int32),
        geometry=jax.lax.stop_gradient(geometry).astype(jnp.float32),
        surfaces=jnp.stack([task.ground + walls, task.ceiling + walls + grounds]).astype(jnp.int32),
    )


def _bits(flags: jax.Array) -> jax.Array:
    """`uint32[]` whose bit l is flag l."""
    weights = np.uint32(1) << np.arange(flags.shape[0], dtype=np.uint32)
    return jnp.sum(jnp.where(flags, weights, np.uint32(0)), dtype=jnp.uint32)


def _column(share: jax.Array, width: int) -> jax.Array:
    """Returns the column that begins at a share of the width, which rounding may have shortened."""
    share = jax.lax.stop_gradient(jnp.asarray(share)).astype(jnp.float32)
    return jnp.floor(share * width + np.float32(1e-3)).astype(jnp.int32)


@functools.cache
def _program(camera: Camera) -> Callable[[Mazes, Shots], jax.Array]:
    """Frames `uint8[F, H, W, 3]` of F shots of M mazes; batched, it gets one larger batch."""
    screen = _screen(camera)
    table = textures.table(camera.textures)

    # Traced once for each size of a batch, whichever programs have it.
    draw = jax.jit(functools.partial(ray_caster.frames, screen, table), inline=True)

    @custom_vmap
    def frames(mazes: Mazes, shots: Shots) -> jax.Array:
        return draw(mazes, shots)

    @frames.def_vmap
    def _(size: int, in_batched: Any, mazes: Mazes, shots: Shots) -> tuple[jax.Array, bool]:
        shots = along(size, in_batched[1], shots)
        if any(jax.tree.leaves(in_batched[0])):
            mazes = along(size, in_batched[0], mazes)
            first = jnp.arange(size, dtype=jnp.int32) * mazes.cells.shape[1]
            shots = shots._replace(maze=shots.maze + first[:, None])
            mazes = merge_axes(mazes)
        shots_per_maze = shots.maze.shape[1]
        result = frames(mazes, merge_axes(shots))
        return result.reshape(size, shots_per_maze, *result.shape[1:]), True

    return frames
