"""What holds for every registered environment, whatever it is about."""

import copy
import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.envs.one_pull_bandits import KINDS
from gpicljax.runtime import FAST_COMPILE

# Static configurations worth a run of their own, beside each id's default.
EXTRA = {
    "Acrobot-v1": [{"equations": "nips"}],
    "BernoulliBandit-v0": [{"num_arms": 2}],
    "CliffWalking-v1": [{"max_rows": 3, "max_columns": 5, "is_slippery": True}],
    "FrozenLake-v1": [
        {"map_name": "8x8", "is_slippery": False},
        {"description": ("SFSF", "FHFG")},
        {"size": 5},
    ],
    "MazeWorld-v0": [
        {
            "mode": "survival",
            "actions": "continuous",
            "size": 9,
            "resolution": (9, 16),
            "with_pose": True,
        },
        {"actions": "moves", "view": "local", "max_landmarks": 3},
    ],
    "MetaLanguage-v0": [
        {"vocab_size": 5, "max_order": 2, "slot_weights": "uniform", "calibration": "scale"},
    ],
    "MetaRG-v0": [
        {"view": "players", "num_distractors": 2, "max_shots": 2, "stimulus": "mhe"},
    ],
}
# A second distribution over tasks, for the promise that one compiled program serves them all.
OTHER_PARAMS = {
    "Acrobot-v1": {"gravity": (5.0, 9.0), "torque": 0.5, "horizon": 9},
    **{f"Bandit{kind}-v1": {"spread": 0.1, "noise": 0.2} for kind in KINDS},
    "BernoulliBandit-v0": {"low": 0.2, "high": 0.4, "horizon": 7},
    "CliffWalking-v1": {
        "success_rate": 0.5,
        "horizon": 9,
        "permute_actions": True,
        "rows": (2, 3),
        "columns": (3, 5),
        "random_cliff": True,
        "turn": True,
    },
    "FrozenLake-v1": {"success_rate": 0.5, "horizon": 9, "permute_actions": True},
    "GaussianBandit-v0": {"high": 1.0, "spread": 0.0, "noise": 0.3, "horizon": 7},
    "InvertedDoublePendulum-v4": {"gravity": (5.0, 9.0), "length_2": 0.8, "horizon": 9},
    "InvertedDoublePendulum-v5": {"gravity": (5.0, 9.0), "length_2": 0.8, "horizon": 9},
    "LunarLander-v3": {
        "gravity": (-11.0, -7.0),
        "wind_power": 15.0,
        "turbulence_power": (0.0, 1.5),
        "horizon": 60,
    },
    "MazeWorld-v0": {
        "size": 7,
        "density": 0.2,
        "num_landmarks": 2,
        "mean_landmark_reward": -0.1,
        "cell_size": (1.5, 4.0),
        "wall_height": (2.0, 6.0),
        "view_range": (4.0, 12.0),
        "refresh_interval": 5,
        "horizon": 9,
    },
    "MetaLanguage-v0": {"min_order": 1, "max_order": 2, "scale": 2.0, "sigma": 0.5, "horizon": 9},
    "MetaRG-v0": {"min_values": 3, "max_values": 3},
    "MetaRG-v1": {"min_values": 3, "max_values": 3},
    "MountainCar-v0": {"force": (0.0005, 0.002), "gravity": 0.002, "horizon": 9},
    "Pendulum-v1": {"mass": (0.5, 2.0), "length": 0.8, "horizon": 9},
}
# Rewards that are small differences of large numbers round more coarsely.
ROUNDING = {"LunarLander": 1e-4}
# Without a limit by default, or with one of 2,048: episodes may be longer than is watched here.
UNENDING = {"CliffWalking-v1", "MazeWorld-v0"}
# Two names of one environment are one subject.
SUBJECTS = sorted({gpicljax.make(env_id): env_id for env_id in gpicljax.registered()}.values())
CASES = {
    env_id + "".join(f",{name}={value}" for name, value in static.items()): (env_id, static)
    for env_id in SUBJECTS
    for static in [{}, *EXTRA.get(env_id, [])]
}
compiled = functools.partial(jax.jit, compiler_options=FAST_COMPILE)
PROBE_STEPS = 6
PLAY_STEPS = 2_000
LONG_PLAY = (480, 2_100)  # instances, steps: a million


