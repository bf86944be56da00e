"""Stone, brick, wood and the like, drawn by arithmetic on a grid of 64 x 64 that repeats.

A pattern takes a generator and two colours, of the material and of its joints or blemishes, and
returns colours `float[64, 64, 3]` in [0, 1].
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import numpy as np

SIZE = 64

Colour = tuple[float, float, float]
Pattern = Callable[[np.random.Generator, Colour, Colour], np.ndarray]

_ROW, _COLUMN = np.mgrid[:SIZE, :SIZE] + 0.5


def _noise(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Smooth noise in [0, 1] with that many bumps each way, `float[64, 64]`."""
    bumps = rng.random((rows, columns))
    row, column = _ROW * rows / SIZE, _COLUMN * columns / SIZE
    i, j = np.floor(row).astype(int), np.floor(column).astype(int)
    a, b = row - i, column - j
    a, b = a * a * (3 - 2 * a), b * b * (3 - 2 * b)
    i, j, i1, j1 = i % rows, j % columns, (i + 1) % rows, (j + 1) % columns
    upper = bumps[i, j] * (1 - b) + bumps[i, j1] * b
    lower = bumps[i1, j] * (1 - b) + bumps[i1, j1] * b
    return upper * (1 - a) + lower * a


def _rough(rng: np.random.Generator, rows: int, columns: int, octaves: int = 4) -> np.ndarray:
    """Noise of several sizes in [0, 1], each half as strong as the one twice as large."""
    layers = [
        0.5**k * _noise(rng, min(rows << k, SIZE), min(columns << k, SIZE)) for k in range(octaves)
    ]
    total = np.sum(layers, axis=0)
    return (total - total.min()) / (total.max() - total.min())


def _blend(share: np.ndarray, low: Colour, high: Colour) -> np.ndarray:
    """From `low` at 0 to `high` at 1."""
    share = np.clip(share, 0, 1)[..., None]
    return (1 - share) * np.array(low) + share * np.array(high)


def _lit(colours: np.ndarray, light: np.ndarray) -> np.ndarray:
    return np.clip(colours * light[..., None], 0, 1)


