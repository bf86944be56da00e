"""gymnax's contract, in both forms, and gymnax's own wrappers."""

import copy
import functools
import os
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stroll import DRAWN, SINGLE, THREE, Stroll, assert_same, at

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment

gymnax = pytest.importorskip("gymnax")

from gymnax import wrappers  # noqa: E402
from gymnax.environments import spaces as gymnax_spaces  # noqa: E402
from gymnax.experimental.rollout import RolloutWrapper  # noqa: E402

from gpicljax.interop import to_gymnax  # noqa: E402
from gpicljax.interop.gymnax import GymnaxParams  # noqa: E402

STROLL = Stroll()


def play(env, key, params, num_steps, step=None):
    """Random actions in one scan, which raises if the state changes its type."""
    reset_key, key = jax.random.split(key)
    observation, state = env.reset(reset_key, params)

    def body(state, key):
        action_key, step_key = jax.random.split(key)
        action = env.action_space(params).sample(action_key)
        out = env.step(step_key, state, action, params)
        return out[1], (state, action, step_key, *out)

    return observation, jax.lax.scan(body, state, jax.random.split(key, num_steps))[1]


def new_episode(key):
    task_key, state_key = jax.random.split(key)
    task = STROLL.sample_task(task_key, STROLL.default_params)
    return task, STROLL.reset(state_key, task)


# The contract --------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", SINGLE)
@pytest.mark.parametrize("step_api", [5, 6])
def test_every_environment_has_the_contract_under_vmap_and_scan(env_id, step_api, key):
    env = to_gymnax(gpicljax.make(env_id), step_api)
    params = env.default_params
    run = jax.vmap(functools.partial(play, env, params=params, num_steps=5))
    first, (_, action, _, observation, state, reward, *ends, info) = jax.eval_shape(
        run, jax.random.split(key, 3)
    )
    space = env.observation_space(params)
    assert isinstance(space, gymnax_spaces.Box)
    assert first.shape == (3, *space.shape)
    assert observation.shape == (3, 5, *space.shape)
    assert observation.dtype == first.dtype == space.dtype
    assert action.shape == (3, 5, *env.action_space(params).shape)
    assert len(ends) == step_api - 4
    final = info.pop("final_observation", None)
    assert (final is None) == (step_api == 5)
    if step_api == 6:
        assert final.shape == observation.shape
    assert {"terminated", "truncated", "discount"} <= set(info)
    # Scalars only: trainers stack them over all steps of all updates.
    for leaf in jax.tree.leaves((reward, ends, info)):
        assert leaf.shape == (3, 5)
    for leaf in jax.tree.leaves(state):
        assert leaf.shape[:2] == (3, 5)


@pytest.mark.parametrize("step_api", [5, 6])
def test_a_step_is_a_step_of_layer_1_and_a_reset_is_a_new_task_and_episode(step_api, key):
    adapter = to_gymnax(STROLL, step_api, flatten_observation=False)
    _, played = jax.jit(functools.partial(play, adapter, params=None, num_steps=25))(key)
    layer_1, start = jax.jit(STROLL.step), jax.jit(new_episode)
    ended = 0
    for t in range(25):
        before, action, step_key, observation, after, reward, *ends, info = at(played, t)
        step_key, reset_key = (jax.random.fold_in(step_key, i) for i in (0, 1))
        stepped = layer_1(step_key, before.state, action, before.task)
        done = stepped.terminated | stepped.truncated
        assert reward == stepped.reward
        assert [bool(x) for x in ends] == (
            [bool(done)] if step_api == 5 else [bool(stepped.terminated), bool(stepped.truncated)]
        )
        assert info["noise"] == stepped.info["noise"]
        assert info["terminated"] == stepped.terminated
        assert info["truncated"] == stepped.truncated
        assert info["discount"] == 1 - stepped.terminated
        if step_api == 6:
            assert_same(info["final_observation"], stepped.observation)
        if done:
            ended += 1
            task, expected = start(reset_key)
            assert after.task.name != before.task.name
            assert (after.time, after.truncated) == (0, False)
        else:
            task, expected = before.task, (stepped.observation, stepped.state)
            assert after.time == before.time + 1
        assert_same((observation, after.state, after.task), (*expected, task))
    assert ended > 3