def build(case):
    env_id, static = CASES[case]
    return gpicljax.make(env_id, **static)


def legal_action(env, key, observation):
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    return env.action_space().sample(key, mask)


def probe(env, key, params):
    """A task and a few random steps: everything layer 1 returns."""
    task_key, reset_key, key = jax.random.split(key, 3)
    task = env.sample_task(task_key, params)
    first, state = env.reset(reset_key, task)

    def body(carry, key):
        observation, state = carry
        action_key, step_key = jax.random.split(key)
        step = env.step(step_key, state, legal_action(env, action_key, observation), task)
        return (step.observation, step.state), step

    _, steps = jax.lax.scan(body, (first, state), jax.random.split(key, PROBE_STEPS))
    return task, state, first, steps


def play(env, key, task, state):
    """2,000 random steps, episode after episode; the flags to be looked at."""

    def body(carry, key):
        state, last = carry
        action_key, key = jax.random.split(key)
        action = legal_action(env, action_key, env.observe(state, task))
        moved = jax.eval_shape(env.transition, key, state, action, task)

        def reset():
            zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), moved)
            return zeros._replace(state=env.initial(key, task))

        state, reward, terminated, truncated, info = jax.lax.cond(
            last, reset, lambda: env.transition(key, state, action, task)
        )
        observation = env.observe(state, task)
        flags = {
            "action": env.action_space().contains(action),
            "observation": env.observation_space().contains(observation),
            "finite": finite((observation, reward, info, state)),
            "ended": terminated | truncated,
        }
        return (state, terminated | truncated), flags

    keys = jax.random.split(key, PLAY_STEPS)
    return jax.lax.scan(body, (state, jnp.zeros((), bool)), keys)[1]


def play_long(env, key, params):
    """A million random steps of a batch that draws a new task for every episode; what held."""
    num_envs, length = LONG_PLAY
    vec = gpicljax.VectorEnv(env, num_envs, resets="fresh")

    def body(carry, key):
        vstate, timestep = carry
        actions = jax.vmap(functools.partial(legal_action, env))(
            jax.random.split(key, num_envs), timestep.observation
        )
        vstate, timestep = vec.step(vstate, actions)
        watched = (timestep.observation, timestep.reward, timestep.info, vstate.state, vstate.task)
        flags = {
            "observation": jax.vmap(env.observation_space().contains)(timestep.observation).all(),
            "finite": finite(watched),
            "ended": timestep.last.any(),
        }
        return (vstate, timestep), flags

    start_key, key = jax.random.split(key)
    _, flags = jax.lax.scan(body, vec.init(start_key, params), jax.random.split(key, length))
    return flags


def finite(tree):
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.asarray([jnp.isfinite(x).all() for x in floats]).all()


def batch(env, key, params):
    """A few steps of a `VectorEnv` under `scan`, which raises if the carry changes its type."""
    vec = gpicljax.VectorEnv(env, 2, episodes_per_trial=2, resets="fresh")
    actions = jax.vmap(env.action_space().sample)(jax.random.split(key, vec.num_envs))
    return jax.lax.scan(
        lambda carry, _: (vec.step(carry[0], actions), 0), vec.init(key, params), length=3
    )


@dataclasses.dataclass(frozen=True)
class Subject:
    """An environment with its compiled probe, and a note of each time that was traced."""

    env: Environment
    params: object
    other: object
    probe: object
    traces: list


