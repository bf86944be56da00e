"""Tests of every registered environment.

Each configuration is compiled once as one instance and (mostly) once as a batch of three, and these
programs serve all assertions: `play_randomly` takes the number of steps as an argument, and the
key says whether draws are the ends of their ranges.
"""

import copy
import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from extreme_draws import EXTREME, make_key
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.envs.one_pull_bandits import KINDS
from gpicljax.testing import (
    check_interface,
    different_words,
    finite,
    legal_action,
    play_randomly,
    type_problems,
)

# Every id has an entry in each of the three tables.

# The static configurations to be tested, the smallest that show what there is.
CONFIGURATIONS = {
    "Acrobot-v1": [{}],
    "AnyMDP-v0": [{"max_states": 8}, {"max_states": 8, "garnet": True, "num_observations": 3}],
    **{f"Bandit{kind}-v1": [{}] for kind in KINDS},
    "BernoulliBandit-v0": [{"num_arms": 2}],
    "ByteStream-v0": [
        {"max_tasks": 3},
        {"max_tasks": 3, "rules": "reference"},
        {"max_tasks": 3, "permuted": True},
    ],
    "CliffWalking-v1": [{"max_rows": 3, "max_columns": 5, "is_slippery": True}],
    "ContextualBandit-v0": [
        {"num_arms": 3, "context_size": 2},
        {"num_arms": 2, "context_size": 3, "payoff": "logistic"},
    ],
    "DarkRoom-v0": [{"size": 5}],
    "FrozenLake-v1": [{"description": ("SFSF", "FHFG")}, {"size": 5}],
    "GaussianBandit-v0": [{"num_arms": 3}],
    "InvertedDoublePendulum-v4": [{}],
    "InvertedDoublePendulum-v5": [{}],
    "KeyToDoor-v0": [{"size": 5}, {"size": 5, "show_key": True}],
    "LunarLander-v3": [{}],
    "MazeWorld-v0": [
        {"size": 7, "resolution": (5, 9), "mode": "survival", "actions": "continuous"},
        {"size": 7, "actions": "moves", "view": "local", "max_landmarks": 3, "with_pose": True},
    ],
    "MetaLanguage-v0": [
        {"vocab_size": 5, "max_order": 2, "hidden_size": 4, "calibration": "scale"},
    ],
    "MetaRG-v0": [
        {"max_values": 3, "num_dims": 2, "message_length": 2},
        {"max_values": 3, "view": "players", "num_distractors": 2, "stimulus": "mhe"},
    ],
    "MetaRG-v1": [{"max_values": 3, "num_dims": 2, "message_length": 2}],
    "MetaRG-v2": [{"max_values": 4, "num_dims": 2, "message_length": 2, "max_shots": 1}],
    "MountainCar-v0": [{}],
    "Pendulum-v1": [{}],
    "Recall-v0": [
        {"max_values": 3, "num_dims": 2},
        {"max_values": 3, "num_dims": 2, "stimulus": "ohe", "rules": "reference"},
    ],
}
# A second distribution over tasks: one compiled program serves them all.
OTHER_PARAMS = {
    "Acrobot-v1": {"gravity": (5.0, 9.0), "torque": 0.5, "horizon": 9},
    "AnyMDP-v0": {"states": (5, 8), "actions": 3, "goal_ends": 0.9, "branching": 3, "horizon": 9},
    **{f"Bandit{kind}-v1": {"spread": 0.1, "noise": 0.2} for kind in KINDS},
    "BernoulliBandit-v0": {"low": 0.2, "high": 0.4, "horizon": 7},
    "ByteStream-v0": {"order": (0, 9, 30), "threshold": 1, "mixture": True, "horizon": 9},
    "CliffWalking-v1": {
        "success_rate": 0.5,
        "horizon": 9,
        "permute_actions": True,
        "rows": (2, 3),
        "columns": (3, 5),
        "random_cliff": True,
        "turn": True,
    },
    "ContextualBandit-v0": {"spread": 2.0, "noise": 0.3, "horizon": 7},
    "DarkRoom-v0": {"size": 3, "random_start": True, "sparse": True, "horizon": 9},
    "FrozenLake-v1": {"success_rate": 0.5, "horizon": 9, "permute_actions": True},
    "GaussianBandit-v0": {"high": 1.0, "spread": 0.0, "noise": 0.3, "horizon": 7},
    "InvertedDoublePendulum-v4": {"gravity": (5.0, 9.0), "length_2": 0.8, "horizon": 9},
    "InvertedDoublePendulum-v5": {"gravity": (5.0, 9.0), "length_2": 0.8, "horizon": 9},
    "KeyToDoor-v0": {"size": 3, "permute_actions": True, "door_ends": True, "horizon": 9},
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
    "MetaRG-v2": {"min_values": 3, "max_values": 3},
    "MountainCar-v0": {"force": (0.0005, 0.002), "gravity": 0.002, "horizon": 9},
    "Pendulum-v1": {"mass": (0.5, 2.0), "length": 0.8, "horizon": 9},
    "Recall-v0": {"min_values": 3, "shots": 1},
}
# CPU-seconds for compiling `play_randomly` on an idle core; printed beside what it took.
COMPILE_BUDGETS = {
    "Acrobot-v1": 2,
    "AnyMDP-v0": 4,
    **{f"Bandit{kind}-v1": 1 for kind in KINDS},
    "BernoulliBandit-v0": 1,
    "ByteStream-v0": 10,
    "CliffWalking-v1": 2,
    "ContextualBandit-v0": 1,
    "DarkRoom-v0": 1,
    "FrozenLake-v1": 2,
    "GaussianBandit-v0": 1,
    "InvertedDoublePendulum-v4": 2,
    "InvertedDoublePendulum-v5": 2,
    "KeyToDoor-v0": 1,
    "LunarLander-v3": 15,
    "MazeWorld-v0": 12,
    "MetaLanguage-v0": 3,
    "MetaRG-v0": 6,
    "MetaRG-v1": 6,
    "MetaRG-v2": 6,
    "MountainCar-v0": 1,
    "Pendulum-v1": 1,
    "Recall-v0": 3,
}
FETCH = [env_id for env_id in gpicljax.registered() if env_id.startswith("Fetch")]
for _table, _entry in (CONFIGURATIONS, [{}]), (OTHER_PARAMS, {"horizon": 9}), (COMPILE_BUDGETS, 9):
    _table |= dict.fromkeys(FETCH, _entry)
