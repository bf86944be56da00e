"""Cells that an agent is shown of its maze, against a ray cast cell by cell."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.maze_world.env import exposure

SIZE, POSES = 21, 24


def cast(walls, position, heading, ratio, columns, field_of_view):
    """The cells on each column's ray, one after the other."""
    exposed_cells, half = np.zeros_like(walls), np.tan(np.radians(field_of_view) / 2)
    for column in range(columns):
        slope = ((column + 0.5) / columns * 2 - 1) * half
        ray = np.array([np.cos(heading) - slope * np.sin(heading), 0])
        ray[1] = np.sin(heading) + slope * np.cos(heading)
        ray /= np.hypot(*ray)
        cell = np.floor(position).astype(int)
        exposed_cells[tuple(cell)] = True
        distance = (cell + (ray > 0) - position) / ray
        while distance.min() < ratio:
            axis = distance.argmin()
            cell[axis] += np.sign(ray[axis])
            distance[axis] += abs(1 / ray[axis])
            exposed_cells[tuple(cell)] = True
            if walls[tuple(cell)]:
                break
    return exposed_cells


def poses(kind, seed=0):
    rng = np.random.default_rng(seed)
    walls = rng.random((POSES, SIZE, SIZE)) < 0.3
    walls[:, [0, -1]] = walls[:, :, [0, -1]] = True
    cells = np.stack([rng.permutation(np.argwhere(~w))[0] for w in walls])
    if kind == "quarter":
        return walls, cells + 0.5, rng.integers(0, 4, POSES) * np.pi / 2
    return walls, cells + rng.uniform(0.01, 0.99, cells.shape), rng.uniform(0, 2 * np.pi, POSES)


@functools.cache
def seeing(kind, columns, field_of_view):
    camera = {"columns": columns, "field_of_view": field_of_view, "poses": kind}
    expose = lambda walls, position, heading, ratio: exposure.seen_by_rays(  # noqa: E731
        walls, position, heading, ratio, **camera
    )
    return jax.jit(jax.vmap(expose, (0, 0, 0, None)))


@pytest.mark.parametrize(
    ("kind", "columns", "field_of_view", "ratios"),
    [
        ("quarter", 128, 108.0, (6.0, 3.3, 9.7)),
        ("any", 128, 108.0, (6.0, 9.7)),
        ("any", 40, 150.0, (5,)),
    ],
)
def test_exactly_the_cells_that_rays_cross(kind, columns, field_of_view, ratios):
    walls, positions, headings = poses(kind)
    for ratio in ratios:
        exposed_cells = seeing(kind, columns, field_of_view)(walls, positions, headings, ratio)
        pose = zip(walls, positions, headings, strict=True)
        expected = [cast(*p, ratio, columns, field_of_view) for p in pose]
        np.testing.assert_array_equal(exposed_cells, np.stack(expected))
        assert np.asarray(exposed_cells).sum() > 5 * POSES


def test_both_ways_agree_on_quarter_turns():
    pose = poses("quarter", seed=1)
    exposed_cells = [seeing(kind, 128, 108.0)(*pose, 6.0) for kind in ("quarter", "any")]
    np.testing.assert_array_equal(*exposed_cells)


def test_longer_range_shows_more():
    pose = poses("any", seed=2)
    shown = [np.asarray(seeing("any", 128, 108.0)(*pose, r)) for r in (1.5, 3.0, 6.0, 6.5, 30.0)]
    for near_cells, far_cells in zip(shown, shown[1:], strict=False):
        assert not (near_cells & ~far_cells).any()
    assert shown[-1].sum() > shown[2].sum() > 1.5 * shown[0].sum()


def test_a_window_that_walls_do_not_limit():
    for cell in ((1, 1), (5, 3), (7, 7)):
        for radius in (1, 2, 3):
            shown = exposure.seen_around(jnp.asarray(cell), 9, radius)
            x, y = np.indices((9, 9))
            expected = np.maximum(abs(x - cell[0]), abs(y - cell[1])) <= radius
            np.testing.assert_array_equal(shown, expected)