@functools.cache
def subject_of(case):
    env_id, _ = CASES[case]
    env = build(case)
    params = as_arrays(env.default_params)
    other = as_arrays(env.make_params(**OTHER_PARAMS.get(env_id, {})))
    traces = []

    def noted(key, params):
        traces.append(case)
        return probe(env, key, params)

    return Subject(env, params, other, compiled(noted), traces)


@pytest.fixture(params=CASES)
def case(request):
    return request.param


@pytest.fixture
def subject(case):
    return subject_of(case)


def as_arrays(params):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), params)


def plain(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def assert_equal(a, b, rounding=0.0):
    """Equal trees: integers bit for bit, floats within `rounding`."""
    chex.assert_trees_all_equal_structs(a, b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = plain(x), plain(y)
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rounding, atol=rounding)


def test_same_key_gives_the_same_result_and_another_key_another(subject, key):
    once, again = subject.probe(key, subject.params), subject.probe(key, subject.params)
    assert_equal(once, again)
    others = [subject.probe(jax.random.key(i), subject.params) for i in range(1, 6)]

    def different(a, b):
        leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        return any((plain(x) != plain(y)).any() for x, y in leaves)

    assert any(different(once, other) for other in others)


def test_jit_equals_the_slices_of_vmap_over_keys_tasks_and_params(subject, key):
    keys = jax.random.split(key, 3)
    grid = [subject.params, subject.other, subject.params]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *grid)
    batch = compiled(jax.vmap(functools.partial(probe, subject.env)))(keys, stacked)
    for i in range(3):
        one = subject.probe(keys[i], grid[i])
        rounding = ROUNDING.get(subject.env.name, 1e-5)
        assert_equal(jax.tree.map(lambda x, i=i: x[i], batch), one, rounding)


def test_one_trace_serves_all_params(subject, key):
    subject.probe(key, subject.params)
    subject.probe(jax.random.key(1), subject.other)
    assert len(subject.traces) == 1


def test_2000_random_steps_stay_inside_the_spaces_and_finite(case, subject, key):
    play_env = compiled(functools.partial(play, subject.env))
    for params in (subject.params, subject.other):
        task, state, _, _ = subject.probe(key, params)
        flags = play_env(key, task, state)
        assert flags["action"].all(), "a legal action lies outside the action space"
        assert flags["observation"].all(), "an observation lies outside its space"
        assert flags["finite"].all(), "a number is not finite"
        if params is subject.other or CASES[case][0] not in UNENDING:
            assert flags["ended"].any(), "no episode ended within 2,000 steps"


@pytest.mark.slow
def test_a_million_random_steps_stay_inside_the_spaces_and_finite(subject, key):
    run = compiled(functools.partial(play_long, subject.env))
    for params in (subject.params, subject.other):
        flags = run(key, params)
        assert flags["observation"].all(), "an observation lies outside its space"
        assert flags["finite"].all(), "a number is not finite"
        assert flags["ended"].sum() > 1


def test_step_is_transition_then_observe_and_reset_is_initial_then_observe(subject, key):
    env = subject.env
    task, state, first, _ = subject.probe(key, subject.params)
    action = legal_action(env, key, first)

    def reset(key, task):
        state = env.initial(key, task)
        return env.observe(state, task), state

    def step(key, state, action, task):
        moved = env.transition(key, state, action, task)
        return env.observe(moved.state, task), *moved

    for whole, parts, args in (
        (env.reset, reset, (key, task)),
        (env.step, step, (key, state, action, task)),
    ):
        # The same program needs no run; an environment that overrides the whole is compared.
        if str(jax.make_jaxpr(whole)(*args)) != str(jax.make_jaxpr(parts)(*args)):
            assert_equal(tuple(jax.jit(whole)(*args)), tuple(jax.jit(parts)(*args)))


def test_value_semantics(case):
    env, twin = build(case), build(case)
    assert env == twin
    assert hash(env) == hash(twin)
    assert pickle.loads(pickle.dumps(env)) == env
    assert copy.deepcopy(env) == env
    assert env != object()
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.anything = 1


