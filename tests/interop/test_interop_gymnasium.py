"""Gymnasium's contract for one environment: its checker, layer 1, and a plain Python loop."""

import copy
import os
import signal
import warnings

import jax
import numpy as np
import pytest
from stroll import SINGLE, Stroll

import gpicljax

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.utils.env_match import check_environments_match  # noqa: E402

from gpicljax.interop import to_gymnasium, to_gymnasium_vector  # noqa: E402


@pytest.fixture(scope="module")
def lake():
    return gpicljax.make("FrozenLake-v1")


def play(env, num_steps, seed=None, **options):
    """Random episodes, as a list of everything that was returned."""
    env.action_space.seed(0)
    seen = [env.reset(seed=seed, options=options)]
    for _ in range(num_steps):
        seen.append(env.step(env.action_space.sample()))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


# Gymnasium's own word ------------------------------------------------------------------------


# Its advice to scale actions to [-1, 1]; it gives it to Gymnasium's own Pendulum too.
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space")
@pytest.mark.parametrize("env_id", SINGLE)
def test_gymnasium_checker_has_nothing_to_say(env_id):
    # Warnings are errors here, those of the checker included.
    env = gpicljax.make(env_id)
    modes = ["ansi", "rgb_array"] if env.can_render else ["ansi"]
    for mode in [None, *modes]:
        adapter = to_gymnasium(env, render_mode=mode)
        assert adapter.metadata["render_modes"] == sorted(modes, reverse=True)
        check_env(adapter)
    # Played behind its passive checker, it is the same as another one beside it.
    watched = gymnasium.wrappers.PassiveEnvChecker(to_gymnasium(env))
    check_environments_match(watched, to_gymnasium(env), num_steps=12)


def test_gymnasium_wrappers_go_around(lake):
    env = gymnasium.wrappers.RecordEpisodeStatistics(
        gymnasium.wrappers.TimeLimit(to_gymnasium(lake), max_episode_steps=3)
    )
    env.reset(seed=0)
    for t in range(3):
        *_, truncated, info = env.step(3)
        assert truncated == (t == 2)
    assert info["episode"]["l"] == 3
    flat = gymnasium.wrappers.FlattenObservation(to_gymnasium(Stroll()))
    observation, _ = flat.reset(seed=0)
    assert observation in flat.observation_space


def test_the_spec_makes_another_one(lake):
    params = lake.make_params(horizon=2)
    env = to_gymnasium(lake, params, episodes_per_trial=4).spec.make(render_mode="ansi")
    assert env.unwrapped.episodes_per_trial == 4
    env.reset(seed=0)
    env.step(3)
    assert env.step(3)[3]
    assert "step 2 of 2" in env.render()


# Layer 1 -------------------------------------------------------------------------------------


def test_steps_are_those_of_layer_1(lake):
    env = to_gymnasium(lake)
    step = jax.jit(lake.step)
    ends = 0
    env.action_space.seed(1)
    observation, _ = env.reset(seed=5)
    expected, state = lake.reset(env.episode_key, env.task)
    time = 0
    for _ in range(60):
        assert observation == expected
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        key = jax.random.fold_in(env.episode_key, time)
        want = step(key, state, action, env.task)
        expected, state, time = want.observation, want.state, time + 1
        assert (observation, reward, terminated, truncated) == (
            int(want.observation),
            float(want.reward),
            bool(want.terminated),
            bool(want.truncated),
        )
        assert info == {name: value.item() for name, value in want.info.items()}
        if terminated or truncated:
            ends += 1
            observation, _ = env.reset()
            expected, state = lake.reset(env.episode_key, env.task)
            time = 0
    assert ends > 3


