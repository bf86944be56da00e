"""PPO against definitions in plain Python: targets, one whole update, seeds, devices, resuming."""

import dataclasses
import functools
import operator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent_checks import assert_replica_is, assert_resumes_exactly
from flax import struct
from lottery import ENV
from ppo_subjects import ENVS, GAMMA, HPARAMS, LAMBDA, STEPS, network_of, trainer_of, vec_of
from untasked import Untasked
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.agents import ppo
from gpicljax.agents.returns import generalised_advantages
from gpicljax.environment import Transition
from gpicljax.networks.actor_critic import ActorCritic
from gpicljax.networks.contract import AgentInput, as_network

# The definition of the advantages -----------------------------------------------------------------


def plain_advantages(rewards, terminated, over, ignored, values):
    """Sums of discounted errors, each until nothing that counts follows."""
    result = []
    for first in range(len(rewards)):
        total, factor = 0.0, 1.0
        for t in range(first, len(rewards)):
            discount, trace = (1.0, 1.0) if ignored[t] else (GAMMA, LAMBDA)
            beyond = 0.0 if terminated[t] else discount * values[t + 1]
            total += factor * (rewards[t] + beyond - values[t])
            if over[t]:
                break
            factor *= discount * trace
        result.append(total)
    return np.array(result)


@pytest.mark.parametrize("seed", range(5))
def test_advantages(seed):
    draw = np.random.default_rng(seed)
    rewards = draw.normal(size=30)
    values = draw.normal(size=31)
    over = draw.random(30) < 0.2
    terminated = over & (draw.random(30) < 0.5)
    ignored = np.append(False, draw.random(29) < 0.2)
    floats = jnp.asarray(rewards, jnp.float32), jnp.asarray(values, jnp.float32)
    flags = map(jnp.asarray, (terminated, over, ignored))
    actual = jax.jit(generalised_advantages)(floats[0], *flags, floats[1], GAMMA, LAMBDA)
    expected = plain_advantages(rewards, terminated, over, ignored, values)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_advantages_at_the_ends_in_numbers():
    """Three steps each: an end, the step that is ignored, a first step."""
    values = jnp.array([1.0, 10.0, 100.0, 1000.0])
    rewards = jnp.array([2.0, 0.0, 0.0])
    never, first, second = (jnp.array(x, bool) for x in ([0, 0, 0], [1, 0, 0], [0, 1, 0]))

    def advantage(terminated, over):
        return float(generalised_advantages(rewards, terminated, over, second, values, 0.5, 1.0)[0])

    assert advantage(first, first) == 2 - 1  # terminated: nothing beyond
    assert advantage(never, first) == 2 + 0.5 * 10 - 1  # cut off: the value of what was seen last
    # Another episode of the trial follows: its value, and no discount for the step in between.
    assert advantage(never, never) == 2 + 0.5 * (100 - 100 + 0.5 * 1000) - 1


# One whole update ---------------------------------------------------------------------------------


def play(vec, network, params, state):
    """The same rollout, step by step, as lists; and what PPO is to make of it."""
    vstate, timestep, carry = state
    step, choices = jax.jit(vec.step), jax.jit(vec.choice_keys)
    forward = jax.jit(network.step)
    carry, last = carry
    steps = []
    for _ in range(STEPS):
        last = jnp.where(timestep.trial_start, -1, last)
        inputs = AgentInput(timestep.observation, last, timestep.reward)
        output, carry = forward(params, carry, inputs, timestep.trial_start)
        logits = jnp.where(timestep.observation["action_mask"], output.logits, -jnp.inf)
        last = jax.vmap(jax.random.categorical)(choices(vstate), logits).astype(jnp.int32)
        before = vstate
        vstate, following = step(vstate, last)
        steps.append((inputs, timestep, before, last, output, following, vstate))
        timestep = following
    inputs = AgentInput(
        timestep.observation, jnp.where(timestep.trial_start, -1, last), timestep.reward
    )
    output, _ = forward(params, carry, inputs, timestep.trial_start)
    return steps, output.value


def stack(steps, get):
    return jax.tree.map(lambda *x: np.stack(x), *[get(step) for step in steps])


@functools.cache
def one_update(horizon):
    """An update of the trainer, and the rollout that it made."""
    vec = vec_of()
    trainer = trainer_of(horizon=horizon)
    state = jax.jit(trainer.init)(jax.random.key(1), HPARAMS)
    update = jax.jit(trainer.update)
    state, _ = update(state)  # start in the middle of things
    after, metrics = update(state)
    played = play(vec, network_of(True), state.params.network, state.rollout)
    return state, after, metrics, *played


