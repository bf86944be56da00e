"""Costs and paths over partly known mazes, against plain searches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_paths import path_back, search

from gpicljax.systems.maze_world.experts import planning

SIZE, BATCH = 13, 40  # not a multiple of 32
SIDE = SIZE + 2


def scenes(share_known, seed=0):
    """Random walls, what is known of them, a start and a goal in known free cells."""
    rng = np.random.default_rng(seed)
    walls = rng.random((BATCH, SIZE, SIZE)) < 0.36
    known_cells = rng.random(walls.shape) < np.resize(share_known, (BATCH, 1, 1))
    cells = rng.integers(0, SIZE, (2, BATCH, 2)).astype(np.int32)
    for cell in cells:
        walls[np.arange(BATCH), *cell.T] = False
        known_cells[np.arange(BATCH), *cell.T] = True
    return walls, known_cells, *cells


def words(cells):
    return planning.mark_cells(planning.place(cells, SIZE), jnp.ones(BATCH, bool), SIZE)


@functools.cache
def solver():
    def solve(walls, known_cells, start, goal):
        free = planning.packed_cells(known_cells & ~walls)
        unknown = planning.packed_cells(~known_cells)
        costs = planning.step_costs(free, unknown, words(start), goal, SIZE)
        everywhere = planning.all_costs(costs, BATCH, SIZE)
        places = jnp.broadcast_to(planning.place(start, SIZE), (3, BATCH)) + jnp.asarray(
            [[0], [1], [SIDE]]
        )
        return everywhere, planning.cost_at(costs, jnp.clip(places, SIDE, SIDE**2 - SIDE - 1), SIZE)

    return jax.jit(solve)


def expected_costs(walls, known_cells, start):
    return [
        search(np.where(k, np.where(w, np.inf, 1), planning.UNKNOWN), [s])
        for w, k, s in zip(walls, known_cells, start, strict=True)
    ]


def without_border(costs):
    """`[P^2, B]` as `[B, N, N]`."""
    costs = np.asarray(costs).T.reshape(BATCH, SIDE, SIDE)
    return costs[:, 1:-1, 1:-1]


def test_costs_of_known_and_unknown_cells():
    walls, known_cells, start, _ = scenes((0.0, 0.3, 0.7, 0.95, 1.0))
    nowhere = jnp.zeros((SIDE**2, 2), jnp.uint32)
    everywhere, place_costs = solver()(walls, known_cells, start, nowhere)
    expected = np.stack(expected_costs(walls, known_cells, start))
    expected = np.where(np.isfinite(expected), expected, planning.FAR)
    np.testing.assert_array_equal(without_border(everywhere), expected)
    assert (expected == planning.FAR).any() and expected[expected < planning.FAR].max() > 60
    ring = np.asarray(everywhere).T.reshape(BATCH, SIDE, SIDE)
    assert (ring[:, [0, -1]] == planning.FAR).all() and (ring[:, :, [0, -1]] == planning.FAR).all()
    places = np.asarray(planning.place(start, SIZE)) + np.array([[0], [1], [SIDE]])
    places = places.clip(SIDE, SIDE**2 - SIDE - 1)
    np.testing.assert_array_equal(place_costs, np.asarray(everywhere)[places, np.arange(BATCH)])


def test_all_that_counts_is_there_once_the_goal_is_reached():
    walls, known_cells, start, goal = scenes((0.3, 0.7, 0.95), seed=1)
    everywhere, _ = solver()(walls, known_cells, start, words(goal))
    expected = np.stack(expected_costs(walls, known_cells, start))
    reach = expected[np.arange(BATCH), *goal.T]
    inner = without_border(everywhere)
    within = expected <= reach[:, None, None]
    np.testing.assert_array_equal(inner[within], np.minimum(expected, planning.FAR)[within])
    assert (inner[~within] > np.broadcast_to(reach[:, None, None], inner.shape)[~within]).all()


def test_paths_are_the_references():
    walls, known_cells, start, goal = scenes((0.3, 0.6, 0.9), seed=2)
    everywhere, _ = solver()(walls, known_cells, start, words(goal))
    first = jax.jit(functools.partial(planning.descend, size=SIZE))(
        everywhere, planning.place(goal, SIZE)
    )
    expected = expected_costs(walls, known_cells, start)
    compared = longer = 0
    for b in range(BATCH):
        if np.isfinite(expected[b][tuple(goal[b])]):
            path = path_back(expected[b], goal[b])
            step = path[min(1, len(path) - 1)]
            assert int(first[b]) == int(planning.place(np.array(step), SIZE)), b
            compared += 1
            entered = [1 if known_cells[b][cell] else planning.UNKNOWN for cell in path[1:]]
            longer += sum(entered) > expected[b][tuple(goal[b])]
    assert compared > BATCH / 2 and longer  # the reference's paths are not always shortest


def test_sweeps_agree_with_the_search():
    rng = np.random.default_rng(3)
    entry = rng.integers(1, 50, (BATCH, SIZE, SIZE)).astype(float)
    entry[rng.random(entry.shape) < 0.3] = np.inf
    starts = rng.integers(0, SIZE, (BATCH, 3, 2))
    start = np.zeros(entry.shape, bool)
    for b in range(BATCH):
        start[b, *starts[b].T] = True
    costs = np.where(np.isfinite(entry), entry, 0).astype(np.int32)
    costs = planning.add_border(jnp.asarray(costs))
    costs = jnp.where(costs > 0, costs, planning.FAR_AWAY)
    sweep = jax.jit(functools.partial(planning.sweep_costs, size=SIZE))
    inner_costs = without_border(sweep(costs, planning.add_border(jnp.asarray(start))))
    expected = np.stack([search(e, s) for e, s in zip(entry, starts, strict=True)])
    np.testing.assert_array_equal(
        inner_costs, np.where(np.isfinite(expected), expected, planning.FAR_AWAY)
    )


@pytest.mark.parametrize(
    ("costs", "heading", "direction"),
    [
        ((3, 3, 3, 3), 0, 1),  # straight on: +x
        ((3, 3, 3, 3), 2, 0),
        ((3, 4, 3, 3), 0, 2),  # right before left
        ((3, 4, 4, 3), 0, 3),  # left before back
        ((3, 4, 4, 4), 0, 0),
        ((9, 8, 7, 7), None, 2),  # the first, where nothing turns
    ],
)
def test_of_equal_directions_the_one_with_fewest_turns(costs, heading, direction):
    heading = None if heading is None else jnp.asarray([heading])
    chosen = jax.jit(planning.best_neighbour)(jnp.asarray(costs)[:, None], heading)
    assert chosen.tolist() == [direction]
