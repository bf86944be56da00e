"""TD3, DDPG and SAC against definitions in numpy, their switches, and what they learn."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agent_checks import assert_resumes_exactly, assert_seeds_are_the_seeds_alone
from flax import struct
from lottery import ENV
from untasked import Untasked

import gpicljax
from gpicljax import spaces
from gpicljax.agents import sac, td3
from gpicljax.agents.normalisation import normalise
from gpicljax.data import replay as replay_buffer
from gpicljax.environment import Transition
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.continuous import CriticInput, Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import AgentInput, as_network

ENVS, PERIOD, BATCH, LOW, HIGH = 3, 4, 16, -1.0, 3.0


@struct.dataclass
class State:
    time: jax.Array
    length: jax.Array
    place: jax.Array


@dataclasses.dataclass(frozen=True)
class Drift(Untasked):
    """Two numbers that actions move; episodes of 2 to 5 steps that terminate or are truncated."""

    def initial(self, key, task):
        place = jax.random.uniform(key, (2,), minval=-1)
        return State(jnp.zeros((), jnp.int32), 2 + (8 * place[0]).astype(jnp.int32) % 4, place)

    def transition(self, key, state, action, task):
        noise = jax.random.uniform(key, (2,))
        state = state.replace(time=state.time + 1, place=0.5 * state.place + 0.1 * action + noise)
        over = state.time >= state.length
        even = state.length % 2 == 0
        reward = state.place.sum() - jnp.square(action).sum()
        return Transition(state, reward, over & even, over & ~even, {})

    def observe(self, state, task):
        return {"place": 5 * state.place, "even": state.length % 2}

    def action_space(self, task=None):
        return spaces.Box(LOW, HIGH, (2,))

    def observation_space(self, task=None):
        return spaces.Dict.of(place=spaces.Box(-np.inf, np.inf, (2,)), even=spaces.Discrete(2))


DRIFT = Drift()
SEEN, ACTIONS = DRIFT.observation_space(), DRIFT.action_space()
ACTOR = as_network(DeterministicActor(SEEN, ACTIONS, (8,)))
GAUSSIAN = as_network(GaussianActor(SEEN, ACTIONS, (8,)))
RATES = {
    "actor_learning_rate": 1e-2, "critic_learning_rate": 3e-2, "adam_epsilon": 1e-2,
    "max_gradient_norm": 0.3, "discount": 0.9, "target_rate": 0.25,
}  # fmt: skip
HPARAMS = {
    "td3": td3.TD3HParams(**RATES, target_noise=0.9, target_clip=0.4),
    "ddpg": td3.TD3HParams(**RATES),
    "sac": sac.SACHParams(**RATES, temperature=0.3, temperature_learning_rate=1e-2),
}
ALGORITHMS = tuple(HPARAMS)


def critics(count=2):
    return as_network(Critics(SEEN, (8,), count))


def vec_of(env=DRIFT):
    return gpicljax.VectorEnv(env, ENVS, resets="fresh", group=ENVS)


def trainer_of(name, replay=None, **config):
    config = {
        "period": PERIOD, "replay_capacity": 50, "min_replay": 15, "batch_size": BATCH,
        "warm_up": 20, **config,
    }  # fmt: skip
    if name == "sac":
        config = {"updates_per_collect": 1, "normalise_observations": True, **config}
        return sac.make(sac.SACConfig(**config), vec_of(), GAUSSIAN, critics(), replay)
    make_config = td3.TD3Config if name == "td3" else td3.DDPGConfig
    count = 2 if name == "td3" else 1
    return td3.make(make_config(**config), vec_of(), ACTOR, critics(count), replay)


@functools.cache
def compile_trainer(name, **config):
    trainer = trainer_of(name, **config)
    return jax.jit(trainer.init), jax.jit(trainer.update)


def close(a, b, **tolerance):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


# One update, by hand ------------------------------------------------------------------------------


def flat(observation):
    """Returns the networks' input for observations of the replay."""
    place, even = np.asarray(observation["place"]), np.asarray(observation["even"])
    return np.concatenate([place, np.eye(2)[even]], axis=-1)


def dense(params, x):
    return x @ np.asarray(params["kernel"], float) + np.asarray(params["bias"], float)


def hidden(params, x):
    return np.maximum(dense(params["torso"]["Dense_0"], x), 0)


