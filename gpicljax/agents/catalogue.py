"""Algorithms by name, with one interface for experiments and saved agents.

```python
algorithm = agents.get_algorithm("ppo")
trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
state = trainer.init(key, algorithm.hparams())
state, metrics = trainer.update(state)
agent = trainer.agent(greedy=True)  # over state.params
```

The catalogue is open: `register_algorithm` adds an algorithm, and everything that looks one up by
name (experiments, `runtime.save_agent` and `load_agent`) knows it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents import (
    bandits,
    causal_model,
    cloning,
    dqn,
    language_agent,
    ppo,
    r2d2,
    sac,
    tabular,
    td3,
)
from gpicljax.agents.acting import random_agent
from gpicljax.agents.algorithm import (
    Algorithm,
    NoSettings,
    algorithm_from_agent,
    get_algorithm,
    register_algorithm,
)
from gpicljax.agents.sequence import SequenceHParams
from gpicljax.checks import Count, Natural, Rate, Size, check, check_fields, refusal
from gpicljax.environment import Environment
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.actor_critic import ActorCritic, RecurrentActorCritic
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import CausalModelSettings
from gpicljax.networks.causal_model import causal_model as causal_network
from gpicljax.networks.continuation import Continuation
from gpicljax.networks.continuous import Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.experience import ExperienceSettings, experience_network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.networks.memories import MemoryKind, MemorySettings, width_of_head
from gpicljax.networks.pointer import Pointer
from gpicljax.networks.q_network import QNetwork, RecurrentQSettings, recurrent_q_network
from gpicljax.spaces import Space
from gpicljax.vector import VectorEnv

Activation = Literal["relu", "tanh"]
_SYMBOLIC = ("continuations", "pointers")
"""Memories that are networks of their own, for symbols in and symbols out."""


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings:
    """Networks without a memory, for a policy and its value.

    Attributes:
      sizes: hidden sizes.
      activation: activation function of the hidden layers.
      separate_value: whether the value has hidden layers of its own.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=4, resets="fresh")
      >>> small = ActorCriticSettings(sizes=(32,), activation="relu")
      >>> gpicljax.agents.make("ppo", vec, network=small).observations
      512
    """

    sizes: tuple[Size, ...] = (64, 64)
    activation: Activation = "tanh"
    separate_value: bool = True


@dataclasses.dataclass(frozen=True)
class RecurrentSettings(MemorySettings):
    """A network with a memory, for a policy and its value.

    Attributes:
      memory: kind of the memory, see `MemorySettings`. Three more kinds are networks of their own.
        `"continuations"` (`networks.continuation`) and `"pointers"` (`networks.pointer`) are for
        symbols in and symbols out; `core` is then the size of their projections, all heads
        together. `"tables"` (`networks.experience`) is for whole trials of discrete tasks.
      sizes: hidden sizes before the memory; for continuations and pointers, those of the layers
        that read it.
      context: n, the number of events by which continuations are found, or that are seen without
        pointing.
      following: m, the number of events in a continuation.
      silence: the symbol whose steps are no events for continuations and pointers; None if all
        steps are events.
      tables: sizes of the network with tables.

    Example:
      >>> settings = RecurrentSettings("gru", core=(32,))
      >>> network = settings.network(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(2))
      >>> jax.tree.leaves(network.initial_carry(8))[0].shape
      (8, 32)
    """

    memory: MemoryKind | Literal["continuations", "pointers", "tables"] = "lstm"  # pyright: ignore[reportIncompatibleVariableOverride]
    sizes: tuple[Size, ...] = (128,)
    context: Size = 4
    following: Size = 8
    silence: Natural | None = None
    tables: ExperienceSettings = ExperienceSettings()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.memory == "tables":
            return
        if self.memory not in _SYMBOLIC:
            return super().__post_init__()
        width_of_head(self.core, self.heads, "the projections")

    def network(self, observations: spaces.Space, actions: spaces.Space) -> Network:
        """Returns the network, for members of these spaces."""
        if self.memory == "tables":
            return experience_network(observations, actions, self.tables)
        if self.memory not in _SYMBOLIC:
            core = self.make(observations, actions)
            return as_network(RecurrentActorCritic(observations, actions, self.sizes, *core))
        space_pair = observations, actions
        if not all(isinstance(space, spaces.Discrete) for space in space_pair):
            case = f"{self.memory}, for {observations} and {actions}"
            raise ValueError(refusal("memory", case, "Discrete for both"))
        symbols, choices = (space.n for space in space_pair if isinstance(space, spaces.Discrete))
        is_symbol = self.silence is None or 0 <= self.silence < symbols
        check(is_symbol, "silence", self.silence, f"None, or a symbol below {symbols}")
        sizes: dict[str, Any] = {
            "context": self.context,
            "silence": self.silence,
            "slots": self.slots,
            "heads": self.heads,
            "width": width_of_head(self.core, self.heads, "the projections"),
            "hidden": self.sizes,
        }
        if self.memory == "continuations":
            return as_network(Continuation(symbols, choices, following=self.following, **sizes))
        case = f"{symbols} symbols and {choices} actions"
        check(symbols == choices, "memory", f"pointers, for {case}", "as many of both")
        return as_network(Pointer(symbols, choices, **sizes))


@dataclasses.dataclass(frozen=True)
class QNetworkSettings:
    """A Q-network without a memory.

    Attributes:
      sizes: hidden sizes.
      dueling: whether value and advantages have heads of their own.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=4, resets="fresh")
      >>> small = QNetworkSettings(sizes=(32,), dueling=False)
      >>> gpicljax.agents.make("dqn", vec, network=small).observations
      16
    """

    sizes: tuple[Size, ...] = (64, 64)
    dueling: bool = True


@dataclasses.dataclass(frozen=True)
class OffPolicyNetworkSettings:
    """Networks without a memory, for actions and for their values.

    Attributes:
      actor: hidden sizes of the actor.
      critic: hidden sizes of each critic.
      activation: activation function of the hidden layers.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("Pendulum-v1"), num_envs=4, resets="fresh")
      >>> small = OffPolicyNetworkSettings(actor=(32,), critic=(64,))
      >>> gpicljax.agents.make("sac", vec, network=small).observations
      4
    """

    actor: tuple[Size, ...] = (256, 256)
    critic: tuple[Size, ...] = (256, 256)
    activation: Activation = "relu"


@dataclasses.dataclass(frozen=True)
class DDPGConfig(td3.TD3Config):
    """Sizes and switches of TD3, with the defaults that make it DDPG (see `td3.ddpg_config`).

    Example:
      >>> config = DDPGConfig(n_step=3)
      >>> config.critics, config.policy_delay, config.smooth_targets
      (1, 1, False)
    """

    critics: Count = 1
    policy_delay: Count = 1
    smooth_targets: bool = False


@dataclasses.dataclass(frozen=True)
class UCB1Config:
    """Configuration of UCB1.

    Attributes:
      exploration: factor in the confidence bound, see `bandits.ucb1`.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=4, resets="fresh")
      >>> trainer = gpicljax.agents.make("ucb1", vec, UCB1Config(exploration=0.5))
      >>> trainer.agent().initial_carry(4).counts.shape
      (4, 10)
    """

    exploration: Rate = 2.0


@dataclasses.dataclass(frozen=True)
class ThompsonConfig:
    """Configuration of Thompson sampling.

    Attributes:
      payments: an arm's payments, 0 or 1 (`bernoulli`) or with normal noise (`gaussian`).

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("GaussianBandit-v0"), num_envs=4, resets="fresh")
      >>> trainer = gpicljax.agents.make("thompson", vec, ThompsonConfig(payments="gaussian"))
      >>> trainer.agent().initial_carry(4).counts.shape
      (4, 10)
    """

    payments: Literal["bernoulli", "gaussian"] = "bernoulli"


@dataclasses.dataclass(frozen=True)
class TeacherCloningConfig(cloning.CloningConfig):
    """Sizes of cloning, and the teacher whose actions are imitated.

    Attributes:
      teacher: the name of an algorithm with nothing to train: a rule, or a registered expert.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> vec = gpicljax.VectorEnv(env, num_envs=4, resets="fresh", privileged=True)
      >>> config = TeacherCloningConfig(unroll=16, teacher="ucb1")
      >>> gpicljax.agents.make("cloning", vec, config).observations
      64
    """

    teacher: str = "random"


@dataclasses.dataclass(frozen=True)
class TeacherCausalModelConfig(causal_model.CausalModelConfig):
    """Sizes of a causal model's training, and the teacher whose actions are imitated.

    Attributes:
      teacher: the name of an algorithm with nothing to train: a rule, or a registered expert.

    Example:
      >>> TeacherCausalModelConfig(teacher="random", explore=0.0, length=64).policy_weight
      0.25
    """

    teacher: str = "random"


@dataclasses.dataclass(frozen=True)
class VisualCausalModelSettings(CausalModelSettings):
    """A causal model and the autoencoder of its pictures.

    Attributes:
      autoencoder: kind and size of the autoencoder.

    Example:
      >>> VisualCausalModelSettings("lstm", layers=2, width=128).autoencoder.kind
      'patches'
    """

    autoencoder: AutoencoderSettings = AutoencoderSettings("patches", latent=64, width=64)


# What fits -------------------------------------------------------------------------------------


def _readable(observation_space: Space) -> str | None:
    try:
        spaces.flat_size(observation_space)
    except TypeError:
        return f"observations of {observation_space} cannot be read by an MLP"
    return None


def _single(observation_space: Space, action_space: Space) -> str | None:
    """Returns one choice from several actions at each step."""
    if not isinstance(action_space, spaces.Discrete):
        return f"discrete actions are needed, not {action_space}"
    return _readable(observation_space)


def _discrete(observation_space: Space, action_space: Space) -> str | None:
    """Returns one such choice, or several at once."""
    several = isinstance(action_space, spaces.MultiDiscrete) and len(action_space.shape) == 1
    return _readable(observation_space) if several else _single(observation_space, action_space)


def _tabular(observation_space: Space, action_space: Space) -> str | None:
    for kind, space in (("observations", observation_space), ("actions", action_space)):
        if not isinstance(space, spaces.Discrete):
            return f"discrete {kind} are needed, not {space}"
    return None


def _arms(observation_space: Space, action_space: Space) -> str | None:
    """Bandit rules are blind to observations: they would fit anything with discrete actions."""
    del observation_space
    if not isinstance(action_space, spaces.Discrete):
        return f"discrete actions are needed, not {action_space}"
    return None


def _is_continuous(space: Space) -> bool:
    return isinstance(space, spaces.Box) and jnp.issubdtype(space.jax_dtype, jnp.floating)


def _need_bounds(observation_space: Space, action_space: Space) -> str | None:
    if not _is_continuous(action_space):
        return f"continuous actions are needed, not {action_space}"
    assert isinstance(action_space, spaces.Box)
    if not (math.isfinite(action_space.low) and math.isfinite(action_space.high)):
        return f"actions within finite bounds are needed, not {action_space}"
    return _readable(observation_space)


def _pictures(observation_space: Space, action_space: Space) -> str | None:
    shape = getattr(observation_space, "shape", ())
    bytes_ = isinstance(observation_space, spaces.Box) and observation_space.jax_dtype == jnp.uint8
    if not (bytes_ and len(shape) == 3 and shape[2] == 3 and not any(n % 8 for n in shape[:2])):
        return f"pictures uint8[H, W, 3] of multiples of 8 are needed, not {observation_space}"
    if not (isinstance(action_space, spaces.Discrete) or _is_continuous(action_space)):
        return f"one choice or continuous actions are needed, not {action_space}"
    return None


def _any_action(observation_space: Space, action_space: Space) -> str | None:
    if _is_continuous(action_space):
        return _readable(observation_space)
    if _discrete(spaces.Discrete(1), action_space) is not None:
        return f"discrete or continuous actions are needed, not {action_space}"
    return _readable(observation_space)


# The entries -----------------------------------------------------------------------------------


def _spaces(env: Environment) -> tuple[Space, Space]:
    """Spaces of one agent's observations and actions."""
    observations, actions = env.observation_space(), env.action_space()
    if env.num_agents is None:
        return observations, actions
    pair = observations, actions
    return tuple(spaces.of_one_agent(space, env.num_agents) for space in pair)  # type: ignore[return-value]


