"""Networks: Flax Linen modules behind one step/unroll contract (`networks.contract.Network`)."""

from gpicljax.networks.actor_critic import ActorCritic, PolicyOutput, RecurrentActorCritic
from gpicljax.networks.autoencoder import AutoencoderSettings
from gpicljax.networks.continuous import Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import AgentInput, Network, as_network, over_agents
from gpicljax.networks.dnc import DNC
from gpicljax.networks.dual_coding import DualCoding
from gpicljax.networks.encoder import Encoder
from gpicljax.networks.esbn import ESBN
from gpicljax.networks.event_store import EventStore
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.feedforward import FeedForward
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.memories import MemorySettings
from gpicljax.networks.policies import policy_for
from gpicljax.networks.q_network import QNetwork, QOutput, RecurrentQNetwork, RecurrentQSettings
from gpicljax.networks.recurrent import GRUStack, LSTMStack
from gpicljax.networks.transformer import Transformer, generate

__all__ = [
    "DNC",
    "ESBN",
    "ActorCritic",
    "AgentInput",
    "AutoencoderSettings",
    "Critics",
    "DeltaMemory",
    "DeterministicActor",
    "DualCoding",
    "Encoder",
    "EventStore",
    "FeedForward",
    "GRUStack",
    "GaussianActor",
    "LSTMStack",
    "LanguageModelSettings",
    "LinearTransformer",
    "MemorySettings",
    "Network",
    "PolicyOutput",
    "QNetwork",
    "QOutput",
    "RecurrentActorCritic",
    "RecurrentQNetwork",
    "RecurrentQSettings",
    "Transformer",
    "as_network",
    "generate",
    "over_agents",
    "policy_for",
]
