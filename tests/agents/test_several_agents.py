"""Several agents: two players of a referential game learn to talk, and cannot without a message.

The speaker sees one of three values and sends one symbol; the listener sees the symbol. Then both
name the value, and both must be right to be paid: the listener's share is what the symbol told it.
With the channel cut, nobody does better than the one in three that a guess is worth. Talking and
mute players train side by side, in one program.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from untasked import Untasked

import gpicljax
from gpicljax import spaces
from gpicljax.agents import ppo, r2d2
from gpicljax.environment import Transition
from gpicljax.networks.actor_critic import ActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.rollout import rollout, start_rollout

VALUES, SPEAKER, LISTENER = 3, 0, 1


@struct.dataclass
class State:
    value: jax.Array
    symbol: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Referential(Untasked):
    """Two steps: a symbol is sent, both name the value. The params say whether the channel is cut.

    An action is one of `VALUES` numbers, a symbol first and a name then.
    """

    num_agents = 2

    @property
    def default_params(self):
        return jnp.zeros((), bool)

    def initial(self, key, task):
        none = jnp.zeros((), jnp.int32)
        return State(jax.random.randint(key, (), 0, VALUES, jnp.int32), none - 1, none)

    def transition(self, key, state, action, task):
        named = state.time == 1
        paid = named & (action == state.value).all()
        symbol = jnp.where(task, -1, action[SPEAKER])
        state = state.replace(symbol=symbol, time=state.time + 1)
        reward = jnp.full(2, paid, jnp.result_type(float))
        return Transition(state, reward, named, jnp.zeros((), bool), {})

    def observe(self, state, task):
        role = jnp.array([SPEAKER, LISTENER], jnp.int32)
        sees = jax.nn.one_hot(jnp.stack([state.value, state.symbol]), VALUES)
        return {"sees": sees, "role": role, "time": jnp.full(2, jnp.minimum(state.time, 1))}

    def action_space(self, task=None):
        return spaces.repeat(spaces.Discrete(VALUES), 2)

    def observation_space(self, task=None):
        single = spaces.Dict.of(
            sees=spaces.Box(0, 1, (VALUES,)), role=spaces.Discrete(2), time=spaces.Discrete(2)
        )
        return spaces.repeat(single, 2)


ENV = Referential()
SEEN = spaces.of_one_agent(ENV.observation_space(), 2)
SEEDS = 3


def success(trainer_of, hparams, updates, seed):
    """The greedy players' mean payment per episode, talking and mute, `[2, SEEDS]`."""
    vec = gpicljax.VectorEnv(ENV, 32, resets="fresh")
    trainer = trainer_of(vec)

    @jax.jit
    @jax.vmap
    def study(key, mute):
        state = trainer.init(key, hparams, mute)
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, length=updates)
        agent = trainer.agent(greedy=True)
        start = start_rollout(jax.random.key(100), vec, agent, mute)
        _, (reward, last) = rollout(
            vec, agent, state.params, start, 60,
            keep=lambda record: (record.next_timestep.reward, record.next_timestep.last),
        )  # fmt: skip
        return reward[..., 0].sum() / last.sum(), last.sum(), metrics

    keys = jax.random.split(jax.random.key(seed), 2 * SEEDS)
    paid, episodes, metrics = study(keys, jnp.repeat(jnp.array([False, True]), SEEDS))
    return paid.reshape(2, SEEDS), episodes.reshape(2, SEEDS), metrics


def check(outcome):
    (talking, mute), episodes, _ = outcome
    chance = 1 / VALUES
    assert talking.mean() > 0.95, talking
    # Three standard errors around chance, whatever fixed answers the listeners have settled on.
    error = np.sqrt(chance * (1 - chance) / int(episodes[1].sum()))
    assert abs(mute.mean() - chance) < 3 * error, mute


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_independent_ppo_learns_to_talk(shared):
    network = as_network(ActorCritic(SEEN, spaces.Discrete(VALUES), (32,)))
    config = ppo.PPOConfig(unroll=12, minibatches=4, share_parameters=shared)
    hparams = ppo.PPOHParams(
        learning_rate=1e-2, discount=0.9, entropy_coefficient=0.02, max_gradient_norm=1.0
    )
    check(success(lambda vec: ppo.make(config, vec, network), hparams, 120, 0))


@pytest.mark.slow
def test_r2d2_with_summed_values_learns_to_talk():
    settings = RecurrentQSettings(mixer=(32,), core=(16,))
    network = settings.network(SEEN, spaces.Discrete(VALUES))
    config = r2d2.R2D2Config(
        num_envs=32,
        unroll=6,
        overlap=0,
        burn_in=0,
        n_step=2,
        replay_capacity=1024,
        min_replay=256,
        batch_size=32,
        updates_per_collect=4,
        mixing="vdn",
    )
    hparams = r2d2.R2D2HParams(
        learning_rate=5e-3, adam_epsilon=1e-8, discount=0.9, target_period=25
    )
    check(success(lambda vec: r2d2.make(config, vec, network), hparams, 150, 0))