def _stones(
    rng: np.random.Generator, rows: int, columns: int, joint: float, shift: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks in courses: how far inside a block a texel lies, in [0, 1], and the block's tone."""
    height, width = SIZE / rows, SIZE / columns
    course = np.floor(_ROW / height).astype(int)
    across = (_COLUMN + shift * width * (course % 2)) % SIZE
    block = np.floor(across / width).astype(int)
    edge = np.minimum(
        np.minimum(_ROW % height, height - _ROW % height),
        np.minimum(across % width, width - across % width) * 1.0,
    )
    return np.clip(edge / joint - 0.4, 0, 1), rng.random((rows, columns))[course, block]


def _cells(rng: np.random.Generator, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounded stones: distance to the border between the nearest two, and the stone's tone."""
    spots = (
        np.moveaxis(np.mgrid[:side, :side], 0, -1) + rng.uniform(0.1, 0.9, (side, side, 2))
    ) / side
    spots = SIZE * spots.reshape(-1, 2)
    shifts = SIZE * (np.moveaxis(np.mgrid[:3, :3], 0, -1).reshape(-1, 2) - 1)
    points = (spots[:, None] + shifts).reshape(-1, 2)
    away = np.hypot(_ROW[..., None] - points[:, 0], _COLUMN[..., None] - points[:, 1])
    order = np.argsort(away, axis=-1)[..., :2]
    near, second = (np.take_along_axis(away, order[..., k : k + 1], -1)[..., 0] for k in (0, 1))
    return second - near, rng.random(len(spots))[order[..., 0] // 9]


def brick(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Courses of bricks, each a little different."""
    inside, tone = _stones(rng, rows=4, columns=2, joint=1.6)
    light = 0.78 + 0.3 * tone + 0.3 * (_rough(rng, 8, 8) - 0.5)
    return _blend(inside, joint, (0, 0, 0)) + _lit(_blend(inside, (0, 0, 0), main), light)


def blocks(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Hewn blocks, lit from above."""
    inside, tone = _stones(rng, rows=2, columns=1, joint=2.5)
    slope = inside - np.roll(inside, 2, axis=0)
    light = 0.75 + 0.25 * tone + 0.45 * (_rough(rng, 6, 6) - 0.5) - 0.25 * slope
    return _lit(_blend(inside, joint, main), light)


def tiles(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Glazed square tiles in two tones."""
    inside, _ = _stones(rng, rows=4, columns=2, joint=1.4, shift=0.0)
    odd = (np.floor(_ROW / 16) + np.floor(_COLUMN / 32)) % 2
    shine = 1.15 - 0.35 * (_ROW % 16) / 16
    return _lit(_blend(inside, joint, main), shine * (0.72 + 0.36 * odd))


def planks(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Upright boards with grain."""
    boards = 4
    width = SIZE // boards
    board = np.floor(_COLUMN / width).astype(int)
    grain = _noise(rng, 4, 32) * 0.5 + _noise(rng, 2, 64) * 0.5
    rings = 0.5 + 0.5 * np.sin(2 * np.pi * (4 * _noise(rng, 2, 8) + _COLUMN / 4))
    edge = np.minimum(_COLUMN % width, width - _COLUMN % width)
    light = 0.7 + 0.3 * rng.random(boards)[board] + 0.35 * (grain - 0.5) + 0.14 * (rings - 0.5)
    return _lit(_blend(np.clip(edge - 0.4, 0, 1), joint, main), light)


def cobbles(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Rounded stones in mortar."""
    border, tone = _cells(rng, side=5)
    light = 0.62 + 0.3 * tone + 0.3 * np.clip(border / 9, 0, 1) + 0.2 * (_rough(rng, 8, 8) - 0.5)
    return _lit(_blend(border / 2.2 - 0.3, joint, main), light)


def mossy(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Rounded stones overgrown with the second colour."""
    dark = tuple(0.35 * c for c in joint)
    stones = cobbles(rng, main, (dark[0], dark[1], dark[2]))
    cover = np.clip(4 * (_rough(rng, 4, 4) - 0.45), 0, 1)[..., None]
    moss = _lit(np.broadcast_to(joint, stones.shape), 0.6 + 0.7 * _rough(rng, 16, 16))
    return (1 - cover) * stones + cover * moss


def plaster(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Returns a rough even surface with stains."""
    stains = np.clip(2.2 * (_rough(rng, 3, 3, 5) - 0.5), 0, 1)
    return _lit(_blend(stains, main, joint), 0.85 + 0.3 * _rough(rng, 16, 16, 3))


def strata(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Wavy layers one above the other."""
    wave = _ROW / SIZE * 4 + 0.9 * _noise(rng, 3, 3)
    share = 0.5 + 0.5 * np.sin(2 * np.pi * wave)
    return _lit(_blend(share, joint, main), 0.8 + 0.35 * _rough(rng, 12, 6))


def plates(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Metal plates with rivets."""
    inside, tone = _stones(rng, rows=2, columns=1, joint=2.0, shift=0.0)
    light = 0.8 + 0.15 * tone + 0.3 * (_noise(rng, 32, 2) - 0.5)
    away = np.hypot((_ROW + 6) % 32 - 12 + 0.0, ((_COLUMN + 3) % 16 - 8) * 2.0)
    rivet = np.clip(3.2 - away, 0, 1)
    return _lit(_blend(inside * (1 - 0.7 * rivet), joint, main), light + 0.35 * rivet)


def weave(rng: np.random.Generator, main: Colour, joint: Colour) -> np.ndarray:
    """Diagonal bands crossing over and under."""
    a, b = (_COLUMN + _ROW) % 32, (_COLUMN - _ROW) % 32
    over = (a < 16) ^ (b < 16)
    ridge = np.where(over, np.sin(np.pi * (a % 16) / 16), np.sin(np.pi * (b % 16) / 16))
    return _lit(_blend(over * 1.0, joint, main), 0.5 + 0.5 * ridge + 0.2 * _rough(rng, 16, 16))


WALLS: tuple[Pattern, ...] = (
    brick, blocks, tiles, planks, cobbles, mossy, plaster, strata, plates, weave,
)  # fmt: skip
GROUNDS: tuple[Pattern, ...] = (cobbles, mossy, plaster, tiles, blocks, planks)
CEILINGS: tuple[Pattern, ...] = (planks, plaster, plates, blocks, weave)


def texels(colours: np.ndarray) -> np.ndarray:
    """Returns colours as bytes, `uint8[64, 64, 3]`."""
    return np.floor(255 * np.clip(colours, 0, 1) + 0.5).astype(np.uint8)


def draw(rng: np.random.Generator, kinds: tuple[Pattern, ...]) -> np.ndarray:
    """Returns one of the patterns in random colours, `uint8[64, 64, 3]`."""
    pattern = kinds[rng.integers(len(kinds))]
    hue, hue_shift = rng.random(), rng.normal(0, 0.12)
    main = colorsys.hsv_to_rgb(hue, rng.uniform(0.1, 0.8), rng.uniform(0.5, 0.95))
    second = colorsys.hsv_to_rgb(
        (hue + hue_shift) % 1, rng.uniform(0.1, 0.7), rng.uniform(0.2, 0.5)
    )
    colours = pattern(rng, main, second)
    if rng.random() < 0.5:
        colours = colours[:, ::-1]
    return texels(colours)


def default_walls() -> np.ndarray:
    """Six that are easy to tell apart, `uint8[6, 64, 64, 3]`."""
    kinds: list[tuple[Pattern, Colour, Colour]] = [
        (brick, (0.66, 0.24, 0.17), (0.72, 0.67, 0.60)),
        (blocks, (0.40, 0.48, 0.66), (0.13, 0.16, 0.25)),
        (mossy, (0.58, 0.56, 0.50), (0.25, 0.45, 0.14)),
        (planks, (0.80, 0.55, 0.25), (0.25, 0.14, 0.05)),
        (strata, (0.90, 0.82, 0.64), (0.70, 0.56, 0.42)),
        (tiles, (0.36, 0.20, 0.48), (0.80, 0.76, 0.84)),
    ]
    return np.stack(
        [texels(f(np.random.default_rng(10 + i), *c)) for i, (f, *c) in enumerate(kinds)]
    )


def default_ground() -> np.ndarray:
    """Grey cobbles, `uint8[1, 64, 64, 3]`."""
    rng = np.random.default_rng(20)
    return texels(cobbles(rng, (0.55, 0.53, 0.50), (0.20, 0.19, 0.18)))[None]


def default_ceiling() -> np.ndarray:
    """Dark boards, `uint8[1, 64, 64, 3]`."""
    return texels(planks(np.random.default_rng(30), (0.45, 0.30, 0.19), (0.12, 0.07, 0.04)))[None]