@pytest.mark.parametrize("env_id", ["BernoulliBandit-v0", "FrozenLake-v1"])
def test_the_same_seed_is_the_same_history_and_another_is_another(env_id):
    env = gpicljax.make(env_id)
    one, two = to_gymnasium(env), to_gymnasium(env)

    def text(history):
        return repr(history)

    assert text(play(one, 40, seed=3)) == text(play(two, 40, seed=3))
    # Whatever happened before.
    assert text(play(one, 40, seed=3)) == text(play(two, 40, seed=3))
    assert text(play(one, 40, seed=4)) != text(play(two, 40, seed=3))
    assert text(play(to_gymnasium(env), 40)) != text(play(to_gymnasium(env), 40))


def test_a_dictionary_observation_is_numpy_and_free_to_be_written():
    env = to_gymnasium(Stroll())
    observation, _ = env.reset(seed=0)
    assert isinstance(observation["place"], np.int64)
    assert isinstance(observation["story"], np.ndarray)
    observation["story"][:] = 7
    # Unbounded as the numbers are, the space can be sampled and told from infinity.
    assert observation in env.observation_space
    assert env.observation_space.sample() in env.observation_space
    observation["story"][:] = np.inf
    assert observation not in env.observation_space


def test_masks_choose_among_the_actions():
    env = to_gymnasium(gpicljax.make("MetaRG-v0"))
    observation, _ = env.reset(seed=0)
    for _ in range(6):
        mask = observation["action_mask"]
        action = env.action_space.sample(mask)
        assert mask[action] == 1
        observation, *_ = env.step(action)


def test_render(lake):
    env = to_gymnasium(lake, render_mode="rgb_array")
    with pytest.raises(ResetNeeded):
        env.render()
    env.reset(seed=0)
    assert env.render().shape == (192, 192, 3)
    words = to_gymnasium(lake, render_mode="ansi")
    words.reset(seed=0)
    assert words.render() == "cell 0, step 0 of 100"
    assert to_gymnasium(lake).render() is None


# Tasks and trials ----------------------------------------------------------------------------


def names(env, count, **first):
    """The task's name in each of some episodes, and where trials started."""
    told = [env.reset(**first)] + [env.reset() for _ in range(count - 1)]
    return [observation["story"][0] for observation, _ in told], [
        info["trial_start"] for _, info in told
    ]


def test_a_new_task_at_each_reset():
    tasks, starts = names(to_gymnasium(Stroll()), 5)
    assert len(set(tasks)) == 5
    assert starts == [True] * 5


def test_a_trial_of_several_episodes():
    env = to_gymnasium(Stroll(), episodes_per_trial=2)
    tasks, starts = names(env, 6, seed=0)
    assert starts == [True, False] * 3
    assert tasks[0::2] == tasks[1::2]
    assert len(set(tasks)) == 3
    # A seed starts a new trial, in whichever place of the old one.
    env.reset()
    assert env.reset(seed=0)[1]["trial_start"]


def test_one_task_for_good():
    env = to_gymnasium(Stroll(), episodes_per_trial=None)
    tasks, starts = names(env, 5, seed=0)
    assert len(set(tasks)) == 1
    assert starts == [True] + [False] * 4
    assert names(env, 1, seed=1)[0] != tasks[:1]


def test_a_task_can_be_asked_for():
    env = to_gymnasium(Stroll())
    asked = {"task_key": 11}
    name = env.reset(options=asked)[0]["story"][0]
    assert env.reset()[0]["story"][0] != name
    assert env.reset(options=asked)[0]["story"][0] == name
    key = jax.random.key(11)
    assert env.reset(options={"task_key": key})[0]["story"][0] == name
    assert name == env.env.sample_task(key, env.params).name
    # With a script of its own each time.
    one, two = (env.reset(options=asked)[0]["story"][1] for _ in range(2))
    assert one != two


# Errors --------------------------------------------------------------------------------------


