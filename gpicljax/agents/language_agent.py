"""Language models as agents, and their trainer over any environment whose observations are tokens.

A token is read at each step, and the model's prediction of the next one is the action: the token
itself where actions are tokens, the log-probabilities of all tokens where actions are those
(Meta-Language). The memory, a transformer's cache among them, is the agent's carry.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents import sequence
from gpicljax.agents.acting import random_agent
from gpicljax.agents.algorithm import Algorithm, register_algorithm
from gpicljax.agents.sequence import ActingConfig, SequenceHParams, Sequences
from gpicljax.checks import Count, check
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.rollout import Record, RolloutState, rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


@dataclasses.dataclass(frozen=True)
class LanguageModelConfig(ActingConfig):
    """Sizes and switches of a language model; all are static. See `ActingConfig`; steps are tokens.

    Example:
      >>> LanguageModelConfig(batch_size=32).length
      512
    """

    length: Count = 512


def fits(observations: spaces.Space, actions: spaces.Space) -> str | None:
    """Returns why a language model does not fit these spaces; None if it does."""
    if not isinstance(observations, spaces.Discrete):
        return f"observations that are tokens are needed, not {observations}"
    tokens, chances = spaces.Discrete(observations.n), (observations.n,)
    if actions != tokens and not (isinstance(actions, spaces.Box) and actions.shape == chances):
        return f"actions that are tokens, or one number for each token, are needed, not {actions}"
    return None


def language_agent(network: Network, actions: spaces.Space, greedy: bool = False) -> Agent:
    """Returns a language model that acts, over its network's parameters.

    Args:
      network: from tokens to logits float `[B, V]`.
      actions: of the environment: `Discrete(V)`, the next token, or a box of V numbers, the
        log-probabilities of all tokens.
      greedy: whether to take the most probable token; else it is drawn.

    Returns:
      The agent; its `aux` is a dictionary with the `logits`.
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep
    ) -> tuple[jax.Array, Any, Any]:
        logits, carry = network.step(params, carry, timestep.observation, timestep.trial_start)
        if isinstance(actions, spaces.Box):
            action = jax.nn.log_softmax(logits).astype(actions.jax_dtype)
        elif greedy:
            action = logits.argmax(-1).astype(jnp.int32)
        else:
            action = jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)
        return action, {"logits": logits}, carry

    return Agent(network.initial_carry, act)


def make(config: LanguageModelConfig, vec: VectorEnv, network: Network) -> Trainer:
    """Builds the trainer of a model of the texts that environments show.

    One update starts all instances afresh and reads the first `length` tokens of each, with random
    actions: as many sequences as instances, whatever `config.batch_size` says.

    Args:
      config: sizes and switches.
      vec: the environments; one agent.
      network: from tokens to logits.

    Returns:
      The trainer (see `sequence.make`); its loss is `nats`, of every token but the first of a
      trial. Its `env_params` are the distribution over tasks, the batch's own if None.
    """
    env: Environment = vec.env
    check(env.num_agents is None, "num_agents", env.num_agents, "None, one agent")
    reason = fits(env.observation_space(), env.action_space())
    check(reason is None, "env", env.name, str(reason))
    config = dataclasses.replace(config, batch_size=vec.num_envs)
    part = vec.part(config.microbatches)
    reader = random_agent(env)

    def keep(record: Record) -> tuple[jax.Array, jax.Array, jax.Array]:
        before, after = record.timestep, record.next_timestep
        target = jnp.where(after.trial_start, -1, after.observation)
        return before.observation, before.trial_start, target

    def sample(keys: jax.Array, env_params: ArrayTree) -> Sequences:
        vstate, timestep = part.init(keys[0], env_params)
        start = RolloutState(vstate, timestep, reader.initial_carry(part.num_envs))
        _, (tokens, starts, targets) = rollout(part, reader, (), start, config.length, keep)
        return Sequences(tokens, starts, targets)

    def agent(greedy: bool = False) -> Agent:
        return language_agent(network, env.action_space(), greedy)

    losses = [sequence.cross_entropy("nats")]
    return sequence.make(config, network, sample, losses, length=config.length, agent=agent)


def _make(config: LanguageModelConfig, vec: VectorEnv, network: LanguageModelSettings) -> Trainer:
    tokens = vec.env.observation_space()
    assert isinstance(tokens, spaces.Discrete)
    return make(config, vec, language_model(network, tokens.n, config.capacity or config.length))


register_algorithm(
    Algorithm(
        "language-model",
        _make,
        fits,
        LanguageModelConfig,
        SequenceHParams,
        LanguageModelSettings,
        remembers=True,
        to_act=LanguageModelConfig.to_act,
    )
)