# Batches are one call of a batched program, compared with single instances in their own tests.
BATCHED_ELSEWHERE = {
    "ByteStream",
    "FetchPickAndPlace",
    "FetchPush",
    "FetchSlide",
    "LunarLander",
    "MazeWorld",
}
# Those whose `VectorEnv` is traced in double precision: it takes a second each.
IN_DOUBLE = {"FrozenLake", "MetaLanguage", "Pendulum"}
# Two names of one environment are one subject.
SUBJECTS = sorted({gpicljax.make(env_id): env_id for env_id in gpicljax.registered()}.values())
CASES = {
    env_id + "".join(f",{name}={value}" for name, value in static.items()): (env_id, static)
    for env_id in SUBJECTS
    for static in CONFIGURATIONS.get(env_id, [])
}
# Slow tests: the differences to the case before them have tests of their own.
RELATED = {
    "ByteStream-v0,max_tasks=3,permuted=True",
    "ByteStream-v0,max_tasks=3,rules=reference",
    *(
        f"Bandit{kind}-v1"
        for kind in KINDS
        if kind not in ("TenArmedGaussian", "TwoArmedLowLowFixed")
    ),
    *FETCH[1:],
    "InvertedDoublePendulum-v4",
    "MetaRG-v0,max_values=3,view=players,num_distractors=2,stimulus=mhe",
    "Recall-v0,max_values=3,num_dims=2,stimulus=ohe,rules=reference",
}
FEW, MANY = 6, 2_000  # steps
LONG_PLAY = (480, 2_100)  # instances, steps: a million


def build(case):
    env_id, static = CASES[case]
    return gpicljax.make(env_id, **static)


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


def batch(env, key, params):
    """A few steps of a `VectorEnv` under `scan`, which raises if the carry changes its type."""
    vec = gpicljax.VectorEnv(env, 2, episodes_per_trial=2, resets="fresh", privileged=True)
    actions = jax.vmap(env.action_space().sample)(jax.random.split(key, vec.num_envs))
    return jax.lax.scan(
        lambda carry, _: (vec.step(carry[0], actions), 0), vec.init(key, params), length=3
    )


@dataclasses.dataclass(frozen=True)
class Subject:
    """An environment, its compiled `play_randomly`, and the CPU-seconds of compiling."""

    case: str
    env: Environment
    params: object
    other_params: object
    play_randomly: object
    seconds: float


@functools.cache
def subject_of(case):
    env_id, _ = CASES[case]
    env = build(case)
    params, other_params = env.default_params, env.make_params(**OTHER_PARAMS[env_id])
    started = time.process_time()
    run = jax.jit(functools.partial(play_randomly, env, MANY))
    compiled = run.lower(make_key(0), params, FEW, make_key(0)).compile()
    seconds = time.process_time() - started

    def program(key, params, length, start_key=None):
        return compiled(key, params, length, key if start_key is None else start_key)

    return Subject(case, env, params, other_params, program, seconds)