def values_of(params, observation, action):
    """All critics' values, `[N, K]`, one critic after the other."""
    x = np.concatenate([flat(observation), action], axis=-1)
    stacked, values = params["params"]["critics"], []
    for k in range(len(stacked["value"]["bias"])):
        critic = jax.tree.map(lambda p: p[k], stacked)  # noqa: B023
        values.append(dense(critic["value"], hidden(critic, x))[:, 0])
    return np.stack(values, axis=-1)


def critic_values(params, observation, action):
    return critics(params["params"]["critics"]["value"]["bias"].shape[0]).step(
        params, (), CriticInput(observation, action), None
    )[0]


def descend(rate, params, memory, loss):
    rule = optax.chain(optax.clip_by_global_norm(0.3), optax.adam(rate, eps=1e-2))

    @jax.jit
    def step(params, memory):
        value, grads = jax.value_and_grad(loss)(params)
        changes, memory = rule.update(grads, memory, params)
        return value, optax.apply_updates(params, changes), memory

    return step(params, memory)


def mix(new, old):
    return jax.tree.map(lambda a, b: 0.25 * a + 0.75 * b, new, old)


def perturb_targets(state):
    """Perturbs target networks, so that taking the wrong one shows."""
    noise = lambda p: p + 0.3 * jax.random.normal(jax.random.key(2), p.shape)  # noqa: E731
    names = {"target_params", "target_critic_params"} & {
        field.name for field in dataclasses.fields(state)
    }
    return state.replace(**{n: jax.tree.map(noise, getattr(state, n)) for n in names})


def under_way(name, **config):
    """A state with some transitions, its targets unsettled; the one after it, and metrics."""
    init, update = compile_trainer(name, **config)
    state = init(jax.random.key(1), HPARAMS[name])
    for _ in range(2):
        state, _ = update(state)
    state = perturb_targets(state)
    after, metrics = update(state)
    discounts = np.asarray(after.replay.items.discount)[: int(after.replay.size)]
    assert {0, 0.9} == {round(float(d), 4) for d in discounts}
    return state, after, metrics


def draw_batch(key, state):
    """Draws the batch of a step with this key, as networks read it."""
    batch = replay_buffer.uniform(50).sample(key, state.replay, BATCH)
    scale = state.params.scale
    if scale is not None:
        batch = batch._replace(
            observation=normalise(scale, batch.observation),
            following=normalise(scale, batch.following),
        )
    return batch, (np.asarray(batch.action) - 1) / 2


