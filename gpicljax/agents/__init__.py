"""Learning algorithms and generic agents; none knows a concrete environment."""

import lazy_loader

import gpicljax.agents.symbol_model  # noqa: F401  registers its algorithm
from gpicljax.agents.acting import (
    network_agent,
    optimal_agent,
    policy_agent,
    q_agent,
    random_agent,
    within_trial,
)
from gpicljax.agents.algorithm import (
    CATALOGUE,
    Algorithm,
    NoSettings,
    algorithm_from_agent,
    get_algorithm,
    make,
    register_algorithm,
)
from gpicljax.agents.bandits import (
    ThompsonConfig,
    UCB1Config,
    gittins_bernoulli,
    thompson_bernoulli,
    thompson_gaussian,
    ucb1,
)
from gpicljax.agents.causal_model import (
    TeacherCausalModelConfig,
    VisualCausalModelSettings,
    causal_agent,
    imagined_agent,
)
from gpicljax.agents.cloning import CloningHParams, TeacherCloningConfig
from gpicljax.agents.combinators import panel_agent, with_memory_reset
from gpicljax.agents.dqn import DQNConfig, DQNHParams
from gpicljax.agents.language_agent import LanguageModelConfig
from gpicljax.agents.ppo import PPOConfig, PPOHParams
from gpicljax.agents.r2d2 import Auxiliary, R2D2Config, R2D2HParams
from gpicljax.agents.sac import SACConfig, SACHParams
from gpicljax.agents.sequence import SequenceHParams
from gpicljax.agents.tabular import TUNED_Q_LEARNING, TabularConfig, TabularHParams, q_learner
from gpicljax.agents.td3 import DDPGConfig, TD3Config, TD3HParams
from gpicljax.networks.actor_critic import ActorCriticSettings
from gpicljax.networks.continuous import OffPolicyNetworkSettings
from gpicljax.networks.q_network import QNetworkSettings
from gpicljax.networks.recurrent_settings import RecurrentSettings

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["autoencoder"])

__all__ = [
    "CATALOGUE",
    "TUNED_Q_LEARNING",
    "ActorCriticSettings",
    "Algorithm",
    "Auxiliary",
    "CloningHParams",
    "DDPGConfig",
    "DQNConfig",
    "DQNHParams",
    "LanguageModelConfig",
    "NoSettings",
    "OffPolicyNetworkSettings",
    "PPOConfig",
    "PPOHParams",
    "QNetworkSettings",
    "R2D2Config",
    "R2D2HParams",
    "RecurrentSettings",
    "SACConfig",
    "SACHParams",
    "SequenceHParams",
    "TD3Config",
    "TD3HParams",
    "TabularConfig",
    "TabularHParams",
    "TeacherCausalModelConfig",
    "TeacherCloningConfig",
    "ThompsonConfig",
    "UCB1Config",
    "VisualCausalModelSettings",
    "algorithm_from_agent",
    "causal_agent",
    "get_algorithm",
    "gittins_bernoulli",
    "imagined_agent",
    "make",
    "network_agent",
    "optimal_agent",
    "panel_agent",
    "policy_agent",
    "q_agent",
    "q_learner",
    "random_agent",
    "register_algorithm",
    "thompson_bernoulli",
    "thompson_gaussian",
    "ucb1",
    "with_memory_reset",
    "within_trial",
]
