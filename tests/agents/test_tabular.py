"""Tabular Q-learning against plain Python, published means, and the optimum."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_checks import keys_of, timestep

import gpicljax
from gpicljax import spaces
from gpicljax.agents import tabular
from gpicljax.interface import TimeStep
from gpicljax.rollout import rollout, start_rollout

# Compiling takes longer than running.
STATES, ACTIONS = spaces.Discrete(5), spaces.Discrete(3)
HPARAMS = tabular.TabularHParams(
    learning_rate=0.4,
    discount=0.9,
    epsilon=0.9,
    final_epsilon=0.2,
    decay=0.05,
    initial_value=0.7,
)


def story(seed, batch=3, length=150):
    """Time steps that any environment might have given, leaves `[T, B]`."""
    draw = np.random.default_rng(seed)
    shape = length, batch
    kind = draw.random(shape)
    terminated, truncated = kind < 0.15, (kind > 0.1) & (kind < 0.25)
    start = np.roll(terminated | truncated, 1, 0)
    start[0] = True
    terminated, truncated = terminated & ~start, truncated & ~start
    start = np.roll(terminated | truncated, 1, 0)
    start[0] = True
    trial = start & (draw.random(shape) < 0.2)
    trial[0] = True
    reward = np.where(start, 0, draw.normal(size=shape)).astype(np.float32)
    observation = draw.integers(STATES.n, size=shape).astype(np.int32)
    return TimeStep(observation, reward, terminated, truncated, start, trial, {})


def play_story(agent, hparams, timesteps, seed=0):
    """Returns the agent's reaction to a story: actions `[T, B]`, aux, the last carry."""

    def body(carry, step):
        keys, timestep = step
        action, aux, carry = agent.act(keys, hparams, carry, timestep)
        return carry, (action, aux)

    keys = jax.random.split(jax.random.key(seed), timesteps.reward.shape)
    first = agent.initial_carry(timesteps.reward.shape[1])
    carry, kept = jax.jit(lambda c, s: jax.lax.scan(body, c, s))(first, (keys, timesteps))
    return *jax.tree.map(np.asarray, kept), carry


# Learning within a trial --------------------------------------------------------------------------


@pytest.mark.parametrize("decay", ["episode", "step"])
def test_a_learner_is_the_loop(decay):
    timesteps = story(0)
    agent = tabular.q_learner(STATES, ACTIONS, decay=decay)
    actions, aux, carry = play_story(agent, HPARAMS, timesteps)
    kinds = set()
    for b in range(timesteps.reward.shape[1]):
        table, before = None, None
        for t in range(timesteps.reward.shape[0]):
            place = timesteps.observation[t, b]
            if timesteps.trial_start[t, b]:
                table, before = np.full((STATES.n, ACTIONS.n), 0.7), None
                episodes = steps = 0
            if before is not None:
                target = timesteps.reward[t, b]
                if not timesteps.terminated[t, b]:
                    target = target + 0.9 * table[place].max()
                table[before] += 0.4 * (target - table[before])
                kinds.add((bool(timesteps.terminated[t, b]), bool(timesteps.truncated[t, b])))
            last = timesteps.terminated[t, b] or timesteps.truncated[t, b]
            episodes += last
            epsilon = 0.2 + 0.7 * np.exp(-0.05 * (episodes if decay == "episode" else steps))
            np.testing.assert_allclose(aux["epsilon"][t, b], epsilon, rtol=1e-5)
            np.testing.assert_allclose(aux["q_values"][t, b], table[place], rtol=1e-4, atol=1e-5)
            before = None if last else (place, actions[t, b])
            steps += not last
        np.testing.assert_allclose(carry.table[b], table, rtol=1e-4, atol=1e-5)
    assert kinds == set(itertools.product([False, True], repeat=2))


def test_the_reference_is_its_loop():
    """Re-enacted: a list of observations, of which the last two are learnt from when asked."""
    timesteps = story(1)
    agent = tabular.q_learner(STATES, ACTIONS, "reference")
    # Without exploration it is known what it does.
    hparams = tabular.REFERENCE.replace(epsilon=0.0, final_epsilon=0.0)
    actions, aux, carry = play_story(agent, hparams, timesteps)
    crossed = 0
    for b in range(timesteps.reward.shape[1]):
        table, observations, rewards, taken = None, [], [], []
        for t in range(timesteps.reward.shape[0]):
            if timesteps.trial_start[t, b]:
                table = np.zeros((STATES.n, ACTIONS.n))
                observations, rewards, taken = [], [], []
            observations.append(timesteps.observation[t, b])
            if not timesteps.episode_start[t, b]:
                rewards.append(timesteps.reward[t, b])
            if timesteps.terminated[t, b] or timesteps.truncated[t, b]:
                continue  # nobody asks for an action
            if taken:
                place = observations[-2], taken[-1]
                target = rewards[-1] + 0.95 * table[observations[-1]].max()
                table[place] += 0.7 * (target - table[place])
                crossed += timesteps.episode_start[t, b]
            np.testing.assert_allclose(
                aux["q_values"][t, b], table[observations[-1]], rtol=1e-4, atol=1e-5
            )
            taken.append(int(table[observations[-1]].argmax()))
            assert actions[t, b] == taken[-1]
        np.testing.assert_allclose(carry.table[b], table, rtol=1e-4, atol=1e-5)
    assert crossed > 20


