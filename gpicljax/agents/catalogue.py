"""The single-agent algorithms by name, with one interface for experiments and saved agents.

```python
algorithm = catalogue.find("ppo")
trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
state = trainer.init(key, algorithm.hparams())
state, metrics = trainer.update(state)
agent = trainer.agent(greedy=True)  # over state.params
```
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.agents import bandits, dqn, ppo, sac, tabular, td3
from gpicljax.checks import unknown
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.actor_critic import ActorCritic, RecurrentActorCritic
from gpicljax.networks.continuous import Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import as_network
from gpicljax.networks.policies import legal_actions
from gpicljax.networks.q_network import QNetwork
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.spaces import Space
from gpicljax.vector import VectorEnv

Activation = Literal["relu", "tanh"]
Check = Callable[[Space, Space], str | None]


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings:
    """Networks without a memory, for a policy and its value.

    Attributes:
      sizes: hidden sizes.
      activation: of the hidden layers.
      separate_value: whether the value has hidden layers of its own.
    """

    sizes: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    separate_value: bool = True


@dataclasses.dataclass(frozen=True)
class RecurrentSettings:
    """A network with a memory, for a policy and its value.

    Attributes:
      sizes: hidden sizes before the memory.
      core: sizes of its LSTM layers.
    """

    sizes: tuple[int, ...] = (128,)
    core: tuple[int, ...] = (128,)


@dataclasses.dataclass(frozen=True)
class QSettings:
    """A Q-network without a memory.

    Attributes:
      sizes: hidden sizes.
      dueling: whether value and advantages have heads of their own.
    """

    sizes: tuple[int, ...] = (64, 64)
    dueling: bool = True


@dataclasses.dataclass(frozen=True)
class ActorAndCriticsSettings:
    """Networks without a memory, for actions and for their values.

    Attributes:
      actor: hidden sizes of the actor.
      critic: hidden sizes of each critic.
      activation: of the hidden layers.
    """

    actor: tuple[int, ...] = (256, 256)
    critic: tuple[int, ...] = (256, 256)
    activation: Activation = "relu"


@dataclasses.dataclass(frozen=True)
class DDPGConfig(td3.TD3Config):
    """Sizes and switches of TD3, with the defaults that make it DDPG (see `td3.ddpg_config`)."""

    critics: int = 1
    policy_delay: int = 1
    smooth_targets: bool = False


@dataclasses.dataclass(frozen=True)
class UCB1Config:
    """UCB1.

    Attributes:
      exploration: see `bandits.ucb1`.
    """

    exploration: float = 2.0


@dataclasses.dataclass(frozen=True)
class ThompsonConfig:
    """Thompson sampling.

    Attributes:
      payments: of an arm, 0 or 1 (`bernoulli`) or with normal noise (`gaussian`).
    """

    payments: Literal["bernoulli", "gaussian"] = "bernoulli"


@struct.dataclass
class Nothing:
    """Where there is nothing to set: a rule has no sizes, and does not learn."""


class Trainer(NamedTuple):
    """An algorithm on given environments.

    Attributes:
      init: `(key, hparams, env_params=None) -> state`. Every state has `params`, a typed `key` and
        `updates`; of algorithms that train, also `rollout`.
      update: `state -> (state, metrics)`.
      agent: `(greedy=False) -> Agent` over `state.params`.
      observations: environment steps of one update.
      optimiser_steps: of one update, in the unit of `hparams.decay_updates`.
    """

    init: Callable[..., Any]
    update: Callable[[Any], tuple[Any, dict[str, jax.Array]]]
    agent: Callable[..., Agent]
    observations: int
    optimiser_steps: int = 1


class Acting(NamedTuple):
    """What is left of a trained agent: how it acts, and what its parameters look like.

    Attributes:
      agent: greedy.
      params: pytree of `jax.ShapeDtypeStruct`.
    """

    agent: Agent
    params: Any


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An entry of the catalogue.

    Attributes:
      name: as users write it.
      make: `(config, vec, network) -> Trainer`.
      check: says why a pair of spaces (of observations and actions) does not fit, or None.
      config: the type of its static sizes and switches.
      hparams: the type of its hyper-parameters.
      network: the type of its network's settings.
      trains: whether there is anything to train.
    """

    name: str
    make: Callable[[Any, VectorEnv, Any], Trainer]
    check: Check
    config: type = Nothing
    hparams: type = Nothing
    network: type = Nothing
    trains: bool = True

    def refusal(
        self, observation_space: Space, action_space: Space, num_agents: int | None
    ) -> str | None:
        """Why an environment does not fit, in words; None if it does."""
        if num_agents is not None:
            return f"{self.name} is for one agent, not for {num_agents}"
        return self.check(observation_space, action_space)

    def acting(self, env: Environment, num_envs: int, config: Any, network: Any) -> Acting:
        """The acting part alone, and what its parameters look like. Nothing is computed.

        Args:
          env: the environment, or one with the same spaces.
          num_envs: instances that it was trained on, which `config` may depend on.
          config: as in training.
          network: as in training.

        Raises:
          ValueError: if the environment does not fit.
        """
        reason = self.refusal(env.observation_space(), env.action_space(), env.num_agents)
        if reason is not None:
            raise ValueError(f"env = {env.name}: {reason}")
        trainer = self.make(config, VectorEnv(env, num_envs, resets="fresh"), network)
        state = jax.eval_shape(lambda: trainer.init(jax.random.key(0), self.hparams()))
        return Acting(trainer.agent(greedy=True), state.params)