@pytest.mark.parametrize("horizon", daily(["episode"], ["episode", "trial"]))
def test_one_update_is_the_definitions(horizon):
    state, after, metrics, steps, closing = one_update(horizon)
    inputs = stack(steps, lambda s: s[0])
    starts = stack(steps, lambda s: s[1].trial_start)
    ignored = np.asarray(stack(steps, lambda s: s[1].last))
    actions = stack(steps, lambda s: s[3])
    values = np.concatenate([stack(steps, lambda s: s[4].value), closing[None]])
    rewards, ends, terminated = (
        np.asarray(stack(steps, lambda s, f=f: getattr(s[5], f)))
        for f in ("reward", "last", "terminated")
    )
    final = np.asarray(stack(steps, lambda s: s[6].episode)) == 1
    assert ends.sum() > 8 and (ends & ~terminated).any() and (ends & ~final).any()
    over = ends if horizon == "episode" else ends & final
    recorded = rewards, terminated & over, over, ignored, values
    advantages = np.stack(
        [
            plain_advantages(*(x[:, b] for x in recorded))
            for b in range(ENVS)
        ],
        axis=1,
    )  # fmt: skip
    acted = ~ignored
    valued = (
        acted if horizon == "episode" else acted | ~np.stack([s[2].episode == 1 for s in steps])
    )
    scaled = (advantages - advantages[acted].mean()) / advantages[acted].std()
    network = network_of(True)
    core = state.rollout.carry.core

    def loss(params):
        output, _ = network.unroll(params, core, inputs, starts)
        logits = jnp.where(inputs.observation["action_mask"], output.logits, -1e9)
        log_probs = jax.nn.log_softmax(logits)
        # In the first epoch all ratios are 1: this is the gradient of the policy.
        chosen = jnp.take_along_axis(log_probs, actions[..., None], -1)[..., 0]
        gradient = -(jnp.exp(chosen - jax.lax.stop_gradient(chosen)) * scaled)[acted].mean()
        errors = 0.5 * jnp.square(output.value - (advantages + values[:-1]))[valued].mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1)[acted].mean()
        return gradient + 0.5 * errors - 0.01 * entropy, (errors, entropy)

    optimiser = optax.chain(optax.clip_by_global_norm(0.3), optax.adam(1e-2, eps=1e-2))

    @jax.jit
    def learn(params, opt_state):
        grads, parts = jax.grad(loss, has_aux=True)(params)
        changes, _ = optimiser.update(grads, opt_state, params)
        return optax.apply_updates(params, changes), optax.tree.norm(grads), *parts

    expected, norm, errors, entropy = jax.device_get(learn(state.params.network, state.opt_state))
    np.testing.assert_allclose(metrics["value_loss"], errors, rtol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-4)
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-3)
    np.testing.assert_allclose(metrics["reward"], rewards[acted].mean(), rtol=1e-4)
    assert int(metrics["episodes"]) == ends.sum()
    assert metrics["kl"] == pytest.approx(0, abs=1e-6) and metrics["clip_share"] == 0
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), after.params.network, expected
    )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), expected, state.params.network)
    assert max(jax.tree.leaves(moved)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("clip", "value_clip"), [(0.01, np.inf), (np.inf, 0.01)])
def test_ratios_and_values_are_followed_no_further_than_the_clip(clip, value_clip):
    """Over many epochs on one rollout, what is clipped changes less than what is not."""
    changes = []
    for clips in ((clip, value_clip), (np.inf, np.inf)):
        trainer = trainer_of(False, epochs=60)
        hparams = dataclasses.replace(
            HPARAMS, clip=clips[0], value_clip=clips[1], entropy_coefficient=0.0, discount=0.0
        )
        state = jax.jit(trainer.init)(jax.random.key(1), hparams)
        after, metrics = jax.jit(trainer.update)(state)
        network, (_, timestep, carry) = network_of(False), state.rollout
        inputs = AgentInput(timestep.observation, carry.last_action, timestep.reward)
        old, new = (
            network.step(s.params.network, (), inputs, timestep.trial_start)[0]
            for s in (state, after)
        )
        moved = np.abs(jax.nn.log_softmax(new.logits) - jax.nn.log_softmax(old.logits)).mean()
        changes.append((moved, np.abs(new.value - old.value).mean()))
        assert (metrics["clip_share"] > 0.5) == (clips[0] == 0.01)
    part = 0 if clip == 0.01 else 1
    assert changes[0][part] < 0.5 * changes[1][part]


# Windows and minibatches --------------------------------------------------------------------------


