"""An actor-critic of symbols that reads what an online memory expects of the symbols observed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput, Core
from gpicljax.networks.feedforward import MLP, dense
from gpicljax.networks.online_memory import OnlineCarry, OnlineMemory, OnlineMemorySettings


class OnlinePolicy(Core):
    """A policy and a value over an online memory, the last action and the last reward.

    Where there are as many actions as symbols, the policy begins by acting what the memory expects
    to observe next.

    Attributes:
      symbols: number of symbols, numbered from 0.
      choices: number of actions.
      settings: sizes of the memory.
      hidden: sizes of the layers before policy and value.
    """

    symbols: int
    choices: int
    settings: OnlineMemorySettings = OnlineMemorySettings()
    hidden: tuple[int, ...] = (64,)

    def setup(self) -> None:
        """The memory, the layers that read it, and the heads."""
        self.memory = OnlineMemory(self.symbols, self.settings)
        self.torso = MLP(self.hidden)
        self.policy = dense(self.choices, kernel_init=nn.initializers.normal(0.01))
        self.value = dense(1)

    def initial_carry(self, batch: int) -> OnlineCarry:
        """Returns the memory of nothing."""
        memory = OnlineMemory(self.symbols, self.settings, parent=None)
        return memory.initial_carry(batch)

    def unroll(
        self, carry: OnlineCarry, inputs: AgentInput, starts: jax.Array
    ) -> tuple[PolicyOutput, OnlineCarry]:
        """Inputs `[T, B]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        expected, carry = self.memory.unroll(carry, inputs.observation, starts)
        chances = jnp.exp(expected)
        action = jax.nn.one_hot(inputs.last_action, self.choices, dtype=chances.dtype)
        reward = inputs.last_reward[..., None].astype(chances.dtype)
        hidden = self.torso(jnp.concatenate([chances, action, reward], -1))
        logits = self.policy(hidden)
        if self.symbols == self.choices:
            logits = logits + expected
        return PolicyOutput(logits, self.value(hidden)[..., 0]), carry