def _ppo(config: ppo.PPOConfig, vec: VectorEnv, network: ActorCriticSettings | Network) -> Trainer:
    if isinstance(network, ActorCriticSettings):
        activation = getattr(jax.nn, network.activation)
        sizes = network.sizes, network.separate_value
        network = as_network(ActorCritic(*_spaces(vec.env), *sizes, activation))
    return ppo.make(config, vec, network)


def _recurrent_ppo(
    config: ppo.PPOConfig, vec: VectorEnv, network: RecurrentSettings | Network
) -> Trainer:
    return ppo.make(config, vec, _recurrent_network(network, vec))


def _recurrent_network(network: RecurrentSettings | Network, vec: VectorEnv) -> Network:
    return network if isinstance(network, Network) else network.network(*_spaces(vec.env))


def _dqn(config: dqn.DQNConfig, vec: VectorEnv, network: QNetworkSettings | Network) -> Trainer:
    if isinstance(network, QNetworkSettings):
        network = as_network(QNetwork(*_spaces(vec.env), network.sizes, network.dueling))
    return dqn.make(config, vec, network)


def _r2d2(
    config: r2d2.R2D2Config,
    vec: VectorEnv,
    network: RecurrentQSettings | Network,
    auxiliaries: tuple[r2d2.Auxiliary, ...] = (),
) -> Trainer:
    """Builds R2D2 with as many actors as instances, whatever the configuration says."""
    config = dataclasses.replace(config, num_envs=vec.num_envs)
    if isinstance(network, RecurrentQSettings):
        network.check_carries(config.carries)
        network = recurrent_q_network(network, *_spaces(vec.env))
    return r2d2.make(config, vec, network, auxiliaries)


