"""Hindsight replay against loops over what was stored, and what it is for."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flax import struct
from untasked import Untasked
from variants import daily

import gpicljax
from gpicljax import agents, spaces
from gpicljax.data.hindsight import hindsight
from gpicljax.data.transitions import NStepTransition
from gpicljax.environment import Transition as Moved
from gpicljax.rollout import rollout, start_rollout

ENVS, STEPS, DRAWS = 3, 4, 60_000


def near(achieved, desired):
    """0 where it was reached, else -1."""
    return -(jnp.abs(achieved - desired).max() > 0.5).astype(jnp.float32)


def observation_at(time, column):
    """The reached goal says where it was; nobody wanted any of it."""
    place = np.stack([time, column], -1).astype(np.float32)
    return {"achieved_goal": place, "desired_goal": np.full_like(place, -1), "time": time}


def story(seed, length):
    """Items `[length, ENVS, ...]`, valid and last: episodes of 1 to 5 steps, and renewals."""
    draw = np.random.default_rng(seed)
    valid, last = np.zeros((2, length, ENVS), bool)
    for b in range(ENVS):
        left = draw.integers(1, 6)
        for t in range(length):
            if left == 0:  # its action is ignored: the next episode starts
                left = draw.integers(1, 6)
                continue
            left -= 1
            valid[t, b], last[t, b] = True, left == 0
            if draw.random() < 0.1:  # a renewal broke it off
                valid[t, b], last[t, b] = False, True
                left = draw.integers(1, 6)
    time, column = np.indices((length, ENVS)).astype(np.int32)
    items = NStepTransition(
        observation=observation_at(time, column),
        action=draw.normal(size=(length, ENVS, 2)).astype(np.float32),
        reward=(100 + time).astype(np.float32),
        discount=draw.random((length, ENVS)).astype(np.float32),
        following=observation_at(time + 1, column),
    )
    return items, valid, last


def futures(valid, last, rows, horizon):
    """By (time, column) of what is still stored: the times at which its goals may be reached."""
    length = len(valid)
    found = {}
    for b in range(ENVS):
        for t in range(max(0, length - rows), length):
            if not valid[t, b]:
                continue
            found[t, b] = []
            for s in range(t, min(length, t + horizon)):
                if not valid[s, b]:
                    break
                found[t, b].append(s + 1)
                if last[s, b]:
                    break
    return found


def stored(replay, told, steps=STEPS):
    items, valid, last = told
    state = replay.init(jax.tree.map(lambda x: x[0, 0], items), ENVS)
    add = jax.jit(replay.add)
    for t in range(0, len(valid), steps):
        part = jax.tree.map(lambda x: x[t : t + steps], (items, valid, last))  # noqa: B023
        state = add(state, *part)
    return state


def drawn(replay, state, count=DRAWS, seed=0):
    sample = jax.jit(replay.sample, static_argnums=2)
    return jax.tree.map(np.asarray, sample(jax.random.key(seed), state, count))


def assert_uniform(counts):
    """Chi-square over several tables of counts, each uniform within itself; p = 0.001."""
    statistic = sum(((c - c.mean()) ** 2 / c.mean()).sum() for c in counts)
    freedom = sum(len(c) - 1 for c in counts)
    assert min(c.mean() for c in counts) > 100
    assert statistic < scipy.stats.chi2(freedom).ppf(0.999), (statistic, freedom)


# 4 steps at once, in 10 rows: not yet full, just so, written over in part, several times round.
@pytest.mark.parametrize("length", [8, 12, 20, 64])
@pytest.mark.parametrize("horizon", daily([5], [2, 5]))
def test_goals_are_uniform_over_the_rest_of_the_episode(length, horizon):
    told = story(length, length)
    replay = hindsight(32, horizon, near, share=0.75)  # 10 rows; 2 places are left over
    state = stored(replay, told)
    expected = futures(*told[1:], rows=10, horizon=horizon)
    assert int(replay.size(state)) == len(expected)
    batch = drawn(replay, state)
    time, column = batch.observation["time"], batch.observation["achieved_goal"][:, 1]
    goal = batch.observation["desired_goal"]
    other = goal[:, 0] >= 0

    # What is drawn: every valid item equally often, the given share with another goal.
    places = {place: (time == place[0]) & (column == place[1]) for place in expected}
    assert_uniform([np.array([chosen.sum() for chosen in places.values()])])
    assert sum(chosen.sum() for chosen in places.values()) == DRAWS
    assert abs(other.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / DRAWS)

    # Which goals: uniform over the rest of its episode, and none from elsewhere.
    np.testing.assert_array_equal(goal[other, 1], column[other])
    counts = []
    for place, chosen in places.items():
        times, number = np.unique(goal[chosen & other, 0], return_counts=True)
        np.testing.assert_array_equal(times, expected[place])
        counts.append(number)
    assert_uniform(counts)
    assert {1, min(horizon, 4)} <= {len(c) for c in counts} or length == 8

    # The reward goes with the goal; all else is as stored.
    reached = batch.following["achieved_goal"]
    own = np.abs(reached - goal).max(-1) < 0.5
    np.testing.assert_array_equal(batch.reward, np.where(other, own - 1.0, 100 + time))
    np.testing.assert_array_equal(batch.following["desired_goal"], goal)
    at = time, column.astype(int)
    kept = (batch.action, batch.discount, batch.following["time"], reached)
    items = told[0]
    source = (items.action, items.discount, items.following["time"])
    for now, then in zip(kept, (*source, items.following["achieved_goal"]), strict=True):
        np.testing.assert_array_equal(now, then[at])


def test_share_zero_is_uniform_replay_and_share_one_nothing_else():
    told = story(5, 20)
    replay = hindsight(30, 5, near, share=0.0)
    batch = drawn(replay, stored(replay, told), 5_000)
    assert (batch.observation["desired_goal"] == -1).all() and (batch.reward >= 100).all()
    replay = hindsight(30, 5, near, share=1.0)
    batch = drawn(replay, stored(replay, told), 5_000)
    assert (batch.observation["desired_goal"][:, 0] > 0).all() and (batch.reward <= 0).all()


def test_one_long_write_is_many_short_ones():
    told = story(6, 24)
    replay = hindsight(24 * ENVS, 5, near)
    states = [stored(replay, told, steps) for steps in (1, 4, 24)]
    for state in states[1:]:
        jax.tree.map(np.testing.assert_array_equal, states[0], state)


def test_what_is_not_valid_is_never_drawn_and_none_is_no_error():
    items, valid, last = story(7, 12)
    replay = hindsight(12 * ENVS, 5, near)
    state = stored(replay, (items, np.zeros_like(valid), last))
    assert int(replay.size(state)) == 0
    batch = drawn(replay, state, 8)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(batch))
    only = np.zeros_like(valid)
    only[3, 1] = True
    state = stored(replay, (items, only, last))
    assert int(replay.size(state)) == 1
    batch = drawn(replay, state, 50)
    np.testing.assert_array_equal(batch.observation["time"], 3)
    np.testing.assert_array_equal(batch.observation["achieved_goal"][:, 1], 1)


@pytest.mark.slow
def test_vmap_over_seeds():
    told = [story(seed, 8) for seed in range(3)]
    replay = hindsight(30, 5, near)
    states = [stored(replay, one) for one in told]
    more = [story(seed + 10, STEPS) for seed in range(3)]
    stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)  # noqa: E731

    def turn(key, state, new):
        state = replay.add(state, *new)
        return state, replay.sample(key, state, 16)

    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(turn))(keys, stack(states), stack(more))
    alone = jax.jit(turn)
    for i in range(3):
        jax.tree.map(
            lambda a, b: np.testing.assert_array_equal(a[i], b),  # noqa: B023
            together,
            alone(keys[i], states[i], more[i]),
        )


def test_a_donated_state_is_not_copied():
    replay = hindsight(200_000, 50, near)
    told = story(8, STEPS)
    state = replay.init(jax.tree.map(lambda x: x[0, 0], told[0]), ENVS)
    size = sum(x.nbytes for x in jax.tree.leaves(state))

    @functools.partial(jax.jit, donate_argnums=0)
    def turn(state, key, new):
        def learn(total, key):
            return total + replay.sample(key, state, 32).reward.sum(), None

        state = replay.add(state, *new)
        return state, jax.lax.scan(learn, 0.0, jax.random.split(key, 3))[0]

    compiled = turn.lower(state, jax.random.key(0), told).compile()
    memory = compiled.memory_analysis()
    assert size > 10_000_000 and memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < size / 50
    after, _ = turn(state, jax.random.key(0), told)
    assert state.queue.is_deleted()
    assert not any(x.weak_type for x in jax.tree.leaves(after))


def test_double_precision_keeps_its_types():
    with jax.enable_x64(True):
        replay = hindsight(60, 5, near)
        told = jax.tree.map(
            lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, story(9, STEPS)
        )
        state = replay.init(jax.tree.map(lambda x: x[0, 0], told[0]), ENVS)
        after = jax.eval_shape(replay.add, state, *told)
        batch = jax.eval_shape(lambda s: replay.sample(jax.random.key(0), s, 7), after)
    types = [[(x.shape, x.dtype) for x in jax.tree.leaves(tree)] for tree in (state, after)]
    assert types[0] == types[1]
    assert batch.reward.dtype == batch.observation["desired_goal"].dtype == jnp.float64


def test_bad_input_is_refused():
    for field in ("capacity", "horizon"):
        with pytest.raises(ValueError, match=f"{field}: got 0; accepted: an integer >= 1"):
            hindsight(**{"capacity": 9, "horizon": 5, "reward": near, field: 0})
    with pytest.raises(ValueError, match="share: got 1.5; accepted: a number within"):
        hindsight(9, 5, near, share=1.5)
    told = story(0, STEPS)
    item = jax.tree.map(lambda x: x[0, 0], told[0])
    with pytest.raises(ValueError, match="capacity: got 2; accepted: at least the 3 environments"):
        hindsight(2, 5, near).init(item, ENVS)
    with pytest.raises(
        ValueError, match="capacity: got 9; accepted: rows of 3 environments for the 4 steps"
    ):
        replay = hindsight(9, 5, near)
        replay.add(replay.init(item, ENVS), *told)
    with pytest.raises(ValueError, match="accepted: a dictionary with .*desired_goal"):
        hindsight(9, 5, near).init(item._replace(observation=np.zeros(3)), ENVS)
    goals = {"achieved_goal": np.zeros(2), "desired_goal": np.zeros(3)}
    with pytest.raises(ValueError, match=r"got .*\(2,\), \(3,\).*; accepted: one shape"):
        hindsight(9, 5, near).init(item._replace(observation=goals), ENVS)


# What it is for -----------------------------------------------------------------------------------

REACH, LENGTH = 0.1, 25


def reached(achieved, desired):
    """0 within `REACH`, else -1."""
    return -(jnp.linalg.norm(achieved - desired) > REACH).astype(jnp.result_type(float))


@struct.dataclass
class Point:
    position: jax.Array
    goal: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Plane(Untasked):
    """A point that moves by at most 0.1 a step each way, to a goal in a square; 25 steps."""

    def initial(self, key, task):
        goal = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return Point(jnp.zeros(2), goal, jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        position = jnp.clip(state.position + 0.1 * action, -1, 1)
        state = Point(position, state.goal, state.time + 1)
        reward = reached(position, state.goal)
        info = {"success": reward == 0}
        return Moved(state, reward, jnp.zeros((), bool), state.time >= LENGTH, info)

    def observe(self, state, task):
        return {
            "observation": state.position,
            "achieved_goal": state.position,
            "desired_goal": state.goal,
        }

    def goal_reward(self, achieved, desired):
        return reached(achieved, desired)

    def horizon(self, params=None):
        return np.asarray(LENGTH, np.int32)

    def action_space(self, task=None):
        return spaces.Box(-1.0, 1.0, (2,))

    def observation_space(self, task=None):
        box = spaces.Box(-1.0, 1.0, (2,))
        return spaces.Dict.of(observation=box, achieved_goal=box, desired_goal=box)


SIZES = {
    "period": LENGTH + 1,
    "updates_per_collect": 40,
    "batch_size": 128,
    "min_replay": 400,
    "warm_up": 800,
}
RATES = {
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "discount": 0.9,
    "target_rate": 0.02,
}


def trained(key, trainer, hparams, updates):
    """Share of the goals at which a greedy agent is in the end, after training, float `[]`."""
    state = trainer.init(key, hparams)
    state, _ = jax.lax.scan(lambda s, _: trainer.update(s), state, None, updates)
    test, agent = gpicljax.VectorEnv(Plane(), 200, resets="fresh"), trainer.agent(greedy=True)
    start = start_rollout(key, test, agent)
    end, _ = rollout(test, agent, state.params, start, LENGTH, keep=lambda record: None)
    return end.timestep.info["success"].mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "ddpg", "sac"])
def test_goals_are_learnt_that_are_hardly_found_otherwise(name):
    """After 40 updates of 26 steps in 8 environments: with hindsight, and without.

    Of the square 0.8 % are as near to where play ends as counts, wherever that is.
    """
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(Plane(), 8, resets="fresh", group=8)
    network = algorithm.network(actor=(64, 64), critic=(64, 64))
    # A temperature of 1 is worth more than reaching a goal.
    more = {"temperature": 0.05} if name == "sac" else {"exploration_noise": 0.2}
    hparams, shares = algorithm.hparams(**RATES, **more), {}
    for replay in ("uniform", "hindsight"):
        config = algorithm.config(**SIZES, replay=replay, replay_capacity=40_000)
        study = functools.partial(
            trained, trainer=algorithm.make(config, vec, network), hparams=hparams, updates=40
        )
        keys = jax.vmap(jax.random.key)(jnp.arange(3))
        shares[replay] = np.asarray(jax.jit(jax.vmap(study))(keys))
    assert shares["hindsight"].min() > 0.9 and shares["uniform"].max() < 0.3, shares


def test_the_catalogue_asks_for_goals():
    algorithm, network = (
        agents.get_algorithm("ddpg"),
        agents.OffPolicyNetworkSettings((8,), (8,)),
    )
    config = algorithm.config(replay="hindsight", period=2)
    goals = gpicljax.VectorEnv(Plane(), 2, resets="fresh")
    trainer = algorithm.make(config, goals, network)
    state = jax.eval_shape(trainer.init, jax.random.key(0), algorithm.hparams())
    assert state.replay.last.shape == (50_000, 2)
    pendulum = gpicljax.VectorEnv(gpicljax.make("Pendulum-v1"), 2)
    with pytest.raises(ValueError, match="replay: got 'hindsight'; accepted: 'uniform': Pendulum"):
        algorithm.make(config, pendulum, network)
    algorithm.make(algorithm.to_act(config), pendulum, network)
    with pytest.raises(ValueError, match="replay: got 'later'"):
        algorithm.config(replay="later")
    with pytest.raises(ValueError, match="n_step: got 2; accepted: 1, with replay = 'hindsight'"):
        algorithm.config(replay="hindsight", n_step=2)