def test_references_exploration_after_200_pulls_is_nine_tenths():
    episodes = jnp.array([0, 200, 10**9])
    rates = tabular.exploration(tabular.REFERENCE, episodes)
    np.testing.assert_allclose(rates, [1, 0.05 + 0.95 * np.exp(-0.1), 0.05], rtol=1e-6)
    assert 0.90 < rates[1] < 0.92


def test_ties_are_broken_at_random_or_by_the_first():
    values = jnp.tile(jnp.array([1.0, 2.0, 2.0, 2.0]), (6_000, 1))
    choose = jax.jit(tabular.choose, static_argnums=3)
    counts = np.bincount(choose(keys_of(6_000), values, 0.0, False), minlength=4)
    # Three standard deviations of a third of 6000.
    assert counts[0] == 0 and np.abs(counts[1:] - 2_000).max() < 110
    assert (np.asarray(choose(keys_of(6_000), values, 0.0, True)) == 1).all()
    for first in (False, True):
        counts = np.bincount(choose(keys_of(6_000, 1), values, 1.0, first), minlength=4)
        assert np.abs(counts - 1_500).max() < 110
    shares = jnp.where(jnp.arange(6_000) < 3_000, 0.0, 0.8)
    picked = np.asarray(choose(keys_of(6_000, 2), values, shares, False)) == 0
    assert picked[:3_000].sum() == 0 and abs(picked[3_000:].mean() - 0.2) < 0.03


# Published means ----------------------------------------------------------------------------------


def scores(env, agent, hparams, trials, length):
    """Totals and ended episodes of the first 200 steps of every trial, numpy `[trials]`.

    Steps that are ignored do not count.
    """
    vec = gpicljax.VectorEnv(env, trials, resets="synchronous", steps_per_trial=10**6, group=trials)

    @jax.jit
    def play(key):
        return rollout(
            vec, agent, hparams, start_rollout(key, vec, agent), length + 1,
            keep=lambda record: (record.timestep.reward, record.timestep.last),
        )[1]  # fmt: skip

    reward, last = map(np.asarray, play(jax.random.key(0)))
    steps = (~last).cumsum(0) - ~last  # before this time step
    within = (steps <= 200) & (np.append(0 * steps[:1], steps[:-1], 0) < 200)
    assert (steps[-1] >= 200).all()
    return (reward * within).sum(0), (last & within).sum(0)


def within_three_errors(values, expected):
    return abs(values.mean() - expected) < 3 * values.std() / np.sqrt(len(values))


def reference_for(env):
    return tabular.q_learner(env.observation_space(), env.action_space(), "reference")


@pytest.mark.parametrize(
    ("kind", "anchor"), [("TwoArmedHighLowFixed", 0.512), ("TenArmedRandomFixed", 0.513)]
)
def test_the_reference_on_bandits(kind, anchor):
    env = gpicljax.make(f"Bandit{kind}-v0")
    total, episodes = scores(env, reference_for(env), tabular.REFERENCE, 400, 400)
    assert (episodes == 200).all()
    assert within_three_errors(total / 200, anchor)


CUSTOM = ("SFFF", "FHFH", "FFFH", "GFFH")


@pytest.mark.slow
def test_the_reference_on_a_lake_and_what_learning_in_a_trial_can_be():
    env = gpicljax.make("FrozenLake-v1", description=CUSTOM, is_slippery=False)
    total, episodes = scores(env, reference_for(env), tabular.REFERENCE, 300, 300)
    assert within_three_errors(total / episodes, 0.138)
    learner = tabular.q_learner(env.observation_space(), env.action_space())
    total, episodes = scores(env, learner, tabular.TabularHParams(), 100, 300)
    assert (total / episodes).mean() > 0.8


