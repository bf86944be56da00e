"""A user's own environments on the host, beside the same ones of ours."""

import contextlib
import functools
import gc

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax.llm.prompts import actions_in_words
from gpicljax.rollout import GIVE_UP, host_play
from gpicljax.systems.in_context_rl.measures import keep_trial_step, measure_trials, trial_records
from gpicljax.wrappers.trial import Trial

gymnasium = pytest.importorskip("gymnasium")

from gpicljax.interop import from_gymnasium  # noqa: E402


def keep(record):
    return keep_trial_step(record) | {"seen": record.next_timestep.observation}


class Countdown(gymnasium.Env):
    """Discrete observations from 5 on; noise that a seed reaches; ends after three steps."""

    observation_space = gymnasium.spaces.Discrete(4, start=5)
    action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3
        return 8, {}

    def step(self, action):
        assert action in (-1, 0, 1)
        self.left -= 1
        reward = action + self.np_random.random()
        return 5 + self.left, reward, self.left == 0, self.left == 0, {}


def run(replay_noise):
    batch = from_gymnasium(Countdown, num_envs=2, actions=9, replay_noise=replay_noise)
    agent = lambda moments: dict.fromkeys(moments, 2)  # noqa: E731
    played = host_play(jax.random.key(3), batch, agent, max_steps=9, keep=keep)
    return batch, jax.tree.map(lambda x: x[:, 0], played.records), played


def test_trials_of_ones_own_environment():
    batch, steps, played = run(replay_noise=False)
    assert (batch.action_space().n, batch.observation_space()["now"].n) == (3, 4)
    assert (played.length == 9).all() and played.truncated.all()
    np.testing.assert_array_equal(steps["seen"]["reached"][0], [2, 1, 0] * 3)
    np.testing.assert_array_equal(steps["seen"]["now"][0], [2, 1, 3] * 3)
    np.testing.assert_array_equal(steps["seen"]["before"][0], [3, 2, 1] * 3)
    np.testing.assert_array_equal(steps["end"][0], [False, False, True] * 3)
    # Both at once is a termination.
    assert steps["seen"]["terminated"].sum() == 6 and not steps["seen"]["truncated"].any()
    noise = steps["reward"] - 1
    assert len(np.unique(noise)) == 18 and (noise >= 0).all()
    assert measure_trials(trial_records(played), num_actions=3).episodes.tolist() == [3, 3]
    # The same key plays the same trials; with noise replayed, episodes are the same too.
    np.testing.assert_array_equal(run(False)[1]["reward"], steps["reward"])
    replayed = run(True)[1]["reward"].reshape(2, 3, 3)
    np.testing.assert_array_equal(replayed[:, 0], replayed[:, 2])


def test_ours_and_theirs_show_the_same(key):
    actions = np.random.default_rng(0).integers(0, 4, 30)

    def follow():
        count = [0]

        def agent(moments):
            count[0] += 1
            return {0: int(actions[count[0] - 1])}

        return agent

    ours = gpicljax.VectorEnv(Trial(gpicljax.make("CliffWalking-v1"), 30), 1, resets="fresh")
    theirs = from_gymnasium(lambda: gymnasium.make("CliffWalking-v1"), num_envs=1, actions=30)
    here = host_play(key, ours, follow(), max_steps=30, keep=keep)
    there = host_play(key, theirs, follow(), max_steps=30, keep=keep)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), here, there)
    assert here.records["reward"].min() == -100


def test_boxes_and_giving_up(key):
    batch = from_gymnasium(lambda: gymnasium.make("Pendulum-v1"), num_envs=2, actions=4)
    turn = [0]

    def agent(moments):
        turn[0] += 1
        return {i: GIVE_UP if i == 1 and turn[0] > 2 else np.array([9.0]) for i in moments}

    played = host_play(key, batch, agent, max_steps=4, keep=keep_trial_step)
    assert played.length[:, 0].tolist() == [4, 2]
    assert played.records["action"].shape == (2, 1, 4, 1)
    assert played.truncated[:, 0].tolist() == [True, False]
    nobody = host_play(key, batch, lambda moments: dict.fromkeys(moments, GIVE_UP), max_steps=4)
    assert nobody.length.sum() == 0 and nobody.records.shape == (2, 1, 4)


def test_refusals():
    with pytest.raises(ValueError, match="actions: got 0"):
        from_gymnasium(Countdown, num_envs=1, actions=0)
    with pytest.raises(ValueError, match="make: got 'int'"):
        from_gymnasium(lambda: 3, num_envs=1, actions=5)

    class Text(Countdown):
        observation_space = gymnasium.spaces.Text(5)

    with pytest.raises(ValueError, match="observation_space: got"):
        from_gymnasium(Text, num_envs=1, actions=5)