@pytest.mark.parametrize("name", ["td3", pytest.param("ddpg", marks=pytest.mark.slow)])
def test_a_td3_update_is_the_definitions(name):
    """Critics twice and then the actor, or, for DDPG, in turns."""
    state, after, metrics = under_way(name)
    keys = jax.random.split(jax.random.split(state.key)[1], (1, 2) if name == "td3" else (2, 1))
    critic, critic_opt_state = state.critic_params, state.critic_opt_state
    target_critic, target_actor = state.target_critic_params, state.target_params
    actor, actor_opt_state = state.params.network, state.actor_opt_state
    losses, actor_losses = [], []
    for turn in keys:
        for key in turn:
            draw_key, noise_key = jax.random.split(key)
            batch, action = draw_batch(draw_key, after)
            assert len(set(batch.reward.tolist())) > 8
            following = np.tanh(
                dense(
                    target_actor["params"]["action"],
                    hidden(target_actor["params"], flat(batch.following)),
                )
            )
            if name == "td3":
                noise = 0.9 * np.asarray(jax.random.normal(noise_key, (BATCH, 2)))
                assert (np.abs(noise) > 0.4).any()
                following = (following + noise.clip(-0.4, 0.4)).clip(-1, 1)
            least = values_of(target_critic, batch.following, following).min(-1)
            target = np.asarray(batch.reward) + np.asarray(batch.discount) * least

            def critic_loss(params, batch=batch, action=action, target=target):
                errors = critic_values(params, batch.observation, action) - target[:, None]
                return jnp.square(errors).sum(-1).mean()

            loss, critic, critic_opt_state = descend(3e-2, critic, critic_opt_state, critic_loss)
            losses.append(loss)

        def actor_loss(params, batch=batch, critic=critic):
            inputs = AgentInput(batch.observation, None, None)
            chosen = ACTOR.step(params, (), inputs, None)[0]
            return -critic_values(critic, batch.observation, chosen)[:, 0].mean()

        loss, actor, actor_opt_state = descend(1e-2, actor, actor_opt_state, actor_loss)
        actor_losses.append(loss)
        target_actor, target_critic = mix(actor, target_actor), mix(critic, target_critic)
    np.testing.assert_allclose(metrics["critic_loss"], np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(metrics["actor_loss"], np.mean(actor_losses), rtol=1e-4)
    close(after.critic_params, critic, atol=2e-5)
    close(after.params.network, actor, atol=2e-5)
    close(after.target_params, target_actor, atol=2e-5)
    close(after.target_critic_params, target_critic, atol=2e-5)
    assert int(after.updates) == int(state.updates) + 2


def plain_sample(params, observation, noise):
    """Actions and log-densities after the tanh, as written in the paper's appendix C."""
    params = params["params"]
    torso = hidden(params, flat(observation))
    mean, log_std = dense(params["mean"], torso), dense(params["log_std"], torso)
    before = mean + np.exp(log_std) * noise
    normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    action = np.tanh(before)
    return action, (normal - np.log(1 - action**2)).sum(-1)


def test_a_sac_update_is_the_definitions():
    state, after, metrics = under_way("sac")
    key = jax.random.split(jax.random.split(state.key)[1], 1)[0]
    draw_key, target_key, actor_key = jax.random.split(key, 3)
    batch, action = draw_batch(draw_key, after)
    alpha = np.exp(float(state.log_temperature))
    noises = [np.asarray(jax.random.normal(k, (BATCH, 2))) for k in (target_key, actor_key)]
    following, log_prob = plain_sample(state.params.network, batch.following, noises[0])
    least = values_of(state.target_critic_params, batch.following, following).min(-1)
    target = np.asarray(batch.reward) + np.asarray(batch.discount) * (least - alpha * log_prob)

    def critic_loss(params):
        errors = critic_values(params, batch.observation, action) - target[:, None]
        return jnp.square(errors).sum(-1).mean()

    loss, critic, _ = descend(3e-2, state.critic_params, state.critic_opt_state, critic_loss)
    np.testing.assert_allclose(metrics["critic_loss"], loss, rtol=1e-4)
    close(after.critic_params, critic, atol=2e-5)
    close(after.target_critic_params, mix(critic, state.target_critic_params), atol=2e-5)

    chosen, log_prob = plain_sample(state.params.network, batch.observation, noises[1])
    least = values_of(after.critic_params, batch.observation, chosen).min(-1)
    np.testing.assert_allclose(metrics["actor_loss"], (alpha * log_prob - least).mean(), rtol=1e-3)
    np.testing.assert_allclose(metrics["entropy"], -log_prob.mean(), rtol=1e-4)

    def actor_loss(params):
        inputs = AgentInput(batch.observation, None, None)
        mean, log_std = jnp.split(GAUSSIAN.step(params, (), inputs, None)[0], 2, axis=-1)
        chosen = jnp.tanh(mean + jnp.exp(log_std) * noises[1])
        log_prob = (-log_std - jnp.log(1 - jnp.square(chosen))).sum(-1)
        return (alpha * log_prob - critic_values(critic, batch.observation, chosen).min(-1)).mean()

    _, actor, _ = descend(1e-2, state.params.network, state.actor_opt_state, actor_loss)
    close(after.params.network, actor, atol=3e-5)
    # Adam's rule, by hand, for the one number whose gradient is the entropy above its target -2.
    surplus, memory = -log_prob.mean() + 2, state.temperature_opt_state[1][0]
    count = int(memory.count) + 1
    mean = (0.9 * float(memory.mu) + 0.1 * surplus) / (1 - 0.9**count)
    square = (0.999 * float(memory.nu) + 0.001 * surplus**2) / (1 - 0.999**count)
    np.testing.assert_allclose(
        after.log_temperature - state.log_temperature,
        -1e-2 * mean / (np.sqrt(square) + 1e-2),
        rtol=1e-3,
    )


# Switches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_the_temperature_moves_towards_the_target_entropy(scale):
    init, update = compile_trainer("sac")
    hparams = dataclasses.replace(HPARAMS["sac"], entropy_scale=scale)
    state = init(jax.random.key(3), hparams)
    temperatures = []
    state, _ = update(state)  # learns nothing yet
    for _ in range(6):
        state, metrics = update(state)
        temperatures.append(float(metrics["temperature"]))
        # Between the two targets for two actions, -2 and 6 nats; the most possible is 2 log 2.
        assert -2 < metrics["entropy"] < 1.4
    assert temperatures[0] == pytest.approx(0.3)
    changes = np.diff(temperatures)
    assert (changes < 0).all() if scale > 0 else (changes > 0).all()


def test_a_temperature_without_a_learning_rate_stays():
    init, update = compile_trainer("sac")
    hparams = dataclasses.replace(HPARAMS["sac"], temperature_learning_rate=0.0)
    state = init(jax.random.key(3), hparams)
    for _ in range(3):
        state, _ = update(state)
    assert int(state.updates) == 2
    assert state.log_temperature == jnp.log(jnp.float32(0.3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "sac"])
def test_actions_are_uniform_in_the_warm_up_and_the_actors_afterwards(name):
    """With an actor that only knows the upper bounds, which is told from the stored actions."""
    trainer = trainer_of(name)
    init, update = compile_trainer(name)
    hparams = dataclasses.replace(HPARAMS[name], actor_learning_rate=0.0)
    state = init(jax.random.key(4), hparams)
    head = "action" if name == "td3" else "mean"
    network = jax.tree.map(lambda x: x, state.params.network)
    network["params"][head]["bias"] = jnp.full(2, 20.0)
    state = state.replace(params=state.params._replace(network=network))
    sizes = []
    for _ in range(4):
        state, _ = update(state)
        sizes.append(int(state.replay.size))
    # The warm-up of 20 steps ends within the second update of 12.
    actions = np.asarray(state.replay.items.action)
    random, by_actor = actions[: sizes[1]], actions[sizes[1] : sizes[3]]
    assert len(random) > 12 and len(by_actor) > 12
    assert (random >= LOW).all() and (random <= HIGH).all()
    assert (random.max(0) - random.min(0) > 2.5).all() and abs(random.mean() - 1) < 0.6
    assert (
        by_actor.min() > HIGH - 1.5
    )  # the noise is below 4 deviations of 0.1 times half the range
    if name == "td3":  # or with a share of random ones for good
        always = dataclasses.replace(hparams, random_share=1.0)
        late, _ = update(state.replace(hparams=always))
        fresh = np.asarray(late.replay.items.action)[sizes[3] : int(late.replay.size)]
        assert len(fresh) > 5 and (fresh.max(0) - fresh.min(0) > 1.5).all()
    timestep = state.rollout.timestep
    carry = trainer.agent(greedy=True).initial_carry(ENVS)
    greedy = trainer.agent(greedy=True).act(
        jax.random.split(jax.random.key(0), ENVS), state.params, carry, timestep
    )[0]
    np.testing.assert_allclose(greedy, HIGH, rtol=1e-6)


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_nothing_is_learnt_before_the_replay_is_filled(name):
    init, update = compile_trainer(name)
    first = init(jax.random.key(3), HPARAMS[name])
    state, counts = first, []
    for _ in range(4):
        state, _ = update(state)
        counts.append((int(state.replay.size), int(state.updates)))
        if counts[-1][1] == 0:
            close(state.params.network, first.params.network, atol=0)
            close(state.critic_params, first.critic_params, atol=0)
            close(state.actor_opt_state, first.actor_opt_state, atol=0)
    assert [updates > 0 for _, updates in counts] == [stored >= 15 for stored, _ in counts]
    assert counts[0][1] == 0 and counts[-1][1] > 0


def test_networks_see_observations_by_their_moments_if_told():
    init, update = compile_trainer("sac")
    state = init(jax.random.key(5), HPARAMS["sac"])
    for _ in range(3):
        before, (state, _) = state, update(state)
    scale = state.params.scale
    assert int(scale.count) == 3 * PERIOD * ENVS and int(before.params.scale.count) == 24
    assert (np.abs(scale.mean["place"]) > 0.5).all() and (scale.variance["place"] > 2).all()
    # What the agent does is what the network does at the scaled observation.
    timestep, agent = state.rollout.timestep, trainer_of("sac").agent(greedy=True)
    action = agent.act(
        jax.random.split(jax.random.key(0), ENVS), state.params, agent.initial_carry(ENVS), timestep
    )[0]
    scaled = AgentInput(normalise(scale, timestep.observation), None, None)
    mean = GAUSSIAN.step(state.params.network, (), scaled, None)[0][:, :2]
    np.testing.assert_allclose(action, 1 + 2 * np.tanh(mean), rtol=1e-5)


def test_a_replay_that_is_given_is_used():
    plain, calls = replay_buffer.uniform(70), []

    def add(state, items, valid, last):
        calls.append(("add", items.reward.shape, valid.shape, last.shape))
        return plain.add(state, items, valid, last)

    def sample(key, state, batch_size):
        calls.append(("sample", batch_size))
        return plain.sample(key, state, batch_size)

    trainer = trainer_of("ddpg", replay=plain._replace(add=add, sample=sample))
    state = jax.eval_shape(trainer.init, jax.random.key(0), HPARAMS["ddpg"])
    assert state.replay.items.reward.shape == (70,)
    jax.eval_shape(trainer.update, state)
    assert set(calls) == {("add", *[(PERIOD, ENVS)] * 3), ("sample", BATCH)}


# Everything is in the state -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_a_state_resumes_exactly_through_the_host(name):
    init, update = compile_trainer(name)
    state = init(jax.random.key(5), HPARAMS[name])
    for _ in range(2):
        state, _ = update(state)
    assert_resumes_exactly(update, state)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "sac"])