@pytest.fixture(params=daily([case for case in CASES if case not in RELATED], CASES))
def case(request):
    return request.param


@pytest.fixture
def subject(case):
    return subject_of(case)


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


def differ(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return any((plain(x) != plain(y)).any() for x, y in leaves)


def test_every_id_is_in_every_table():
    for table in (CONFIGURATIONS, OTHER_PARAMS, COMPILE_BUDGETS):
        missing, unknown = set(SUBJECTS) - set(table), set(table) - set(SUBJECTS)
        assert not missing, f"add {sorted(missing)} to the tables at the top of this file"
        assert not unknown, f"{sorted(unknown)} are not registered"


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="budgets are those of a CPU's compiler")
def test_compile_time_against_its_budget(subject):
    budget = COMPILE_BUDGETS[CASES[subject.case][0]]
    print(f"\n{subject.case}: compiled in {subject.seconds:.1f} CPU-seconds, budget {budget}")
    assert subject.seconds < 3 * budget  # other programs on the machine inflate the figure


def test_equal_keys_give_equal_results_in_any_batch_and_others_do_not(subject):
    """One program each, whose parameters are values: it serves the whole grid of them."""
    keys = [make_key(seed) for seed in range(3)]
    grid = [subject.params, subject.other_params, subject.params]
    singles = [subject.play_randomly(*pair, FEW)[0] for pair in zip(keys, grid, strict=True)]
    assert_equal(singles[0], subject.play_randomly(keys[0], grid[0], FEW)[0])
    variants = [subject.play_randomly(make_key(seed), grid[1], FEW)[0] for seed in range(2, 6)]
    assert any(differ(singles[1], variant) for variant in variants)
    if subject.env.name in BATCHED_ELSEWHERE:
        return
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *grid)
    batched = jax.jit(jax.vmap(functools.partial(play_randomly, subject.env, MANY), (0, 0, None)))
    batched = batched(jnp.stack(keys), stacked, FEW)[0]
    for i, single in enumerate(singles):
        assert_equal(jax.tree.map(lambda x, i=i: x[i], batched), single, rounding=1e-5)


@pytest.mark.parametrize("draws", ["plain", "extreme"])
def test_random_steps_stay_inside_the_spaces_and_finite(subject, draws):
    """Also where every draw is an end of its range, which random play does not meet in years."""
    keys = [make_key(7)] if draws == "plain" else [make_key(seed, EXTREME) for seed in range(3)]
    length = MANY if draws == "plain" else MANY // 10
    for params in (subject.params, subject.other_params):
        horizon = int(subject.env.horizon(params))
        for key in keys:
            observations, flags = subject.play_randomly(key, params, length)
            flags = {name: np.asarray(x)[:length] for name, x in flags.items()}
            ends = np.flatnonzero(flags.pop("ended"))
            for name, held in flags.items():
                assert held.all(), f"{name}: not so at step {held.argmin()}"
            assert finite(observations)
            # Between two ends lie a reset and an episode of at most `horizon` steps.
            assert np.diff(ends, prepend=-1).max(initial=0) <= horizon + 1
            assert len(ends) or length <= horizon


@pytest.mark.slow
def test_a_million_random_steps_stay_inside_the_spaces_and_finite(subject, key):
    run = jax.jit(functools.partial(play_long, subject.env))
    for params in (subject.params, subject.other_params):
        flags = run(key, params)
        assert flags["observation"].all(), "an observation lies outside its space"
        assert flags["finite"].all(), "a number is not finite"
        # The longest episodes end once, those of `ByteStream` later.
        assert flags["ended"].any() or int(subject.env.horizon(params)) > LONG_PLAY[1]


def test_the_parts_make_the_whole(case, key):
    """`step`, `reset` and `transition` are what their parts are, as programs."""
    env = build(case)
    task = jax.eval_shape(env.sample_task, key, env.default_params)
    state = jax.eval_shape(env.initial, key, task)
    action = jax.eval_shape(env.action_space().sample, key)

    def reset(key, task):
        state = env.initial(key, task)
        return env.observe(state, task), state

    def step(key, state, action, task):
        moved = env.move(state, action, env.draw_noise(key, state, task), task)
        return env.observe(moved.state, task), *moved

    def transition(key, state, action, task):
        return env.move(state, action, env.draw_noise(key, state, task), task)

    for whole, parts, args in (
        (env.reset, reset, (key, task)),
        (env.step, step, (key, state, action, task)),
        (env.transition, transition, (key, state, action, task)),
    ):
        assert str(jax.make_jaxpr(whole)(*args)) == str(jax.make_jaxpr(parts)(*args))