def test_the_methods_that_never_reset(key):
    for step_api in 5, 6:
        env = to_gymnax(STROLL, step_api)
        params = env.make_params(longest=2)
        observation, state = env.reset_env(key, params)
        assert_same((observation, state), env.reset(key, params))
        _, state, _, ended, _ = env.step_env(key, state, 1, params)
        assert not ended
        observation, state, reward, ended, info = env.step_env(key, state, 1, params)
        # Lengths of 2 end in truncation: gymnax 1.x tells it apart, gymnax 0.x does not.
        assert bool(ended) == (step_api == 5)
        assert env.is_truncated(state, params)
        assert state.state.steps == 2
        assert_same(env.observe(key, state, None, params), observation)


def test_the_time_limit():
    assert to_gymnax(gpicljax.make("FrozenLake-v1")).default_params.max_steps_in_episode == 100
    rg = gpicljax.make("MetaRG-v0")
    assert to_gymnax(rg).default_params.max_steps_in_episode == int(rg.horizon())
    lake = to_gymnax(gpicljax.make("FrozenLake-v1"), 6)
    assert lake.make_params(horizon=7).max_steps_in_episode == 7
    params = lake.make_params(max_steps_in_episode=3)
    assert params.distribution.horizon == 100
    _, state = lake.reset(jax.random.key(0), params)
    for t in 1, 2, 3:
        _, state, _, terminated, truncated, _ = lake.step(jax.random.key(t), state, 3, params)
        assert not terminated
        assert truncated == (t == 3)
    assert state.time == 0


def test_params_are_traced_and_batched(key):
    env = to_gymnax(STROLL, 6)
    grid = GymnaxParams(
        jax.tree.map(lambda x: jnp.asarray([2, 2, 6]), STROLL.default_params),
        jnp.asarray([1, 6, 6]),
    )
    batched = jax.jit(jax.vmap(lambda k, p: play(env, k, p, 40)))
    _, (*_, terminated, truncated, _) = batched(jax.random.split(key, 3), grid)
    assert (terminated | truncated).sum(-1).tolist()[:2] == [40, 20]
    assert terminated.any(-1).tolist() == [False, False, True]


# Resets under vmap ---------------------------------------------------------------------------


def test_batches_and_batches_of_batches_equal_single_instances(key):
    env = to_gymnax(STROLL, 6)
    keys = jax.random.split(key, (3, 20))
    run = functools.partial(play, env, params=None, num_steps=9)
    nested = jax.jit(jax.vmap(jax.vmap(run)))(keys)
    one = jax.jit(run)
    assert (nested[1][0].time == 0).sum() > 60
    for i, j in (0, 0), (1, 7), (2, 19):
        assert_same(at(nested, i, j), one(keys[i, j]))


