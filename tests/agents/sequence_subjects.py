"""A sequence trainer on two random tokens by turns."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.agents import sequence
from gpicljax.agents.sequence import SequenceConfig, Sequences
from gpicljax.networks.contract import as_network
from gpicljax.networks.feedforward import dense
from gpicljax.networks.recurrent import LSTMStack

TOKENS, LENGTH = 6, 20


class Model(nn.Module):
    """Tokens to logits over an LSTM."""

    size: int = 24

    def setup(self):
        self.core, self.head = LSTMStack((self.size,)), dense(TOKENS)

    def initial_carry(self, batch):
        return LSTMStack((self.size,), parent=None).initial_carry(batch)

    def unroll(self, carry, inputs, starts):
        encoding = jax.nn.one_hot(inputs, TOKENS, dtype=jnp.result_type(float))
        outputs, carry = self.core.unroll(carry, encoding, starts)
        return self.head(outputs), carry

    def step(self, carry, inputs, start):
        outputs, carry = self.unroll(carry, inputs[None], start[None])
        return outputs[0], carry


def alternating(keys, data=None):
    """Two random tokens by turns: unknown at first, certain once both have been seen."""
    del data
    pairs = jax.vmap(lambda key: jax.random.choice(key, TOKENS, (2,), replace=False))(keys)
    tokens = jnp.tile(pairs.T, (LENGTH // 2 + 1, 1))[: LENGTH + 1].astype(jnp.int32)
    return Sequences(tokens[:-1], jnp.zeros(tokens[1:].shape, bool), tokens[1:])


def make(config=None, sample=alternating, losses=None, **options):
    losses = losses or [sequence.cross_entropy("next_token")]
    config = config or SequenceConfig(batch_size=32)
    return sequence.make(config, as_network(Model()), sample, losses, **options)