def test_bad_input_is_refused(lake):
    with pytest.raises(ValueError, match="num_agents: got 2; accepted: one; to_jaxmarl"):
        to_gymnasium(gpicljax.make("MetaRG-v0", view="players"))
    with pytest.raises(ValueError, match=r"render_mode: got 'human'.*; accepted: rgb_array"):
        to_gymnasium(lake, render_mode="human")
    with pytest.raises(ValueError, match="render_mode: got 'rgb_array'"):
        to_gymnasium(gpicljax.make("BernoulliBandit-v0"), render_mode="rgb_array")
    with pytest.raises(ValueError, match="episodes_per_trial: got 0"):
        to_gymnasium(lake, episodes_per_trial=0)
    with pytest.raises(ValueError, match="horizon: got 0"):
        to_gymnasium(lake, lake.default_params.replace(horizon=0))
    env = to_gymnasium(lake)
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ValueError, match="accepted: {'task_key'"):
        env.reset(options={"nonsense": 1})
    env.reset()
    for action in -1, 4, 0.5, [1]:
        with pytest.raises(ValueError, match="a member of Discrete"):
            env.step(action)


def test_an_episode_that_is_over_has_no_further_step(lake):
    env = to_gymnasium(lake, lake.make_params(horizon=1))
    env.reset()
    assert env.step(0)[3]
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    env.step(0)


def test_copies_go_their_own_way(lake):
    env = to_gymnasium(lake)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(4)]
    assert [env.step(a)[0] for a in actions] == [twin.step(a)[0] for a in actions]


# A plain Python loop -------------------------------------------------------------------------


def test_tabular_q_learning_reaches_the_optimum():
    """Watkins' Q-learning, written as for any Gymnasium environment."""
    env = to_gymnasium(gpicljax.make("FrozenLake-v1", is_slippery=False))
    generator = np.random.default_rng(0)
    gamma, rate = 0.9, 0.5
    values = np.zeros((env.observation_space.n, env.action_space.n))
    env.reset(seed=0)
    for _ in range(800):
        place, _ = env.reset()
        over = False
        while not over:
            best = np.flatnonzero(values[place] == values[place].max())
            explore = generator.random() < 0.5
            action = generator.integers(4) if explore else generator.choice(best)
            following, reward, terminated, truncated, _ = env.step(action)
            target = reward + gamma * (not terminated) * values[following].max()
            values[place, action] += rate * (target - values[place, action])
            place, over = following, terminated or truncated
    place, _ = env.reset()
    steps, over = 0, False
    while not over:
        place, reward, terminated, truncated, _ = env.step(values[place].argmax())
        steps, over = steps + 1, terminated or truncated
    # The shortest way round the holes has six moves; its value follows.
    assert (reward, steps) == (1.0, 6)
    np.testing.assert_allclose(values[0].max(), gamma**5, rtol=1e-3)


def test_ids_are_in_gymnasiums_registry():
    ids = {f"gpicljax/{env_id}" for env_id in gpicljax.registered()}
    assert ids <= set(gymnasium.registry)
    env = gymnasium.make("gpicljax.interop.gymnasium:gpicljax/FrozenLake-v1", episodes_per_trial=3)
    assert env.unwrapped.env == gpicljax.make("FrozenLake-v1")
    assert env.unwrapped.episodes_per_trial == 3 and env.spec.id == "gpicljax/FrozenLake-v1"
    envs = gymnasium.make_vec("gpicljax/Pendulum-v1", 3, vectorization_mode="vector_entry_point")
    assert envs.num_envs == 3 and envs.unwrapped.vec.env == gpicljax.make("Pendulum-v1")


@pytest.mark.parametrize(
    "env_id", ["Acrobot-v1", "LunarLander-v3", "MountainCar-v0", "Pendulum-v1"]
)
def test_bounds_of_observations_are_gymnasiums(env_id):
    if env_id == "LunarLander-v3":
        pytest.importorskip("Box2D")
    ours, theirs = to_gymnasium(env_id), gymnasium.make(env_id)
    for space in (ours.observation_space, to_gymnasium_vector(env_id, 2).single_observation_space):
        np.testing.assert_allclose(space.low, theirs.observation_space.low, rtol=1e-6)
        np.testing.assert_allclose(space.high, theirs.observation_space.high, rtol=1e-6)
        assert space.dtype == theirs.observation_space.dtype