@pytest.mark.slow
def test_windows_of_the_gradient_start_from_the_memories_of_the_rollout():
    """With one epoch over all of it, windows change nothing but how far the gradient reaches."""
    results = []
    for window in (STEPS, 4, 1):
        trainer = trainer_of(window=window)
        state = jax.jit(trainer.init)(jax.random.key(1), HPARAMS)
        results.append(jax.jit(trainer.update)(state))
    for state, metrics in results[1:]:
        for name in ("value_loss", "entropy", "kl", "reward"):
            np.testing.assert_allclose(metrics[name], results[0][1][name], atol=1e-5)
        head = [x.params.network["params"]["value"]["kernel"] for x in (state, results[0][0])]
        assert np.abs(head[0] - head[1]).max() < 1e-3
    cores = [x.params.network["params"]["torso"] for x, _ in results]
    differences = jax.tree.map(lambda a, b: np.abs(a - b).max(), cores[0], cores[2])
    assert max(jax.tree.leaves(differences)) > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recurrent", "config"),
    [
        (False, {"minibatches": 3}),  # of single steps
        # Of windows, of instances, and one window each.
        (True, {"minibatches": 3, "window": 4}),
        (True, {"minibatches": 2}),
        (True, {"minibatches": 4, "window": 4}),
    ],
)
def test_each_epoch_goes_once_through_everything(recurrent, config):
    """Without a step of the optimiser, the mean over the minibatches is that of the whole."""
    frozen = dataclasses.replace(HPARAMS, learning_rate=0.0)
    metrics = []
    for options in (config, {}):
        # Steps that are ignored would make minibatches differ in weight.
        vec = vec_of(episodes_per_trial=1, resets="synchronous", steps_per_trial=10**6)
        vec = dataclasses.replace(vec, env=dataclasses.replace(ENDLESS))
        trainer = trainer_of(
            recurrent, vec, epochs=2, normalise_advantages=False, **{"window": None, **options}
        )
        state = jax.jit(trainer.init)(jax.random.key(2), frozen)
        metrics.append(jax.jit(trainer.update)(state)[1])
    for name in ("policy_loss", "value_loss", "entropy"):
        np.testing.assert_allclose(metrics[0][name], metrics[1][name], rtol=1e-4)


class Endless(type(ENV)):
    """The same without an end."""

    def transition(self, key, state, action, task):
        moved = super().transition(key, state, action, task)
        false = jnp.zeros((), bool)
        return moved._replace(terminated=false, truncated=false)


ENDLESS = Endless()


# Everything is in the state -----------------------------------------------------------------------


@functools.cache
def full():
    """A trainer with everything on, compiled."""
    trainer = trainer_of(
        epochs=2, minibatches=2, normalise_observations=True, normalise_rewards=True
    )
    return trainer, jax.jit(trainer.init), jax.jit(trainer.update)


@pytest.mark.slow
def test_a_state_resumes_exactly_through_the_host():
    _, init, update = full()
    state, _ = update(init(jax.random.key(3), HPARAMS))
    assert_resumes_exactly(update, state)


@pytest.mark.slow
def test_seeds_under_vmap_are_the_seeds_alone():
    trainer, init, update = full()
    keys = jax.random.split(jax.random.key(3), 2)
    rates = jnp.array([1e-2, 1e-3])
    axes = ppo.PPOHParams(**{f.name: None for f in dataclasses.fields(HPARAMS)})
    axes = dataclasses.replace(axes, learning_rate=0)
    hparams = dataclasses.replace(HPARAMS, learning_rate=rates)
    states = jax.jit(jax.vmap(trainer.init, (0, axes)))(keys, hparams)
    together = jax.jit(jax.vmap(trainer.update), donate_argnums=0)
    for _ in range(2):
        states, metrics = together(states)
    for i in range(2):
        state = init(keys[i], dataclasses.replace(HPARAMS, learning_rate=rates[i]))
        for _ in range(2):
            state, expected = update(state)
        assert_replica_is((states, metrics), i, (state, expected), rtol=1e-4, atol=3e-5)


@pytest.mark.slow
def test_the_rate_falls_from_update_to_update():
    trainer = trainer_of(False, epochs=2, minibatches=2)
    sizes = []
    for final in (1.0, 0.0):
        hparams = dataclasses.replace(HPARAMS, final_share=final, decay_updates=2)
        state = jax.jit(trainer.init)(jax.random.key(4), hparams)
        update, params = jax.jit(trainer.update), [state.params.network]
        for _ in range(3):
            state, _ = update(state)
            params.append(state.params.network)
        pairs = zip(params, params[1:], strict=False)
        steps = [jax.tree.map(operator.sub, a, b) for a, b in pairs]
        sizes.append([float(optax.tree.norm(step)) for step in steps])
    assert sizes[1][0] == pytest.approx(sizes[0][0])  # the whole first update at the full rate
    assert sizes[1][1] == pytest.approx(sizes[0][1] / 2, rel=0.2)
    assert sizes[1][2] == 0


