"""Planning on a map: shortest ways, frontiers, and what was in the way."""

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.networks.map_planning import NEVER, Worth, best_ways, neighbours

SIDE, PRICE = 5, 0.25
EAST, SOUTH, WEST, NORTH = range(4)  # by quarter of a turn: +x, +y, -x, -y


def ways(cells, start, goal=None, frontier=None, blocked=(), sweeps=2 * SIDE):
    """Returns the ways from a cell, leaves `[4]`, where cells were seen to the east alone."""
    seen = np.zeros((1, SIDE, SIDE, 4), bool)
    for cell in cells:
        seen[0, *cell, EAST] = True
    here, ahead = np.full((2, *seen.shape), 2 * NEVER)
    if goal is not None:
        here[0, *goal, EAST] = 1.0
    if frontier is not None:
        ahead[(0, *frontier)] = 1.0
    barred = np.zeros_like(seen)
    for pose in blocked:
        barred[(0, *pose)] = True
    worth = Worth(jnp.asarray(here), jnp.asarray(ahead), jnp.asarray(PRICE))
    place = jnp.asarray([pose_number(*start, NORTH)])
    best = best_ways(worth, jnp.asarray(seen), jnp.asarray(barred), place, sweeps)
    return jax.tree.map(lambda x: np.asarray(x[0]), best)


def pose_number(x, y, heading):
    return (x * SIDE + y) * 4 + heading


BEND = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]


def test_the_shortest_way_to_the_goal_is_found():
    for start, heading, cells in (
        ((0, 0), EAST, 4),
        ((1, 0), EAST, 3),
        ((1, 0), WEST, 5),  # there and back
        ((2, 1), SOUTH, 1),
    ):
        way = ways(BEND, start, goal=(2, 2))
        assert way.exists[heading] and way.cells[heading] == cells
        assert way.goal[heading] == pose_number(2, 2, EAST) and not way.is_ahead[heading]


def test_ways_longer_than_the_sweeps_are_not_found():
    assert ways(BEND, (0, 0), goal=(2, 2), sweeps=3).goal[EAST] == pose_number(2, 2, EAST)
    assert ways(BEND, (0, 0), goal=(2, 2), sweeps=2).goal[EAST] != pose_number(2, 2, EAST)


def test_new_cells_are_entered_unless_something_is_in_the_way():
    pose = 2, 1, EAST
    way = ways(BEND, (0, 0), frontier=pose)
    assert way.goal[EAST] == pose_number(*pose) and way.is_ahead[EAST] and way.cells[EAST] == 3
    near = ways(BEND, (2, 1), frontier=pose)
    assert near.goal[EAST] == pose_number(*pose) and near.cells[EAST] == 0 and near.exists[EAST]
    barred = ways(BEND, (2, 1), frontier=pose, blocked=[pose])
    assert not barred.exists[EAST]
    # A cell that was entered is no frontier, but a way.
    entered = ways([*BEND, (3, 1)], (2, 1), frontier=pose)
    assert entered.exists[EAST] and entered.cells[EAST] >= 1


def test_neighbours_are_next_to_each_cell_in_every_heading():
    cells = jnp.arange(SIDE * SIDE).reshape(1, SIDE, SIDE)
    beside = np.asarray(neighbours(cells, -1))[0]
    assert beside[2, 2].tolist() == [17, 13, 7, 11]
    assert beside[0, 0].tolist() == [5, 1, -1, -1]