def test_values(case):
    env, twin = build(case), build(case)
    assert env == twin and hash(env) == hash(twin) and env != object() and env.name
    assert pickle.loads(pickle.dumps(env)) == env == copy.deepcopy(env)
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.anything = 1
    for field, value in vars(env).items():
        for leaf in jax.tree.leaves(value):
            assert not isinstance(leaf, jax.Array | np.ndarray), field


def test_params(case):
    env = gpicljax.make(CASES[case][0], **({} if "FrozenLake" not in case else {"size": 5}))
    params = env.default_params
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(params))
    assert np.asarray(env.horizon()).dtype == np.int32 and int(env.horizon(params)) >= 1
    with pytest.raises(ValueError, match=r"make_params: got 'nonsense'.*; accepted: "):
        env.make_params(nonsense=1)
    for field in params.__dataclass_fields__:
        default = getattr(params, field)
        with pytest.raises(ValueError, match=f"{field}: got .*'much'.*; accepted: "):
            env.make_params(**{field: "much"})
        if default is not None and jnp.issubdtype(default.dtype, jnp.floating):
            with pytest.raises(ValueError, match=field):
                env.make_params(**{field: default + np.nan})
        if default is not None and jnp.issubdtype(default.dtype, jnp.integer):
            with pytest.raises(ValueError, match=f"{field}: got .*; accepted: .*that int32 holds"):
                env.make_params(**{field: default + 0.5})
    if "horizon" in params.__dataclass_fields__:
        with pytest.raises(ValueError, match="horizon: got 0; accepted: integers >= 1"):
            env.make_params(horizon=0)
    with pytest.raises(ValueError, match="nonsense"):
        gpicljax.make(CASES[case][0], nonsense=1)


def test_spaces_and_views(subject, key):
    env = subject.env
    task, (_, state), last = subject.play_randomly(make_key(0), subject.params, FEW)[0]
    for space in (env.action_space(), env.observation_space()):
        assert isinstance(space, spaces.Space)
        hash(space)
    assert env.action_space(task) == env.action_space()
    assert env.observation_space(task) == env.observation_space()
    action = jax.eval_shape(env.action_space().sample, key)
    if env.num_agents is not None:
        assert action.shape[:1] == (env.num_agents,)
        moved = jax.eval_shape(env.transition, key, state, action, task)
        assert moved.reward.shape == (env.num_agents,)
    assert env.describe(state, task).strip()
    for params in (subject.params, subject.other_params):
        assert different_words(env, subject.play_randomly, make_key(1), params) == []
    assert jax.tree.leaves(jax.eval_shape(env.privileged, state, task))
    if env.can_render:
        picture = jax.eval_shape(env.render, state, task)
        assert picture.dtype == jnp.uint8 and picture.ndim == 3 and picture.shape[-1] == 3
    else:
        with pytest.raises(NotImplementedError, match=f"{env.name} has no render"):
            env.render(state, task)
    if env.has_physical_state:
        vector = jax.eval_shape(env.physical_state, state)
        assert vector.ndim == 1 and vector.dtype == jnp.result_type(float)
        restored = jax.eval_shape(env.with_physical_state, state, vector)
        chex.assert_trees_all_equal_shapes_and_dtypes(restored, state)
        vector = env.physical_state(last.state)
        restored = env.with_physical_state(state, vector)
        np.testing.assert_allclose(env.physical_state(restored), vector, rtol=1e-6, atol=1e-6)
    else:
        with pytest.raises(NotImplementedError, match=f"{env.name} has no physical_state"):
            env.physical_state(state)


def problems_of(env):
    """Returns the problems with its types, in the precision in force."""
    check_interface(env)
    if jax.config.jax_enable_x64 and env.name in IN_DOUBLE:
        jax.eval_shape(functools.partial(batch, env), jax.random.key(0), env.default_params)
    return type_problems(env, env.default_params)


def test_carried_types_are_strong_and_stable(case):
    assert problems_of(build(case)) == []


@functools.cache
def problems_under_x64(related):
    """Returns the problems of cases related to others, or of the rest; a child traces them."""
    cases = [case for case in CASES if (case in RELATED) == related]
    folders = str(Path(gpicljax.__file__).parents[1]), str(Path(__file__).parents[1])
    result = subprocess.run(
        [sys.executable, __file__, *cases],
        env=os.environ | {"JAX_ENABLE_X64": "1", "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_types_under_x64(case):
    assert problems_under_x64(case in RELATED)[case] == []


def report_x64(cases):
    assert jax.config.jax_enable_x64
    report = {}
    for case in cases:
        try:
            report[case] = problems_of(build(case))
        except Exception as error:  # one environment's failure must not hide the others'
            report[case] = [repr(error)]
    print(json.dumps(report))


if __name__ == "__main__":
    report_x64(sys.argv[1:])
