"""The control tasks against Gymnasium: same state, same action, same constants."""

import dataclasses
import functools
import re
import warnings
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax

CLOSED = ["MountainCar-v0", "Acrobot-v1", "Pendulum-v1"]
DOUBLE = ["InvertedDoublePendulum-v4", "InvertedDoublePendulum-v5"]
ALL = CLOSED + DOUBLE
# What Gymnasium calls the constants, where it has a name for them.
THEIR_NAMES = {
    "MountainCar-v0": {},
    "Acrobot-v1": {
        "mass_1": "LINK_MASS_1",
        "mass_2": "LINK_MASS_2",
        "length_1": "LINK_LENGTH_1",
        "length_2": "LINK_LENGTH_2",
        "centre_1": "LINK_COM_POS_1",
        "centre_2": "LINK_COM_POS_2",
        "inertia": "LINK_MOI",
        "time_step": "dt",
        "max_speed_1": "MAX_VEL_1",
        "max_speed_2": "MAX_VEL_2",
    },
    "Pendulum-v1": {"gravity": "g", "mass": "m", "length": "l", "time_step": "dt"},
}
OTHER_CONSTANTS = {
    "MountainCar-v0": {
        "force": 0.0015,
        "gravity": 0.002,
        "max_speed": 0.05,
        "min_position": -1.0,
        "max_position": 0.7,
        "goal_position": 0.6,
        "goal_velocity": 0.01,
    },
    "Acrobot-v1": {
        "mass_1": 0.7,
        "mass_2": 1.3,
        "length_1": 1.2,
        "length_2": 0.8,
        "centre_1": 0.6,
        "centre_2": 0.3,
        "inertia": 0.9,
        "time_step": 0.1,
        "max_speed_1": 6.0,
        "max_speed_2": 14.0,
    },
    "Pendulum-v1": {
        "gravity": 8.0,
        "mass": 0.7,
        "length": 1.3,
        "time_step": 0.04,
        "max_speed": 6.0,
    },
}
LIMITS = {"MountainCar-v0": 200, "Acrobot-v1": 500, "Pendulum-v1": 200}
LIMITS |= dict.fromkeys(DOUBLE, 1000)
# Of single steps in float32. An acrobot's accelerations reach thousands.
FLOAT32 = {"MountainCar-v0": 1e-6, "Acrobot-v1": 2e-4, "Pendulum-v1": 1e-5}


@pytest.fixture(params=[True, False], ids=["float64", "float32"])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def only_x64():
    with jax.enable_x64(True):
        yield


def theirs_of(env_id, **constants):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 4 announces that there is a version 5
        env = gymnasium.make(env_id, disable_env_checker=True)
    for name, value in constants.items():
        name = THEIR_NAMES[env_id].get(name, name)
        assert hasattr(env.unwrapped, name)
        setattr(env.unwrapped, name, value)
    return env


def ours_of(env_id, **constants):
    env = gpicljax.make(env_id)
    task = env.sample_task(jax.random.key(0), env.make_params(**constants))
    return env, task, env.initial(jax.random.key(1), task)


@functools.cache
def batched_step(env, x64):
    """Steps from physical states; `x64` is part of the cache's key, since the program differs."""
    del x64

    def one(vector, action, task, state):
        state = env.with_physical_state(state, vector)
        return env.step(jax.random.key(0), state, action, task)

    return jax.jit(jax.vmap(one, (0, 0, None, None)))