def test_scales_are_those_of_what_was_seen():
    trainer, init, update = full()
    state = init(jax.random.key(5), HPARAMS)
    after, _ = update(state)
    # The rollout of the first update is unscaled: play it.
    steps, _ = play(vec_of(), network_of(True), state.params.network, state.rollout)
    noise = np.concatenate([s[1].observation["noise"] for s in steps])
    scale = after.params.scale
    assert float(scale.count) == STEPS * ENVS
    np.testing.assert_allclose(scale.mean["noise"], noise.mean(0), atol=1e-5)
    np.testing.assert_allclose(scale.variance["noise"], noise.var(0), atol=1e-5)
    returns, running = [], np.zeros(ENVS)
    for _, timestep, _, _, _, following, _ in steps:
        running = GAMMA * running + np.asarray(following.reward)
        returns.append(running[~np.asarray(timestep.last)])
        running = np.where(following.last, 0, running)
    returns = np.concatenate(returns)
    np.testing.assert_allclose(after.reward_scale.moments.variance, returns.var(), rtol=1e-4)
    np.testing.assert_allclose(after.reward_scale.returns, running, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["feed-forward", "recurrent", "windows"])
def test_eight_devices_train_as_one(case, on_eight_devices):
    on_eight_devices(Path(__file__).with_name("trainers_on_eight_devices.py"), case)


# Continuous actions -------------------------------------------------------------------------------


@struct.dataclass
class Aim:
    target: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Archery(Untasked):
    """Pays less the further the action is from what is seen; cut off after four steps."""

    def initial(self, key, task):
        return Aim(jax.random.uniform(key, (2,), minval=-1.5, maxval=1.5), jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        reward = -jnp.square(action - state.target).sum()
        state = Aim(jax.random.uniform(key, (2,), minval=-1.5, maxval=1.5), state.time + 1)
        return Transition(state, reward, jnp.zeros((), bool), state.time >= 4, {})

    def observe(self, state, task):
        return state.target * 30 + 100  # on a scale that needs normalising

    def action_space(self, task=None):
        return spaces.Box(-2, 2, (2,))

    def observation_space(self, task=None):
        return spaces.Box(0, 200, (2,))


@pytest.mark.slow
@pytest.mark.parametrize("bounds", ["clip", "squash"])
def test_continuous_actions_are_learnt(bounds):
    env = Archery()
    vec = gpicljax.VectorEnv(env, 32, resets="fresh")
    config = ppo.PPOConfig(
        unroll=20, normalise_observations=True, normalise_rewards=True, bounds=bounds
    )
    network = as_network(ActorCritic(env.observation_space(), env.action_space(), (32,)))
    trainer = ppo.make(config, vec, network)
    hparams = ppo.PPOHParams(learning_rate=5e-3, discount=0.5, entropy_coefficient=0.0)

    @jax.jit
    @jax.vmap
    def rewards(key):
        state = trainer.init(key, hparams)
        return jax.lax.scan(lambda s, _: trainer.update(s), state, None, 120)[1]["reward"]

    reward = rewards(jax.random.split(jax.random.key(0), 4))
    # Aiming at the middle always costs 2 * 1.5^2 / 3 = 1.5; noise costs more.
    assert reward[:, 0].mean() < -1.5
    last = reward[:, -10:].mean(1)
    assert last.mean() > -0.4, last


# At the door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unroll": 0}, "unroll: got 0; accepted: an integer >= 1"),
        ({"epochs": 0}, "epochs: got 0"),
        ({"window": 5}, "window: got 5; accepted: a divisor of unroll = 12"),
        ({"horizon": "life"}, "horizon: got 'life'; accepted: episode, trial"),
        (
            {"minibatches": 3, "window": 12},
            "minibatches: got 3; accepted: a divisor of the 1 windows",
        ),
    ],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        trainer_of(**options)


def test_what_does_not_fit_is_refused():
    network = as_network(ActorCritic(ENV.observation_space(), spaces.Discrete(7)))
    trainer = ppo.make(ppo.PPOConfig(), vec_of(), network)
    with pytest.raises(ValueError, match=r"logits of shape \(4, 7\)'; accepted: \(4, 3\)"):
        jax.eval_shape(trainer.init, jax.random.key(0), HPARAMS)