def _cloning(
    config: TeacherCloningConfig, vec: VectorEnv, network: RecurrentSettings | Network
) -> Trainer:
    rule = _rule(config.teacher, vec)
    return cloning.make(config, vec, _recurrent_network(network, vec), rule)


def _rule(name: str, vec: VectorEnv) -> Agent:
    """Returns the teacher of that name."""
    check(vec.privileged, "vec", "no privileged views", "privileged=True, for the teacher")
    teacher = get_algorithm(name)
    check(not teacher.trains, "teacher", name, "an algorithm with nothing to train")
    return teacher.make(teacher.config(), vec, teacher.network()).agent(greedy=True)


def _causal_model(
    config: TeacherCausalModelConfig, vec: VectorEnv, network: VisualCausalModelSettings
) -> Trainer:
    observations, actions = _spaces(vec.env)
    height, width, _ = observations.shape  # type: ignore[attr-defined]
    pictures = standardise(autoencoder(network.autoencoder, (height, width)))
    model = causal_network(network, pictures, actions, config.capacity or config.length)
    policy, rule = network.policy(actions), _rule(config.teacher, vec)
    return causal_model.make(config, vec, model, policy, rule, network.rewards)


def _language_model(
    config: language_agent.LanguageModelConfig, vec: VectorEnv, network: LanguageModelSettings
) -> Trainer:
    tokens = vec.env.observation_space()
    assert isinstance(tokens, spaces.Discrete)
    model = language_model(network, tokens.n, config.capacity or config.length)
    return language_agent.make(config, vec, model)


