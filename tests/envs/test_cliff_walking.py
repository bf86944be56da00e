import functools
import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slippery import Slips, assert_actions_are_permuted, assert_slips_have_their_probabilities

import gpicljax
from gpicljax.environment import NO_LIMIT
from gpicljax.envs.cliff_walking import _MOVES, CliffWalking, State

UP, RIGHT, DOWN, LEFT = range(4)


def fixed_task(**static):
    env = CliffWalking(**static)
    return env, env.sample_task(jax.random.key(0), env.default_params)


@functools.cache
def sampler(env):
    return jax.jit(jax.vmap(env.sample_task, (0, None)))


def corridors(env, count, **params):
    """Tasks, and their cells as letters."""
    tasks = sampler(env)(jax.random.split(jax.random.key(0), count), env.make_params(**params))
    cells = np.asarray(jax.jit(jax.vmap(env.cells))(tasks))
    return tasks, np.array(list(".CSG "))[cells]


# Gymnasium -------------------------------------------------------------------------------------


@pytest.mark.parametrize("slippery", [False, True])
def test_all_transition_probabilities_equal_gymnasiums(slippery):
    table = gymnasium.make("CliffWalking-v1", is_slippery=slippery).unwrapped.P
    env, task = fixed_task(is_slippery=slippery)
    states, actions, slips = (
        jnp.asarray(x.ravel(), jnp.int32)
        for x in np.meshgrid(range(48), range(4), range(3), indexing="ij")
    )
    state = State(states // 12, states % 12, jnp.zeros_like(states))
    moved = jax.jit(jax.vmap(env.move, (0, 0, 0, None)))(state, actions, slips, task)
    following = jax.vmap(env.observe, (0, None))(moved.state, task)
    triples = zip(states.tolist(), actions.tolist(), slips.tolist(), strict=True)
    for i, (s, a, slip) in enumerate(triples):
        outcomes = table[s][a]
        if not slippery and slip != 1:
            assert moved.info["prob"][i] == 0
            continue
        probability, s2, reward, terminated = outcomes[slip if slippery else 0]
        assert following[i] == s2
        assert moved.reward[i] == reward
        assert moved.terminated[i] == terminated
        np.testing.assert_allclose(moved.info["prob"][i], probability, rtol=1e-6)
    assert not moved.truncated.any()


def test_episodes_equal_gymnasiums_step_for_step():
    reference = gymnasium.make("CliffWalking-v1", is_slippery=True)
    env, task = fixed_task(is_slippery=True)
    draws = np.random.default_rng(0)
    move = jax.jit(env.move)
    first, _ = reference.reset(seed=0)
    reference.unwrapped.np_random = slips = Slips()
    observation, state = env.reset(jax.random.key(0), task)
    assert observation == first
    falls = 0
    for t in range(400):
        if t < 300:  # at random
            action, slips.slip = int(draws.integers(4)), int(draws.integers(3))
        else:  # the way along the edge, with good luck
            row, column = (int(x) for x in env.physical_state(state))
            action, slips.slip = DOWN if column == 11 else RIGHT if row < 3 else UP, 1
        s, reward, terminated, truncated, info = reference.step(action)
        moved = move(state, jnp.int32(action), jnp.int32(slips.slip), task)
        state = moved.state
        assert env.observe(state, task) == s
        assert moved.reward == reward
        assert (moved.terminated, moved.truncated) == (terminated, truncated)
        np.testing.assert_allclose(moved.info["prob"], info["prob"], rtol=1e-6)
        falls += reward == -100
        if terminated:
            break
    assert terminated
    assert falls > 0


def test_the_older_name_is_the_same_environment():
    assert gpicljax.make("CliffWalking-v0") == gpicljax.make("CliffWalking-v1")


def test_slips_are_drawn_with_their_probabilities(key):
    assert_slips_have_their_probabilities(*fixed_task(), key)


def test_a_limit_truncates_and_its_absence_does_not(key):
    env, task = fixed_task()
    for horizon, steps, truncated in ((5, 4, True), (5, 3, False), (NO_LIMIT, NO_LIMIT, False)):
        limited = task.replace(horizon=jnp.int32(horizon))
        state = State(jnp.int32(0), jnp.int32(0), jnp.int32(steps))
        moved = env.transition(key, state, UP, limited)
        assert moved.truncated == truncated
        assert moved.state.steps > 0


# Corridors -------------------------------------------------------------------------------------


def test_corridors_are_mirrored_rectangles_with_a_way_round_the_cliff():
    env = CliffWalking(max_rows=5, max_columns=7)
    tasks, maps = corridors(
        env, 200, rows=(3, 5), columns=(2, 7), cliff_rows=(1, 2), random_cliff=True, turn=True
    )
    for i, cells in enumerate(maps):
        rows, columns = int(tasks.rows[i]), int(tasks.columns[i])
        inside = cells[:rows, :columns]
        assert (inside != " ").all()
        assert (cells == " ").sum() == 35 - rows * columns
        (start,), (goal,) = np.argwhere(inside == "S"), np.argwhere(inside == "G")
        assert start[0] == goal[0]
        assert start[0] in (0, rows - 1)
        assert sorted([start[1], goal[1]]) == [0, columns - 1]
        cliff = np.argwhere(inside == "C")
        if columns == 2:
            assert not len(cliff)
            continue
        (top, left), (bottom, right) = cliff.min(0), cliff.max(0)
        assert len(cliff) == (bottom - top + 1) * (right - left + 1)  # a rectangle
        assert start[0] in (top, bottom)
        assert bottom - top in (0, 1)
        # Some row is free of the cliff from one side to the other.
        assert (inside != "C").all(1).any()
    sizes = {(int(r), int(c)) for r, c in zip(tasks.rows, tasks.columns, strict=True)}
    assert sizes == set(itertools.product(range(3, 6), range(2, 8)))
    turned = np.stack([tasks.start[:, 0] == 0, tasks.start[:, 1] > 0]).mean(1)
    assert (np.abs(turned - 0.5) < 4 * np.sqrt(0.25 / 200)).all()


def test_every_stretch_of_a_random_cliff_is_equally_likely():
    env = CliffWalking(max_rows=2, max_columns=8)
    _, maps = corridors(env, 4_000, columns=6, random_cliff=True)
    maps_found, counts = np.unique(["".join(cells[1]) for cells in maps], return_counts=True)
    expected = {
        "S" + "".join("C" if first <= c <= last else "." for c in range(1, 5)) + "G  "
        for first in range(1, 5)
        for last in range(first, 5)
    }
    assert set(maps_found) == expected
    mean = 4_000 / len(expected)
    assert (np.abs(counts - mean) < 4 * np.sqrt(mean)).all()


def test_smaller_corridors_are_gymnasiums_made_smaller():
    env = CliffWalking()
    tasks, maps = corridors(env, 3, rows=2, columns=4)
    assert ["".join(row) for row in maps[0][:3]] == ["....        ", "SCCG        ", " " * 12]
    task = jax.tree.map(lambda x: x[0], tasks)
    state = env.initial(jax.random.key(0), task)
    steps = []
    for action in (LEFT, UP, UP, RIGHT, DOWN, UP, RIGHT, RIGHT, RIGHT, RIGHT, DOWN):
        moved = env.transition(jax.random.key(0), state, jnp.int32(action), task)
        state = moved.state
        steps.append((int(env.observe(state, task)), float(moved.reward), bool(moved.terminated)))
    assert steps[:4] == [(4, -1, False), (0, -1, False), (0, -1, False), (1, -1, False)]
    assert steps[4] == (4, -100, False)
    assert steps[5:] == [(s, -1, s == 7) for s in (0, 1, 2, 3, 3, 7)]


def test_permuted_actions(key):
    env = CliffWalking()
    tasks, _ = corridors(env, 200, permute_actions=True)
    assert_actions_are_permuted(env, tasks, (1, 2), _MOVES, key)


# Views -----------------------------------------------------------------------------------------


def test_privileged_and_describe(key):
    env, task = fixed_task(max_rows=2, max_columns=4)
    state = env.with_physical_state(env.initial(key, task), jnp.array([0.0, 2.0]))
    knowledge = env.privileged(state, task)
    assert knowledge["cliff"].tolist() == [[False] * 4, [False, True, True, False]]
    assert knowledge["goal"].tolist() == [1, 3]
    assert knowledge["position"].tolist() == [0, 2]
    assert knowledge["directions"].tolist() == [0, 1, 2, 3]
    assert env.describe(state, task) == "cell 2, step 0"


def test_render_shows_every_kind_of_cell_and_the_walker_moving(key):
    env = CliffWalking(max_rows=4, max_columns=5)
    task = env.sample_task(key, env.make_params(rows=3, cliff_rows=2))
    render = jax.jit(env.render)

    def tiles(row, column):
        state = env.with_physical_state(env.initial(key, task), jnp.array([row, column]))
        return np.asarray(render(state, task)).astype(int).reshape(4, 48, 5, 48, 3).swapaxes(1, 2)

    away = tiles(0, 4)
    kinds = [away[cell] for cell in ((0, 0), (1, 1), (2, 1), (2, 0), (2, 4), (3, 0))]
    for a, b in itertools.combinations(kinds, 2):
        assert np.abs(a - b).mean() > 8
    for cell in ((0, 0), (2, 0)):
        changed = np.abs(tiles(*cell) - away).sum((2, 3, 4)) > 0
        assert {tuple(x) for x in np.argwhere(changed)} == {cell, (0, 4)}


# Errors ----------------------------------------------------------------------------------------
