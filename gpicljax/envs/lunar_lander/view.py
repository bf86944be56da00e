"""The picture of a moment."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs import _drawing as drawing
from gpicljax.envs.lunar_lander import scene

SIZE = (400, 600)
_NIGHT, _DUSK, _STAR = (8, 10, 28), (34, 32, 66), (205, 205, 220)
_GROUND, _RIM = (158, 156, 160), (214, 212, 214)
_HULL, _SHADE, _WINDOW = (150, 126, 240), (70, 66, 120), (190, 232, 250)
_LEG, _POLE, _FLAG, _PAD = (206, 204, 222), (235, 235, 235), (232, 200, 40), (232, 200, 40)
_FLAG_HEIGHT = 50


@functools.cache
def _sky() -> np.ndarray:
    """Returns the night sky, `uint8[400, 600, 3]`."""
    share = np.linspace(0, 1, SIZE[0])[:, None, None]
    sky = np.tile((1 - share) * np.array(_NIGHT) + share * np.array(_DUSK), (1, SIZE[1], 1))
    for x, y in np.random.default_rng(4).integers((8, 8), (592, 250), (24, 2)):
        sky[y : y + 2, x : x + 2] = _STAR
    return sky.astype(np.uint8)


def _on_screen(x: jax.Array, y: jax.Array) -> jax.Array:
    """Points of the world in pixels, the last axis x and y."""
    return jnp.stack([scene.SCALE * x, SIZE[0] - scene.SCALE * y], -1)


def _corners(corners: np.ndarray, pose: jax.Array, rise: float) -> jax.Array:
    """Returns a body's corners on the screen; they are relative to its origin."""
    x, y, angle = pose
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    px, py = corners[:, 0], corners[:, 1] - rise
    return _on_screen(x + cos * px - sin * py, y + sin * px + cos * py)


def render(pose: jax.Array, ground: jax.Array) -> jax.Array:
    """Returns the craft over its ground, the pad between two flags.

    Args:
      pose: float `[3, 3]`, see `scene.World`.
      ground: float `[11]`, heights in metres.

    Returns:
      `uint8[400, 600, 3]`.
    """
    picture = jnp.asarray(_sky(), pose.dtype)
    surface = _on_screen(scene.EDGE * jnp.arange(ground.shape[0]), ground)
    (left, right), bottom = surface[jnp.array([0, -1])], SIZE[0] + 9
    below = ((SIZE[1] + 9, right[1]), (SIZE[1] + 9, bottom), (-9, bottom), (-9, left[1]))
    below = jnp.stack([jnp.stack([jnp.asarray(v, pose.dtype) for v in p]) for p in below])
    moon = drawing.polygon(SIZE, jnp.concatenate([surface, below]))
    picture = drawing.paint(picture, moon, _GROUND)
    picture = drawing.paint(picture, drawing.outline(moon, 3), _RIM)
    pad = drawing.line(SIZE, surface[4], surface[6], 4)
    picture = drawing.paint(picture, pad, _PAD)
    for foot in (surface[4], surface[6]):
        x, y = foot
        top = y - _FLAG_HEIGHT
        picture = drawing.paint(picture, drawing.line(SIZE, foot, (x, top), 2), _POLE)
        cloth = jnp.stack([jnp.stack(p) for p in ((x, top), (x, top + 14), (x + 25, top + 7))])
        picture = drawing.paint(picture, drawing.polygon(SIZE, cloth), _FLAG)

    rise = float(scene.RISE[0])
    for leg in (1, 2):
        side = float(scene.LEG_SIDE[leg - 1])
        (hip,) = _corners(np.array([(-0.5 * side, -0.2)]), pose[:, 0], rise)
        knee = _on_screen(pose[0, leg], pose[1, leg])
        picture = drawing.paint(picture, drawing.line(SIZE, hip, knee, 3), _LEG)
        shape = drawing.polygon(SIZE, _corners(scene.LEG, pose[:, leg], 0.0))
        picture = drawing.paint(picture, shape, _LEG)
        picture = drawing.paint(picture, drawing.outline(shape, 1), _SHADE)
    hull = drawing.polygon(SIZE, _corners(scene.LANDER, pose[:, 0], rise))
    picture = drawing.paint(picture, hull, _HULL)
    skirt = scene.LANDER[[5, 0, 1, 4]] * [[1, 1], [1, 1], [1, 0.4], [1, 0.4]]
    skirt = drawing.polygon(SIZE, _corners(skirt, pose[:, 0], rise))
    picture = drawing.paint(picture, jnp.maximum(skirt, hull), _SHADE)
    picture = drawing.paint(picture, drawing.outline(hull, 1.5), _SHADE)
    (eye,) = _corners(np.array([(0.0, 0.25)]), pose[:, 0], rise)
    picture = drawing.paint(picture, drawing.disc(SIZE, eye, 6.5), _SHADE)
    picture = drawing.paint(picture, drawing.disc(SIZE, eye, 5), _WINDOW)
    return drawing.finish(picture)
