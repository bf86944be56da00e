"""Planning on a map: what latents show where, shortest ways, and what was in the way."""

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.networks.map_planning import (
    NEVER,
    SIGHTS,
    add_places,
    cells_ahead,
    cells_in_sight,
    values_of_neighbours,
)

SIDE, RADIUS, WALL = 5, 2, 20.0
EAST, SOUTH, WEST, NORTH = range(4)  # by quarter of a turn: +x, +y, -x, -y
BEND = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]


@jax.jit
def best(worth, cost, place):
    """Returns the values of entering the cells around a place, and the gradient of the best."""

    def greatest(worth, cost):
        values = values_of_neighbours(worth, cost, place, sweeps=2 * SIDE)
        return values.max(), values

    return jax.grad(greatest, argnums=(0, 1), has_aux=True)(worth, cost)


def plan(start, goal, cells=BEND):
    """Returns the values of the cells around the start, and the gradients by worth and cost."""
    worth, cost = np.full((SIDE, SIDE, 1), -9.0), np.full((SIDE, SIDE, 1), WALL)
    worth[goal], cost[tuple(zip(*cells, strict=True))] = 9.0, 1.0
    place = np.array([pose_number(start[0], start[1], NORTH)])
    gradients, values = jax.device_get(best(worth, cost, place))
    return values[:, 0].tolist(), *(x[..., 0] for x in gradients)


def pose_number(x, y, heading):
    return (x * SIDE + y) * 4 + heading


def test_a_shorter_way_to_a_goal_is_worth_more():
    values, *_ = plan((1, 0), (2, 2))
    assert values[EAST] == 9 - 3 and values[WEST] == 9 - 5  # there and back
    assert values[NORTH] == NEVER and values[SOUTH] < values[WEST]
    assert plan((2, 1), (2, 2))[0][SOUTH] == 9 - 1


def test_gradients_are_those_of_the_best_way():
    _, worth, cost = plan((0, 0), (2, 2))
    assert worth[2, 2] == 1 and worth.sum() == 1
    assert [cost[cell] for cell in BEND] == [0, -1, -1, -1, -1] and cost.sum() == -4


def test_latents_show_cells_before_the_agent():
    ahead, right = (SIGHTS.tolist().index(sight) for sight in ([1, 0], [2, 1]))
    table = cells_in_sight(RADIUS)
    assert table[pose_number(2, 2, EAST), [ahead, right]].tolist() == [3 * SIDE + 2, 4 * SIDE + 3]
    assert table[pose_number(2, 2, NORTH), [ahead, right]].tolist() == [2 * SIDE + 1, 3 * SIDE]
    assert table[pose_number(0, 0, WEST), ahead] == SIDE * SIDE


def test_sights_of_all_places_add_up():
    sights = np.random.default_rng(0).normal(size=(SIDE * SIDE * 4, len(SIGHTS), 2))
    sums = np.zeros((SIDE * SIDE + 1, 2))
    np.add.at(sums, cells_in_sight(RADIUS), sights)
    added = jax.jit(add_places)(jnp.asarray(sights.reshape(SIDE, SIDE, 4, *sights.shape[1:])))
    np.testing.assert_allclose(added, sums[:-1], atol=1e-5)


def test_cells_ahead_of_poses_are_next_to_them():
    poses = np.zeros((1, SIDE, SIDE, 4), bool)
    poses[0, 2, 1, EAST] = poses[0, 0, 0, NORTH] = True
    ahead = np.asarray(jax.jit(cells_ahead)(poses))[0]
    assert np.argwhere(ahead).tolist() == [[3, 1]]