def test_seeds_under_vmap_are_the_seeds_alone(name):
    init, update = compile_trainer(name)
    trainer = trainer_of(name)
    assert_seeds_are_the_seeds_alone(trainer, init, update, HPARAMS[name], atol=1e-4)


def test_the_replay_is_changed_in_place():
    """Tests that an update needs far less memory than the replay: none of it is copied."""
    trainer = trainer_of("ddpg", replay_capacity=1_000_000)
    state = jax.eval_shape(trainer.init, jax.random.key(0), HPARAMS["ddpg"])
    program = jax.jit(trainer.update, donate_argnums=0).lower(state).compile()
    memory = program.memory_analysis()
    assert memory.alias_size_in_bytes > 40_000_000  # of the state, which is written over
    assert memory.temp_size_in_bytes < 400_000  # a tenth of the smallest part of the replay


# At the door --------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_step: got 0; accepted: an integer >= 1"):
        sac.SACConfig(n_step=0)
    with pytest.raises(ValueError, match="warm_up: got -1; accepted: an integer >= 0"):
        sac.SACConfig(warm_up=-1)
    with pytest.raises(ValueError, match="min_replay: got 60.*at most replay_capacity = 50"):
        sac.SACConfig(min_replay=60, replay_capacity=50)
    with pytest.raises(
        ValueError, match="policy_delay: got 3.*a divisor of updates_per_collect = 4"
    ):
        td3.TD3Config(policy_delay=3, updates_per_collect=4)
    with pytest.raises(ValueError, match="a Box of floats with finite bounds"):
        td3.make(td3.TD3Config(), vec_of(ENV), ACTOR, critics())
    recurrent = as_network(RecurrentActorCritic(SEEN, ACTIONS))
    with pytest.raises(ValueError, match="actor: got .*TD3 replays single transitions"):
        td3.make(td3.TD3Config(), vec_of(), recurrent, critics())
    with pytest.raises(ValueError, match="critic: got .*SAC replays single transitions"):
        sac.make(sac.SACConfig(), vec_of(), GAUSSIAN, recurrent)
    key = jax.random.key(0)
    wrong = td3.make(td3.DDPGConfig(), vec_of(), ACTOR, critics())
    with pytest.raises(ValueError, match=r"critic: got 'values of shape \(3, 2\)'.*critics = 1"):
        jax.eval_shape(wrong.init, key, HPARAMS["ddpg"])
    wrong = td3.make(td3.TD3Config(), vec_of(), GAUSSIAN, critics())
    with pytest.raises(ValueError, match=r"actor: got 'outputs of shape \(3, 4\)'"):
        jax.eval_shape(wrong.init, key, HPARAMS["td3"])
    wrong = sac.make(sac.SACConfig(), vec_of(), ACTOR, critics())
    with pytest.raises(ValueError, match=r"actor: got 'outputs of shape \(3, 2\)'"):
        jax.eval_shape(wrong.init, key, HPARAMS["sac"])

    class Unbounded(Drift):
        def action_space(self, task=None):
            return spaces.Box(-np.inf, 1, (2,))

    with pytest.raises(ValueError, match="a Box of floats with finite bounds"):
        sac.make(sac.SACConfig(), vec_of(Unbounded()), GAUSSIAN, critics())
