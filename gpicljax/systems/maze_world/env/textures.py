"""Sets of textures by name: a few of our own, drawn by arithmetic, and those that users register.

A set becomes a constant of the programs that render with it; tasks hold indices into it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpicljax.checks import check, check_at_least, check_choice, refusal
from gpicljax.systems.maze_world.env import patterns

SIZE = patterns.SIZE
"""Texels on a side."""

MOST_WALLS, MOST = 256, 1024

LANDMARK_COLOURS = np.array(
    [
        (0, 255, 0),
        (255, 0, 0),
        (0, 0, 255),
        (0, 255, 255),
        (255, 0, 255),
        (255, 255, 0),
        (128, 128, 255),
        (128, 255, 128),
        (255, 128, 128),
        (0, 96, 128),
        (96, 0, 128),
        (0, 128, 96),
        (96, 128, 0),
        (128, 96, 0),
        (128, 0, 96),
    ],
    np.uint8,
)
"""Colours of landmarks 0 to 14, `uint8[15, 3]`."""
LANDMARK_COLOURS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class TextureSet:
    """Textures to build mazes of.

    A texture's first row is its upper edge. It repeats in all directions.

    Args:
      walls: `uint8[W, 64, 64, 3]`, at most 256.
      grounds: `uint8[G, 64, 64, 3]`.
      ceilings: `uint8[C, 64, 64, 3]`; at most 1,024 textures altogether.

    Raises:
      ValueError: if these are not such arrays.

    Example:
      >>> grey = np.full((1, SIZE, SIZE, 3), 128, np.uint8)
      >>> TextureSet(walls=grey, grounds=grey, ceilings=grey).walls.shape
      (1, 64, 64, 3)
      >>> TextureSet(walls=grey / 255, grounds=grey, ceilings=grey)
      Traceback (most recent call last):
      ValueError: walls: got 'float64[1, 64, 64, 3]'; accepted: uint8[N, 64, 64, 3] with N >= 1
    """

    walls: np.ndarray
    grounds: np.ndarray
    ceilings: np.ndarray

    def __post_init__(self) -> None:
        for name in ("walls", "grounds", "ceilings"):
            textures = getattr(self, name)
            shape, dtype = np.shape(textures), getattr(textures, "dtype", type(textures).__name__)
            fine = dtype == np.uint8 and shape[1:] == (SIZE, SIZE, 3) and shape[0] >= 1
            accepted_values = f"uint8[N, {SIZE}, {SIZE}, 3] with N >= 1"
            check(fine, name, f"{dtype}{list(shape)}", accepted_values)
            array = np.array(textures)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        walls, total = len(self.walls), len(self.walls) + len(self.grounds) + len(self.ceilings)
        check(walls <= MOST_WALLS, "walls", walls, f"at most {MOST_WALLS} textures")
        check(total <= MOST, "walls, grounds, ceilings", total, f"at most {MOST} textures")


Source = TextureSet | Callable[[], TextureSet]

_SOURCES: dict[str, Source] = {}


def register_textures(name: str, source: Source) -> None:
    """Makes a set of textures known by a name, for `MazeWorld(textures=name)`.

    Args:
      name: of your choice.
      source: the set, or a function that makes it when it is first used.

    Raises:
      ValueError: if the name is taken by another set, or `source` is neither.

    Example:
      >>> mine = random_textures(seed=0, walls=2, grounds=1, ceilings=1)
      >>> register_textures("default", mine)
      Traceback (most recent call last):
      ValueError: name: got 'default'; accepted: one that is not registered already
    """
    if not (isinstance(source, TextureSet) or callable(source)):
        kind = type(source).__name__
        raise ValueError(refusal("source", kind, "a TextureSet, or a function that makes one"))
    check(_SOURCES.get(name, source) is source, "name", name, "one that is not registered already")
    _SOURCES[name] = source


def registered_textures() -> list[str]:
    """Names of the known sets, sorted."""
    return sorted(_SOURCES)


def texture_set(name: str) -> TextureSet:
    """Returns the set of that name.

    Raises:
      ValueError: if there is none (the nearest name is suggested), or what was registered does not
        make one.
    """
    check_choice("textures", name, registered_textures())
    return _make(name)


@functools.cache
def _make(name: str) -> TextureSet:
    source = _SOURCES[name]
    texture_set = source if isinstance(source, TextureSet) else source()
    if not isinstance(texture_set, TextureSet):
        kind = type(texture_set).__name__
        raise ValueError(refusal(f"textures {name!r}", kind, "a function that makes a TextureSet"))
    return texture_set


@functools.cache
def table(name: str) -> np.ndarray:
    """All texels of a set, walls, grounds and ceilings in this order, `uint32[N * 64 * 64]`.

    Red is in the lowest byte, blue in the third.
    """
    chosen = texture_set(name)
    every = np.concatenate([chosen.walls, chosen.grounds, chosen.ceilings]).astype(np.uint32)
    packed = (every << np.array([0, 8, 16], np.uint32)).sum(-1, dtype=np.uint32).reshape(-1)
    packed.flags.writeable = False
    return packed


def random_textures(seed: int, walls: int, grounds: int, ceilings: int) -> TextureSet:
    """Returns a set of random patterns in random colours.

    Args:
      seed: the same seed and numbers make the same set.
      walls: textures for walls, 1 to 256.
      grounds: textures for the floor, at least 1.
      ceilings: textures for the ceiling, at least 1.

    Raises:
      ValueError: if these are not such numbers.
    """
    check_at_least(1, walls=walls, grounds=grounds, ceilings=ceilings)

    def several(part: int, number: int, kinds: tuple[patterns.Pattern, ...]) -> np.ndarray:
        return np.stack(
            [patterns.draw(np.random.default_rng((seed, part, i)), kinds) for i in range(number)]
        )

    return TextureSet(
        several(0, walls, patterns.WALLS),
        several(1, grounds, patterns.GROUNDS),
        several(2, ceilings, patterns.CEILINGS),
    )


def _default() -> TextureSet:
    return TextureSet(
        patterns.default_walls(), patterns.default_ground(), patterns.default_ceiling()
    )


register_textures("default", _default)
register_textures("random-64", lambda: random_textures(0, walls=64, grounds=16, ceilings=16))
