"""DQN against definitions in plain Python: transitions, what is stored, one whole update."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent_checks import assert_resumes_exactly, assert_seeds_are_the_seeds_alone
from lottery import ENV
from variants import daily

import gpicljax
from gpicljax.agents import dqn
from gpicljax.agents.optimisation import clipped_adam
from gpicljax.agents.returns import n_step_targets
from gpicljax.data import replay as replay_buffer
from gpicljax.data.transitions import transitions
from gpicljax.interface import TimeStep
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.q_network import QNetwork, RecurrentQNetwork

GAMMA, ENVS, PERIOD = 0.9, 3, 4
NETWORK = as_network(QNetwork(ENV.observation_space(), 3, (8,)))
HPARAMS = dqn.DQNHParams(
    learning_rate=1e-2,
    adam_epsilon=1e-2,
    max_gradient_norm=0.3,
    discount=GAMMA,
    huber_delta=0.3,
    target_period=2,
    target_rate=0.25,
    exploration_steps=100,
)


# Transitions --------------------------------------------------------------------------------------


def plain_transitions(observation, action, reward, terminated, truncated, start, n_step):
    """(place, reward, discount, where it leads to) for every action that counts."""
    tuples = []
    last = terminated | truncated
    for t in range(len(action) - n_step + 1):
        if last[t] or start[t + 1]:
            continue
        total, factor, place = 0.0, 1.0, t
        for k in range(n_step):
            if k and (last[place] or start[place + 1]):
                break
            place += 1
            total += factor * reward[place]
            factor *= GAMMA
        tuples.append((t, total, 0.0 if terminated[place] else factor, observation[place]))
    return tuples


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_transitions(seed, n_step):
    draw = np.random.default_rng(seed)
    length = 25
    reward = draw.normal(size=length).astype(np.float32)
    kind = draw.random(length)
    terminated, truncated = kind < 0.15, (kind > 0.15) & (kind < 0.3)
    # Trials begin after ends, and now and then out of order: what a renewal does.
    start = np.append(False, (terminated | truncated)[:-1] & (draw.random(length - 1) < 0.5))
    start |= draw.random(length) < 0.1
    observation, action = np.arange(length), draw.integers(3, size=length - 1)
    false = np.zeros(length, bool)
    timestep = TimeStep(observation, reward, terminated, truncated, false, start, {})
    items, valid = jax.jit(transitions, static_argnums=2)(
        jax.tree.map(jnp.asarray, timestep), jnp.asarray(action), n_step, GAMMA
    )
    expected = plain_transitions(observation, action, reward, terminated, truncated, start, n_step)
    np.testing.assert_array_equal(np.flatnonzero(valid), [t for t, *_ in expected])
    assert 5 < len(expected) < length - n_step
    kept = jax.tree.map(lambda x: np.asarray(x)[np.asarray(valid)], items)
    np.testing.assert_array_equal(kept.observation, [t for t, *_ in expected])
    np.testing.assert_array_equal(kept.action, action[[t for t, *_ in expected]])
    np.testing.assert_allclose(kept.reward, [g for _, g, _, _ in expected], atol=1e-5)
    np.testing.assert_allclose(kept.discount, [d for _, _, d, _ in expected], rtol=1e-5)
    np.testing.assert_array_equal(kept.following, [o for *_, o in expected])


def test_targets_are_r2d2s():
    """Compares with rlax's n-step returns; nothing is left over at the end."""
    draw = np.random.default_rng(0)
    reward, value = jnp.asarray(draw.normal(size=(2, 12)), jnp.float32)
    false = jnp.zeros(12, bool)
    terminated, truncated = false.at[4].set(True), false.at[8].set(True)
    timestep = TimeStep(jnp.arange(12), reward, terminated, truncated, false, false, {})
    items, valid = jax.device_get(
        jax.jit(transitions, static_argnums=2)(timestep, jnp.zeros(11, jnp.int32), 3, GAMMA)
    )
    reward, value, terminated, truncated = jax.device_get((reward, value, terminated, truncated))
    goes_on = 1 - truncated[1:].astype(np.float32)
    discounts = np.float32(GAMMA) * (1 - terminated[1:].astype(np.float32))
    targets = jax.jit(n_step_targets, static_argnums=4)
    expected = np.asarray(targets(reward[1:], discounts, goes_on, value[1:], 3))
    targets = items.reward + items.discount * value[items.following]
    np.testing.assert_allclose(targets[valid], expected[:9][valid], atol=1e-5)


