import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import with_memory_reset
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent
from gpicljax.rollout import HostBatch, as_host_agent, host_play, play, rollout, start_rollout
from gpicljax.rollout.packing import pack
from gpicljax.serve.ahead import AheadBatch

NUM_ARMS = 4


def counting_initial(batch):
    return jnp.zeros((batch, NUM_ARMS), jnp.int32)


def counting_act(keys, params, carry, timestep):
    """Pulls the arms in turn, from arm `params` on, within a trial; notes how often."""
    carry = jnp.where(timestep.trial_start[:, None], 0, carry)
    action = (params + carry.sum(-1)) % NUM_ARMS
    pulls = jax.nn.one_hot(action, NUM_ARMS, dtype=jnp.int32)
    aux = {"before": carry, "draw": jax.vmap(jax.random.uniform)(keys)}
    return action, aux, carry + pulls * ~timestep.last[:, None]


AGENT = Agent(counting_initial, counting_act)


@pytest.fixture
def vec():
    env = gpicljax.make("BernoulliBandit-v0", num_arms=NUM_ARMS)
    params = env.make_params(horizon=3)
    return gpicljax.VectorEnv(env, 5, episodes_per_trial=2, resets="fresh", params=params)


def run(vec, key, length, **arguments):
    state = start_rollout(key, vec, AGENT)
    return jax.jit(lambda state: rollout(vec, AGENT, jnp.int32(1), state, length, **arguments))(
        state
    )


def test_records_hold_what_was_seen_then_done(vec, key):
    state, (timestep, action, aux) = run(vec, key, 16)
    assert action.shape == (16, 5)
    assert timestep.observation.shape == (16, 5, 1)
    # The first record is the first observation; a reward arrives one record after its action.
    assert timestep.trial_start[0].all()
    # Trials have 2 x (3 pulls + 1 reset) records, and the agent's memory starts anew with each.
    starts = np.flatnonzero(timestep.trial_start[:, 0])
    np.testing.assert_array_equal(starts, [0, 8])
    turns = np.asarray(action[:, 0])
    np.testing.assert_array_equal(turns[:8], [1, 2, 3, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(turns[8:], turns[:8])
    assert (aux["before"][8] == 0).all()
    assert state.carry.shape == (5, NUM_ARMS)


def test_agent_draws_differ_between_steps(vec, key):
    _, (_, _, aux) = run(vec, key, 16)
    assert len(np.unique(aux["draw"])) == 16 * 5


def test_going_on_equals_going_through(vec, key):
    """Two rollouts of 4 steps see what one of 8 sees, draws included."""
    start = start_rollout(key, vec, AGENT)
    go = jax.jit(
        lambda state, length: rollout(vec, AGENT, jnp.int32(1), state, length),
        static_argnums=1,
    )
    _, whole = go(start, 8)
    middle, first = go(start, 4)
    _, second = go(middle, 4)
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)
    jax.tree.map(np.testing.assert_array_equal, joined, whole)


def test_keep_selects_what_is_stacked(vec, key):
    _, rewards = run(vec, key, 4, keep=lambda record: record.next_timestep.reward)
    assert rewards.shape == (4, 5)


def test_env_params_override_the_batchs(vec, key):
    params = vec.env.make_params(low=1.0, high=1.0, horizon=3)
    state = start_rollout(key, vec, AGENT, params)
    assert (state.vstate.task.probabilities == 1).all()


def gambler(keys, params, carry, timestep):
    """Draws its arms; its memory counts its steps within the trial."""
    carry = jnp.where(timestep.trial_start, 0, carry)
    action = jax.vmap(lambda key: jax.random.randint(key, (), 0, NUM_ARMS, jnp.int32))(keys)
    return action, {"age": carry}, carry + 1


GAMBLER = Agent(lambda batch: jnp.zeros(batch, jnp.int32), gambler)


def outcome(record):
    return {"action": record.action, "reward": record.next_timestep.reward}


@pytest.mark.parametrize("resets", ["fresh", pytest.param("bank", marks=pytest.mark.slow)])
def test_three_drivers_give_the_same_episodes(vec, key, resets):
    vec = gpicljax.VectorEnv(
        vec.env, 3, episodes_per_trial=2, resets=resets, params=vec.params, bank_size=16
    )
    start = jax.jit(lambda key: start_rollout(key, vec, GAMBLER))(key)
    _, scanned = jax.jit(lambda s: rollout(vec, GAMBLER, (), s, 16, keep=outcome))(start)
    played = jax.jit(
        lambda s: play(vec, GAMBLER, (), s, max_steps=3, trials=2, keep=outcome),
    )(start)
    hosted = host_play(key, vec, as_host_agent(GAMBLER, ()), max_steps=3, trials=2, keep=outcome)
    jax.tree.map(np.testing.assert_array_equal, played, hosted)
    # What is computed ahead changes nothing, be it right or wrong.
    batch_of = functools.partial(AheadBatch, usual=np.int32(1))
    gambler = as_host_agent(GAMBLER, ())
    ahead = host_play(key, vec, gambler, max_steps=3, trials=2, keep=outcome, batch_of=batch_of)
    jax.tree.map(np.testing.assert_array_equal, played, ahead)
    # In a scan, the step from each episode into the next has a place of its own.
    steps = jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(6, 2, 4)[:, :, :3], scanned)
    jax.tree.map(np.testing.assert_array_equal, played.records, steps)
    assert (played.length == 3).all() and played.truncated.all() and not played.terminated.any()
    assert len(np.unique(played.records["action"])) == NUM_ARMS


