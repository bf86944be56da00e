"""Fetch on MuJoCo: Gymnasium-Robotics' own, where that is installed; and its rules."""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from benchmarks.mujoco_fetch import reference
from benchmarks.mujoco_fetch.reference import FetchSimulator
from gpicljax.envs.fetch.env import Fetch, pick_and_place, push, slide
from gpicljax.envs.fetch.experts import Script, script
from gpicljax.interface import TimeStep
from gpicljax.rollout import play, start_rollout

TASKS = "push", "slide", "pick_and_place"
SIMULATED = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None, reason="needs gpicljax[fetch]"
)


def test_what_is_known_without_the_simulator():
    assert [make().task for make in (push, slide, pick_and_place)] == [*TASKS]
    env = push()
    assert env.sets_goals and int(env.horizon()) == 50
    far = jnp.array([0.0, 0.0, 0.06])
    assert float(env.goal_reward(jnp.zeros(3), far)) == -1 and env.goal_reward(far, far) == 0
    pendulum = gpicljax.make("Pendulum-v1")
    assert not pendulum.sets_goals
    with pytest.raises(NotImplementedError, match="Pendulum has no goal_reward"):
        pendulum.goal_reward(far, far)
    with pytest.raises(ValueError, match="task: got 'pull'.*; accepted: push, slide"):
        Fetch("pull")
    with pytest.raises(ValueError, match=r"gain: got 2.0; accepted: "):
        Script(gain=2.0)


@pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is not None, reason="it is installed"
)
def test_a_missing_simulator_is_named():
    env = FetchSimulator("push")
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gpicljax\[fetch\]"'):
        env.reset(jax.random.key(0), env.sample_task(jax.random.key(0), env.default_params))


def test_the_reward_is_a_choice():
    assert gpicljax.make("FetchPush-v4") == Fetch("push")
    assert reference.slide() == FetchSimulator("slide")
    dense = gpicljax.make("FetchPush-v4", reward="dense")
    assert float(dense.goal_reward(jnp.zeros(3), jnp.array([0.0, 0.3, 0.4]))) == pytest.approx(-0.5)


@pytest.mark.parametrize("task", TASKS)
def test_rules_start_anew_with_every_episode(task):
    """They first go above the block, or behind it, and remember nothing of the last episode."""
    agent = script(Fetch(task))
    place = np.array([1.3, 0.7, 0.42])
    observation = {
        "observation": jnp.zeros(25).at[:3].set(place + [0.1, 0.1, 0.0]),
        "achieved_goal": jnp.asarray(place, float),
        "desired_goal": jnp.asarray(place + [0.1, 0.0, 0.0], float),
    }
    observation = jax.tree.map(lambda x: x[None], observation)
    flags = [jnp.zeros(1, bool)] * 2 + [jnp.ones(1, bool)] * 2
    timestep = TimeStep(observation, jnp.zeros(1), *flags, info={})
    act = jax.jit(functools.partial(agent.act, params=()))
    action, _, carry = act(jax.random.split(jax.random.key(0), 1), carry=agent.initial_carry(1),
                           timestep=timestep)  # fmt: skip
    assert action.shape == (1, 4) and float(jnp.abs(action).max()) <= 1
    resumed = carry._replace(phase=carry.phase + 3)
    repeated = act(jax.random.split(jax.random.key(0), 1), carry=resumed, timestep=timestep)[0]
    np.testing.assert_array_equal(action, repeated)


@SIMULATED
@pytest.mark.parametrize("task", TASKS)
def test_steps_are_gymnasium_robotics_own(task):
    """Whole episodes, bit for bit in double precision, and in a batch of others."""
    from benchmarks.mujoco_fetch.simulator import simulator

    host, seeds = simulator(task), np.array([3, 4], np.uint32)
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 2, 4)).astype(np.float32)
    originals = [type(host._env)() for _ in seeds]
    first = [env.reset(seed=int(seed))[0] for env, seed in zip(originals, seeds, strict=True)]
    state = host.start(seeds)
    for i, observation in enumerate(first):
        np.testing.assert_array_equal(state.observation[i], observation["observation"])
        np.testing.assert_array_equal(state.goal[i], observation["desired_goal"])
    for action in actions:
        state = host.step(state.words, action)
        for i, env in enumerate(originals):
            observation, reward, terminated, truncated, _ = env.step(action[i])
            np.testing.assert_array_equal(state.observation[i], observation["observation"])
            np.testing.assert_array_equal(state.observation[i, 3:6], observation["achieved_goal"])
            assert state.reward[i] == reward and not terminated and not truncated


@SIMULATED
def test_it_is_an_environment_like_any_other():
    env = FetchSimulator("push")
    vec = gpicljax.VectorEnv(env, 3, resets="synchronous", steps_per_trial=51)
    agent = script(env)

    @jax.jit
    def play_episode(key):
        keep = lambda record: (record.timestep.observation, record.next_timestep.reward)  # noqa: E731
        return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=50, keep=keep)

    done = play_episode(jax.random.key(0))
    observations, reward = jax.tree.map(lambda x: np.asarray(x[:, 0]), done.records)
    assert (done.length == 50).all() and done.truncated.all() and not done.terminated.any()
    assert set(np.unique(reward)) <= {-1.0, 0.0} and reward[:, -1].max() == 0
    block = observations["observation"][..., 3:6]
    np.testing.assert_array_equal(observations["achieved_goal"], block)
    after = jax.vmap(jax.vmap(env.goal_reward))(
        observations["achieved_goal"][:, 1:], observations["desired_goal"][:, 1:]
    )
    np.testing.assert_array_equal(after, reward[:, :-1])
    assert (observations["desired_goal"] == observations["desired_goal"][:, :1]).all()
    np.testing.assert_array_equal(play_episode(jax.random.key(0)).records[1][:, 0], reward)


@SIMULATED
def test_pictures_show_the_goal():
    env = FetchSimulator("push")
    if not env.can_render:
        pytest.skip("there is no way to draw without a screen")
    task = env.sample_task(jax.random.key(0), env.default_params)
    states = jax.vmap(lambda key: env.initial(key, task))(jax.random.split(jax.random.key(1), 2))
    pictures = np.asarray(jax.vmap(lambda state: env.render(state, task))(states))
    assert pictures.shape == (2, 240, 240, 3) and pictures.std() > 20
    assert (pictures[0] != pictures[1]).any()
    red = (pictures[..., 0] > 150) & (pictures[..., 1:].max(-1) < 80)
    assert (red.sum((1, 2)) > 3).all()


@SIMULATED
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "least"), [("push", 0.8), ("pick_and_place", 0.9), ("slide", 0.3)]
)
def test_rules_do_the_tasks(task, least):
    env = FetchSimulator(task)
    vec, agent = gpicljax.VectorEnv(env, 40, resets="synchronous", steps_per_trial=51), script(env)
    run = jax.jit(
        lambda key: play(vec, agent, (), start_rollout(key, vec, agent), max_steps=50).records
    )
    assert (np.asarray(run(jax.random.key(5)))[..., -1] == 0).mean() >= least
