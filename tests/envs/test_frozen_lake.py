import functools
import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import MAPS, generate_random_map, is_valid
from slippery import Slips, assert_actions_are_permuted, assert_slips_have_their_probabilities

import gpicljax
from gpicljax.envs import frozen_lake
from gpicljax.envs.frozen_lake import GOAL, HOLE, FrozenLake, State

RECTANGLE = ("SFFSF", "FHFHF", "GFFFG")
LAKES = [
    {"map_name": "4x4"},
    {"map_name": "8x8"},
    {"map_name": "4x4", "is_slippery": False},
    {"map_name": "4x4", "success_rate": 0.75, "reward_schedule": (10, -3, -0.5)},
    {"desc": RECTANGLE},
]


def both(arguments):
    """Gymnasium's lake and ours, with its task."""
    reference = gymnasium.make("FrozenLake-v1", **{"map_name": None, **arguments})
    static = {"map_name": arguments.get("map_name"), "description": arguments.get("desc")}
    env = gpicljax.make("FrozenLake-v1", **static, is_slippery=arguments.get("is_slippery", True))
    traced = {k: arguments[k] for k in ("success_rate", "reward_schedule") if k in arguments}
    return reference, env, env.sample_task(jax.random.key(0), env.make_params(**traced))


def fixed_task(**static):
    env = FrozenLake(**static)
    return env, env.sample_task(jax.random.key(0), env.default_params)


