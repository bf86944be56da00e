"""A test of `small_memory.py`: `pytest test_small_memory.py`."""

import jax
import jax.numpy as jnp

from gpicljax.networks import AgentInput, as_network
from small_memory import SmallMemory


def draw_inputs(key, steps=7, batch=4):
    """Inputs of a bandit with two arms, and starts of trials between them."""
    action_key, reward_key, start_key = jax.random.split(key, 3)
    action = jax.random.randint(action_key, (steps, batch), -1, 2)
    reward = jax.random.uniform(reward_key, (steps, batch))
    starts = jax.random.bernoulli(start_key, 0.3, (steps, batch))
    return AgentInput(jnp.zeros((steps, batch, 1)), action, reward), starts


def largest_difference(network):
    """The largest difference between `unroll` and `step` in a loop."""
    inputs, starts = draw_inputs(jax.random.key(0))
    params = network.init(jax.random.key(1), jax.tree.map(lambda x: x[0], inputs))

    def step(carry, now):
        outputs, carry = network.step(params, carry, *now)
        return carry, outputs

    carry = network.initial_carry(4)
    one_by_one = jax.lax.scan(step, carry, (inputs, starts))
    together = network.unroll(params, carry, inputs, starts)[::-1]
    gaps = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), one_by_one, together)
    return jnp.stack(jax.tree.leaves(gaps)).max()


def test_step_and_unroll_agree():
    network = as_network(SmallMemory(actions=2))
    assert jax.jit(lambda: largest_difference(network))() < 1e-5
