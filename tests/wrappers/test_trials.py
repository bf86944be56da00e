"""Whole trials, padded spaces, mixtures and solved tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import optimal_agent, random_agent, within_trial
from gpicljax.agents.bandits import ucb1
from gpicljax.agents.tabular import TabularHParams, q_learner
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.in_context_rl.measures import keep_trial_step
from gpicljax.wrappers.padded_spaces import PaddedSpaces
from gpicljax.wrappers.task_mixture import TaskMixture
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions

LAKE = gpicljax.make("FrozenLake-v1", description=("SFF", "FHF", "FFG"), is_slippery=True)
BANDIT = gpicljax.make("BanditTwoArmedHighLowFixed-v0")


def record(record):
    seen = record.timestep.observation
    return keep_trial_step(record) | {"seen": seen, "after": record.next_timestep.observation}


@pytest.fixture(scope="module")
def lake_trials():
    env = Trial(LAKE, 40)
    vec = gpicljax.VectorEnv(env, 6, resets="fresh", params=env.make_params(horizon=9))
    agent = random_agent(env)

    @jax.jit
    def run(key):
        return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=40, keep=record)

    return jax.device_get(run(jax.random.key(0)))


def test_every_action_of_a_trial_counts_and_episodes_follow_at_once(lake_trials):
    assert (lake_trials.length == 40).all() and lake_trials.truncated.all()
    steps = jax.tree.map(lambda x: x[:, 0], lake_trials.records)
    before, after = steps["seen"], steps["after"]
    # What is seen after an action is what is acted on next.
    for name in ("now", "before", "reached", "terminated", "elapsed"):
        np.testing.assert_array_equal(after[name][:, :-1], before[name][:, 1:])
    np.testing.assert_array_equal(after["before"], before["now"])
    ended = steps["end"]
    assert 3 < ended.sum() < 200
    np.testing.assert_array_equal(after["now"][~ended], after["reached"][~ended])
    assert (after["now"][ended] == 0).all() and (after["reached"][ended] != 0).any()
    # A goal or a hole terminates, the limit of nine steps truncates, never both.
    terminated, truncated = after["terminated"], after["truncated"]
    assert (np.isin(after["reached"], (4, 8)) == terminated).all()
    assert truncated.any() and not (terminated & truncated).any()
    np.testing.assert_allclose(after["elapsed"][:, :, 0], np.arange(1, 41)[None] / 40 + ended * 0)
    assert ((steps["reward"] > 0) <= terminated).all()


def test_replayed_noise_repeats_episodes(key):
    env = Trial(gpicljax.make("FrozenLake-v1", is_slippery=True), 60, replay_noise=True)
    vec = gpicljax.VectorEnv(env, 3, resets="fresh")

    def always_down(keys, params, carry, timestep):
        return jnp.ones(keys.shape[0], jnp.int32), {}, carry

    agent = gpicljax.Agent(lambda batch: (), always_down)
    run = jax.jit(
        lambda key: play(vec, agent, (), start_rollout(key, vec, agent), max_steps=60, keep=record)
    )
    steps = jax.tree.map(lambda x: x[:, 0], run(key).records)
    lives = []
    for row in range(3):
        ends = np.flatnonzero(steps["end"][row])
        starts = [0, *(ends[:-1] + 1)]
        visited = np.asarray(steps["seen"]["now"][row])
        lives.append([tuple(visited[a : b + 1]) for a, b in zip(starts, ends, strict=True)])
        assert len(lives[-1]) > 1 and len(set(lives[-1])) == 1
    assert len({life[0] for life in lives}) > 1


def test_agents_of_the_environment_act_in_trials(key):
    """They see the ends of episodes as in a batch, and learn from them."""
    params = TabularHParams(epsilon=0.0)
    still = gpicljax.make("FrozenLake-v1", description=("SFF", "FHF", "FFG"), is_slippery=False)
    vec = gpicljax.VectorEnv(Trial(still, 150), 4, resets="fresh")
    agent = within_trial(q_learner(LAKE.observation_space(), LAKE.action_space()))

    @jax.jit
    def run(key):
        state = start_rollout(key, vec, agent)
        keep = lambda r: keep_trial_step(r)["reward"]  # noqa: E731
        return play(vec, agent, params, state, max_steps=150, keep=keep).records

    rewards = run(key)
    # Without slips and exploration nothing is random but ties: it finds the goal and goes on.
    assert (np.asarray(rewards)[:, 0, -40:].sum(1) >= 8).all()
    pulls = gpicljax.VectorEnv(Trial(BANDIT, 60), 16, resets="fresh")
    agent = within_trial(ucb1(BANDIT.action_space()))
    pull = jax.jit(
        lambda key: play(pulls, agent, (), start_rollout(key, pulls, agent), max_steps=60)
    )
    assert float(pull(key).records.mean()) > 0.6


def test_padded_mixtures_and_their_oracle(key):
    def padded(env):
        return PaddedSpaces(Trial(WithOptimalActions(env, width=4), 20), observations=16, actions=4)

    lake = gpicljax.make("FrozenLake-v1", size=4, is_slippery=False)
    env = TaskMixture((padded(lake), padded(BANDIT)))
    vec = gpicljax.VectorEnv(env, 64, resets="fresh", privileged=True)
    agent = optimal_agent()

    @jax.jit
    def run(key):
        state = start_rollout(key, vec, agent)
        keep = lambda r: (keep_trial_step(r), r.timestep.observation["action_mask"])  # noqa: E731
        return state.vstate.task.index, play(vec, agent, (), state, max_steps=20, keep=keep)

    which, played = jax.device_get(run(key))
    steps, mask = jax.tree.map(lambda x: x[:, 0], played.records)
    assert 10 < which.sum() < 54
    assert mask[which == 0].all() and (mask[which == 1] == [True, True, False, False]).all()
    # Six steps to the goal, three times; and the better arm throughout.
    total = steps["reward"].sum(1)
    assert (total[which == 0] == 3).all()
    assert (steps["action"][which == 1] == 0).all() and total[which == 1].mean() > 13
    with pytest.raises(ValueError, match="observations: got 8; accepted: as many"):
        PaddedSpaces(lake, observations=8, actions=4)
    with pytest.raises(ValueError, match="envs: got"):
        TaskMixture((lake, BANDIT))
    with pytest.raises(ValueError, match="env: got .*outcomes"):
        WithOptimalActions(gpicljax.make("MountainCar-v0"))


def test_the_words_of_a_mixture_do_not_tell_which_environment_it_is(key):
    env = TaskMixture((gpicljax.make("DarkRoom-v0"), gpicljax.make("KeyToDoor-v0")))
    drawn = env.sample_task(key, env.default_params)
    for index in range(2):
        task = drawn.replace(index=jnp.int32(index))
        state = env.initial(key, task)
        assert env.describe(state, task) == f"observation {env.observe(state, task)}"


def test_lakes_with_start_and_goal_anywhere(key):
    env = gpicljax.make("FrozenLake-v1", size=4, is_slippery=False)
    params = env.make_params(anywhere=True, hole_probability=0.4)
    draw = jax.jit(jax.vmap(env.sample_task, (0, None)))
    tasks = draw(jax.random.split(key, 500), params)
    cells = np.asarray(tasks.cells).reshape(500, 16)
    assert ((cells == 1).sum(1) == 1).all() and ((cells == 3).sum(1) == 1).all()
    for letter in (1, 3):
        assert len(np.unique((cells == letter).argmax(1))) == 16
    from gpicljax.envs.frozen_lake import goal_distances

    far = np.asarray(jax.jit(jax.vmap(goal_distances))(tasks.cells)).reshape(500, 16)
    assert (far[cells == 1] < 16).all() and not np.asarray(tasks.carved).any()
    with pytest.raises(ValueError, match="anywhere"):
        LAKE.make_params(anywhere=True)


def test_arms_in_any_number():
    env = gpicljax.envs.one_pull_bandits.OnePullBandit("TenArmedRandomFixed", num_arms=5)
    task = env.sample_task(jax.random.key(0), env.default_params)
    assert task.chances.shape == (5,) and env.action_space().n == 5
    with pytest.raises(ValueError, match="num_arms: got 3; accepted: 2"):
        gpicljax.envs.one_pull_bandits.OnePullBandit("TwoArmedHighLowFixed", num_arms=3)