def test_an_instance_remembers_its_last_step(vec, key):
    for batch in (HostBatch(vec, outcome), AheadBatch(vec, outcome, np.int32(0))):
        instance = batch.start(key)[1]
        assert instance.record is None and not instance.blank_record.action.any()
        for action in (0, 0, 1):
            before = instance.request.timestep
            after = instance.step(np.int32(action))
            record = instance.record
            assert record is not None
            observations = record.timestep.observation[0], record.next_timestep.observation[0]
            np.testing.assert_array_equal(observations, (before.observation, after.observation))
            np.testing.assert_array_equal(record.action, [action])
            np.testing.assert_array_equal(instance.last_kept["reward"], [after.reward])
            assert record.vstate.time + 1 == record.next_vstate.time


def test_packed_trees_come_back():
    tree = {
        "numbers": jnp.arange(6.0).reshape(2, 3),
        "more": jnp.ones(()),
        "flags": jnp.array([True, False]),
        "key": jax.random.key(3, impl="rbg"),
        "keys": jax.random.split(jax.random.key(4), (2, 2)),
        "large": jnp.arange(2.0**14),
    }
    small = pack(tree)
    assert len(small.rows) == 4  # what is large stays by itself
    assert small.layout is pack(jax.tree.map(lambda x: x, tree)).layout
    for name, leaf in small.tree.items():
        assert leaf.dtype == tree[name].dtype and (leaf == tree[name]).all(), name
    on_host = small.layout.unpack([np.asarray(row) for row in small.rows])
    assert on_host["numbers"].base is not None and (on_host["numbers"] == tree["numbers"]).all()


def test_an_agent_on_the_host_may_answer_when_it_can(vec, key):
    waiting_instances = []

    def one_at_a_time(moments):
        """Thinks longest about the instance that has waited longest."""
        waiting_instances.append(sorted(moments))
        number = max(moments)
        return {number: int(moments[number].timestep.observation.sum() >= 0)}

    played = host_play(key, vec, one_at_a_time, max_steps=3, keep=outcome)
    assert (played.length == 3).all() and (played.records["action"] == 1).all()
    assert waiting_instances[0] == [0, 1, 2, 3, 4] and waiting_instances[-1] == [0]
    with pytest.raises(ValueError, match=r"agent: got \[\]; accepted: actions for one or more of"):
        host_play(key, vec, lambda moments: {}, max_steps=3)


def test_steps_go_into_slots_and_may_be_added_up(vec, key):
    start = start_rollout(key, vec, AGENT)
    parity = lambda record: record.vstate.state.pulls % 2  # noqa: E731
    every = play(vec, AGENT, jnp.int32(0), start, max_steps=3).records
    added = play(
        vec, AGENT, jnp.int32(0), start, max_steps=3, slot=parity, slots=2, add=True
    ).records
    np.testing.assert_array_equal(added[..., 0], every[..., 0] + every[..., 2])
    np.testing.assert_array_equal(added[..., 1], every[..., 1])


def test_a_forgetful_agent_starts_anew(vec, key):
    start = start_rollout(key, vec, GAMBLER)
    age = lambda record: record.aux["age"]  # noqa: E731
    remembers = play(vec, GAMBLER, (), start, max_steps=3, keep=age).records
    forgets = play(
        vec, with_memory_reset(GAMBLER, lambda t: t.episode_start), (), start, max_steps=3, keep=age
    ).records
    np.testing.assert_array_equal(remembers[0], [[0, 1, 2], [4, 5, 6]])
    np.testing.assert_array_equal(forgets[0], [[0, 1, 2], [0, 1, 2]])


def test_only_those_who_ask_are_told_what_is_privileged(vec, key):
    assert start_rollout(key, vec, AGENT).timestep.privileged is None
    full_vec = gpicljax.VectorEnv(vec.env, 5, resets="fresh", params=vec.params, privileged=True)
    vstate, timestep = full_vec.init(key)
    expected = jax.vmap(vec.env.privileged)(vstate.state, vstate.task)
    jax.tree.map(np.testing.assert_array_equal, timestep.privileged, expected)
    vstate, timestep = full_vec.step(vstate, jnp.zeros(5, jnp.int32))
    expected = jax.vmap(vec.env.privileged)(vstate.state, vstate.task)
    jax.tree.map(np.testing.assert_array_equal, timestep.privileged, expected)


def test_seeds_side_by_side_copy_no_records():
    # Lanes end at different times. A loop whose condition differs between them would choose between
    # old and new records at every step: all of them, however many.
    env = gpicljax.make("FrozenLake-v1")
    vec, agent = single_trial_batch(env, 4, limit=50), random_agent(env)

    def lengths(key):
        played = play(vec, agent, (), start_rollout(key, vec, agent), max_steps=50)
        return played.length, played.records

    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(lengths))(keys)
    singles = [jax.jit(lengths)(key) for key in keys]
    assert len({int(length.max()) for length, _ in singles}) > 1
    for i, single in enumerate(singles):
        jax.tree.map(lambda x, y, i=i: np.testing.assert_array_equal(x[i], y), together, single)
    program = jax.jit(jax.vmap(lengths)).lower(keys).as_text().splitlines()
    records = [line for line in program if "tensor<3x4x1x1x50xf32>" in line]
    assert any("stablehlo.scatter" in line or "stablehlo.while" in line for line in records)
    assert not [line for line in records if "stablehlo.select" in line]
