"""Wrappers against loops in plain Python over the environment inside."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax import spaces
from gpicljax.environment import NO_LIMIT, Environment, Transition
from gpicljax.wrappers.held_out_tasks import HeldOutTasks
from gpicljax.wrappers.wrapper import (
    ActionRepeat,
    FrameStackObservation,
    RecordEpisodeStatistics,
    Wrapper,
)

CAR = gpicljax.make("MountainCar-v0")
LAKE = gpicljax.make("FrozenLake-v1", description=("SFF", "FHF", "FFG"))


@dataclasses.dataclass(frozen=True)
class Coin(Environment):
    """Has `transition` and no `move`, and draws a task's blueprint and its start apart."""

    default_params = ()

    def sample_blueprint(self, key, params):
        return jax.random.uniform(key)

    def start(self, key, blueprint, params):
        return (blueprint, jax.random.uniform(key)), jax.random.uniform(key)

    def transition(self, key, state, action, task):
        over = jnp.zeros((), bool)
        return Transition(jax.random.uniform(key), action + task[1], over, over, {})

    def observe(self, state, task):
        return state

    def action_space(self, task=None):
        return spaces.Discrete(2)


@functools.cache
def started(env):
    task = jax.jit(env.sample_task)(jax.random.key(0), env.default_params)
    return task, *jax.jit(env.reset)(jax.random.key(1), task)


def test_a_plain_wrapper_changes_nothing():
    env = Wrapper(LAKE)
    assert env.name == "Wrapper(FrozenLake)" and env.horizon() == LAKE.horizon()
    vecs = [gpicljax.VectorEnv(e, 3, resets="fresh") for e in (env, LAKE)]

    @jax.jit
    def play(key, actions):
        lives = []
        for vec in vecs:
            body = lambda carry, action, vec=vec: vec.step(carry, action)  # noqa: E731
            lives.append(jax.lax.scan(body, vec.init(key)[0], actions)[1])
        return lives

    actions = jax.random.randint(jax.random.key(2), (30, 3), 0, 4, jnp.int32)
    jax.tree.map(np.testing.assert_array_equal, *play(jax.random.key(3), actions))


@pytest.mark.parametrize(
    "wrapped", [Wrapper, RecordEpisodeStatistics, lambda env: FrameStackObservation(env, 2)]
)
def test_starts_and_noise_are_drawn_as_the_other_draws_them(wrapped):
    coin, env, keys = Coin(), wrapped(Coin()), jax.random.split(jax.random.key(5), 3)
    blueprint = env.sample_blueprint(keys[0], ())
    assert blueprint == coin.sample_blueprint(keys[0], ())
    task, state = env.start(keys[1], blueprint, ())
    assert (task, env.inner(state)) == coin.start(keys[1], blueprint, ())
    found = env.transition(keys[2], state, 9, task)
    moved = coin.transition(keys[2], env.inner(state), 1, task)
    assert (env.inner(found.state), found.reward) == (moved.state, moved.reward)