def test_bounds_follow_the_params():
    params = gpicljax.make("Pendulum-v1").make_params(max_speed=(4.0, 12.0))
    assert to_gymnasium("Pendulum-v1", params).observation_space.high[2] == 12


@pytest.mark.parametrize("overrides", [{}, {"horizon": 2, "reward_schedule": [2.0, 0.0, -1.0]}])
def test_a_spec_survives_json(overrides):
    env = gpicljax.make("FrozenLake-v1")
    spec = to_gymnasium(env, env.make_params(**overrides), episodes_per_trial=None).spec
    read = gymnasium.envs.registration.EnvSpec.from_json(spec.to_json())
    again = gymnasium.make(read).unwrapped
    assert again.env == env and again.episodes_per_trial is None
    jax.tree.map(np.testing.assert_array_equal, again.params, env.make_params(**overrides))
    with pytest.raises(ValueError, match="registered.. without options"):
        to_gymnasium(gpicljax.make("FrozenLake-v1", size=4)).spec.to_json()


def test_numpy_integers_are_seeds():
    env = to_gymnasium("FrozenLake-v1")
    assert env.reset(seed=np.int64(3)) == env.reset(seed=3)


def exit_code_of_a_fork(use):
    """1 where a forked process is refused and pointed to "spawn", 2 where it is not refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's, about the fork
        child = os.fork()
    if child == 0:
        signal.alarm(100)
        try:
            use()
        except RuntimeError as error:
            os._exit("spawn" in str(error))
        except BaseException:
            os._exit(3)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_process_is_refused_before_it_hangs():
    """JAX's threads do not follow a fork."""
    env = to_gymnasium("FrozenLake-v1")
    env.reset(seed=0)
    for use in (lambda: env.reset(seed=1), lambda: to_gymnasium("CliffWalking-v1")):
        assert exit_code_of_a_fork(use) == 1


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("env_id", SINGLE)
def test_pictures_can_be_asked_for_where_there_are_none(env_id):
    """As Stable-Baselines3's `make_vec_env` does."""
    name = f"gpicljax.interop.gymnasium:gpicljax/{env_id}"
    env = gymnasium.make(name, render_mode="rgb_array")
    drawn = gpicljax.make(env_id).can_render
    assert env.unwrapped.render_mode == ("rgb_array" if drawn else None)
    with pytest.raises(ValueError, match="render_mode: got 'human'"):
        gymnasium.make(name, render_mode="human")


def test_whatever_computed_before_a_fork_is_remembered():
    vec = gpicljax.VectorEnv("CliffWalking-v1", 4)
    jax.jit(vec.init)(jax.random.key(0))
    for use in (
        lambda: to_gymnasium("CliffWalking-v1"),
        lambda: gpicljax.VectorEnv("CliffWalking-v1", 4),
        lambda: gpicljax.make("CliffWalking-v1").reset(vec, None),
    ):
        assert exit_code_of_a_fork(use) == 1


def test_gymnasium_s_own_make_takes_static_options():
    name = "gpicljax.interop.gymnasium:gpicljax/MazeWorld-v0"
    env = gymnasium.make(name, size=7, resolution=(16, 24), params={"density": 0.2})
    assert env.unwrapped.env == gpicljax.make("MazeWorld-v0", size=7, resolution=(16, 24))
    assert env.observation_space.shape == (16, 24, 3)
    envs = gymnasium.make_vec(name, num_envs=2, size=7, resolution=(16, 24))
    assert envs.single_observation_space.shape == (16, 24, 3)
    with pytest.raises(ValueError, match="option of MazeWorld-v0: got 'sise'"):
        gymnasium.make(name, sise=7)
    with pytest.raises(ValueError, match="options: got"):
        to_gymnasium(gpicljax.make("FrozenLake-v1"), size=7)