def _critics(config: Any, vec: VectorEnv, network: OffPolicyNetworkSettings) -> Critics:
    activation = getattr(jax.nn, network.activation)
    return Critics(vec.env.observation_space(), network.critic, config.critics, activation)


def _td3(config: td3.TD3Config, vec: VectorEnv, network: OffPolicyNetworkSettings) -> Trainer:
    activation = getattr(jax.nn, network.activation)
    actor = DeterministicActor(*_spaces(vec.env), network.actor, activation)
    critics = as_network(_critics(config, vec, network))
    return td3.make(config, vec, as_network(actor), critics)


def _sac(config: sac.SACConfig, vec: VectorEnv, network: OffPolicyNetworkSettings) -> Trainer:
    activation = getattr(jax.nn, network.activation)
    actor = GaussianActor(*_spaces(vec.env), network.actor, activation)
    critics = as_network(_critics(config, vec, network))
    return sac.make(config, vec, as_network(actor), critics)


def _q_learning(config: tabular.TabularConfig, vec: VectorEnv, network: NoSettings) -> Trainer:
    del network
    return tabular.make(config, vec)


def _ucb1(config: UCB1Config, env: Environment) -> Agent:
    return bandits.ucb1(env.action_space(), config.exploration)


def _thompson(config: ThompsonConfig, env: Environment) -> Agent:
    if config.payments == "gaussian":
        return bandits.thompson_gaussian(env.action_space())
    return bandits.thompson_bernoulli(env.action_space())


