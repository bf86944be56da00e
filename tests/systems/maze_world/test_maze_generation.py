"""Random mazes: the law of their generation, and the statistics of the reference's tasks."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

import gpicljax
from gpicljax.systems.maze_world.env import generation


@functools.cache
def carver(cap):
    def carve(key, size, density, loops):
        return generation.carve(key, size, cap, density, loops)

    return jax.jit(jax.vmap(carve, (0, None, None, None)))


def mazes(number, size, density=0.36, loops=True, cap=None, seed=0):
    """`bool[number, cap, cap]`, the open cells."""
    keys = jax.random.split(jax.random.key(seed), number)
    arguments = jnp.int32(size), jnp.float32(density), jnp.asarray(loops)
    return ~np.asarray(carver(cap or size)(keys, *arguments))


def components(opened):
    """The number of connected parts of `bool[N, N]`, and the graph distances between cells."""
    number = np.arange(opened.size).reshape(opened.shape)
    pairs = []
    for near_side, far_side in (
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:, :-1], np.s_[:, 1:]),
    ):
        joined = opened[near_side] & opened[far_side]
        pairs.append(np.stack([number[near_side][joined], number[far_side][joined]]))
    i, j = np.concatenate(pairs, axis=1)
    graph = sparse.csr_matrix((np.ones(len(i)), (i, j)), (opened.size, opened.size))
    labels = sparse.csgraph.connected_components(graph, directed=False)[1]
    return len(set(labels[opened.ravel()])), graph


# The law -------------------------------------------------------------------------------------


def law(size, target):
    """The exact probabilities of all mazes, by following the rules through all that can happen.

    Returns:
      A dictionary from the open cells (bits, row by row) to a probability.
    """
    place = {c: i for i, c in enumerate(itertools.product(range(size), repeat=2))}
    inner = [c for c in place if min(c) > 0 and max(c) < size - 1]
    sites = [c for c in inner if c[0] % 2 and c[1] % 2]

    def neighbours(cell):
        x, y = cell
        return [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]

    def parts(opened):
        label = {}
        for cell in opened:
            if cell in label:
                continue
            pending = [cell]
            while pending:
                at = pending.pop()
                if at not in label:
                    label[at] = cell
                    pending += [c for c in neighbours(at) if c in opened]
        return label

    distribution = {frozenset(sites): 1.0}
    final = collections.Counter()
    while distribution:
        following = collections.Counter()
        for opened, probability in distribution.items():
            label = parts(opened)
            walls = [c for c in inner if c not in opened]
            touched = {c: [label[a] for a in neighbours(c) if a in label] for c in walls}
            if len(set(label.values())) > 1:
                eligible = [c for c in walls if len(set(touched[c])) > 1]
                # The rule for mazes without loops says the same.
                assert all(len(set(touched[c])) == len(touched[c]) for c in eligible)
            elif len(opened) < target:
                eligible = [c for c in walls if touched[c]]
            else:
                final[sum(1 << place[c] for c in opened)] += probability
                continue
            for cell in eligible:
                following[opened | {cell}] += probability / len(eligible)
        distribution = following
    return final


@pytest.mark.parametrize("target", [7, 8])
def test_every_maze_of_the_smallest_kind_has_its_exact_probability(target):
    exact = law(5, target)
    assert sum(exact.values()) == pytest.approx(1)
    number = 20_000
    opened = mazes(number, 5, density=1 - target / 9 + 0.01)
    assert (opened.sum((1, 2)) == target).all()
    drawn = collections.Counter((opened.reshape(number, 25) @ (1 << np.arange(25))).tolist())
    assert set(drawn) <= set(exact)
    observed = [drawn[maze] for maze in exact]
    expected = [number * p for p in exact.values()]
    assert min(expected) > 5
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("target", [17, 20])
def test_mazes_of_nine_sites_have_the_exact_distribution_of_open_pillars_and_squares(target):
    exact = collections.Counter()

    def features(opened):
        pillars = opened[2:-1:2, 2:-1:2].sum()
        squares = opened[1:, 1:] & opened[:-1, 1:] & opened[1:, :-1] & opened[:-1, :-1]
        middle = opened[2:5, 2:5].sum()
        return int(pillars), int(squares.sum()), int(middle)

    for bits, probability in law(7, target).items():
        opened = (bits >> np.arange(49)) & 1 == 1
        exact[features(opened.reshape(7, 7))] += probability
    number = 20_000
    drawn = collections.Counter(
        features(m) for m in mazes(number, 7, density=1 - target / 25 + 0.01)
    )
    assert set(drawn) <= set(exact)
    common = [f for f, p in exact.items() if number * p > 5]
    observed = [drawn[f] for f in common] + [number - sum(drawn[f] for f in common)]
    expected = [number * exact[f] for f in common]
    expected = [*expected, number - sum(expected)]
    if expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1]
        expected = np.asarray(expected) * sum(observed) / sum(expected)
    assert stats.chisquare(observed, expected).pvalue > 1e-3


# Whatever the law ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [7, 15])
def test_open_cells_are_exactly_as_many_as_they_should_be(size):
    inner, tree = (size - 2) ** 2, 2 * ((size - 1) // 2) ** 2 - 1
    for density in (0.0, 0.12, 0.15, 0.28, 0.36, 0.4, 0.44, 0.6, 0.99):
        opened = mazes(24, size, density, cap=15)
        expected_count = max(tree, inner - int(np.floor(density * inner + 1e-6)))
        assert (opened.sum((1, 2)) == expected_count).all(), density
        assert (mazes(24, size, density, loops=False, cap=15).sum((1, 2)) == tree).all()
        for maze in opened:
            assert components(maze)[0] == 1
            assert not maze[0].any()
            assert not maze[:, 0].any()
            assert not maze[size - 1 :].any()
            assert not maze[:, size - 1 :].any()
            assert maze[1 : size - 1 : 2, 1 : size - 1 : 2].all()


def test_the_papers_sizes_have_its_open_cells():
    for size, expected_count in (15, 109), (25, 339), (35, 697):
        assert int(generation.num_open(jnp.int32(size), jnp.float32(0.36), True)) == expected_count


def test_large_mazes_are_complete():
    opened = mazes(8, 41)
    assert (opened.sum((1, 2)) == 39**2 - int(0.36 * 39**2)).all()
    assert all(components(maze)[0] == 1 for maze in opened)


def test_a_batch_of_batches_and_one_alone_are_carved_alike(key):
    keys = jax.random.split(key, (2, 3))
    sizes = jnp.asarray([5, 7, 9], jnp.int32)

    def carve(key, size):
        return generation.carve(key, size, 9, jnp.float32(0.2), jnp.asarray(True))

    nested = jax.jit(jax.vmap(jax.vmap(carve), (0, None)))(keys, sizes)
    carve_one = jax.jit(carve)
    for i, j in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(nested[i, j], carve_one(keys[i, j], sizes[j]))


def test_the_soonest_are_exactly_as_many_even_among_equals():
    times = jnp.asarray([[3.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, jnp.inf]], jnp.float32)
    for number in range(4):
        chosen = generation._soonest(times, jnp.full(2, number, jnp.int32))
        assert chosen.sum(0).tolist() == [number, number]
    chosen = generation._soonest(times, jnp.asarray([2, 1], jnp.int32))
    assert chosen.T.tolist() == [[False, True, True, False], [True, False, False, False]]


# The reference's tasks -----------------------------------------------------------------------


def structure(opened):
    """Loops, open squares, dead ends, junctions of three and four ways; float `[B]` each."""
    edges = (opened[:, 1:] & opened[:, :-1]).sum((1, 2))
    edges = edges + (opened[:, :, 1:] & opened[:, :, :-1]).sum((1, 2))
    squares = opened[:, 1:, 1:] & opened[:, :-1, 1:] & opened[:, 1:, :-1] & opened[:, :-1, :-1]
    padded = np.pad(opened, ((0, 0), (1, 1), (1, 1))).astype(int)
    ways = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    ways *= opened
    return [
        edges - opened.sum((1, 2)) + 1,
        squares.sum((1, 2)),
        *((ways == count).sum((1, 2)) for count in (1, 3, 4)),
    ]


def distances(tasks, most):
    """Means over each task: landmark to landmark, start to landmarks, greatest to any cell."""
    result = []
    for i in range(most):
        opened = ~np.asarray(tasks.walls[i])
        cells = np.concatenate([tasks.start[i][None], tasks.landmarks[i]])
        flat = cells[:, 0] * opened.shape[1] + cells[:, 1]
        graph = components(opened)[1]
        far = sparse.csgraph.dijkstra(graph, directed=False, indices=flat, unweighted=True)
        between = far[:, flat]
        pairs = between[1:, 1:][np.triu_indices(len(flat) - 1, 1)]
        reach = np.where(np.isfinite(far), far, 0)[1:].max(-1)
        result.append((pairs.mean(), between[0, 1:].mean(), reach.max()))
    return list(np.asarray(result).T)


# Size, density, tasks measured; then means: loops, squares, dead ends, 3 ways, 4 ways, landmark
# pairs, start to landmarks, from any landmark to the cell farthest from it.
MEASURED = {
    (15, 0.36): (400, 15.5, 9.7, 12.1, 32.1, 4.5, 12.24, 11.84, 29.4),
    (25, 0.36): (200, 66.7, 41.0, 29.1, 116.7, 21.9, 19.9, 19.3, 47.0),
    (35, 0.36): (200, 155.0, 95.5, 52.9, 253.1, 53.9, 27.0, 26.8, 63.4),
    (15, 0.15): (400, 79.7, 67.3, 2.2, 69.7, 44.9, 9.10, 8.80, 22.5),
    (15, 0.30): (400, 30.9, 21.3, 8.6, 46.6, 10.9, 10.8, 10.4, 25.3),
    (15, 0.40): (400, 6.1, 3.6, 14.7, 20.6, 2.2, 14.5, 13.8, 35.0),
    (15, 0.45): (400, 0.0, 0.0, 16.8, 12.1, 1.3, 16.4, 16.0, 40.1),
}
# The reference's sample of trees is itself an unlucky one: the rules followed to the letter 4,000
# times give 12.54 (standard error 0.04) junctions of three ways.
UNLUCKY = {(15, 0.45): 4.0}


def compare(size, density, number, far):
    env = gpicljax.make("MazeWorld-v0", size=size)
    params = env.make_params(density=density)
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    tasks = jax.tree.map(np.asarray, sample(jax.random.split(jax.random.key(1), number), params))
    measured, *expected_means = MEASURED[size, density]
    measures = structure(~tasks.walls) + distances(tasks, far)
    for values, mean in zip(measures, expected_means, strict=True):
        spread = np.std(values)
        error = spread * np.sqrt(1 / len(values) + 1 / measured)
        # Half a unit of the last digit given.
        digits = len(str(mean).split(".")[1])
        margin = UNLUCKY.get((size, density), 3.0) * error + 0.5 * 10**-digits
        assert abs(np.mean(values) - mean) <= margin, (np.mean(values), mean, error)


def test_structure_and_distances_are_the_references():
    compare(15, 0.36, 1024, far=400)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "density"), MEASURED)
def test_structure_and_distances_of_all_sizes_and_densities_are_the_references(size, density):
    compare(size, density, 2000, far=1000)


# Landmarks -----------------------------------------------------------------------------------


def test_landmarks_and_start_are_distinct_open_cells_drawn_uniformly(key):
    walls = np.ones((11, 11), bool)
    walls[1:8, 1:8] = np.arange(7) % 3 == 1
    number, most, count = 20_000, 5, 3
    place = jax.jit(jax.vmap(lambda key: generation.place(key, walls, jnp.int32(count), most)))
    start, landmarks, at = jax.tree.map(np.asarray, place(jax.random.split(key, number)))
    assert (landmarks[:, count:] == -1).all()
    cells = np.concatenate([start[:, None], landmarks[:, :count]], axis=1)
    flat = cells[..., 0] * 11 + cells[..., 1]
    assert (np.diff(np.sort(flat), axis=1) > 0).all()
    opened = np.flatnonzero(~walls)
    for column in flat.T:
        counts = np.bincount(column, minlength=121)[opened]
        assert counts.sum() == number
        assert stats.chisquare(counts).pvalue > 1e-3
    # Of two places, too, every pair is equally likely.
    pairs = collections.Counter(zip(flat[:, 0].tolist(), flat[:, 1].tolist(), strict=True))
    expected = number / len(opened) / (len(opened) - 1)
    spread = sum((pairs[a, b] - expected) ** 2 for a in opened for b in opened if a != b)
    degrees = len(opened) * (len(opened) - 1) - 1
    assert stats.chi2.sf(spread / expected, degrees) > 1e-3
    rows = np.arange(number)
    for i in range(count):
        assert (at[rows, landmarks[:, i, 0], landmarks[:, i, 1]] == i).all()
    assert ((at >= 0).sum((1, 2)) == count).all()