@pytest.mark.parametrize("arguments", LAKES, ids=str)
def test_all_transition_probabilities_equal_gymnasiums(arguments):
    reference, env, task = both(arguments)
    rows, columns = env.shape
    states, actions, slips = (
        jnp.asarray(x.ravel(), jnp.int32)
        for x in np.meshgrid(range(rows * columns), range(4), range(3), indexing="ij")
    )
    state = State(states // columns, states % columns, jnp.zeros_like(states))
    moved = jax.jit(jax.vmap(env.move, (0, 0, 0, None)))(state, actions, slips, task)
    following = jax.vmap(env.observe, (0, None))(moved.state, task)
    table = reference.unwrapped.P
    assert len(table) == rows * columns
    triples = zip(states.tolist(), actions.tolist(), slips.tolist(), strict=True)
    for i, (s, a, slip) in enumerate(triples):
        outcomes = table[s][a]
        if len(outcomes) == 1:  # the end, or ice that does not slip: only one thing happens
            over = env.description[s // columns][s % columns] in "GH"
            if not over and slip != 1:
                assert moved.info["prob"][i] == 0
                continue
            outcomes = outcomes * 3
        probability, s2, reward, terminated = outcomes[slip]
        assert following[i] == s2
        assert moved.terminated[i] == terminated
        np.testing.assert_allclose(moved.reward[i], reward, rtol=1e-7)
        np.testing.assert_allclose(moved.info["prob"][i], probability, rtol=1e-6)


@pytest.mark.parametrize(
    ("env_id", "limit", "map_name"),
    [("FrozenLake-v1", 100, "4x4"), ("FrozenLake8x8-v1", 200, "8x8")],
)
def test_episodes_equal_gymnasiums_step_for_step(env_id, limit, map_name):
    reference = gymnasium.make(env_id)
    env, task = fixed_task(map_name=map_name)
    draws = np.random.default_rng(0)
    move = jax.jit(env.move)
    lengths = []
    for episode in range(6):
        # The last episode walks to and fro on the first two cells, until it is cut off.
        walk = episode == 5
        reference.reset(seed=episode)
        reference.unwrapped.np_random = slips = Slips()
        _, state = env.reset(jax.random.key(0), task)
        for t in itertools.count(1):
            action = (2 if t % 2 else 0) if walk else int(draws.integers(4))
            slips.slip = 1 if walk else int(draws.integers(3))
            s, reward, terminated, truncated, info = reference.step(action)
            moved = move(state, jnp.int32(action), jnp.int32(slips.slip), task)
            state = moved.state
            assert env.observe(state, task) == s
            assert moved.reward == reward
            assert moved.terminated == terminated
            assert moved.truncated == truncated
            np.testing.assert_allclose(moved.info["prob"], info["prob"], rtol=1e-6)
            if terminated or truncated:
                break
        lengths.append(t)
    assert lengths[-1] == limit


def test_slips_are_drawn_with_their_probabilities(key):
    assert_slips_have_their_probabilities(*fixed_task(), key)


def test_several_starts_are_equally_likely(key):
    env, task = fixed_task(description=RECTANGLE)
    states = jax.vmap(env.initial, (0, None))(jax.random.split(key, 1_000), task)
    cells, counts = np.unique(jax.vmap(env.observe, (0, None))(states, task), return_counts=True)
    assert cells.tolist() == [0, 3]
    assert abs(counts[0] - 500) < 4 * np.sqrt(250)


def test_maps_are_gymnasiums():
    assert {name: list(rows) for name, rows in frozen_lake.MAPS.items()} == MAPS


# Random lakes ----------------------------------------------------------------------------------


def holes_of(cells):
    return ["".join(frozen_lake.LETTERS[c] for c in row) for row in np.asarray(cells)]


def test_random_lakes_have_exactly_gymnasiums_distribution(key):
    """All 128 lakes of side 3, each with the probability that rejection gives it."""
    inner = [i for i in range(9) if i not in (0, 8)]
    chance = {}
    for holes in itertools.product("FH", repeat=7):
        letters = dict(zip(inner, holes, strict=True)) | {0: "S", 8: "G"}
        board = [[letters[3 * r + c] for c in range(3)] for r in range(3)]
        if is_valid(board, 3):
            name = "/".join(map("".join, board))
            chance[name] = 0.8 ** holes.count("F") * 0.2 ** holes.count("H")
    total = sum(chance.values())
    env = FrozenLake(size=3)
    n = 20_000
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    tasks = sample(jax.random.split(key, n), env.default_params)
    assert not tasks.carved.any()
    lakes, counts = np.unique(np.asarray(tasks.cells).reshape(n, 9), axis=0, return_counts=True)
    counts_by_lake = {
        "/".join(holes_of(cells.reshape(3, 3))): count
        for cells, count in zip(lakes, counts, strict=True)
    }
    assert set(counts_by_lake) <= set(chance)
    expected = np.array([n * p / total for p in chance.values()])
    observed = np.array([counts_by_lake.get(name, 0) for name in chance])
    common = expected >= 5
    chi2 = ((observed - expected)[common] ** 2 / expected[common]).sum()
    freedom = common.sum() - 1
    assert chi2 < freedom + 4 * np.sqrt(2 * freedom)


def test_random_lakes_match_gymnasiums_generator_at_size_8(key):
    env = FrozenLake(size=8)
    n = 1_000
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    own_holes = np.asarray(sample(jax.random.split(key, n), env.default_params).cells == HOLE)
    reference_holes = np.array(
        [[[c == "H" for c in row] for row in generate_random_map(8, seed=i)] for i in range(n)]
    )
    # The number of holes, with its spread, and each cell's rate, within 3 combined standard
    # errors; 4.5 for the greatest of 62 cells.
    a, b = own_holes.sum((1, 2)), reference_holes.sum((1, 2))
    assert abs(a.mean() - b.mean()) < 3 * np.sqrt((a.var() + b.var()) / n)
    rates = (own_holes.mean(0) + reference_holes.mean(0)) / 2
    error = np.sqrt(2 * rates * (1 - rates) / n)
    assert (np.abs(own_holes.mean(0) - reference_holes.mean(0)) <= 4.5 * error).all()


@functools.cache
def sample_lakes(env):
    return jax.jit(jax.vmap(env.sample_task, (0, None)))


@pytest.mark.parametrize("size", [2, 5, 7])
def test_lakes_smaller_than_the_cap(size, key):
    env = FrozenLake(size=7)
    params = env.make_params(size=size, hole_probability=0.4)
    tasks = sample_lakes(env)(jax.random.split(key, 30), params)
    for cells in np.asarray(tasks.cells):
        assert is_valid([list(row) for row in holes_of(cells[:size, :size])], size)
        assert (cells == GOAL).sum() == 1
        assert cells[size - 1, size - 1] == GOAL
        outside = np.ones_like(cells, bool)
        outside[:size, :size] = False
        assert (cells[outside] == HOLE).all()
    task = jax.tree.map(lambda x: x[0], tasks)
    corner = env.with_physical_state(env.initial(key, task), jnp.array([0.0, size - 1.0]))
    for action in (2, 3):  # the shore of the lake, not of the array
        moved = env.move(corner, jnp.int32(action), jnp.int32(1), task)
        assert env.observe(moved.state, task) == size - 1


def test_a_hopeless_hole_probability_ends_with_a_carved_lake(key, monkeypatch):
    monkeypatch.setattr(frozen_lake, "_MAX_ATTEMPTS", 20)
    env = FrozenLake(size=4)
    sample = jax.jit(env.sample_task)
    task = sample(key, env.make_params(hole_probability=1.0))
    assert task.carved
    assert holes_of(task.cells) == ["SHHH", "FHHH", "FHHH", "FFFG"]
    _, state = env.reset(key, task)
    assert env.transition(key, state, 1, task).info["carved"]
    free = sample(key, env.make_params(hole_probability=0.0))
    assert not free.carved
    assert holes_of(free.cells) == ["SFFF", "FFFF", "FFFF", "FFFG"]


def test_permuted_actions(key):
    env = FrozenLake(size=5, is_slippery=False)
    params = env.make_params(hole_probability=0.0, permute_actions=True)
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    tasks = sample(jax.random.split(key, 200), params)
    assert_actions_are_permuted(env, tasks, (2, 2), frozen_lake._MOVES, key)


# Views -----------------------------------------------------------------------------------------


def test_goal_distances_equal_a_breadth_first_search():
    draws = np.random.default_rng(0)
    measure = jax.jit(frozen_lake.goal_distances)
    for _ in range(10):
        cells = draws.choice([0, HOLE], (6, 7), p=[0.65, 0.35]).astype(np.int32)
        cells[draws.integers(6), draws.integers(7)] = GOAL
        expected = np.full(cells.shape, cells.size)
        ring = [tuple(x) for x in np.argwhere(cells == GOAL)]
        for distance in range(cells.size):
            expected[tuple(np.transpose(ring))] = distance
            near = {(r + dr, c + dc) for r, c in ring for dr, dc in frozen_lake._MOVES}
            ring = [
                (r, c)
                for r, c in near
                if 0 <= r < 6 and 0 <= c < 7 and cells[r, c] != HOLE and expected[r, c] == 42
            ]
            if not ring:
                break
        assert (measure(cells) == expected).all()


def test_privileged():
    env, task = fixed_task()
    knowledge = env.privileged(env.initial(jax.random.key(0), task), task)
    assert knowledge["distance"] == 6
    assert knowledge["position"].tolist() == [0, 0]
    assert knowledge["holes"].sum() == 4
    assert jnp.argmax(knowledge["goals"]) == 15
    assert knowledge["directions"].tolist() == [0, 1, 2, 3]


def test_describe_and_physical_state():
    env, task = fixed_task(description=("SFF", "FHG"))
    state = env.initial(jax.random.key(0), task)
    moved = env.with_physical_state(state, jnp.array([1.0, 2.0]))
    assert env.physical_state(moved).tolist() == [1, 2]
    assert env.describe(moved, task) == "cell 5, step 0 of 75"


def test_render_shows_every_kind_of_cell_and_the_elf_moving():
    env, task = fixed_task(description=("SFF", "FHG"))
    state = env.initial(jax.random.key(0), task)
    picture = np.asarray(env.render(state, task))
    assert picture.shape == (96, 144, 3)
    assert picture.dtype == np.uint8

    def tile(picture, row, column):
        return picture[48 * row : 48 * row + 48, 48 * column : 48 * column + 48].astype(int)

    kinds = [tile(picture, *cell) for cell in ((0, 1), (1, 1), (1, 2))]
    for a, b in itertools.combinations(kinds, 2):
        assert np.abs(a - b).mean() > 10
    assert (tile(picture, 0, 1) == tile(picture, 0, 2)).all()
    for cell in ((0, 1), (1, 1)):  # on the ice, and in the hole
        moved = np.asarray(env.render(env.with_physical_state(state, jnp.array(cell)), task))
        assert np.abs(tile(moved, *cell) - tile(picture, *cell)).mean() > 10
        untouched = np.abs(moved.astype(int) - picture).sum(-1)
        untouched[48 * cell[0] : 48 * cell[0] + 48, 48 * cell[1] : 48 * cell[1] + 48] = 0
        untouched[:48, :48] = 0
        assert not untouched.any()


# Errors ----------------------------------------------------------------------------------------


def test_one_lake_has_one_value():
    assert FrozenLake() == FrozenLake(map_name="4x4")
    assert FrozenLake(description=list(frozen_lake.MAPS["4x4"])) == FrozenLake()