# What is stored and learnt ------------------------------------------------------------------------


def vec_of(**options):
    return gpicljax.VectorEnv(ENV, ENVS, **{"resets": "fresh", "group": ENVS, **options})


def trainer_of(**config):
    defaults = {
        "period": PERIOD, "replay_capacity": 60, "min_replay": 5, "batch_size": 16
    }  # fmt: skip
    return dqn.make(dqn.DQNConfig(**{**defaults, **config}), vec_of(), NETWORK)


@functools.cache
def compile_trainer(**config):
    trainer = trainer_of(**config)
    return jax.jit(trainer.init), jax.jit(trainer.update)


@pytest.mark.parametrize("double", daily([True], [True, False]))
def test_one_update_is_the_definitions(double):
    """With as many priorities in one draw as there is total priority, the batch is all of it."""
    init, update = compile_trainer(double=double, batch_size=2 * PERIOD * ENVS, replay_capacity=24)
    state, _ = update(init(jax.random.key(1), HPARAMS))
    noise = lambda p: p + 0.3 * jax.random.normal(jax.random.key(2), p.shape)  # noqa: E731
    noisy = jax.jit(lambda params: jax.tree.map(noise, params))
    state = state.replace(target_params=noisy(state.target_params))
    after, metrics = update(state)
    stored = np.asarray(after.replay.priorities) > 0
    # Every stored transition is drawn equally often, up to one.
    items = jax.tree.map(lambda x: np.asarray(x)[stored], after.replay.items)
    _, learn_key = jax.random.split(state.key)
    full = dataclasses.replace(after.replay, priorities=jnp.asarray(stored, jnp.float32))
    sample = jax.jit(replay_buffer.sample, static_argnums=2)
    batch = jax.device_get(sample(jax.random.split(learn_key, 1)[0], full, 2 * PERIOD * ENVS))
    drawn = np.bincount(batch.indices, minlength=24)
    assert set(np.flatnonzero(drawn)) <= set(np.flatnonzero(stored)) and len(items.action) > 12
    batch = batch.items

    @jax.jit
    def q(params, observation):
        inputs = AgentInput(observation, None, None)
        return NETWORK.step(params, (), inputs, None)[0].q_values

    legal = np.asarray(batch.following["action_mask"])
    target_q = np.asarray(q(state.target_params, batch.following))
    online = np.asarray(q(state.params, batch.following))
    best = np.where(legal, online if double else target_q, -np.inf).argmax(-1)
    targets = batch.reward + batch.discount * target_q[np.arange(24), best]
    assert (np.asarray(batch.discount) == 0).any()

    def loss(params):
        chosen = q(params, batch.observation)[jnp.arange(24), batch.action]
        size = jnp.abs(targets - chosen)
        return jnp.where(size < 0.3, 0.5 * size**2, 0.3 * (size - 0.15)).mean()

    optimiser = optax.chain(optax.clip_by_global_norm(0.3), optax.adam(1e-2, eps=1e-2))

    @jax.jit
    def learn(state):
        value, grads = jax.value_and_grad(loss)(state.params)
        changes, _ = optimiser.update(grads, state.opt_state, state.params)
        return value, optax.apply_updates(state.params, changes)

    value, expected = learn(state)
    np.testing.assert_allclose(metrics["loss"], value, rtol=1e-4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), after.params, expected)
    # The second step of the optimiser: the target is copied.
    assert int(after.updates) == 2
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), after.target_params, after.params
    )