def greedy_agent(
    name: str, env: Environment, num_envs: int, config: Any, network: Any, params: Any
) -> Agent:
    """The greedy agent of given parameters.

    Args:
      name: of the algorithm.
      env: see `Algorithm.acting`, as for the next three.
      num_envs: likewise.
      config: likewise.
      network: likewise.
      params: its parameters, to be checked.

    Raises:
      ValueError: if the name is unknown, the environment does not fit, or the parameters have
        another structure or other shapes than this agent's.
    """
    agent, expected = find(name).acting(env, num_envs, config, network)

    def shapes(tree: Any) -> dict[str, tuple[int, ...]]:
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        return {jax.tree_util.keystr(path): tuple(jnp.shape(leaf)) for path, leaf in leaves}

    given, wanted = shapes(params), shapes(expected)
    for leaf in wanted | given:
        if given.get(leaf) != wanted.get(leaf):
            raise ValueError(
                f"params{leaf}: got {given.get(leaf, 'nothing')}; {name} on {env.name} has "
                f"{wanted.get(leaf, 'nothing')}"
            )
    return agent


# What fits -------------------------------------------------------------------------------------


def _readable(observation_space: Space) -> str | None:
    try:
        spaces.flat_size(observation_space)
    except TypeError:
        return f"observations of {observation_space} cannot be read by an MLP"
    return None


def _discrete(observation_space: Space, action_space: Space) -> str | None:
    if not isinstance(action_space, spaces.Discrete):
        return f"discrete actions are needed, not {action_space}"
    return _readable(observation_space)


def _tabular(observation_space: Space, action_space: Space) -> str | None:
    for what, space in (("observations", observation_space), ("actions", action_space)):
        if not isinstance(space, spaces.Discrete):
            return f"discrete {what} are needed, not {space}"
    return None


def _arms(observation_space: Space, action_space: Space) -> str | None:
    """Bandit rules are blind to observations: they would fit anything with discrete actions."""
    del observation_space
    if not isinstance(action_space, spaces.Discrete):
        return f"discrete actions are needed, not {action_space}"
    return None


def _is_continuous(space: Space) -> bool:
    return isinstance(space, spaces.Box) and jnp.issubdtype(space.jax_dtype, jnp.floating)


def _bounded(observation_space: Space, action_space: Space) -> str | None:
    if not _is_continuous(action_space):
        return f"continuous actions are needed, not {action_space}"
    assert isinstance(action_space, spaces.Box)
    if not (math.isfinite(action_space.low) and math.isfinite(action_space.high)):
        return f"actions within finite bounds are needed, not {action_space}"
    return _readable(observation_space)


def _any_action(observation_space: Space, action_space: Space) -> str | None:
    real = _is_continuous(action_space)
    if not real and not isinstance(action_space, spaces.Discrete):
        return f"discrete or continuous actions are needed, not {action_space}"
    return _readable(observation_space)


# The entries -----------------------------------------------------------------------------------


def _ppo(config: ppo.PPOConfig, vec: VectorEnv, network: ActorCriticSettings) -> Trainer:
    module = ActorCritic(
        vec.env.observation_space(),
        vec.env.action_space(),
        network.sizes,
        network.separate_value,
        getattr(jax.nn, network.activation),
    )
    made = ppo.make(config, vec, as_network(module))
    return Trainer(made.init, made.update, made.agent, config.unroll * vec.num_envs)


def _recurrent_ppo(config: ppo.PPOConfig, vec: VectorEnv, network: RecurrentSettings) -> Trainer:
    module = RecurrentActorCritic(
        vec.env.observation_space(),
        vec.env.action_space(),
        network.sizes,
        LSTMStack(network.core),
    )
    made = ppo.make(config, vec, as_network(module))
    return Trainer(made.init, made.update, made.agent, config.unroll * vec.num_envs)


def _dqn(config: dqn.DQNConfig, vec: VectorEnv, network: QSettings) -> Trainer:
    space = vec.env.action_space()
    assert isinstance(space, spaces.Discrete)
    module = QNetwork(vec.env.observation_space(), space.n, network.sizes, network.dueling)
    made = dqn.make(config, vec, as_network(module))

    def agent(greedy: bool = False) -> Agent:
        return made.agent(0.0 if greedy else dqn.DQNHParams().final_epsilon)

    return _replaying(config, vec, made)._replace(agent=agent)