def test_only_the_instances_that_ended_pay_for_a_reset(key):
    env = to_gymnax(Stroll(count_draws=True))
    num_envs = 256
    step = jax.jit(jax.vmap(env.step, (0, 0, 0, None)))
    keys = jax.random.split(key, num_envs)
    _, state = jax.jit(jax.vmap(env.reset, (0, None)))(keys, env.default_params)
    jax.effects_barrier()
    assert len(DRAWN) == num_envs
    for ended in 0, 1, 17:
        length = jnp.where(jnp.arange(num_envs) < ended, 1, 9)
        chosen = state.replace(task=state.task.replace(length=length))
        DRAWN.clear()
        *_, done, _ = step(keys, chosen, jnp.zeros(num_envs, jnp.int32), env.default_params)
        jax.effects_barrier()
        assert done.sum() == ended
        # In groups of 16, a sixteenth of the batch.
        assert len(DRAWN) == 16 * -(-ended // 16)


@pytest.mark.parametrize(("step_api", "views"), [(5, 1), (6, 2)])
def test_the_observation_is_made_once_after_the_reset(step_api, views, key, monkeypatch):
    seen = []
    observe = Stroll.observe
    monkeypatch.setattr(Stroll, "observe", lambda *a: seen.append(0) or observe(*a))
    env = to_gymnax(Stroll(), step_api)
    _, state = env.reset_env(key, env.default_params)
    seen.clear()
    # Beneath the compiled program, which may be known already.
    jax.eval_shape(GymnaxStep(env), key, state, jnp.zeros((), jnp.int32))
    assert len(seen) == views


def GymnaxStep(env):
    return functools.partial(type(env).step.__wrapped__, env)


# Spaces and observations ---------------------------------------------------------------------


def test_spaces_are_of_gymnax_own_classes():
    lake = gpicljax.make("FrozenLake-v1")
    assert isinstance(to_gymnax(lake).action_space(None), gymnax_spaces.Discrete)
    assert to_gymnax(lake).num_actions == 4
    kept = to_gymnax(lake, flatten_observation=False).observation_space()
    assert isinstance(kept, gymnax_spaces.Discrete)
    assert kept.n == 16
    rg = to_gymnax(gpicljax.make("MetaRG-v0"), flatten_observation=False)
    entries = rg.observation_space().spaces
    assert isinstance(entries["role"], gymnax_spaces.Discrete)
    assert isinstance(entries["message"], gymnax_spaces.Box)
    assert entries["message"].shape == (3,)
    observation, _ = jax.eval_shape(rg.reset, jax.random.key(0))
    assert set(observation) == set(entries)


def test_observations_are_flat_unless_they_are_numbers_already(key):
    bandit = gpicljax.make("BernoulliBandit-v0")
    assert not to_gymnax(bandit).flatten_observation
    lake, _ = to_gymnax(gpicljax.make("FrozenLake-v1")).reset(key)
    np.testing.assert_array_equal(lake, np.eye(16)[0])
    flat, state = to_gymnax(STROLL).reset(key)
    native = STROLL.observe(state.state, state.task)
    assert_same(flat, spaces.flatten(STROLL.observation_space(), native))
    assert to_gymnax(STROLL).observation_space().low == -np.inf


def test_the_previous_action_and_reward_can_be_seen(key):
    env = to_gymnax(gpicljax.make("BernoulliBandit-v0", num_arms=3), observe_previous=True)
    params = env.make_params(low=1.0, high=1.0, horizon=2)
    observation, state = env.reset(key, params)
    assert env.observation_space(params).shape == (5,)
    assert observation.tolist() == [0, 0, 0, 0, 0]
    observation, state, *_ = env.step(key, state, 2, params)
    assert observation.tolist() == [0.5, 0, 0, 1, 1]
    observation, state, _, done, _ = env.step(key, state, 2, params)
    assert done
    assert observation.tolist() == [0, 0, 0, 0, 0]


# Value semantics and errors ------------------------------------------------------------------


@pytest.mark.parametrize("env_id", SINGLE)
def test_adapters_are_values(env_id):
    env, twin = (to_gymnax(gpicljax.make(env_id)) for _ in range(2))
    assert env == twin
    assert hash(env) == hash(twin)
    for clone in copy.deepcopy(env), pickle.loads(pickle.dumps(env)):
        assert clone == env
        assert hash(clone) == hash(env)
    others = [
        to_gymnax(gpicljax.make(env_id), 6),
        to_gymnax(gpicljax.make(env_id), max_steps_in_episode=3),
        to_gymnax(gpicljax.make(env_id), observe_previous=True),
    ]
    assert env not in others


def test_adapters_tell_distributions_apart():
    lake = gpicljax.make("FrozenLake-v1")
    half = to_gymnax(lake, params=lake.make_params(success_rate=0.5))
    assert half != to_gymnax(lake)
    assert half == to_gymnax(lake, params=lake.make_params(success_rate=0.5))
    assert half.default_params.distribution.success_rate == 0.5


def test_bad_input_is_refused():
    lake = gpicljax.make("FrozenLake-v1")
    with pytest.raises(ValueError, match="num_agents: got 2; accepted: one; to_jaxmarl"):
        to_gymnax(gpicljax.make("MetaRG-v0", view="players"))
    with pytest.raises(ValueError, match="env_id: got 'B'"):
        to_gymnax("B")
    assert to_gymnax("FrozenLake-v1").env == lake
    with pytest.raises(ValueError, match="step_api: got 4; accepted: 5, 6"):
        to_gymnax(lake, 4)
    with pytest.raises(ValueError, match="flatten_observation: got False"):
        to_gymnax(lake, flatten_observation=False, observe_previous=True)
    with pytest.raises(ValueError, match="max_steps_in_episode: got 0"):
        to_gymnax(lake, max_steps_in_episode=0)
    with pytest.raises(ValueError, match="horizon: got 0"):
        to_gymnax(lake, params=lake.default_params.replace(horizon=0))
    with pytest.raises(ValueError, match="make_params: got 'nonsense'"):
        to_gymnax(lake).make_params(nonsense=1)
    with pytest.raises(TypeError, match="GymnaxParams"):
        to_gymnax(lake).reset(jax.random.key(0), lake.default_params)


def test_an_environment_without_a_time_limit_asks_for_one(monkeypatch):
    monkeypatch.setattr(Stroll, "horizon", Environment.horizon)
    with pytest.raises(NotImplementedError, match="Stroll has no horizon"):
        to_gymnax(Stroll())
    assert to_gymnax(Stroll(), max_steps_in_episode=4).default_params.max_steps_in_episode == 4


# gymnax's own wrappers -----------------------------------------------------------------------


def batches(env, key, num_envs=4, num_steps=30):
    keys = jax.random.split(key, num_envs)
    run = functools.partial(play, env, params=env.default_params, num_steps=num_steps)
    return jax.jit(jax.vmap(run))(keys)


@pytest.mark.parametrize("env_id", SINGLE)
def test_the_rollout_wrapper_plays_every_environment_behind_the_others(env_id, key):
    env = to_gymnax(gpicljax.make(env_id), 6)
    stacked = wrappers.LogWrapper(wrappers.FlattenObservationWrapper(env))
    if isinstance(env.action_space(), gymnax_spaces.Discrete):
        stacked = wrappers.StickyActionWrapper(stacked, sticky_action_prob=0.1)
    params = env.default_params
    rollout = RolloutWrapper(env=stacked, env_params=params, num_env_steps=5)
    played = jax.eval_shape(rollout.batch_rollout, jax.random.split(key, 3), None)
    observation, action, reward, following, done, total = played
    size = np.prod(env.observation_space(params).shape, dtype=int)
    assert observation.shape == following.shape == (3, 5, size)
    assert action.shape == (3, 5, *env.action_space(params).shape)
    assert reward.shape == done.shape == (3, 5) and total.shape == (3, 1)


def test_the_rollout_wrapper_evaluates_a_population(key):
    env = to_gymnax(gpicljax.make("BernoulliBandit-v0", num_arms=2), 6)
    params = env.make_params(low=0.5, high=0.5, horizon=4)
    policy = lambda always, observation, key: always  # noqa: E731
    rollout = RolloutWrapper(policy, env=env, env_params=params, num_env_steps=6)
    played = rollout.population_rollout(jax.random.split(key, 3), jnp.arange(2))
    _, action, reward, _, done, total = played
    # Only the first episode counts.
    counted = reward[..., :4].sum(-1, keepdims=True)
    np.testing.assert_array_equal(total, counted)
    assert done.tolist() == [[[False, False, False, True, False, False]] * 3] * 2
    assert (action == np.arange(2)[:, None, None]).all()


def test_the_brax_wrapper(key):
    pytest.importorskip("brax.envs", exc_type=ImportError)
    from gymnax.wrappers.brax import GymnaxToBraxWrapper

    env = GymnaxToBraxWrapper(to_gymnax(STROLL, 6))
    state = jax.jit(env.reset)(key)
    state = jax.jit(env.step)(state, jnp.asarray(1))
    assert state.reward == 1 and state.obs.shape == state.info["final_observation"].shape


@pytest.mark.slow
def test_log_and_flatten_wrappers_count_what_happened(key):
    env = wrappers.LogWrapper(
        wrappers.FlattenObservationWrapper(to_gymnax(gpicljax.make("FrozenLake-v1"), 6))
    )
    _, (*_, reward, terminated, truncated, info) = batches(env, key)
    done = np.asarray(terminated | truncated)
    assert done.any(-1).all()
    for i in range(4):
        start = 0
        for end in np.flatnonzero(done[i]):
            assert info["returned_episode_lengths"][i, end] == end + 1 - start
            total = reward[i, start : end + 1].sum()
            assert info["returned_episode_returns"][i, end] == total
            start = end + 1
    np.testing.assert_array_equal(info["returned_episode"], done)


def test_sticky_actions_repeat_the_last_action(key):
    env = wrappers.StickyActionWrapper(to_gymnax(STROLL, 6), sticky_action_prob=1.0)
    _, (*_, reward, _, _, _) = batches(env, key)
    # Stroll pays the action; the first one that is replayed is 0.
    assert not reward.any()


@pytest.mark.slow
def test_legacy_step_wrapper_gives_the_five_values(key):
    mine, theirs = to_gymnax(STROLL, 5), wrappers.LegacyStepAPIWrapper(to_gymnax(STROLL, 6))
    five, legacy = batches(mine, key), batches(theirs, key)
    assert legacy[1][-1].pop("final_observation").shape == legacy[1][3].shape
    assert_same(legacy, five)


def test_dm_env_wrapper(key):
    env = wrappers.GymnaxToDmEnvWrapper(to_gymnax(STROLL, 6))

    def run(key):
        def body(timestep, key):
            timestep = env.step(key, timestep, 1)
            return timestep, timestep

        return jax.lax.scan(body, env.reset(key), jax.random.split(key, 20))[1]

    steps = jax.jit(jax.vmap(run))(jax.random.split(key, 5))
    assert set(np.unique(steps.discount)) == {0.0, 1.0}
    assert (steps.reward == 1).all()
    ended = steps.state.time == 0
    assert ended.any()
    differ = (steps.observation != steps.final_observation).any(-1)
    np.testing.assert_array_equal(differ, ended)


def test_gym_wrappers():
    one = wrappers.GymnaxToGymWrapper(to_gymnax(gpicljax.make("FrozenLake-v1"), 6), seed=1)
    observation, _ = one.reset(seed=3)
    assert observation.shape == one.observation_space.shape
    observation, reward, terminated, truncated, info = one.step(1)
    assert observation.argmax() == one.env_state.state.row * 4 + one.env_state.state.column
    assert {"terminated", "final_observation"} <= set(info)

    several = wrappers.GymnaxToVectorGymWrapper(to_gymnax(STROLL, 6), num_envs=3, seed=1)
    observation, _ = several.reset(seed=3)
    assert observation.shape == several.observation_space.shape
    out = several.step(jnp.asarray([0, 1, 2]))
    assert out[1].tolist() == [0, 1, 2]


# Types ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_types_under_x64():
    script = """
import sys, jax, gpicljax
from gpicljax.interop import to_gymnax
for env_id in sys.argv[1:]:
    for api in 5, 6:
        env = to_gymnax(gpicljax.make(env_id), api, observe_previous=True)
        params = env.default_params
        def run(key):
            observation, state = env.reset(key, params)
            def body(carry, key):
                action = env.action_space(params).sample(key)
                out = env.step(key, carry[1], action, params)
                return out[:2], out[2]
            return jax.lax.scan(body, (observation, state), jax.random.split(key, 3))
        keys = jax.random.split(jax.random.key(0), 2)
        (observation, _), reward = jax.eval_shape(jax.vmap(run), keys)
        assert observation.dtype == reward.dtype == "float64", env_id
"""
    result = subprocess.run(
        [sys.executable, "-c", script, *THREE],
        env=os.environ
        | {"JAX_ENABLE_X64": "1", "PYTHONPATH": str(Path(gpicljax.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