def random_states(env_id, count, constants):
    """Physical states in and beyond what episodes reach, with actions."""
    draws = np.random.default_rng(0)
    if env_id == "MountainCar-v0":
        low, high = constants.get("min_position", -1.2), constants.get("max_position", 0.6)
        speed = constants.get("max_speed", 0.07)
        states = draws.uniform([low, -speed], [high, speed], (count, 2))
        states[: count // 4, 0] = draws.uniform(low, low + 0.05, count // 4)  # at the left wall
        states[count // 4 : count // 2, 0] = draws.uniform(
            high - 0.15, high, count // 4
        )  # the goal
    elif env_id == "Acrobot-v1":
        bound = [np.pi, np.pi, 4 * np.pi, 9 * np.pi]
        states = draws.uniform(-1, 1, (count, 4)) * bound
    else:
        states = draws.uniform([-12, -8], [12, 8], (count, 2))
    if env_id == "Pendulum-v1":
        return states, draws.uniform(-3, 3, (count, 1)).astype(np.float32)
    return states, draws.integers(0, 3, count).astype(np.int32)


@pytest.mark.parametrize("has_other_constants", [False, True], ids=["default", "other constants"])
@pytest.mark.parametrize("env_id", CLOSED)
def test_single_steps_equal_gymnasiums(env_id, has_other_constants, x64):
    constants = OTHER_CONSTANTS[env_id] if has_other_constants else {}
    env, task, state = ours_of(env_id, **constants)
    simulator = theirs_of(env_id, **constants).unwrapped
    states, actions = random_states(env_id, 400, constants)
    if not x64:
        states = states.astype(np.float32)
    steps = batched_step(env, x64)(states, actions, task, state)
    after = np.asarray(jax.vmap(env.physical_state)(steps.state))
    ends = 0
    close = {"rtol": 0 if x64 else FLOAT32[env_id], "atol": 1e-6 if x64 else FLOAT32[env_id]}
    for i, (vector, action) in enumerate(zip(states, actions, strict=True)):
        simulator.reset(seed=0)
        simulator.state = vector.astype(np.float64)
        observation, reward, terminated, _, _ = simulator.step(action)
        np.testing.assert_allclose(steps.observation[i], observation, **close)
        np.testing.assert_allclose(steps.reward[i], reward, **close)
        assert steps.terminated[i] == terminated
        expected = np.asarray(simulator.state, np.float64)
        if env_id == "Acrobot-v1":  # in float32 an angle may end up at either side of the cut
            turns = (after[i] - expected)[:2] / (2 * np.pi)
            expected[:2] += 2 * np.pi * (np.rint(turns) if not x64 else 0)
        np.testing.assert_allclose(after[i], expected, **close)
        ends += terminated
    assert (ends > 0) == (env_id != "Pendulum-v1")


def pump(env_id, vector, draws, t):
    """An action that brings the task to its end, or random ones on the pendulum."""
    if env_id == "MountainCar-v0":
        return 2 if vector[1] >= 0 else 0
    if env_id == "Acrobot-v1":
        return 2 if vector[3] >= 0 else 0
    return draws.uniform(-2, 2, 1).astype(np.float32)


@pytest.mark.parametrize("env_id", CLOSED)
def test_whole_episodes_equal_gymnasiums(env_id, only_x64):
    env, task, state = ours_of(env_id)
    simulator = theirs_of(env_id)
    step = jax.jit(env.step)
    draws = np.random.default_rng(0)
    lengths = []
    for episode in range(2):
        first, _ = simulator.reset(seed=episode)
        state = env.with_physical_state(state, simulator.unwrapped.state)
        state = dataclasses.replace(state, steps=jnp.int32(0))
        np.testing.assert_allclose(env.observe(state, task), first, atol=1e-6)
        for t in range(1, 1000):
            idle = episode == 1 and env_id != "Pendulum-v1"  # until it is cut off
            vector = env.physical_state(state)
            action = 1 if idle else pump(env_id, vector, draws, t)
            observation, reward, terminated, truncated, _ = simulator.step(action)
            moved = step(jax.random.key(0), state, jnp.asarray(action), task)
            state = moved.state
            np.testing.assert_allclose(moved.observation, observation, rtol=0, atol=1e-6)
            np.testing.assert_allclose(moved.reward, reward, rtol=0, atol=1e-6)
            assert (moved.terminated, moved.truncated) == (terminated, truncated)
            if terminated or truncated:
                break
        lengths.append(t)
    assert lengths[1] == LIMITS[env_id]
    assert (lengths[0] < LIMITS[env_id]) == (env_id != "Pendulum-v1")


def test_pendulums_torque_is_rounded_to_float32_as_gymnasiums(only_x64):
    env, task, state = ours_of("Pendulum-v1")
    simulator = theirs_of("Pendulum-v1").unwrapped
    draws = np.random.default_rng(0)
    differ = 0
    for torque in draws.uniform(-2, 2, 20).astype(np.float32):
        simulator.reset(seed=0)
        simulator.state = np.array([0.0, 0.0])
        _, reward, *_ = simulator.step(torque[None])
        at_rest = env.with_physical_state(state, jnp.zeros(2))
        moved = env.transition(jax.random.key(0), at_rest, jnp.asarray(torque[None]), task)
        assert (env.physical_state(moved.state) == simulator.state).all()
        assert moved.reward == reward
        differ += moved.state.speed != 3 * np.float64(torque) * 0.05
    assert differ > 10  # in float64 throughout, speeds would be others


def test_acrobots_other_equations_are_gymnasiums_too(only_x64):
    env = gpicljax.make("Acrobot-v1", equations="nips")
    _, task, state = ours_of("Acrobot-v1")
    simulator = theirs_of("Acrobot-v1").unwrapped
    simulator.book_or_nips = "nips"
    states, actions = random_states("Acrobot-v1", 50, {})
    steps = batched_step(env, True)(states, actions, task, state)
    for i, (vector, action) in enumerate(zip(states, actions, strict=True)):
        simulator.state = vector
        np.testing.assert_allclose(steps.observation[i], simulator.step(action)[0], atol=1e-6)


# The double pendulum ---------------------------------------------------------------------------


def mujoco_states(simulator, episodes, steps):
    """States, actions and what MuJoCo made of them: random pushes, with the rail's ends reached."""
    draws = np.random.default_rng(0)
    record = []
    data = simulator.unwrapped.data
    for episode in range(episodes):
        simulator.reset(seed=episode)
        lean = draws.uniform(-0.6, 0.6)
        for _ in range(steps):
            before = np.concatenate([data.qpos, data.qvel, [0.0]])
            action = np.clip(draws.uniform(-1.5, 1.5, 1) + lean, -1.5, 1.5)
            outcome = simulator.unwrapped.step(action)
            after = np.concatenate([data.qpos, data.qvel, data.qfrc_constraint[:1]])
            record.append((before, action, after, *outcome[:3], outcome[4]))
    return record


def compare(record, env, task, state, x64, close):
    before, actions, after, observation, reward, terminated, info = zip(*record, strict=True)
    before, actions = np.stack(before), np.stack(actions)
    if not x64:
        before, actions = before.astype(np.float32), actions.astype(np.float32)
    steps = batched_step(env, x64)(before, actions, task, state)
    np.testing.assert_allclose(jax.vmap(env.physical_state)(steps.state), np.stack(after), **close)
    np.testing.assert_allclose(steps.observation, np.stack(observation), **close)
    np.testing.assert_allclose(steps.reward, reward, **close)
    assert (np.asarray(steps.terminated) == terminated).all()
    assert 0 < np.sum(terminated) < len(record)
    for name in info[0]:
        np.testing.assert_allclose(steps.info[name], [i[name] for i in info], **close)
    assert (np.stack(after)[:, 6] > 0).any()
    assert (np.stack(after)[:, 6] < 0).any()


@pytest.mark.parametrize("env_id", DOUBLE)
def test_double_pendulum_equals_mujoco_step_by_step(env_id, x64):
    pytest.importorskip("mujoco")
    env, task, state = ours_of(env_id)
    simulator = theirs_of(env_id)
    record = mujoco_states(simulator, 10, 60)
    # In float32 the rail's stiff ends magnify rounding, and beyond the end speeds are high.
    close = {"rtol": 0, "atol": 1e-6} if x64 else {"rtol": 1e-3, "atol": 5e-4}
    compare(record, env, task, state, x64, close)
    # Within episodes and off the rail's ends it is much closer.
    before, actions, after, _, _, terminated, _ = zip(*record, strict=True)
    before, actions, after = np.stack(before), np.stack(actions), np.stack(after)
    calm = (np.abs(before[:, 0]) < 0.8) & (after[:, 6] == 0) & ~np.asarray(terminated)
    assert calm.sum() > 50
    steps = batched_step(env, x64)(before[calm], actions[calm], task, state)
    vectors = jax.vmap(env.physical_state)(steps.state)
    np.testing.assert_allclose(vectors, after[calm], rtol=0, atol=1e-11 if x64 else 3e-5)


def test_double_pendulum_with_other_constants_equals_mujoco(only_x64, tmp_path):
    pytest.importorskip("mujoco")
    from gymnasium.envs.mujoco import inverted_double_pendulum_v5 as module

    constants = {
        "cart_mass": 8.0,
        "pole_mass_1": 3.0,
        "pole_mass_2": 5.0,
        "length_1": 0.7,
        "length_2": 0.5,
        "damping": 0.2,
        "gravity": 7.0,
        "force": 300.0,
    }
    model = (Path(module.__file__).parent / "assets" / "inverted_double_pendulum.xml").read_text()
    for pattern, change in (
        (r'name="cart" pos="0 0 0" quat', 'mass="8" name="cart" pos="0 0 0" quat'),
        (r'fromto="0 0 0 0 0 0.6" name="cpole"', 'mass="3" fromto="0 0 0 0 0 0.7" name="cpole"'),
        (r'fromto="0 0 0 0 0 0.6" name="cpole2"', 'mass="5" fromto="0 0 0 0 0 0.5" name="cpole2"'),
        (r'name="pole2" pos="0 0 0.6"', 'name="pole2" pos="0 0 0.7"'),
        (r'name="tip" pos="0 0 .6"', 'name="tip" pos="0 0 .5"'),
        (r'damping="0.05"', 'damping="0.2"'),
        (r"-9.81", "-7"),
        (r'gear="500"', 'gear="300"'),
    ):
        model, count = re.subn(re.escape(pattern), change, model)
        assert count == 1
    path = tmp_path / "other.xml"
    path.write_text(model)
    simulator = module.InvertedDoublePendulumEnv(xml_file=str(path))
    env, task, state = ours_of("InvertedDoublePendulum-v5", **constants)
    np.testing.assert_allclose(task.softness, simulator.model.dof_invweight0[0], rtol=1e-9)
    compare(mujoco_states(simulator, 6, 60), env, task, state, True, {"rtol": 0, "atol": 1e-6})


def test_double_pendulums_of_both_versions_differ_in_layout_and_in_the_last_reward(key):
    four, five = (ours_of(env_id) for env_id in DOUBLE)
    fallen = [0.0, 1.5, 0.0, 0.1, 0.2, 0.3, 0.0]
    ends = [
        env.step(key, env.with_physical_state(state, jnp.array(fallen)), jnp.zeros(1), task)
        for env, task, state in (four, five)
    ]
    assert ends[0].terminated
    assert ends[1].terminated
    assert ends[0].reward - ends[1].reward == pytest.approx(10)
    np.testing.assert_array_equal(ends[0].observation[:9], ends[1].observation)
    np.testing.assert_array_equal(ends[0].observation[9:], 0)


# What they share -------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ALL)
def test_truncation_comes_with_the_last_step(env_id, key):
    env, task, state = ours_of(env_id)
    action = jnp.zeros_like(env.action_space().sample(key))
    limit = LIMITS[env_id]
    for steps, truncated in ((limit - 2, False), (limit - 1, True)):
        late = dataclasses.replace(state, steps=jnp.int32(steps))
        moved = env.transition(key, late, action, task)
        assert moved.truncated == truncated
        assert moved.state.steps == steps + 1


@pytest.mark.parametrize(
    ("env_id", "lowest", "highest"),
    [
        ("MountainCar-v0", [-0.6, 0], [-0.4, 0]),
        ("Acrobot-v1", [-0.1] * 4, [0.1] * 4),
        ("Pendulum-v1", [-np.pi, -1], [np.pi, 1]),
        ("InvertedDoublePendulum-v5", [-0.1] * 3, [0.1] * 3),
    ],
)
def test_episodes_start_uniformly_where_gymnasiums_do(env_id, lowest, highest, key):
    env, task, _ = ours_of(env_id)
    states = jax.vmap(env.initial, (0, None))(jax.random.split(key, 2_000), task)
    vectors = np.asarray(jax.vmap(env.physical_state)(states))
    uniform = vectors[:, : len(lowest)]
    width = np.subtract(highest, lowest)
    assert (uniform >= np.float32(lowest)).all()
    assert (uniform <= np.float32(highest)).all()
    error = width / np.sqrt(12 * 2_000)
    assert (np.abs(uniform.mean(0) - np.add(lowest, highest) / 2) <= 4 * error).all()
    assert (uniform.max(0) - uniform.min(0) >= 0.98 * width).all()
    if env_id in DOUBLE:
        speeds = vectors[:, 3:6]
        assert np.abs(speeds.mean(0)).max() < 4 * 0.1 / np.sqrt(2_000)
        assert np.abs(speeds.std(0) - 0.1).max() < 4 * 0.1 / np.sqrt(2 * 2_000)


@pytest.mark.parametrize("env_id", ALL)
def test_ranges_give_a_distribution_of_tasks(env_id, key):
    env = gpicljax.make(env_id)
    ranges = {name: (0.95 * c, 1.05 * c) for name, c in env.constants.items()}
    ranges = {name: tuple(sorted(pair)) for name, pair in ranges.items()}
    params = env.make_params(**ranges)
    tasks = jax.vmap(env.sample_task, (0, None))(jax.random.split(key, 500), params)
    drawn = []
    for name, (low, high) in ranges.items():
        values = np.asarray(getattr(tasks, name), np.float64)
        slack = 1e-6 * (1 + abs(high))
        assert (values >= low - slack).all()
        assert (values <= high + slack).all()
        if high > low:
            assert values.max() - values.min() > 0.9 * (high - low)
            drawn.append((values - low) / (high - low))
    # Drawn independently of one another.
    correlation = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(500)
    knowledge = env.privileged(env.initial(key, tasks), jax.tree.map(lambda x: x[0], tasks))
    assert knowledge.keys() == env.constants.keys()
    fixed = env.sample_task(key, env.default_params)
    for name, constant in env.constants.items():
        assert getattr(fixed, name) == np.asarray(constant, np.float32)


@functools.cache
def drawing_of(env):
    return jax.jit(env.render)


def picture(env_id, vector):
    env, task, state = ours_of(env_id)
    state = env.with_physical_state(state, jnp.array(vector))
    return np.asarray(drawing_of(env)(state, task)).astype(int)


def middle(image, colour):
    """Row and column of the middle of what has a colour."""
    hits = np.argwhere(np.abs(image - colour).max(-1) < 3)
    assert len(hits)
    return hits.mean(0)


def test_render_shows_the_car_where_it_is():
    left, right = (picture("MountainCar-v0", [x, 0.0]) for x in (-0.5, 0.4))
    tyres = (35, 35, 40)
    (low, west), (high, east) = middle(left, tyres), middle(right, tyres)
    assert east - west == pytest.approx(0.9 * 157, abs=6)
    assert low - high > 100  # up the hill
    np.testing.assert_array_equal(middle(left, (214, 40, 48)), middle(right, (214, 40, 48)))


@pytest.mark.parametrize(
    ("env_id", "down", "up", "colour"),
    [
        ("Pendulum-v1", [np.pi, 0.0], [0.0, 0.0], (204, 77, 77)),
        ("Acrobot-v1", [0.0, 0.0, 0.0, 0.0], [np.pi, 0.0, 0.0, 0.0], (104, 196, 206)),
        (
            "InvertedDoublePendulum-v5",
            [0.0, 1.5, 0.0] + [0.0] * 4,
            [0.0] * 7,
            (70, 190, 190),
        ),
    ],
)
def test_render_shows_links_up_and_down(env_id, down, up, colour):
    assert middle(picture(env_id, down), colour)[0] - middle(picture(env_id, up), colour)[0] > 40


def test_render_shows_the_torque():
    env, task, state = ours_of("Pendulum-v1")
    state = env.with_physical_state(state, jnp.array([np.pi, 0.0]))
    pictures = []
    for torque in (0.0, 2.0, -2.0):
        moved = env.transition(jax.random.key(0), state, jnp.array([torque]), task).state
        pictures.append(np.asarray(drawing_of(env)(moved, task)).astype(int))
    blue = [(np.abs(p - (40, 90, 200)).max(-1) < 3) for p in pictures]
    assert not blue[0].any()
    assert blue[1][:, :100].sum() > 2 * blue[1][:, 100:].sum()  # anticlockwise
    assert blue[2][:, 100:].sum() > 2 * blue[2][:, :100].sum()


def test_describe():
    expected = {
        "MountainCar-v0": "car at -0.50, speed +0.010, step 0 of 200",
        "Acrobot-v1": "links at -0.50 and +0.01 rad, turning at +0.00 and +0.00 rad/s, "
        "step 0 of 500",
        "Pendulum-v1": "pendulum -0.50 rad from upright, turning at +0.01 rad/s, step 0 of 200",
        "InvertedDoublePendulum-v5": "cart at -0.50, poles +0.01 and +0.01 rad from upright, "
        "step 0 of 1000",
    }
    for env_id, text in expected.items():
        env, task, state = ours_of(env_id)
        vector = np.zeros(env.physical_state(state).shape)
        vector[:2] = -0.5, 0.01
        assert env.describe(env.with_physical_state(state, vector), task) == text
