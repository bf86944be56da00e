"""Language models as agents: they learn a text in its context and say what comes next."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from untasked import Untasked

import gpicljax
from gpicljax import agents, spaces
from gpicljax.agents import language_agent
from gpicljax.agents.sequence import SequenceHParams
from gpicljax.environment import Transition
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.rollout import rollout, start_rollout

TOKENS, LENGTH = 5, 16


@struct.dataclass
class State:
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Refrain(Untasked):
    """Three random tokens over and over; a reward for naming the next one."""

    def sample_task(self, key, params):
        return jax.random.choice(key, TOKENS, (3,), replace=False).astype(jnp.int32)

    def initial(self, key, task):
        return State(jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        state = State(state.time + 1)
        reward = (action == self.observe(state, task)).astype(jnp.result_type(float))
        return Transition(state, reward, jnp.zeros((), bool), state.time == LENGTH - 1, {})

    def observe(self, state, task):
        return task[state.time % 3]

    def action_space(self, task=None):
        return spaces.Discrete(TOKENS)

    def observation_space(self, task=None):
        return spaces.Discrete(TOKENS)


@pytest.mark.slow
def test_a_model_learns_to_continue_what_it_reads():
    vec = gpicljax.VectorEnv(Refrain(), 32, resets="fresh")
    settings = LanguageModelSettings(layers=2, width=16, heads=2)
    # Longer than an episode: what the next one begins with is not to be predicted.
    config = language_agent.LanguageModelConfig(length=LENGTH + 3)
    algorithm = agents.get_algorithm("language-model")
    trainer = algorithm.make(config, vec, settings)
    assert trainer.observations == 32 * (LENGTH + 3)
    hparams = SequenceHParams(learning_rate=1e-2, warmup_updates=20)
    fresh = gpicljax.VectorEnv(Refrain(), 64, resets="fresh")

    @jax.jit
    @jax.vmap
    def study(key):
        state = trainer.init(key, hparams)
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, 150)
        records = []
        for greedy in (True, False):
            agent = trainer.agent(greedy=greedy)
            start = start_rollout(jax.random.key(1), fresh, agent)
            keep = lambda r: (r.next_timestep.reward, r.action, r.aux["logits"])  # noqa: E731
            records.append(rollout(fresh, agent, state.params, start, LENGTH - 1, keep)[1])
        return records, metrics

    keys = jax.random.split(jax.random.key(0), 3)
    ((reward, action, logits), (sampled, *_)), metrics = study(keys)
    assert metrics["nats"][:, 0].mean() > np.log(TOKENS) - 0.2
    # The first three cannot be known, all others can: a third of log 5 and log 4 and log 3 ...
    assert reward[:, :2].mean() < 0.5 and reward[:, 2:].mean() > 0.95
    assert 0.8 < sampled[:, 2:].mean() <= reward[:, 2:].mean()
    np.testing.assert_array_equal(action, logits.argmax(-1))


def test_where_actions_are_chances_they_are_the_models():
    env = gpicljax.make("MetaLanguage-v0", vocab_size=5, max_order=3)
    network = language_model(LanguageModelSettings("lstm", layers=1, width=8), 5)
    agent = language_agent.language_agent(network, env.action_space())
    vec = gpicljax.VectorEnv(env, 3, resets="fresh")
    params = network.init(jax.random.key(0), jnp.zeros(3, jnp.int32))
    timestep = jax.eval_shape(vec.init, jax.random.key(0))[1]
    timestep = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), timestep)
    keys = jax.random.split(jax.random.key(0), 3)
    action, aux, _ = agent.act(keys, params, agent.initial_carry(3), timestep)
    np.testing.assert_allclose(action, jax.nn.log_softmax(aux["logits"]), atol=1e-6)


def test_what_does_not_fit_is_refused():
    network = language_model(LanguageModelSettings("lstm", layers=1, width=8), 5)
    bandit = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), 2)
    with pytest.raises(ValueError, match="env: got 'BernoulliBandit'; accepted: observations that"):
        language_agent.make(language_agent.LanguageModelConfig(), bandit, network)
    with pytest.raises(ValueError, match="length: got 0; accepted: an integer >= 1"):
        language_agent.LanguageModelConfig(length=0)