def test_repeated_actions_end_with_the_episode_and_add_up():
    env, key = ActionRepeat(LAKE, 5), jax.random.key(4)
    task, _, state = started(LAKE)
    step, single = jax.jit(env.step), jax.jit(LAKE.transition)
    assert int(env.horizon()) == -(-int(LAKE.horizon()) // 5)
    ended = 0
    for action in (1, 2, 2, 1, 1, 2):
        key, now = jax.random.split(key)
        found = step(now, state, jnp.int32(action), task)
        total, inner = 0.0, state
        for one in jax.random.split(now, 5):
            moved = single(one, inner, jnp.int32(action), task)
            total, inner = total + moved.reward, moved.state
            if moved.terminated | moved.truncated:
                break
        jax.tree.map(np.testing.assert_array_equal, found.state, inner)
        assert found.reward == total and found.terminated == moved.terminated
        ended += bool(found.terminated)
        state = started(LAKE)[2] if found.terminated else found.state
    assert ended


def test_the_horizon_of_repeated_actions_is_as_concrete_as_the_other_one_s():
    walking = gpicljax.make("CliffWalking-v1")
    assert ActionRepeat(walking, 4).horizon() == walking.horizon() == NO_LIMIT
    params = CAR.make_params(horizon=10)
    assert jax.eval_shape(lambda: jnp.zeros(int(ActionRepeat(CAR, 4).horizon(params)))).shape == (
        3,
    )


def test_statistics_of_an_episode():
    env = RecordEpisodeStatistics(CAR)
    task, _, state = started(env)
    step, rewards = jax.jit(env.step), []
    for t in range(4):
        moved = step(jax.random.key(t), state, jnp.int32(2), task)
        state = moved.state
        rewards.append(float(moved.reward))
        assert float(moved.info["episode"]["return"]) == pytest.approx(sum(rewards))
        assert int(moved.info["episode"]["length"]) == t + 1


def test_frames_are_side_by_side_the_newest_last():
    env = FrameStackObservation(CAR, 3)
    task, first, state = started(env)
    assert env.observation_space().shape == (6,) and first.shape == (6,)
    np.testing.assert_allclose(env.observation_bounds(CAR.default_params)[1], [0.6, 0.07] * 3)
    np.testing.assert_array_equal(first.reshape(3, 2), np.stack([first[:2]] * 3))
    step, seen = jax.jit(env.step), [first[:2]] * 3
    for t in range(4):
        moved = step(jax.random.key(t), state, jnp.int32(2), task)
        state = moved.state
        seen.append(CAR.observe(state.inner, task))
        np.testing.assert_allclose(moved.observation, np.concatenate(seen[-3:]), rtol=1e-6)
        assert env.observation_space().contains(moved.observation)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("MazeWorld-v0", {"size": 7, "resolution": (8, 8)}),
        ("FrozenLake-v1", {}),
        ("MetaRG-v1", {"view": "listener"}),
        ("MetaRG-v1", {"view": "players"}),
    ],
)
def test_stacks_of_all_kinds_of_observations(env_id, options):
    """Types only: the space's; what is legal is not stacked, and agents stay apart."""
    one = gpicljax.make(env_id, **options)
    env = FrameStackObservation(one, 2)
    space, key = env.observation_space(), jax.random.key(0)
    task = jax.eval_shape(env.sample_task, key, env.default_params)
    seen, _ = jax.eval_shape(env.reset, key, task)
    member = jax.eval_shape(space.sample, key)
    kinds = [jax.tree.map(lambda x: (x.shape, x.dtype), tree) for tree in (seen, member)]
    assert kinds[0] == kinds[1]
    if isinstance(space, spaces.MultiDiscrete):
        assert seen.shape == (2,)
    if "MetaRG" in env_id:
        assert space["action_mask"] == one.observation_space()["action_mask"]
        assert space["role"].shape == ((2, 2) if one.num_agents else (2,))


def test_the_newest_mask_is_seen():
    class Masked(Coin):
        def observe(self, state, task):
            return {"action_mask": jnp.array([state < 0.5, state >= 0.5])}

    env, keys = FrameStackObservation(Masked(), 2), jax.random.split(jax.random.key(6), 9)
    task, state = env.start(keys[0], env.sample_blueprint(keys[0], ()), ())
    for key in keys:
        step = env.step(key, state, 0, task)
        state = step.state
        assert bool(step.observation["action_mask"][0]) == (state.inner < 0.5)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="times: got 0; accepted: an integer >= 1"):
        ActionRepeat(CAR, 0)
    with pytest.raises(ValueError, match="size: got 1.5"):
        FrameStackObservation(CAR, 1.5)


def test_a_search_for_tasks_that_do_not_exist_ends_with_their_name(key):
    """The fixed lake is one task: whatever its number, one of the two parts is empty."""
    lake = gpicljax.make("FrozenLake-v1")
    parts = [HeldOutTasks(lake, _twelve, held_out=held_out, parts=8) for held_out in (False, True)]
    assert parts[0].sample_task(key, lake.default_params).cells.sum() == 12
    message = "parts: got 8 and number = _twelve, with none of 10,000 tasks"
    for refused in (
        lambda: parts[1].sample_task(key, lake.default_params),
        lambda: gpicljax.VectorEnv(parts[1], 2),
        lambda: gpicljax.VectorEnv(gpicljax.wrappers.Trial(parts[1], 5), 2),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
    # Params that are traced are not known in time: the search ends all the same.
    task = jax.jit(parts[1].sample_task)(key, lake.default_params)
    assert task.cells.sum() == 12


def _twelve(task):
    return task.cells.sum()
