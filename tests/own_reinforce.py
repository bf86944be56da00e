"""An algorithm in one file outside the package: softmax over one table of preferences."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import Agent, Trainer, agents
from gpicljax.batching import strip_weak_types
from gpicljax.rollout import RolloutState, rollout, start_rollout


@dataclasses.dataclass(frozen=True)
class Config:
    unroll: int = 8


@struct.dataclass
class HParams:
    learning_rate: float = 1.0


@struct.dataclass
class TrainState:
    params: jax.Array
    rollout: RolloutState
    hparams: HParams
    key: jax.Array
    updates: jax.Array


def table_agent(greedy):
    def act(keys, params, carry, timestep):
        logits = params[timestep.observation]
        drawn = jax.vmap(jax.random.categorical)(keys, logits)
        return (jnp.argmax(logits, -1) if greedy else drawn).astype(jnp.int32), {}, carry

    return Agent(lambda batch: (), act)


def make(config, vec, network):
    shape = vec.env.observation_space().n, vec.env.action_space().n

    def init(key, hparams, env_params=None):
        start = start_rollout(key, vec, table_agent(False), env_params)
        hparams = strip_weak_types(hparams)
        return TrainState(jnp.zeros(shape), start, hparams, key, jnp.zeros((), jnp.int32))

    def update(state):
        def keep(record):
            reward = record.next_timestep.reward * ~record.timestep.last
            return record.timestep.observation, record.action, reward

        after, (seen, action, reward) = rollout(
            vec, table_agent(False), state.params, state.rollout, config.unroll, keep
        )
        returns = jnp.cumsum(reward[::-1], 0)[::-1]
        advantage = returns - returns.mean(1, keepdims=True)

        def objective(params):
            log_chance = jax.nn.log_softmax(params)[seen, action]
            return (advantage * log_chance).mean()

        step = state.hparams.learning_rate * jax.grad(objective)(state.params)
        state = dataclasses.replace(
            state, params=state.params + step, rollout=after, updates=state.updates + 1
        )
        return state, {"reward": reward.mean()}

    return Trainer(init, update, table_agent, config.unroll * vec.num_envs)


def fits(observations, actions):
    return None if hasattr(observations, "n") and hasattr(actions, "n") else "tables are needed"


agents.register_algorithm(agents.Algorithm("reinforce", make, fits, Config, HParams))