class Clock(gymnasium.Env):
    """Changes the array that it returned; pays an array of one entry; says when it is closed."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Box(
        np.array([-1, 0], np.float32), np.array([1, 100], np.float32), dtype=np.float32
    )
    opened, closed = [], []

    def __init__(self):
        self.hands = np.zeros(1, np.float32)
        self.opened.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hands[:] = 0
        return self.hands, {}

    def step(self, action):
        self.hands += 1
        if self.hands[0] == 50:
            return np.zeros(2, np.float32), 0.0, False, False, {}
        return self.hands, np.array([1.0]), np.array([self.hands[0] == 3]), False, {}

    def close(self):
        self.closed.append(self)


def test_what_an_environment_changes_in_place_was_copied():
    (instance,) = from_gymnasium(Clock, 1, actions=5).start(jax.random.key(0))
    found, action = [], np.zeros(2, np.float32)
    for number in range(5):
        action[:] = number
        seen = instance.step(action)
        assert seen.reward == 1
        found.append([float(seen.observation[name][0]) for name in ("before", "reached", "now")])
    assert found == [[0, 1, 1], [1, 2, 2], [2, 3, 0], [0, 1, 1], [1, 2, 2]]
    action[:] = 7
    assert instance.record.action[0].tolist() == [4, 4]


@pytest.mark.parametrize("fault", [None, RuntimeError("the agent failed")])
def test_every_environment_is_closed_at_the_end(fault):
    Clock.opened.clear()
    Clock.closed.clear()

    def agent(moments):
        if fault is not None:
            raise fault
        return {i: np.zeros(2, np.float32) for i in moments}

    batch = from_gymnasium(Clock, num_envs=3, actions=2)
    with pytest.raises(RuntimeError) if fault else contextlib.nullcontext():
        host_play(jax.random.key(0), batch, agent, max_steps=2, keep=keep)
    assert len(Clock.opened) == 4 and set(Clock.closed) == set(Clock.opened)
    # Without `host_play`: with the batch and its instances.
    instances = from_gymnasium(Clock, num_envs=2, actions=2).start(jax.random.key(0))
    instances[0].step(np.zeros(2, np.float32))
    del instances
    gc.collect()
    assert len(Clock.opened) == 7 and set(Clock.closed) == set(Clock.opened)


def test_entries_with_bounds_of_their_own_are_told_one_by_one(key):
    space = from_gymnasium(Clock, 1, actions=1).action_space()
    assert actions_in_words(space) == "An action is 2 numbers, in this order: -1 to 1; 0 to 100."
    members = jax.vmap(space.sample)(jax.random.split(key, 50))
    assert jax.vmap(space.contains)(members).all()
    assert not space.contains(np.array([50, 50], np.float32))


def test_values_of_another_shape_are_refused_by_name():
    (instance,) = from_gymnasium(Clock, 1, actions=60).start(jax.random.key(0))
    instance._env.hands[:] = 49
    with pytest.raises(ValueError, match=r"observation.shape: got \(2,\); accepted: \(1,\)"):
        instance.step(np.zeros(2, np.float32))


class Toy(gymnasium.Env):
    """Whose answers a test chooses."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)
    seen, paid, more = (0.0, 0.5), 1.0, (False, False, {})
    start = np.zeros(2, np.float32), {}

    def reset(self, *, seed=None, options=None):
        return self.start

    def step(self, action):
        return np.asarray(self.seen), self.paid, *self.more


def toy(**changes):
    return from_gymnasium(lambda: type("Toy", (Toy,), changes)(), 1, actions=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seen": (0.0, 1.5)}, "observation: got .*1.5.*a member of the environment's obs"),
        ({"seen": (0.0, np.nan)}, "observation: got .*nan"),
        ({"seen": (0.0,)}, r"observation.shape: got \(1,\); accepted: \(2,\)"),
        ({"seen": "ab"}, "observation: got"),
        ({"paid": np.nan}, "reward: got nan; accepted: a finite number"),
        ({"paid": np.inf}, "reward: got inf"),
        ({"more": (False, {})}, "step: got .*five values, .observation, reward, terminated, tr"),
        ({"start": np.zeros(2)}, "reset: got .*two values, .observation, info"),
        ({"start": (np.zeros(2) + 3, {})}, "observation: got"),
        ({"reset": lambda self: (np.zeros(2), {})}, "reset: got .*seed=None"),
    ],
)
def test_an_environment_that_breaks_a_rule_is_told_which(changes, message):
    with pytest.raises(ValueError, match=message):
        toy(**changes).start(jax.random.key(0))[0].step(1)


@pytest.mark.parametrize("action", [3, -1, 0.5, np.nan, [1, 2], "a"])
def test_actions_outside_the_space_are_refused(action):
    (instance,) = toy().start(jax.random.key(0))
    with pytest.raises(ValueError, match="action: got"):
        instance.step(action)


def test_continuous_actions_are_clipped_and_must_be_numbers():
    space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    (instance,) = toy(action_space=space).start(jax.random.key(0))
    instance.step(np.array([5.0, -5.0]))
    with pytest.raises(ValueError, match="action: got"):
        instance.step(np.array([np.nan, 0.0]))


def test_batches_of_other_spaces_are_checked_too():
    many = gymnasium.spaces.MultiDiscrete([2, 3])
    for seen, fits in (((1, 2), True), ((1, 3), False), ((-1, 0), False)):
        start = np.zeros(2, np.int64), {}
        (instance,) = toy(observation_space=many, seen=seen, start=start).start(jax.random.key(0))
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="observation"):
            instance.step(1)
    assert repr(toy()) == "from_gymnasium(Toy, num_envs=1, actions=4)"
