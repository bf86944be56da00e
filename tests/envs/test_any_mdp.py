"""Random tables: the published statistics, the tables against what is played, and returns."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import optimal_agent, random_agent
from gpicljax.environment import action_values
from gpicljax.envs import _random_tables
from gpicljax.evaluation.returns import returns_of, single_trial_batch
from gpicljax.rollout import play, start_rollout
from gpicljax.runtime.compiled import read_hlo
from gpicljax.wrappers import WithOptimalActions


@functools.cache
def program(static):
    """An environment, and what samples tasks and their tables from keys and params."""
    env = gpicljax.make("AnyMDP-v0", **dict(static))

    def sample(key, params):
        task = env.sample_task(key, params)
        return task, env.transition_model(task)

    return env, jax.jit(jax.vmap(sample, (0, None)))


@functools.cache
def sampled_tables(static=(), params=()):
    """An environment, 200 of its tasks, and their tables."""
    env, sample = program(static)
    tasks, model = sample(jax.random.split(jax.random.key(0), 200), env.make_params(**dict(params)))
    return env, tasks, jax.tree.map(np.asarray, model)


GARNET = (("max_states", 8), ("max_actions", 3), ("garnet", True), ("num_observations", 4))


def test_only_the_number_of_tries_depends_on_data():
    env, sample = program((("max_states", 8),))
    keys = jax.random.split(jax.random.key(0), 2)
    text = sample.lower(keys, env.make_params()).compile().as_text()
    assert read_hlo(text).data_loops == 1


def one(tree, index=0):
    return jax.tree.map(lambda x: x[index], tree)


# What 300 tables of Xenoverse's sampler have on average, with 16 states and 5 actions, and twice
# the standard deviation over tables divided by the root of 200, the number of ours.
PUBLISHED = {
    "share of pitfalls and goals that end": (0.137, 0.022),
    "states an episode may start in": (1.713, 0.14),
    "states an action leads to with a chance over 0.01": (3.031, 0.061),
    "entropy of where an action leads to": (0.686, 0.017),
    "share of rewards with noise": (0.51, 0.023),
    "logarithm of 1 and best play's gain": (4.063, 0.18),
}


def test_tables_have_the_published_statistics():
    _, tasks, model = sampled_tables()
    accepted_values = np.asarray(tasks.is_accepted)
    # A quarter of the tables is good, so that 16 draws find one in 99 cases of 100.
    assert accepted_values.mean() > 0.95
    over, steps = np.asarray(tasks.over), np.asarray(tasks.horizon)
    start = np.diff(tasks.start, prepend=0)
    live = ~over[:, :, None]
    noise = (
        np.asarray(tasks.leaving_noise)[..., None] + np.asarray(tasks.arriving_noise)[:, None, None]
    )
    chance = np.maximum(model.chance, 1e-12)
    discount = 2 ** (-1 / 16)
    best, even = (
        np.asarray(
            jax.jit(jax.vmap(functools.partial(action_values, discount=discount, at_random=r)))(
                model
            )
        )
        for r in (False, True)
    )
    gain = (start * (best.max(-1) - even.max(-1))).sum(-1) * (1 - discount) * steps
    statistics = {
        "share of pitfalls and goals that end": over.mean(1),
        "states an episode may start in": (start > 0).sum(1),
        "states an action leads to with a chance over 0.01": (
            ((chance > 0.01).sum(-1) * live).sum((1, 2)) / live.sum((1, 2)) / 5
        ),
        "entropy of where an action leads to": (
            (-(chance * np.log(chance)).sum(-1) * live).sum((1, 2)) / live.sum((1, 2)) / 5
        ),
        "share of rewards with noise": (noise > 0).mean((1, 2, 3)),
        "logarithm of 1 and best play's gain": np.log1p(gain),
    }
    for name, (mean, error) in PUBLISHED.items():
        assert abs(statistics[name][accepted_values].mean() - mean) < 2 * error, name
    assert steps.min() >= 100 and steps.max() <= 128


def test_tables_are_chances_of_states_that_exist():
    _, tasks, model = sampled_tables((), (("states", (6, 16)), ("actions", 3)))
    np.testing.assert_allclose(model.chance.sum(-1), 1, atol=1e-5)
    assert set(np.asarray(tasks.states)) == set(range(6, 17))
    # What can be come to from the start.
    reachable = np.diff(tasks.start, prepend=0) > 0
    for _ in range(16):
        reachable |= ((model.chance.sum(2) > 0) & reachable[:, :, None]).any(1)
    count = reachable.sum(1)
    assert (count <= tasks.states).all() and (count >= tasks.states / 2).all()
    # An action beyond the third does what one of the three does.
    np.testing.assert_array_equal(model.chance[:, :, 3:], model.chance[:, :, :2])
    np.testing.assert_array_equal(model.reward[:, :, 3:], model.reward[:, :, :2])


def test_a_table_is_solved_as_by_value_iteration():
    tasks, model = jax.tree.map(lambda x: x[:20], sampled_tables()[1:])
    table = _random_tables.Table(
        chances=jnp.where(tasks.over[:, :, None, None], 0, model.chance),
        start=tasks.start,
        **{
            name: getattr(tasks, name)
            for name in ("leaving", "arriving", "leaving_noise", "arriving_noise", "over")
        },
    )
    none = jnp.zeros_like(tasks.leaving)
    solve = jax.jit(jax.vmap(lambda t, v: _random_tables.best_values(t, v, 0.95, 8)))
    even = jax.jit(jax.vmap(lambda t: _random_tables.values_of(t, jnp.full((16, 5), 0.2), 0.95)))
    for solution, at_random in (solve(table, none), False), (even(table), True):
        iterated = jax.vmap(functools.partial(action_values, discount=0.95, at_random=at_random))(
            model
        )
        scale = np.abs(iterated).max((1, 2), keepdims=True)
        np.testing.assert_allclose(solution / scale, iterated / scale, atol=2e-4)


def test_what_is_played_is_the_table(key):
    env, tasks, model = sampled_tables()
    task, table = one(tasks), one(model)
    state = env.initial(key, task)
    assert not task.over[state.position]
    moves = jax.jit(jax.vmap(env.transition, (0, None, None, None)))
    moved = moves(jax.random.split(key, 4_000), state, jnp.int32(2), task)
    pair = int(state.position), 2
    counts = np.bincount(moved.state.position, minlength=16)
    error = np.sqrt(4_000 * table.chance[pair] * (1 - table.chance[pair]))
    assert (np.abs(counts - 4_000 * table.chance[pair]) <= 4.5 * error + 0.01).all()
    following = np.asarray(moved.state.position)
    np.testing.assert_array_equal(moved.terminated, table.over[pair][following])
    deviation = task.leaving_noise[pair] + task.arriving_noise[following]
    off = np.asarray(moved.reward) - table.reward[pair][following]
    assert (np.abs(off) <= 6 * deviation + 1e-4).all()
    noisy = np.asarray(deviation) > 0
    if noisy.any():
        assert np.std(off[noisy] / deviation[noisy]) == pytest.approx(1, abs=0.1)
    # After the end nothing moves and nothing is paid.
    end = int(np.argmax(task.over)) if task.over.any() else None
    if end is not None:
        after = env.transition(key, state.replace(position=jnp.int32(end)), 1, task)
        assert int(after.state.position) == end and float(after.reward) == 0


def test_garnet_processes_branch_as_they_are_to(key):
    env, tasks, model = sampled_tables(GARNET, (("branching", 3), ("reward_scale", 0.5)))
    assert ((model.chance > 0).sum(-1) == 3).all() and not model.over.any()
    # Sticks in three pieces: the longest has 11/18 on average.
    assert model.chance.max(-1).mean() == pytest.approx(11 / 18, abs=0.01)
    assert np.std(model.reward[..., 0]) == pytest.approx(0.5, abs=0.03)
    starts = np.argmax(np.diff(tasks.start, prepend=0), -1)
    assert len(set(starts.tolist())) == 8
    # A state can show a fifth of the four observations, but one at least.
    shown = (np.diff(tasks.emission, prepend=0) > 0).sum(-1)
    assert shown.min() == 1 and shown.mean() == pytest.approx(4 * 0.2 + 0.8**4, abs=0.08)
    task = one(tasks)
    states = jax.jit(jax.vmap(env.initial, (0, None)))(jax.random.split(key, 2_000), task)
    chances = np.diff(task.emission, prepend=0)[starts[0]]
    shares = np.bincount(jax.vmap(env.observe, (0, None))(states, task), minlength=4) / 2_000
    np.testing.assert_allclose(shares, chances, atol=0.05)
    assert (jax.vmap(env.situation, (0, None))(states, task) == starts[0]).all()
    assert env.describe(one(states), task) == f"observation {one(states).observation}, step 0"
    assert env.render(one(states), task).shape == (64, 3 * 72, 3)


def test_returns_are_those_of_random_play_and_of_an_oracle(key):
    env: Any = program(GARNET)[0]
    solved, params = (
        WithOptimalActions(env, discount=0.999),
        env.make_params(horizon=20, reward_scale=1),
    )
    vec = single_trial_batch(solved, 200, 20, privileged=True)

    def play_returns(agent):
        start = start_rollout(key, vec, agent, params)
        keep = lambda record: record.next_timestep.reward  # noqa: E731
        returns = returns_of(play(vec, agent, (), start, max_steps=20, keep=keep)).returns
        return returns, *jax.vmap(env.returns)(start.vstate.task.inner)

    for agent, column in (random_agent(solved), 1), (optimal_agent(), 2):
        results = [np.asarray(x) for x in jax.jit(functools.partial(play_returns, agent))()]
        off = results[0] - results[column]
        assert abs(off.mean()) < 4 * off.std() / np.sqrt(200) + 0.02 * results[2].mean()
        assert (results[2] > results[1]).all()