def _replaying(config: Any, vec: VectorEnv, made: Any) -> Trainer:
    observations, steps = config.period * vec.num_envs, config.updates_per_collect
    return Trainer(made.init, made.update, made.agent, observations, steps)


def _critics(config: Any, vec: VectorEnv, network: ActorAndCriticsSettings) -> Critics:
    activation = getattr(jax.nn, network.activation)
    return Critics(vec.env.observation_space(), network.critic, config.critics, activation)


def _td3(config: td3.TD3Config, vec: VectorEnv, network: ActorAndCriticsSettings) -> Trainer:
    actor = DeterministicActor(
        vec.env.observation_space(),
        vec.env.action_space(),
        network.actor,
        getattr(jax.nn, network.activation),
    )
    critics = as_network(_critics(config, vec, network))
    return _replaying(config, vec, td3.make(config, vec, as_network(actor), critics))


def _sac(config: sac.SACConfig, vec: VectorEnv, network: ActorAndCriticsSettings) -> Trainer:
    actor = GaussianActor(
        vec.env.observation_space(),
        vec.env.action_space(),
        network.actor,
        getattr(jax.nn, network.activation),
    )
    critics = as_network(_critics(config, vec, network))
    return _replaying(config, vec, sac.make(config, vec, as_network(actor), critics))


def _q_learning(config: tabular.TabularConfig, vec: VectorEnv, network: Nothing) -> Trainer:
    del network
    made = tabular.make(config, vec)

    def agent(greedy: bool = False) -> Agent:
        return made.agent(greedy)

    return Trainer(made.init, made.update, agent, config.unroll * vec.num_envs)


@struct.dataclass
class Untrained:
    """The state of a rule: no parameters."""

    params: tuple[()]
    key: jax.Array
    updates: jax.Array


def _rule(agent: Callable[[Any, Environment], Agent]) -> Callable[..., Trainer]:
    """Makes trainers of an agent `(config, env)` that has nothing to train."""

    def make(config: Any, vec: VectorEnv, network: Nothing) -> Trainer:
        del network

        def init(key: jax.Array, hparams: Nothing, env_params: Any = None) -> Untrained:
            del hparams, env_params
            return Untrained((), key, jnp.zeros((), jnp.int32))

        rule = agent(config, vec.env)
        return Trainer(init, lambda state: (state, {}), lambda greedy=False: rule, 0)

    return make


def _ucb1(config: UCB1Config, env: Environment) -> Agent:
    return bandits.ucb1(env.action_space(), config.exploration)


def _thompson(config: ThompsonConfig, env: Environment) -> Agent:
    if config.payments == "gaussian":
        return bandits.thompson_gaussian(env.action_space())
    return bandits.thompson_bernoulli(env.action_space())


def random_agent(env: Environment) -> Agent:
    """Draws uniformly from the action space, or from the legal actions where there is a mask."""
    space = env.action_space()

    def act(key: jax.Array, params: Any, carry: Any, timestep: TimeStep) -> tuple[Any, Any, Any]:
        del params
        keys = jax.random.split(key, timestep.reward.shape[0])
        if isinstance(space, spaces.Discrete):
            legal = legal_actions(timestep.observation, space.n)
            legal = jnp.broadcast_to(legal, (keys.shape[0], space.n))
            return jax.vmap(space.sample)(keys, legal), {}, carry
        return jax.vmap(space.sample)(keys), {}, carry

    return Agent(lambda batch: (), act)


_ENTRIES = (
    Algorithm("ppo", _ppo, _any_action, ppo.PPOConfig, ppo.PPOHParams, ActorCriticSettings),
    Algorithm(
        "recurrent-ppo",
        _recurrent_ppo,
        _any_action,
        ppo.PPOConfig,
        ppo.PPOHParams,
        RecurrentSettings,
    ),
    Algorithm("dqn", _dqn, _discrete, dqn.DQNConfig, dqn.DQNHParams, QSettings),
    Algorithm("td3", _td3, _bounded, td3.TD3Config, td3.TD3HParams, ActorAndCriticsSettings),
    Algorithm("ddpg", _td3, _bounded, DDPGConfig, td3.TD3HParams, ActorAndCriticsSettings),
    Algorithm("sac", _sac, _bounded, sac.SACConfig, sac.SACHParams, ActorAndCriticsSettings),
    Algorithm("q-learning", _q_learning, _tabular, tabular.TabularConfig, tabular.TabularHParams),
    Algorithm("ucb1", _rule(_ucb1), _arms, UCB1Config, trains=False),
    Algorithm("thompson", _rule(_thompson), _arms, ThompsonConfig, trains=False),
    Algorithm(
        "random",
        _rule(lambda config, env: random_agent(env)),
        lambda observations, actions: None,
        trains=False,
    ),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Algorithm:
    """The algorithm of this name.

    Raises:
      ValueError: if there is none; the nearest name is suggested.
    """
    if name not in CATALOGUE:
        raise ValueError(unknown("algorithm", name, CATALOGUE))
    return CATALOGUE[name]
