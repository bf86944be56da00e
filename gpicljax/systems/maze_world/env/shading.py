"""Colours of pixels from what the rays of their columns met.

What a pixel needs is in its column's and its row's record; what happens to it happens to its
neighbours in the row with the same vector instruction. From the records on all is integers:
coordinates in textures wrap at 2^32 per metre, and a texel's index and its brightness share a word.
F frames of M mazes, H rows, W columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gpicljax.systems.maze_world.env import rays, textures
from gpicljax.systems.maze_world.env.rays import Mazes, Reached, Screen, Shots

KEEP = 0.7
"""What a beam lets through of the colours behind it."""

FEW = 3
"""Up to so many beams, all are blended in one go."""

_BRIGHTEST = 1.9  # below 2, for which words have room
_TEXELS = textures.SIZE**2
# Bits of fractions: depths and slopes, which give 32 together; light; shade; what beams add.
_DEPTH, _SLOPE, _LIGHT, _SHADE, _ADDED = 14, 18, 10, 14, 2
_TO_TEXEL = 32 - 6


class Columns(NamedTuple):
    """`int32[F, W]` each.

    Attributes:
      top: first row of the wall.
      height: rows of it.
      depth: of the wall, metres.
      word: its texel in the texture's first row, and its brightness; `uint32`.
      x: metres along x for a metre along the heading.
      y: metres along y.
    """

    top: jax.Array
    height: jax.Array
    depth: jax.Array
    word: jax.Array
    x: jax.Array
    y: jax.Array


class Rows(NamedTuple):
    """Shading of each row of floor or ceiling, `int32[F, H]` each.

    Attributes:
      depth: metres.
      surface: index of the texture's first texel.
      bright: the most brightness, before the fog.
      dark: and the least, in full fog.
      start: brightness if fog began at the eye.
      fall: what it loses of that over the depth.
    """

    depth: jax.Array
    surface: jax.Array
    bright: jax.Array
    dark: jax.Array
    start: jax.Array
    fall: jax.Array


class Beams(NamedTuple):
    """K beams in all columns, nearest first, `[K, F, W]` each.

    Attributes:
      top: `int32`, the first row a beam covers.
      height: `int32`, how many.
      added: `uint32`, the colour that it and the beams before it add, see `_pack`.
    """

    top: jax.Array
    height: jax.Array
    added: jax.Array


def _to_fixed_point(value: jax.Array, bits: int) -> jax.Array:
    """`int32`, in units of 2^-bits."""
    return jnp.round(value * np.float32(1 << bits)).astype(jnp.int32)


def _turn(value: jax.Array) -> jax.Array:
    """`int32`, the fraction of `value`, of which 1 is 2^32."""
    return ((value - jnp.floor(value)) * np.float32(1 << 24)).astype(jnp.int32) << 8


def _as_unsigned(value: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(value, jnp.uint32)


def _pack(red: jax.Array, green: jax.Array, blue: jax.Array) -> jax.Array:
    """`uint32`, ten bits each with half a level for rounding."""
    half = np.float32(1 << (_ADDED - 1))
    red, green, blue = (
        (v * np.float32(1 << _ADDED) + half).astype(jnp.uint32) for v in (red, green, blue)
    )
    return red | (green << 10) | (blue << 20)


def _span(screen: Screen, geometry: jax.Array, depth: jax.Array) -> tuple[jax.Array, jax.Array]:
    """First row, and number of rows, of what stands from floor to ceiling at `depth` metres."""
    scale = np.float32(screen.width / (2 * screen.slope)) / depth
    middle = np.float32(screen.height / 2)
    eye, above = geometry[:, 2:3], geometry[:, 1:2] - geometry[:, 2:3]
    top = jnp.floor(jnp.clip(middle - above * scale, 0, screen.height)).astype(jnp.int32)
    bottom = jnp.floor(jnp.clip(middle + eye * scale, 0, screen.height)).astype(jnp.int32)
    return top, bottom - top


def _clarity(geometry: jax.Array, distance: jax.Array) -> jax.Array:
    """Returns the share of a colour that fog leaves at a distance in metres."""
    return 1 - jnp.clip(2 * distance / geometry[:, 3:4] - 1, 0, 1)


def columns(
    screen: Screen, light: int, mazes: Mazes, shots: Shots, depth: jax.Array, reached: Reached
) -> Columns:
    """Records of columns.

    Args:
      screen: size and field of view.
      light: bits for brightness in a word.
      mazes: M.
      shots: F.
      depth: `float32[F, W]`, of the walls in cells.
      reached: their cells.
    """
    n = mazes.cells.shape[-1]
    geometry = mazes.geometry[shots.maze]
    size = geometry[:, :1]
    x, y = rays.directions(screen, shots.pose[:, 2])
    across = reached.across()
    px, py = shots.pose[:, :1], shots.pose[:, 1:2]
    along = jnp.where(across, py / size + y * depth, px / size + x * depth)
    along = along - jnp.floor(along)
    # Seen from in front of the wall, the texture's left is on the left.
    along = jnp.where(jnp.where(across, x < 0, y > 0), 1 - along, along)
    texel = jnp.clip(along * textures.SIZE, 0, textures.SIZE - 1).astype(jnp.uint32)
    cell = reached.cell() + (shots.maze * (n * n))[:, None]
    wall = mazes.cells.reshape(-1).at[cell].get(mode="promise_in_bounds").astype(jnp.uint32)
    texel += (jnp.maximum(wall, 1) - 1) * np.uint32(_TEXELS)
    metres = depth * size
    stretch = screen.stretch()
    bright = jnp.abs(jnp.where(across, x, y)) / stretch * _clarity(geometry, metres * stretch)
    return Columns(
        *_span(screen, geometry, metres),
        _to_fixed_point(metres, _DEPTH),
        (texel << light) | _to_fixed_point(bright, light - 1).astype(jnp.uint32),
        _to_fixed_point(x, _SLOPE),
        _to_fixed_point(y, _SLOPE),
    )


def rows(screen: Screen, mazes: Mazes, shots: Shots) -> Rows:
    """Records of rows."""
    geometry = mazes.geometry[shots.maze]
    reach, eye = geometry[:, 3:4], geometry[:, 2:3]
    below = screen.rows() > 0
    slope = np.maximum(np.abs(screen.rows()), np.float32(1e-6))
    depth = jnp.where(below, eye, geometry[:, 1:2] - eye) / slope
    bright = jnp.where(depth <= reach, np.minimum(slope, np.float32(_BRIGHTEST)), 0)
    depth = jnp.minimum(depth, reach)
    fog = jnp.where(below, bright * bright, bright)
    surface = mazes.surfaces[shots.maze]
    return Rows(
        _to_fixed_point(depth, _DEPTH),
        jnp.where(below, surface[:, :1], surface[:, 1:]) * _TEXELS,
        _to_fixed_point(bright, 2 * _LIGHT),
        _to_fixed_point(bright - fog, 2 * _LIGHT),
        _to_fixed_point(bright + fog, 2 * _LIGHT),
        _to_fixed_point(fog * 2 * depth / reach, _LIGHT),
    )


def beams(screen: Screen, mazes: Mazes, shots: Shots, nearest: jax.Array) -> Beams:
    """Records of beams, given `rays.nearest_beams`."""
    geometry = mazes.geometry[shots.maze]
    exists, cells, landmark = rays.beam_depth(nearest)
    metres = cells * geometry[:, :1]
    weight = ((1 - KEEP) * KEEP ** np.arange(len(nearest))).astype(np.float32)[:, None, None]
    share = jnp.where(exists, weight * _clarity(geometry, metres * screen.stretch()), 0)
    top, height = _span(screen, geometry, metres)
    colours = jnp.asarray(textures.LANDMARK_COLOURS, jnp.float32)
    total = [
        jnp.cumsum(share * colours[:, channel].at[landmark].get(mode="clip"), axis=0)
        for channel in range(3)
    ]
    return Beams(top, jnp.where(exists, height, 0), _pack(*total))


def pixels(
    screen: Screen, light: int, mazes: Mazes, shots: Shots, columns: Columns, rows: Rows
) -> jax.Array:
    """Texel and brightness of every pixel behind the beams, `uint32[F, H, W]`."""
    column = jax.tree.map(lambda v: v[:, None, :], columns)
    row = jax.tree.map(lambda v: v[:, :, None], rows)
    x, y = (_turn(shots.pose[:, axis])[:, None, None] for axis in (0, 1))
    u = _as_unsigned(x + row.depth * column.x) >> _TO_TEXEL
    v = _as_unsigned(y + row.depth * column.y) >> _TO_TEXEL
    stretch = _to_fixed_point(jnp.asarray(screen.stretch()), _LIGHT)
    bright = jnp.minimum(jnp.maximum(row.start - row.fall * stretch, row.dark), row.bright)
    bright = _as_unsigned(bright) >> (2 * _LIGHT - light + 1)
    flat = ((_as_unsigned(row.surface) | (v << 6) | u) << light) | bright
    # Metres below the floor: a texture's first row is the upper one.
    down = _to_fixed_point(jnp.asarray(screen.rows()), _SLOPE)[:, None]
    eye = _turn(mazes.geometry[shots.maze, 2])[:, None, None]
    v = _as_unsigned(down * column.depth - eye) >> _TO_TEXEL
    wall = column.word + (v << (6 + light))
    return jnp.where(_inside(flat, column.top, column.height), wall, flat)


def colours(light: int, table: jax.Array, words: jax.Array, beams: Beams | None) -> jax.Array:
    """Returns the pixels seen through the beams.

    Args:
      light: bits for brightness in a word.
      table: `uint32[S * 64 * 64]`, the texels.
      words: `uint32[F, H, W]`, texels and brightness.
      beams: if there are any.

    Returns:
      `uint32[F, H, W]`, its bytes in memory are red, green, blue and 0.
    """
    keep = jnp.full(words.shape, np.uint32(1 << _SHADE))
    added = jnp.full(words.shape, _pack(*[jnp.float32(0)] * 3))
    if beams is not None:
        slots = len(beams.top)
        kept = np.round(KEEP ** np.arange(1, slots + 1) * (1 << _SHADE)).astype(np.uint32)

        def further(slot: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            top, height, light_of_beam = (v[slot][:, None] for v in beams)
            inside = _inside(words, top, height)
            keep, added = carry
            kept_share = jnp.asarray(kept)[slot]
            return jnp.where(inside, kept_share, keep), jnp.where(inside, light_of_beam, added)

        if slots <= FEW:
            for slot in range(slots):
                keep, added = further(slot, (keep, added))
        else:
            loop = np.int32(0), np.int32(slots)
            keep, added = lax.fori_loop(*loop, further, (keep, added))
    texel = table.at[(words >> light).astype(jnp.int32)].get(mode="promise_in_bounds")
    shade = ((words & np.uint32((1 << light) - 1)) * keep) >> (light - 1)
    result = jnp.zeros(words.shape, jnp.uint32)
    for channel in range(3):
        value = ((texel >> (8 * channel)) & 255) * shade
        value += ((added >> (10 * channel)) & 1023) << (_SHADE - _ADDED)
        result |= jnp.minimum(value >> _SHADE, 255) << (8 * channel)
    return result


def _inside(like: jax.Array, top: jax.Array, height: jax.Array) -> jax.Array:
    """Marks the pixels whose row is one of `height` rows from `top` on."""
    line = lax.broadcasted_iota(jnp.int32, like.shape, 1)
    return _as_unsigned(line - top) < _as_unsigned(height)