def test_the_reference_on_a_cliff():
    env = gpicljax.make("CliffWalking-v0")
    total, episodes = scores(env, reference_for(env), tabular.REFERENCE, 300, 210)
    assert within_three_errors(total, -2070)
    assert episodes.mean() < 0.2


# One table for all environments -------------------------------------------------------------------


def test_a_shared_entry_moves_as_far_as_updates_in_random_order_do():
    draw = np.random.default_rng(0)
    table = draw.normal(size=(5, 3)).astype(np.float32)
    # Three visits of (1, 2), of which one ends; a lone visit of (0, 1); two that do not count.
    observation, action = np.array([1, 0, 1, 1, 4, 4]), np.array([2, 1, 2, 2, 0, 0])
    following = np.array([2, 3, 4, 0, 1, 1])
    reward = draw.normal(size=6).astype(np.float32)
    at = lambda *places: jnp.asarray(np.isin(np.arange(6), places))  # noqa: E731
    before = timestep(6, observation=jnp.asarray(observation), truncated=at(4))
    after = timestep(
        6,
        observation=jnp.asarray(following),
        reward=jnp.asarray(reward),
        terminated=at(2),
        truncated=at(2, 3),
        trial_start=at(5),
    )
    learnt, error = jax.jit(tabular.learn_together)(
        jnp.asarray(table), HPARAMS, before, jnp.asarray(action), after
    )
    best = np.where(np.arange(6) == 2, 0, table[following].max(-1))
    targets = reward + 0.9 * best
    counted = np.arange(6) < 4
    np.testing.assert_allclose(
        error, np.where(counted, targets - table[observation, action], 0), atol=1e-5
    )
    expected, ends = table.copy(), []
    expected[0, 1] += 0.4 * (targets[1] - table[0, 1])
    for order in itertools.permutations([0, 2, 3]):
        value = table[1, 2]
        for i in order:
            value += 0.4 * (targets[i] - value)
        ends.append(value)
    expected[1, 2] = np.mean(ends)
    np.testing.assert_allclose(learnt, expected, atol=1e-5)


LAKE = gpicljax.make("FrozenLake-v1", is_slippery=False)
CLIFF = gpicljax.make("CliffWalking-v0")


def trainer_of(env=LAKE, num_envs=8, **config):
    vec = gpicljax.VectorEnv(env, num_envs, resets="fresh")
    return tabular.make(tabular.TabularConfig(**config), vec)


def test_the_learner_and_the_trainer_agree_on_one_environment():
    """One environment and one trial: the trainer's table is the learner's on the same story."""
    vec = gpicljax.VectorEnv(LAKE, 1, 10**6, resets="fresh")
    trainer = tabular.make(tabular.TabularConfig(unroll=1), vec)
    state, update = jax.jit(trainer.init)(jax.random.key(0), HPARAMS), jax.jit(trainer.update)
    learner = tabular.q_learner(LAKE.observation_space(), LAKE.action_space())
    act, carry = jax.jit(learner.act), learner.initial_carry(1)
    changes = 0
    for step in range(120):
        before, current = np.asarray(state.params), state.rollout.timestep
        _, _, carry = act(keys_of(1), HPARAMS, carry, current)
        np.testing.assert_allclose(carry.table[0], before, atol=1e-5)
        state, metrics = update(state)
        # The action that the trainer took, as the only entry that may have changed.
        row = current.observation[0]
        changed = np.flatnonzero(np.asarray(state.params - before))
        assert len(changed) <= 1 and not (len(changed) and current.last[0])
        if not current.last[0]:
            assert len(changed) == 1 and changed[0] // 4 == row
            carry = carry.replace(action=jnp.asarray(changed % 4, jnp.int32))
        changes += len(changed)
        assert int(metrics["episodes"]) == int(state.rollout.timestep.last[0])
        assert int(state.updates) == step + 1
    assert int(state.episodes) > 5
    # The step after the end of an episode does not count.
    assert int(state.observations) == changes < 120


def greedy_returns(env, trainer, params, length):
    """Mean return of the episodes within so many steps, NaN if none ended."""
    vec = gpicljax.VectorEnv(env, 8, resets="fresh")
    agent = trainer.agent(greedy=True)
    _, (rewards, ends) = rollout(
        vec, agent, params, start_rollout(jax.random.key(9), vec, agent), length,
        keep=lambda record: (record.timestep.reward, record.timestep.last),
    )  # fmt: skip
    # Episodes of optimal agents all take the same time; what is left over has no reward yet.
    return rewards.sum() / ends.sum()


