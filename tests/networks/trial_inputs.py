"""Inputs of networks for whole trials of discrete tasks."""

import jax
import jax.numpy as jnp

import gpicljax
from gpicljax.networks.contract import AgentInput
from gpicljax.wrappers.padded_spaces import PaddedSpaces
from gpicljax.wrappers.trial import Trial

TIME, BATCH, PLACES, ACTIONS = 14, 3, 5, 4


def inputs_of(key):
    keys = jax.random.split(key, 6)
    shape = TIME, BATCH
    place = lambda key: jax.random.randint(key, shape, 0, PLACES)  # noqa: E731
    starts = jnp.zeros(shape, bool).at[0].set(True).at[6, 1].set(True).at[9, 2].set(True)
    end = jax.random.bernoulli(keys[3], 0.3, shape)
    observation = {
        "now": place(keys[0]),
        "before": place(keys[1]),
        "reached": place(keys[2]),
        "terminated": end,
        "truncated": jnp.zeros(shape, bool),
        "elapsed": jnp.broadcast_to(jnp.arange(TIME)[:, None, None] / TIME, (*shape, 1)),
        "action_mask": jnp.broadcast_to(jnp.arange(ACTIONS) < 3, (*shape, ACTIONS)),
    }
    actions = jnp.where(starts, -1, jax.random.randint(keys[4], shape, 0, 3))
    return AgentInput(observation, actions, jax.random.normal(keys[5], shape)), starts


def play_steps(network, params, inputs, starts):
    """Returns the outputs of one step after the other, the carry after each, and the last one."""

    def step(carry, x):
        output, carry = network.step(params, carry, *x)
        return carry, (output, carry)

    last, (outputs, carries) = jax.lax.scan(step, network.initial_carry(BATCH), (inputs, starts))
    return outputs, carries, last


def space():
    env = PaddedSpaces(Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), TIME), PLACES, ACTIONS)
    return env.observation_space(), env.action_space()