def test_the_object_holds_no_arrays(case):
    for field, value in vars(build(case)).items():
        for leaf in jax.tree.leaves(value):
            assert not isinstance(leaf, jax.Array | np.ndarray), field


def test_spaces(subject, key):
    env = subject.env
    task, state, _, _ = subject.probe(key, subject.params)
    for space in (env.action_space(), env.observation_space()):
        assert isinstance(space, spaces.Space)
        hash(space)
        assert jax.jit(lambda key, space=space: space.contains(space.sample(key)))(key)
    assert env.action_space(task) == env.action_space()
    assert env.observation_space(task) == env.observation_space()
    if env.num_agents is not None:
        assert env.action_space().sample(key).shape[:1] == (env.num_agents,)
        assert jax.eval_shape(env.transition, key, state, env.action_space().sample(key), task)[
            1
        ].shape == (env.num_agents,)


def test_views(subject, key):
    env = subject.env
    task, state, _, steps = subject.probe(key, subject.params)
    later = jax.tree.map(lambda x: x[0], steps.state)
    for moment in (state, later):
        assert isinstance(env.describe(moment, task), str)
        assert env.describe(moment, task).strip()
    assert jax.tree.leaves(jax.jit(env.privileged)(state, task))
    if hasattr(env, "render"):
        picture = jax.jit(env.render)(state, task)
        assert picture.dtype == jnp.uint8
        assert picture.ndim == 3
        assert picture.shape[-1] == 3


def test_params_are_checked(subject):
    with pytest.raises(ValueError, match="make_params: got 'nonsense'.*accepted: "):
        subject.env.make_params(nonsense=1)
    assert subject.env.name


def test_unknown_static_configuration_is_refused(case):
    with pytest.raises(ValueError, match="nonsense"):
        gpicljax.make(CASES[case][0], nonsense=1)


def type_problems(env):
    """Weak types, types that change over a step, and types at odds with the float in force."""
    key, params = jax.random.key(0), as_arrays(env.default_params)
    task, state, first, steps = jax.eval_shape(functools.partial(probe, env), key, params)
    moved = jax.eval_shape(
        env.step, key, state, jax.eval_shape(env.action_space().sample, key), task
    )
    problems = []

    def kinds(tree):
        return [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)]

    if kinds(state) != kinds(moved.state) or kinds(first) != kinds(moved.observation):
        problems.append("types change over a step")
    default = jnp.result_type(float)
    everything = {"task": task, "state": state, "observation": first, "step": moved._asdict()}
    for path, leaf in jax.tree_util.tree_leaves_with_path(everything):
        wrong_float = jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != default
        if leaf.weak_type or wrong_float or leaf.dtype in (jnp.int64, jnp.uint64):
            name = jax.tree_util.keystr(path)
            problems.append(f"{name} is {'weak ' if leaf.weak_type else ''}{leaf.dtype}")
    for reward_like in (moved.terminated, moved.truncated):
        if reward_like.dtype != bool or reward_like.shape != ():
            problems.append("terminated and truncated are bool[]")
    if moved.reward.dtype != default:
        problems.append(f"the reward is {moved.reward.dtype}")
    jax.eval_shape(functools.partial(batch, env), key, params)
    return sorted(set(problems))


def test_carried_types_are_strong_and_stable(subject):
    assert type_problems(subject.env) == []


@functools.cache
def problems_under_x64():
    result = subprocess.run(
        [sys.executable, __file__],
        env=os.environ
        | {"JAX_ENABLE_X64": "1", "PYTHONPATH": str(Path(gpicljax.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_types_under_x64(case):
    assert problems_under_x64()[case] == []


def report_x64():
    assert jax.config.jax_enable_x64
    report = {}
    for case in CASES:
        try:
            report[case] = type_problems(build(case))
        except Exception as error:  # one environment's failure must not hide the others'
            report[case] = [repr(error)]
    print(json.dumps(report))


if __name__ == "__main__":
    report_x64()