@pytest.mark.parametrize(
    ("env", "optimum", "episode", "epsilon"),
    [(LAKE, 1.0, 6, 1.0), pytest.param(CLIFF, -13.0, 13, 0.1, marks=pytest.mark.slow)],
)
def test_the_optimum_is_found(env, optimum, episode, epsilon):
    """Random play reaches the goal of the lake in 1.4 % of the episodes, and falls off the cliff.

    20 updates of 64 steps in 8 environments.
    """
    trainer = trainer_of(env, unroll=64)
    hparams = tabular.TabularHParams(epsilon=epsilon, final_epsilon=0.1, decay=0.01)

    @jax.jit
    @jax.vmap
    def study(key):
        state = trainer.init(key, hparams)
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, 20)
        return greedy_returns(env, trainer, state.params, 10 * (episode + 1)), metrics

    returns, metrics = study(jax.random.split(jax.random.key(0), 3))
    np.testing.assert_allclose(returns, optimum, atol=1e-5)
    assert (metrics["error"][:, -1] < metrics["error"][:, 0]).all()


@pytest.mark.slow
def test_seeds_under_vmap_are_the_seeds_alone_and_resume_exactly():
    trainer = trainer_of(unroll=16, decay="step")
    init, update = jax.jit(trainer.init), jax.jit(trainer.update)
    keys = jax.random.split(jax.random.key(6), 2)
    states = jax.jit(jax.vmap(trainer.init, (0, None)))(keys, HPARAMS)
    together = jax.jit(jax.vmap(trainer.update), donate_argnums=0)
    for _ in range(3):
        states, _ = together(states)
    for i in range(2):
        state = init(keys[i], HPARAMS)
        for _ in range(3):
            state, metrics = update(state)
        np.testing.assert_allclose(states.params[i], state.params, atol=1e-5)
        assert states.observations[i] == state.observations
    assert update._cache_size() == 1  # nothing in it was weakly typed
    expected = 0.2 + 0.7 * np.exp(-0.05 * int(state.observations))
    assert float(metrics["epsilon"]) == pytest.approx(expected, abs=0.1)


def test_exploring_and_greedy_agents_read_the_table():
    trainer = trainer_of()
    table = jnp.zeros((16, 4)).at[3, 2].set(1.0)
    timesteps = timestep(4_000, observation=jnp.full(4_000, 3, jnp.int32))
    keys = keys_of(4_000)
    action, aux, carry = trainer.agent(greedy=True).act(keys, table, (), timesteps)
    assert (np.asarray(action) == 2).all() and carry == ()
    np.testing.assert_array_equal(aux["q_values"][0], [0, 0, 1, 0])
    for agent, epsilon in ((trainer.agent(), 0.05), (tabular.table_agent(ACTIONS, 0.4), 0.4)):
        action, _, _ = agent.act(keys, table, (), timesteps)
        share = 1 - 0.75 * epsilon
        assert (np.asarray(action) == 2).mean() == pytest.approx(share, abs=0.03)


def test_double_precision_is_one_float_type_throughout():
    with jax.enable_x64(True):
        agent = tabular.q_learner(STATES, ACTIONS, "reference")
        carry = agent.initial_carry(3)
        _, aux, moved = jax.eval_shape(agent.act, keys_of(3), HPARAMS, carry, timestep(3))
    types = [[x.dtype for x in jax.tree.leaves(tree)] for tree in (carry, moved)]
    assert types[0] == types[1]
    assert not any(x.dtype == jnp.float32 for x in jax.tree.leaves((moved, aux)))
    assert not any(x.weak_type for x in jax.tree.leaves(moved))


# At the door --------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    box = spaces.Box(0, 1, (2,))
    with pytest.raises(ValueError, match="observations: got Box.*accepted: Discrete, for a table"):
        tabular.q_learner(box, ACTIONS)
    with pytest.raises(ValueError, match="actions: got Box.*accepted: Discrete, for a table"):
        tabular.q_learner(STATES, box)
    with pytest.raises(ValueError, match="observations: got Box"):
        trainer_of(gpicljax.make("BernoulliBandit-v0"))
    with pytest.raises(ValueError, match="actions: got Box"):
        tabular.table_agent(box)
    with pytest.raises(ValueError, match="variant: got 'faithful'.*accepted: standard, reference"):
        tabular.q_learner(STATES, ACTIONS, "faithful")
    with pytest.raises(ValueError, match="decay: got 'linear'.*accepted: episode, step"):
        tabular.q_learner(STATES, ACTIONS, decay="linear")
    with pytest.raises(ValueError, match="decay: got 'linear'.*accepted: episode, step"):
        tabular.TabularConfig(decay="linear")
    with pytest.raises(ValueError, match="unroll: got 0; accepted: an integer >= 1"):
        tabular.TabularConfig(unroll=0)
