"""The picture of a moment: the table from above, and under it from the front."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gpicljax.envs._canvas import Canvas
from gpicljax.envs.fetch.scene import Scene, World, axes_of

SIZE = 240
_FLOOR, _WOOD, _BLOCK, _FINGER, _PALM, _GOAL = (
    (236, 240, 245), (205, 184, 150), (60, 90, 160), (90, 96, 104), (150, 156, 164), (208, 40, 40),
)  # fmt: skip


def render(scene: Scene, world: World, goal: jax.Array) -> jax.Array:
    """Returns the scene; fingers and block are drawn to scale, and the block as it is turned.

    Args:
      scene: the task's.
      world: unbatched.
      goal: float `[3]`, in metres.

    Returns:
      `uint8[240, 240, 3]`: x to the right; above y up, below z up.
    """
    wide = scene.table_half[0] * 2 + 0.5
    left, scale = scene.table[0] - wide / 2, SIZE / wide
    above, front = 100, SIZE - 100
    bottom = scene.table[1] - above / scale / 2
    top_view = Canvas(above, SIZE, left, bottom, scale, _FLOOR)
    side_view = Canvas(front, SIZE, left, 0.33, scale, _FLOOR)
    x, y = scene.table_half
    top_view.box(
        scene.table[0] - x, scene.table[1] - y, scene.table[0] + x, scene.table[1] + y, _WOOD
    )
    side_view.box(scene.table[0] - x, 0.0, scene.table[0] + x, 0.4, _WOOD)
    hand = world.hand
    for canvas, second in ((top_view, 1), (side_view, 2)):
        _block(canvas, scene, world, second)
        _gripper(canvas, hand, world.fingers, second)
        canvas.disc((goal[0], goal[second]), 0.012, _GOAL)
    border = jnp.zeros((1, SIZE, 3), jnp.uint8)
    return jnp.concatenate([top_view.finish()[:-1], border, side_view.finish()])


def _block(canvas: Canvas, scene: Scene, world: World, second: int) -> None:
    """The block's three visible pairs of faces, as the hull of each."""
    if scene.round and second == 1:
        canvas.disc((world.body[0], world.body[1]), scene.half[0], _BLOCK)
        return
    axes = axes_of(world.turn)
    for i in range(3):
        u, w, n = (
            jnp.stack([axes[j][0], axes[j][second]]) * scene.half[j]
            for j in ((i + 1) % 3, (i + 2) % 3, i)
        )
        middle = jnp.stack([world.body[0], world.body[second]])
        for side in (n, -n):
            corners = jnp.stack([u + w, u - w, -u - w, -u + w]) + side + middle
            canvas.polygon(corners, _BLOCK)


def _gripper(canvas: Canvas, hand: jax.Array, fingers: jax.Array, second: int) -> None:
    x, y, z = hand
    if second == 2:  # from the front, one finger hides the other
        canvas.box(x - 0.036, z + 0.032, x + 0.036, z + 0.154, _PALM)
        canvas.box(x - 0.0135, z - 0.0385, x + 0.0135, z + 0.0385, _FINGER)
        return
    for side, opening in ((1, fingers[0]), (-1, fingers[1])):
        middle = y + side * (0.0079 + opening)
        canvas.box(x - 0.0135, middle - 0.007, x + 0.0135, middle + 0.007, _FINGER)
