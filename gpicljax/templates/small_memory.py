"""A policy with a small memory, for bandits."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpicljax import agents
from gpicljax.networks import PolicyOutput, as_network


def features(inputs, actions):
    """Last action and last reward, float `[..., actions + 1]`; a bandit needs no more."""
    action = jax.nn.one_hot(inputs.last_action, actions)  # all zeros before the first one
    return jnp.concatenate([action, inputs.last_reward[..., None]], -1)


class SmallMemory(nn.Module):
    """A recurrent layer, and heads for logits and value."""

    actions: int
    size: int = 32

    def setup(self):
        """Makes the layers."""
        self.cell = nn.GRUCell(self.size)
        self.logits, self.value = nn.Dense(self.actions), nn.Dense(1)

    def initial_carry(self, batch):
        """The memory at the start of a trial, float `[B, size]`."""
        return jnp.zeros((batch, self.size))

    def step(self, carry, inputs, start):
        """Outputs and memory after one step."""
        carry = jnp.where(start[:, None], 0, carry)
        carry, read = self.cell(carry, features(inputs, self.actions))
        return PolicyOutput(self.logits(read), self.value(read)[..., 0]), carry

    def unroll(self, carry, inputs, starts):
        """Outputs of all steps, and the memory after the last one."""

        def step(module, carry, now):
            outputs, carry = module.step(carry, *now)
            return carry, outputs

        scan = nn.scan(step, variable_broadcast="params", split_rngs={"params": False})
        carry, outputs = scan(self, carry, (inputs, starts))
        return outputs, carry


def make(config, vec, network):
    """Returns a trainer of recurrent PPO with this network in place of its own."""
    actions = vec.env.action_space().n
    return agents.make("recurrent-ppo", vec, config, as_network(SmallMemory(actions)))


agents.register_algorithm(
    agents.Algorithm(
        "small-memory",
        make,
        agents.get_algorithm("recurrent-ppo").fits,
        agents.PPOConfig,
        agents.PPOHParams,
        remembers=True,
    )
)
