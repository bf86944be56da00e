"""Planning on a map: shortest ways, frontiers, and what was in the way."""

import jax
import numpy as np

from gpicljax.networks.map_planning import (
    ENTER,
    EXPLORE,
    HERE,
    NEVER,
    Worth,
    beside,
    best_ways,
    neighbours,
)

SIDE, PRICE = 5, 0.25
EAST, SOUTH, WEST, NORTH = range(4)  # by quarter of a turn: +x, +y, -x, -y


def ways(cells, start, goal=None, frontier=None, again=None, blocked=(), sweeps=2 * SIDE):
    """Returns the ways from a cell, leaves `[4]`, where some cells were entered."""
    entered, barred = np.zeros((1, SIDE, SIDE), bool), np.zeros((1, SIDE, SIDE, 4), bool)
    for cell in cells:
        entered[0, *cell] = True
    for pose in blocked:
        barred[(0, *pose)] = True
    worths = np.full((3, 1, SIDE, SIDE, 4), NEVER)
    for kind, pose in enumerate((goal and (*goal, EAST), frontier, again)):
        if pose is not None:
            worths[(kind, 0, *pose)] = 1.0
    place = np.array([pose_number(*start, NORTH)])
    find = jax.jit(best_ways, static_argnames="sweeps")
    best = jax.device_get(find(Worth(*worths, PRICE), entered, barred, place, sweeps=sweeps))
    return jax.tree.map(lambda x: x[0], best)


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
        assert way.goal[heading] == pose_number(2, 2, EAST) and way.end[heading] == HERE


def test_ways_longer_than_the_sweeps_are_not_found():
    assert ways(BEND, (0, 0), goal=(2, 2), sweeps=3).goal[EAST] == pose_number(2, 2, EAST)
    assert ways(BEND, (0, 0), goal=(2, 2), sweeps=2).goal[EAST] != pose_number(2, 2, EAST)


def test_new_cells_are_entered_unless_something_is_in_the_way():
    pose = 2, 1, EAST
    way = ways(BEND, (0, 0), frontier=pose)
    assert (
        way.goal[EAST] == pose_number(*pose) and way.end[EAST] == EXPLORE and way.cells[EAST] == 3
    )
    near = ways(BEND, (2, 1), frontier=pose)
    assert near.goal[EAST] == pose_number(*pose) and near.cells[EAST] == 0 and near.exists[EAST]
    barred = ways(BEND, (2, 1), frontier=pose, blocked=[pose])
    assert not barred.exists[EAST]
    # A cell that was entered is no frontier, but may be worth entering again.
    entered = ways([*BEND, (3, 1)], (2, 1), frontier=pose, again=pose)
    assert entered.exists[EAST] and entered.end[EAST] == ENTER and entered.cells[EAST] == 0
    far = ways([*BEND, (3, 1)], (0, 0), again=pose)
    assert far.goal[EAST] == pose_number(*pose) and far.end[EAST] == ENTER and far.cells[EAST] == 3


def test_latents_show_what_is_beside_the_next_cell():
    row = np.full((1, SIDE, SIDE, 4), -1)
    row[0, 1, 2, EAST] = 7  # of the cell (2, 2) it shows what is to the south and to the north
    look = jax.jit(beside, static_argnums=1)
    right, left = (np.asarray(look(row, turn))[0] for turn in (1, -1))
    assert right[2, 2, SOUTH] == 7 and (right >= 0).sum() == 1
    assert left[2, 2, NORTH] == 7 and (left >= 0).sum() == 1


def test_neighbours_are_next_to_each_cell_in_every_heading():
    cells = np.arange(SIDE * SIDE).reshape(1, SIDE, SIDE)
    around = np.asarray(jax.jit(neighbours, static_argnums=1)(cells, -1))[0]
    assert around[2, 2].tolist() == [17, 13, 7, 11]
    assert around[0, 0].tolist() == [5, 1, -1, -1]