@pytest.mark.parametrize("target", ["hard", "polyak"])
def test_targets_are_copied_every_period_or_averaged(target):
    init, update = compile_trainer(target=target)
    state = init(jax.random.key(2), HPARAMS)
    for step in range(1, 5):
        before, (state, _) = state, update(state)
        assert int(state.updates) == step
        if target == "polyak":
            mix = lambda new, old: 0.25 * new + 0.75 * old  # noqa: E731
        else:
            mix = lambda new, old, step=step: old if step % 2 else new  # noqa: E731
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
            state.target_params,
            jax.tree.map(mix, *jax.device_get((state.params, before.target_params))),
        )


def test_nothing_is_learnt_before_the_replay_is_filled():
    init, update = compile_trainer(min_replay=25)
    first = init(jax.random.key(3), HPARAMS)
    state, counts = first, []
    for _ in range(4):
        state, metrics = update(state)
        counts.append((int((state.replay.priorities > 0).sum()), int(state.updates)))
        if counts[-1][1] == 0:
            jax.tree.map(np.testing.assert_array_equal, state.params, first.params)
    assert [updates > 0 for _, updates in counts] == [stored >= 25 for stored, _ in counts]
    assert counts[0][1] == 0 and counts[-1][1] > 0
    assert int(state.observations) == 4 * PERIOD * ENVS
    assert metrics["epsilon"] == pytest.approx(1 - 0.95 * 36 / 100)


def test_priorities_follow_the_errors_if_told():
    init, update = compile_trainer()
    uniform, prioritised = (
        init(jax.random.key(4), dataclasses.replace(HPARAMS, priority_exponent=alpha))
        for alpha in (0.0, 0.8)
    )
    for _ in range(3):
        uniform, prioritised = update(uniform)[0], update(prioritised)[0]
    assert set(np.unique(uniform.replay.priorities)) == {0, 1}
    assert len(np.unique(prioritised.replay.priorities)) > 5


# Everything is in the state -----------------------------------------------------------------------


def test_a_state_resumes_exactly_through_the_host():
    init, update = compile_trainer(n_step=3)
    state = init(jax.random.key(5), HPARAMS)
    for _ in range(2):
        state, _ = update(state)
    assert_resumes_exactly(update, state)


@pytest.mark.slow
def test_seeds_under_vmap_are_the_seeds_alone():
    init, update = compile_trainer(n_step=3)
    trainer = trainer_of(n_step=3)
    assert_seeds_are_the_seeds_alone(trainer, init, update, HPARAMS, atol=3e-5)


# At the door --------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_step: got 0; accepted: an integer >= 1"):
        dqn.DQNConfig(n_step=0)
    with pytest.raises(ValueError, match="target: got 'soft'; accepted: hard, polyak"):
        dqn.DQNConfig(target="soft")
    recurrent = as_network(RecurrentQNetwork(ENV.observation_space(), 3))
    with pytest.raises(ValueError, match=r"with a memory'; accepted: .*use agents.r2d2"):
        dqn.make(dqn.DQNConfig(), vec_of(), recurrent)

    with pytest.raises(ValueError, match="actions: got Box.*accepted: Discrete"):
        dqn.make(dqn.DQNConfig(), gpicljax.VectorEnv("Pendulum-v1", 3), NETWORK)


def test_schedules_over_no_steps_are_over_from_the_start():
    for exploration_steps in (0, jnp.int32(0)):
        hparams = dqn.DQNHParams(exploration_steps=exploration_steps, final_epsilon=0.25)
        assert dqn.exploration(hparams, jnp.int32(0)) == 0.25
    hparams = dqn.DQNHParams(learning_rate=0.5, final_share=0.5, decay_updates=0)
    optimiser = clipped_adam(hparams)
    step, _ = jax.jit(optimiser.update)(jnp.ones(2), optimiser.init(jnp.ones(2)))
    np.testing.assert_allclose(step, -0.25, rtol=1e-5)