for _entry in (
    Algorithm(
        "ppo",
        _ppo,
        _any_action,
        ppo.PPOConfig,
        ppo.PPOHParams,
        ActorCriticSettings,
        multi_agent=True,
    ),
    Algorithm(
        "recurrent-ppo",
        _recurrent_ppo,
        _any_action,
        ppo.PPOConfig,
        ppo.PPOHParams,
        RecurrentSettings,
        multi_agent=True,
        remembers=True,
    ),
    Algorithm("dqn", _dqn, _discrete, dqn.DQNConfig, dqn.DQNHParams, QNetworkSettings),
    Algorithm(
        "r2d2",
        _r2d2,
        _discrete,
        r2d2.R2D2Config,
        r2d2.R2D2HParams,
        RecurrentQSettings,
        multi_agent=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config, replay_capacity=1, min_replay=1),
    ),
    *(
        Algorithm(
            name,
            make,
            _need_bounds,
            config,
            hparams,
            OffPolicyNetworkSettings,
            to_act=lambda config: dataclasses.replace(config, replay="uniform"),
        )
        for name, make, config, hparams in (
            ("td3", _td3, td3.TD3Config, td3.TD3HParams),
            ("ddpg", _td3, DDPGConfig, td3.TD3HParams),
            ("sac", _sac, sac.SACConfig, sac.SACHParams),
        )
    ),
    Algorithm("q-learning", _q_learning, _tabular, tabular.TabularConfig, tabular.TabularHParams),
    Algorithm(
        "cloning",
        _cloning,
        _single,
        TeacherCloningConfig,
        cloning.CloningHParams,
        RecurrentSettings,
        privileged=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config, teacher="random"),
    ),
    Algorithm(
        "causal-model",
        _causal_model,
        _pictures,
        TeacherCausalModelConfig,
        SequenceHParams,
        VisualCausalModelSettings,
        privileged=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config.to_act(), teacher="random"),
    ),
    Algorithm(
        "language-model",
        _language_model,
        language_agent.fits,
        language_agent.LanguageModelConfig,
        SequenceHParams,
        LanguageModelSettings,
        remembers=True,
        to_act=language_agent.LanguageModelConfig.to_act,
    ),
    algorithm_from_agent("ucb1", _ucb1, _arms, UCB1Config),
    algorithm_from_agent("thompson", _thompson, _arms, ThompsonConfig),
    algorithm_from_agent("random", lambda config, env: random_agent(env), multi_agent=True),
):
    register_algorithm(_entry)
