"""Gymnasium's contract for batches, against `VectorEnv` and Gymnasium's own batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stroll import SINGLE, Stroll, assert_same, at
from variants import daily

import gpicljax
from gpicljax.task_set import TaskSet
from gpicljax.wrappers.wrapper import RecordEpisodeStatistics

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.utils.env_checker import data_equivalence  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import vector as wrappers  # noqa: E402

from gpicljax.interop import to_gymnasium, to_gymnasium_vector  # noqa: E402

MODES = ["NextStep", "SameStep"]
STROLL = Stroll()


def play(envs, num_steps, seed=0):
    """Returns what a reset and some random steps gave, and the actions."""
    envs.action_space.seed(0)
    first = envs.reset(seed=seed)
    actions = [envs.action_space.sample() for _ in range(num_steps)]
    return first, actions, [envs.step(action) for action in actions]


# Gymnasium's own word ------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", SINGLE)
def test_every_environment_is_as_gymnasium_would_batch_it(env_id):
    env = gpicljax.make(env_id)
    ours = to_gymnasium_vector(env, 3)
    theirs = SyncVectorEnv([lambda: to_gymnasium(env)] * 3)
    spaces = (
        "single_observation_space",
        "single_action_space",
        "observation_space",
        "action_space",
    )
    for space in spaces:
        assert getattr(ours, space) == getattr(theirs, space)
    assert ours.num_envs == 3
    assert ours.metadata == theirs.metadata

    def shapes(tree):
        return jax.tree.map(lambda x: (type(x), x.shape, x.dtype.kind), tree)

    for envs in ours, theirs:
        envs.action_space.seed(0)
    assert shapes(ours.reset(seed=1)) == shapes(theirs.reset(seed=1))
    out, expected = (envs.step(envs.action_space.sample()) for envs in (ours, theirs))
    assert out[0] in ours.observation_space
    assert shapes(out) == shapes(expected)
    # As Gymnasium's checker compares single environments: another batch with the same seed.
    again = to_gymnasium_vector(env, 3)
    again.reset(seed=1)
    again.action_space.seed(0)
    assert data_equivalence(again.step(again.action_space.sample()), out, exact=True)


@pytest.mark.parametrize("mode", daily([MODES[0]], MODES))
def test_infos_of_ends_are_as_gymnasium_reports_them(mode):
    ours = to_gymnasium_vector(STROLL, 2, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: to_gymnasium(STROLL)] * 2, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is AutoresetMode(mode)

    def masks(infos):
        """Returns the instances that have an entry, by entry."""
        return {
            name: (masks(infos[name[1:]]) if isinstance(infos[name[1:]], dict) else None, *mask)
            for name, mask in infos.items()
            if name.startswith("_")
        }

    def cases(envs):
        """For every combination of instances that ended before and now, what infos hold."""
        before, known = np.zeros(2, bool), {}
        for *_, terminated, truncated, infos in play(envs, 60)[2]:
            last = terminated | truncated
            assert all(f"_{name}" in infos for name in infos if name[0] != "_")
            assert known.setdefault((*before, *last), masks(infos)) == masks(infos)
            before = last
        return known

    one, other = cases(ours), cases(theirs)
    common = set(one) & set(other)
    assert len(common) >= 6
    for case in common:
        assert one[case] == other[case], case


def test_make_vec_finds_it():
    spec = to_gymnasium(STROLL).spec
    envs = gymnasium.make_vec(spec, num_envs=3)
    assert type(envs).__name__ == "GymnasiumVectorEnv"
    envs.reset(seed=0)
    assert envs.step(np.zeros(3, np.int64))[1].tolist() == [0, 0, 0]


def test_statistics_and_lists_of_infos():
    envs = wrappers.RecordEpisodeStatistics(to_gymnasium_vector(STROLL, 4))
    listed = wrappers.DictInfoToList(envs)
    listed.action_space.seed(0)
    observations, infos = listed.reset(seed=0)
    assert [info["trial_start"] for info in infos] == [True] * 4
    total, length = np.zeros(4), np.zeros(4, int)
    ended, episodes = np.zeros(4, bool), 0
    for _ in range(30):
        _, rewards, terminated, truncated, infos = listed.step(listed.action_space.sample())
        total, length = np.where(ended, 0, total + rewards), np.where(ended, 0, length + 1)
        for i, info in enumerate(infos):
            assert ("noise" in info) != ended[i]
            assert ("trial_start" in info) == ended[i]
            assert ("episode" in info) == (terminated[i] or truncated[i])
            if "episode" in info:
                episodes += 1
                assert (info["episode"]["r"], info["episode"]["l"]) == (total[i], length[i])
        ended = terminated | truncated
    assert episodes > 10
    assert envs.episode_count == episodes


def test_infos_within_infos_are_as_gymnasium_reports_them():
    env = RecordEpisodeStatistics(STROLL)
    ours = to_gymnasium_vector(env, 3)
    theirs = SyncVectorEnv([lambda: to_gymnasium(env)] * 3)
    found = []
    for envs in (ours, theirs):
        envs.reset(seed=0)
        found.append(envs.step(np.array([0, 1, 2]))[-1]["episode"])
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.NormalizeReward,
        wrappers.NormalizeObservation,
        lambda envs: wrappers.ClipReward(envs, 0.0, 0.5),
        wrappers.FlattenObservation,
        lambda envs: wrappers.TransformReward(envs, lambda rewards: -rewards),
    ],
)
def test_vector_wrappers_go_around(wrap):
    envs = wrap(to_gymnasium_vector(gpicljax.make("BernoulliBandit-v0"), 4))
    envs.reset(seed=0)
    for _ in range(3):
        observations, rewards, *_ = envs.step(np.zeros(4, np.int64))
        assert observations in envs.observation_space
        assert rewards.shape == (4,)


# VectorEnv -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"resets": "fresh"},
        {"resets": "fresh", "episodes_per_trial": 3},
        {"resets": "bank", "bank_size": 32},
    ],
)
def test_next_step_reset_is_vector_env(options):
    envs = to_gymnasium_vector(STROLL, 5, renew_every=4, **options)
    first, actions, steps = play(envs, 20)
    envs.reset(seed=0)
    vec = gpicljax.VectorEnv(STROLL, 5, **options)
    step, renew = jax.jit(vec.step), jax.jit(vec.renew)
    vstate, timestep = vec.init(jax.random.fold_in(envs._root, 1))
    assert_same(first[0], timestep.observation)
    ends = 0
    for t, (action, out) in enumerate(zip(actions, steps, strict=True)):
        observations, rewards, terminated, truncated, infos = out
        vstate, timestep = step(vstate, jnp.asarray(action, jnp.int32))
        if options["resets"] == "bank" and t % 4 == 3:
            vstate, timestep = renew(vstate, timestep)
        expected = (
            timestep.observation,
            timestep.reward,
            timestep.terminated,
            timestep.truncated,
        )
        assert_same((observations, rewards, terminated, truncated), expected)
        if "noise" in infos:
            np.testing.assert_array_equal(infos["noise"], timestep.info["noise"])
            np.testing.assert_array_equal(infos["_noise"], ~timestep.episode_start)
        if timestep.episode_start.any():
            np.testing.assert_array_equal(infos["_trial_start"], timestep.episode_start)
            np.testing.assert_array_equal(infos["trial_start"], timestep.trial_start)
        ends += timestep.last.sum()
    assert ends > 10


def test_same_step_reset_shows_the_last_observation_and_goes_on_from_the_next_first():
    num_envs = 6
    envs = to_gymnasium_vector(STROLL, num_envs, autoreset_mode="SameStep", episodes_per_trial=2)
    (observations, _), actions, steps = play(envs, 40)
    before = observations
    episode = np.zeros(num_envs, int)
    trials = 0
    for action, (after, rewards, terminated, truncated, infos) in zip(actions, steps, strict=True):
        last = terminated | truncated
        np.testing.assert_array_equal(rewards, action)
        for i in range(num_envs):
            place, name = before["place"][i], before["story"][i, 0]
            final = infos["final_obs"][i] if last[i] else at(after, i)
            # Nothing is lost: each step leads one place on in the same task, no action ignored.
            assert (final["place"], final["story"][0]) == (place + 1, name)
            if not last[i]:
                assert infos["noise"][i] == final["story"][2]
                continue
            assert infos["final_info"]["noise"][i] == final["story"][2]
            assert terminated[i] == (final["place"] % 2 == 1)
            assert (after["place"][i], after["story"][i, 2]) == (0, 0)
            assert after["story"][i, 1] != final["story"][1]
            episode[i] = (episode[i] + 1) % 2
            assert infos["trial_start"][i] == (episode[i] == 0)
            assert (after["story"][i, 0] != name) == (episode[i] == 0)
            trials += episode[i] == 0
        if last.any():
            for name in "final_obs", "final_info", "trial_start":
                np.testing.assert_array_equal(infos[f"_{name}"], last)
            assert all(o is None for o in infos["final_obs"][~last])
        else:
            assert set(infos) == {"noise", "_noise"}
        before = after
    assert trials > 10


def test_an_instance_does_not_depend_on_the_reset_of_another():
    few, many = (to_gymnasium_vector(STROLL, n, autoreset_mode="SameStep") for n in (2, 6))
    for envs in few, many:
        envs.reset(seed=0)
    for _ in range(15):
        one, other = few.step(np.ones(2, int)), many.step(np.ones(6, int))
        assert_same(one[:4], jax.tree.map(lambda x: x[:2], other[:4]))


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_is_the_same_history_and_another_is_another(mode):
    envs = to_gymnasium_vector(STROLL, 3, autoreset_mode=mode)
    histories = [repr(play(envs, 12, seed=seed)) for seed in (3, 3, 4)]
    assert histories[0] == histories[1] != histories[2]
    # Without a seed, the next reset has other tasks.
    name = envs.reset(seed=3)[0]["story"][:, 0]
    assert (envs.reset()[0]["story"][:, 0] != name).all()


def test_what_is_returned_is_free_to_be_written():
    envs = to_gymnasium_vector(STROLL, 3)
    observations, _ = envs.reset(seed=0)
    observations["story"][:] = 0
    observations, rewards, terminated, truncated, infos = envs.step(np.zeros(3, int))
    for array in (observations["place"], rewards, terminated, truncated, infos["noise"]):
        array[:] = 0


def test_tasks_can_be_chosen_from_a_set():
    tasks = TaskSet.create(jax.random.key(5), 2)
    envs = to_gymnasium_vector(STROLL, 16, tasks=tasks)
    observations, _ = envs.reset(seed=0)
    known = [STROLL.sample_task(key, STROLL.default_params).name for key in tasks.keys]
    assert set(observations["story"][:, 0]) == {float(name) for name in known}


def test_render():
    lake = gpicljax.make("FrozenLake-v1")
    envs = to_gymnasium_vector(lake, 2, render_mode="rgb_array")
    with pytest.raises(ResetNeeded):
        envs.render()
    envs.reset(seed=0)
    frames = envs.render()
    assert [frame.shape for frame in frames] == [(192, 192, 3)] * 2
    words = to_gymnasium_vector(STROLL, 3, render_mode="ansi")
    words.reset(seed=0)
    assert [text[:9] for text in words.render()] == ["step 0 of"] * 3
    assert to_gymnasium_vector(STROLL, 3).render() is None


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="num_agents: got 2; accepted: one; to_jaxmarl"):
        to_gymnasium_vector(Stroll(players=2), 3)
    with pytest.raises(ValueError, match="num_envs: got 0"):
        to_gymnasium_vector(STROLL, 0)
    with pytest.raises(ValueError, match="resets: got 'synchronous'"):
        to_gymnasium_vector(STROLL, 3, resets="synchronous")
    with pytest.raises(ValueError, match=r"'Disabled'.*; accepted: NextStep, SameStep"):
        to_gymnasium_vector(STROLL, 3, autoreset_mode="Disabled")
    with pytest.raises(ValueError, match="renew_every: got 0"):
        to_gymnasium_vector(STROLL, 3, renew_every=0)
    with pytest.raises(ValueError, match="longest = 9"):
        to_gymnasium_vector(STROLL, 3, STROLL.make_params(longest=2).replace(longest=9))
    envs = to_gymnasium_vector(STROLL, 3)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(3, int))
    with pytest.raises(ValueError, match=r"seed: got \[1, 2, 3\]"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="options: got {'reset_mask'"):
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    envs.reset()
    for actions in (np.zeros(2, int), np.full(3, 3), np.zeros(3)):
        with pytest.raises(ValueError, match=r"a batch \[3\] of members of Discrete"):
            envs.step(actions)


def test_making_it_again_compiles_nothing():
    """Whatever the params are: they are arguments of the compiled programs."""
    compiled = []

    def heard(name, duration, **more):
        compiled.extend([name] * name.endswith("backend_compile_duration"))

    env = gpicljax.make("FrozenLake-v1")
    counts = []
    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        for horizon in (100, 100, 7):
            envs = to_gymnasium_vector("FrozenLake-v1", 5, env.make_params(horizon=horizon))
            envs.reset(seed=0)
            for _ in range(7):
                *_, truncated, _ = envs.step(np.zeros(5, int))
            assert truncated.any() == (horizon == 7)
            envs.close()
            counts.append(len(compiled))
    finally:
        jax.monitoring.clear_event_listeners()
    assert 0 < counts[0] == counts[1] == counts[2]
