import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.envs._gpu import in_kernel
from gpicljax.envs._stages import run_apart, run_kernel
from gpicljax.envs.lunar_lander import physics, scene
from gpicljax.envs.lunar_lander.env import LunarLander

Box2D = pytest.importorskip("Box2D")
heuristic = pytest.importorskip("gymnasium.envs.box2d.lunar_lander").heuristic


class Noise:
    """A generator that keeps a record of its draws."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)
        self.draws = []

    def uniform(self, low, high, size=None):
        self.draws.append(self.generator.uniform(low, high, size))
        return self.draws[-1]

    def integers(self, low, high):
        self.draws.append(self.generator.integers(low, high))
        return self.draws[-1]


@dataclasses.dataclass
class Episode:
    """An episode in Gymnasium, and its noise."""

    begin: tuple
    ground: np.ndarray
    observations: np.ndarray
    actions: np.ndarray
    dispersions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    landed: bool
    crashed: bool

    @property
    def outcome(self):
        return (self.terminated, self.landed, self.crashed)

    @property
    def flight(self):
        """Observations before the first contact."""
        contact = self.observations[:, 6:].any(1)
        return int(contact.argmax()) if contact.any() else len(contact) - 1


def reset(seed, **arguments):
    """Gymnasium's environment after a reset, with a record of the reset's noise."""
    reference = gymnasium.make("LunarLander-v3", **arguments).unwrapped
    reference._np_random = noise = Noise(seed)
    observation, _ = reference.reset()
    heights, fx, fy, *wind, d0, d1 = noise.draws
    begin = np.array([fx, fy]), np.array(wind or [0, 0]), np.array([d0, d1])
    return reference, observation, heights, begin


def record(seed, policy, limit=1000, **arguments):
    reference, observation, heights, begin = reset(seed, **arguments)
    draws = np.random.default_rng(seed + 10_000)
    observations, actions, rewards, dispersions, terminated = [observation], [], [], [], False
    while not terminated and len(actions) < limit:
        if policy == "heuristic":
            action = heuristic(reference, observation)
        elif arguments.get("continuous"):
            action = draws.uniform(-1, 1, 2).astype(np.float32)
        else:
            action = int(draws.integers(4))
        reference.np_random.draws.clear()
        observation, reward, terminated, *_ = reference.step(action)
        observations.append(observation)
        actions.append(action)
        rewards.append(reward)
        dispersions.append(list(reference.np_random.draws))
    return Episode(
        begin,
        heights,
        np.array(observations),
        np.array(actions),
        np.array(dispersions),
        np.array(rewards),
        terminated,
        not reference.lander.awake,
        reference.game_over,
    )


@functools.cache
def ours(**static):
    """An environment with its compiled step."""
    env = LunarLander(**static)
    return env, jax.jit(env.move), jax.jit(env.observe)


def task_of(env, heights, **params):
    params = env.make_params(**params)
    ground = scene.terrain(jnp.asarray(heights, jnp.result_type(float)))
    return env.sample_task(jax.random.key(0), params).replace(ground=ground)


def start(env, begin, task):
    force, wind, _ = begin  # the last is the engines' scatter: they are off
    return env.initial_from(jnp.asarray(force), jnp.asarray(wind), task)


def replay(episode, **params):
    """The same episode here, with the same noise and actions.

    Half a second of rest is a landing, so that a difference of one step in coming to rest must not
    cost the outcome: where Gymnasium's craft has landed, ours has one more second, engines off.
    """
    env, move, observe = ours()
    task = task_of(env, episode.ground, **params)
    state = start(env, episode.begin, task)
    observations, rewards, moved = [observe(state, task)], [], None
    script = list(zip(episode.actions, episode.dispersions, strict=True))
    script += [(np.zeros_like(episode.actions[0]), np.zeros(2))] * (50 * episode.landed)
    for action, dispersion in script:
        moved = move(state, jnp.asarray(action), jnp.asarray(dispersion), task)
        state = moved.state
        observations.append(observe(state, task))
        rewards.append(moved.reward)
        if moved.terminated:
            break
    return dataclasses.replace(
        episode,
        observations=np.array(observations),
        rewards=np.array(rewards),
        terminated=bool(moved.terminated),
        landed=bool(moved.info["landed"]),
        crashed=bool(moved.info["crashed"]),
    )


def flight_error(a, b):
    n = a.flight
    return np.abs(a.observations[:n] - b.observations[:n]).max()


# Parity with Gymnasium -------------------------------------------------------------------------


def test_the_scene_is_box2ds():
    reference, _, heights, _ = reset(0)
    edges = [f for f in reference.moon.fixtures if f.friction < 0.15]  # but the one at the bottom
    for i, body in enumerate([reference.lander, *reference.legs]):
        np.testing.assert_allclose(body.mass, scene.MASS[i], rtol=1e-6)
        np.testing.assert_allclose(body.localCenter.y, scene.RISE[i], atol=1e-7)
        inertia = body.inertia - body.mass * body.localCenter.y**2  # theirs is about the origin
        np.testing.assert_allclose(1 / inertia, scene.INVERSE_INERTIA[i], rtol=1e-6)
        (fixture,) = body.fixtures
        corners = fixture.shape.vertices
        np.testing.assert_allclose(corners, scene.CORNERS[: len(corners), i], atol=1e-7)
        friction = np.sqrt(fixture.friction * edges[0].friction)
        np.testing.assert_allclose(friction, scene.FRICTION[i], rtol=1e-6)
    for i, leg in enumerate(reference.legs):
        limits = leg.joint.lowerLimit, leg.joint.upperLimit
        np.testing.assert_allclose(limits, scene.LIMITS[i], rtol=1e-6)
        np.testing.assert_allclose(leg.joint.motorSpeed, scene.MOTOR_SPEED[i], rtol=1e-6)
    ends = sorted(edge.shape.vertices for edge in edges)
    surface = [ends[0][0][1], *(end[1] for _, end in ends)]
    np.testing.assert_allclose(scene.terrain(jnp.asarray(heights)), surface, rtol=1e-6)


@pytest.mark.parametrize(("seed", "policy"), [(100, "random"), (101, "random"), (102, "heuristic")])
def test_episodes_equal_gymnasiums(seed, policy):
    reference = record(seed, policy)
    episode = replay(reference)
    assert flight_error(reference, episode) <= 1e-4
    assert episode.outcome == reference.outcome
    assert len(episode.rewards) == len(reference.rewards)
    assert (episode.observations[:, 6:] == reference.observations[:, 6:]).all()
    np.testing.assert_allclose(episode.rewards, reference.rewards, atol=0.05)
    assert abs(episode.rewards.sum() - reference.rewards.sum()) <= 0.05
    assert reference.rewards[-1] == (100 if reference.landed else -100)


def test_wind_equals_gymnasiums():
    reference = record(200, "random", limit=60, enable_wind=True)
    assert flight_error(reference, replay(reference, wind_power=15.0, turbulence_power=1.5)) <= 1e-4
    assert flight_error(reference, replay(reference)) > 0.1  # it does blow


@pytest.mark.slow
def test_continuous_actions_equal_gymnasiums(key):
    """Without compiling the step: the physics is compiled by itself, once for every kind."""
    env = LunarLander(continuous=True)
    assert env.action_space().contains(env.action_space().sample(key))
    for policy in ("random", "heuristic"):
        reference = record(300, policy, limit=40, continuous=True)
        task = task_of(env, reference.ground)
        state = start(env, reference.begin, task)
        for t in range(len(reference.actions)):
            action, dispersion = reference.actions[t], reference.dispersions[t]
            moved = env.move(state, jnp.asarray(action), jnp.asarray(dispersion), task)
            state = moved.state
            observation = env.observe(state, task)
            np.testing.assert_allclose(observation, reference.observations[t + 1], atol=1e-4)
            np.testing.assert_allclose(moved.reward, reference.rewards[t], atol=0.01)


@pytest.mark.slow
def test_one_step_from_a_state_of_gymnasium():
    reference, _, heights, begin = reset(400)
    env, move, observe = ours()
    task = task_of(env, heights)
    state = start(env, begin, task)
    for t in range(40):
        vector = []
        for body in (reference.lander, *reference.legs):
            vector += [*body.position, body.angle, *body.linearVelocity, body.angularVelocity]
        for leg in reference.legs:
            force, stop = leg.joint.GetReactionForce(1.0), leg.joint.GetReactionTorque(1.0)
            vector += [force.x, force.y, stop, leg.joint.GetMotorTorque(1.0)]
        vector = np.array(vector, np.float32)
        state = env.with_physical_state(state, vector)
        np.testing.assert_allclose(env.physical_state(state), vector, atol=2e-6)
        reference.np_random.draws.clear()
        expected, *_ = reference.step(t % 4)
        moved = move(state, jnp.asarray(t % 4), jnp.asarray(reference.np_random.draws), task)
        state = moved.state
        np.testing.assert_allclose(observe(state, task), expected, atol=2e-5)


@pytest.mark.slow
def test_48_fresh_episodes_end_as_in_gymnasium():
    """Seeds 7000 to 7047, which nothing was tuned on: random and heuristic play in turn."""
    same, differences, flights = [], [], []
    for seed in range(7000, 7048):
        reference = record(seed, "heuristic" if seed % 2 else "random")
        episode = replay(reference)
        same.append(episode.outcome == reference.outcome)
        differences.append(abs(episode.rewards.sum() - reference.rewards.sum()))
        flights.append(flight_error(reference, episode))
    assert np.mean(same) >= 0.95
    assert np.median(differences) <= 0.05
    assert max(flights) <= 1e-4


# The environment itself ------------------------------------------------------------------------


def lone(key=0, **params):
    env, move, observe = ours()
    task = env.sample_task(jax.random.key(key), env.make_params(**params))
    return env, move, observe, task, env.initial(jax.random.key(key), task)


def shift_craft(env, state, dx, dy, vx=0.0, vy=0.0):
    """The craft somewhere else, at another speed."""
    vector = np.array(env.physical_state(state))
    bodies = vector[:18].reshape(3, 6)
    bodies[:, :2] += [dx, dy]
    bodies[:, 3:5] = [vx, vy]
    return env.with_physical_state(state, vector)


def test_leaving_the_screen_ends_the_episode_and_nothing_moves_any_more():
    env, move, _, task, state = lone()
    state = shift_craft(env, state, 9.9, 0.0, vx=5.0)
    none = jnp.zeros(2)
    moved = move(state, jnp.int32(0), none, task)
    assert moved.terminated
    assert moved.reward == -100
    assert not moved.info["crashed"]
    following = move(moved.state, jnp.int32(2), none, task)
    assert following.terminated
    assert following.reward == 0
    assert (following.state.world.pose == moved.state.world.pose).all()


def test_a_hard_landing_crashes():
    env, move, _, task, state = lone()
    state = shift_craft(env, state, 0.0, -9.0, vy=-8.0)
    for _ in range(15):
        moved = move(state, jnp.int32(0), jnp.zeros(2), task)
        state = moved.state
        if moved.terminated:
            break
    assert moved.info["crashed"]
    assert moved.reward == -100
    assert "crashed" in env.describe(state, task)


def test_the_horizon_truncates():
    _, move, _, task, state = lone(horizon=2)
    first = move(state, jnp.int32(0), jnp.zeros(2), task)
    second = move(first.state, jnp.int32(0), jnp.zeros(2), task)
    assert [bool(first.truncated), bool(second.truncated)] == [False, True]
    assert not second.terminated


def test_gravity_and_engines_are_the_tasks():
    env, move, _, _, state = lone()
    for gravity, engine in ((-10.0, 13.0), (-4.0, 13.0), (-4.0, 6.5)):
        params = env.make_params(gravity=gravity, main_engine=engine)
        task = env.sample_task(jax.random.key(0), params)
        moved = move(state, jnp.int32(2), jnp.zeros(2), task).state.world
        mass = scene.MASS.sum()

        def momentum(world):
            return (world.velocity[1] * scene.MASS).sum()

        expected = scene.STEP * gravity * mass + engine * 4 / scene.SCALE
        np.testing.assert_allclose(momentum(moved) - momentum(state.world), expected, rtol=0.01)


@pytest.fixture(scope="module")
def falling():
    """Worlds at all heights, many of them at or near the ground; a flat one."""
    env, _, _, task, state = lone(roughness=0.0)
    drops = np.array([0, -9.0, -3, -9.5, -9.2, 0, -9.3, -9.4, -9.1, -9.25, -9.35, -9.45])
    worlds = [shift_craft(env, state, 0.0, drop, vy=-2.0).world for drop in drops]
    worlds = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    return worlds, jnp.broadcast_to(task.ground, (len(drops), 11))


@pytest.mark.slow
def test_instances_near_the_ground_are_solved_apart_and_put_back_in_place(falling):
    """Most of a batch flies; those that touch the ground get what they would get alone."""
    worlds, ground = falling
    size = len(ground)
    # A batch of batches, which is solved as one.
    batch = jax.tree.map(lambda x: x.reshape(3, 4, *x.shape[1:]), worlds)
    over = jnp.zeros((3, 4), bool)
    inner = jax.vmap(physics.advance, (0, None, 0))
    advance = jax.jit(jax.vmap(inner, (0, None, 0)))
    for _ in range(6):
        moved = advance(batch, ground[0], over)
        for i in range(size):
            world, result = (
                jax.tree.map(lambda x, i=i: x[i // 4, i % 4], tree) for tree in (batch, moved)
            )
            single = physics.advance(world, ground[0], over[0, 0])
            np.testing.assert_allclose(result.pose, single.pose, atol=1e-5)
            np.testing.assert_allclose(result.velocity, single.velocity, atol=1e-3)
            assert (result.legs == single.legs).all()
        batch = moved
    assert int(moved.legs.any(-1).sum()) in range(3, size - 2)


@pytest.mark.parametrize("flying", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_gpu_does_what_a_cpu_does(flying, falling):
    """The kernel that a GPU would run, interpreted."""
    worlds, ground = falling
    step, public, more = physics.fly_one, physics.fly_alone, ()
    if not flying:
        step, public, more = physics.advance_one, physics.advance, (jnp.zeros(len(ground), bool),)
    kernel = jax.jit(lambda *x: in_kernel(step, *x, interpret=True))
    for _ in range(6):
        actual = kernel(worlds, ground, *more)
        worlds = jax.jit(jax.vmap(public))(worlds, ground, *more)
        for name, expected in worlds.__dict__.items():
            atol = 1e-3 if name == "velocity" else 1e-4
            np.testing.assert_allclose(getattr(actual, name), expected, atol=atol, err_msg=name)
    assert flying or 2 < int(worlds.legs.any(-1).sum()) < len(ground) - 2


def test_a_kernel_gives_what_its_function_does():
    """Also where arguments are not used, with which XLA alone would end the process."""

    def halve(x, unused):
        def half(x):
            return x / 2, unused

        return jax.lax.while_loop(lambda x: (x > 1).any(), lambda x: run_apart(half, x)[0], x)

    x = jnp.linspace(0.0, 9.0, 12).reshape(3, 4)
    compiled = jax.jit(jax.vmap(lambda x: run_kernel(halve, x, x + 1))).lower(x).compile()
    assert "xla_cpu_small_call" in compiled.as_text()
    np.testing.assert_array_equal(compiled(x), jax.vmap(lambda x: halve(x, x))(x))


def test_tasks_follow_their_distribution(key):
    env = LunarLander()
    keys = jax.random.split(key, 2_000)
    params = env.make_params(gravity=(-11.0, -5.0), wind_power=(0.0, 20.0))
    tasks = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, params)
    assert (np.abs(tasks.ground[:, 4:7] - 3.3) < 1e-5).all()
    low, high = 0.0, 0.33 * 3 * scene.HEIGHT / 2
    assert low <= tasks.ground.min() < 0.5
    assert high - 0.5 < tasks.ground.max() <= high
    # A third of the sum of three uniform draws between 0 and half the height, as in Gymnasium.
    np.testing.assert_allclose(tasks.ground[:, 0].mean(), 0.33 * 3 * scene.HEIGHT / 4, rtol=0.03)
    for name, (low, high) in {"gravity": (-11, -5), "wind_power": (0, 20)}.items():
        values = getattr(tasks, name)
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
    assert (tasks.main_engine == 13).all()
    level = env.sample_task(key, env.make_params(roughness=0.0))
    np.testing.assert_allclose(level.ground, 3.3, rtol=1e-5)


def test_privileged_and_describe():
    env, _, observe, task, state = lone(wind_power=10.0, turbulence_power=1.0)
    knowledge = env.privileged(state, task)
    np.testing.assert_allclose(knowledge["observation"], observe(state, task), atol=1e-6)
    x, y = np.array(env.physical_state(state)[:2])
    left = int(x // 2)
    ground = np.interp(x, [2 * left, 2 * left + 2], task.ground[left : left + 2])
    np.testing.assert_allclose(knowledge["clearance"], y - ground, rtol=1e-5)
    assert (np.abs(knowledge["gust"]) <= [10, 1]).all()
    assert (knowledge["gust"] != 0).all()
    text = env.describe(state, task)
    assert "\n" not in text
    assert text.startswith("flying, ")
    assert text.endswith("step 0 of 1000")


@pytest.mark.slow
def test_render_shows_the_craft_where_it_is():
    env, _, _, task, state = lone()
    pictures = []
    for dx, dy in ((0.0, -4.0), (-5.0, -2.0)):
        placed = shift_craft(env, state, dx, dy)
        picture = np.asarray(env.render(placed, task)).astype(int)
        assert picture.shape == (400, 600, 3)
        x, y = np.array(env.physical_state(placed)[:2]) * 30
        row, column = int(400 - y), int(x)
        craft = picture[row - 8 : row + 8, column - 8 : column + 8]
        assert (craft[..., 2] - craft[..., 1] > 30).mean() > 0.3  # violet
        pictures.append(picture)
    changed = np.abs(pictures[0] - pictures[1]).sum(-1) > 0
    assert 0.002 < changed.mean() < 0.05
    ground, sky = pictures[0][-1], pictures[0][0]
    assert (ground.mean(-1) > 100).all()
    assert (sky.mean(-1) < 60).all()
