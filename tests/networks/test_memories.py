"""The memories that agents choose from by name: one contract, sizes, refusals."""

import functools
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax import agents, spaces
from gpicljax.agents import ppo
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.memories import MemoryKind, MemorySettings, memory

KINDS = get_args(MemoryKind)
LAYERED = "lstm", "gru", "linear-attention", "transformer"
LENGTH, BATCH, BEFORE, WINDOW = 9, 3, 3, 4
SPACES = spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(3)


def parts(kind, layers):
    """A small memory, and what a step is to it."""
    core = (8,) * layers if kind in LAYERED else (8,)
    return MemorySettings(kind, core, heads=2, window=WINDOW, slots=3).make(*SPACES)


NETWORKS = {
    kind: as_network(RecurrentActorCritic(*SPACES, (6,), *parts(kind, layers=2))) for kind in KINDS
}


def draw_inputs():
    draw = np.random.default_rng(0)
    size = BEFORE + LENGTH, BATCH
    starts = draw.random(size) < 0.2
    # One instance goes on from what it has, one has the start of a trial in the middle.
    starts[:, 0], starts[:, 1] = False, np.arange(size[0]) % 7 == 5
    observation = jnp.asarray(draw.normal(size=(*size, 4)), jnp.float32)
    action = jnp.asarray(draw.integers(-1, 3, size=size), jnp.int32)
    reward = jnp.asarray(draw.normal(size=size), jnp.float32)
    return AgentInput(observation, action, reward), jnp.asarray(starts)


def both_ways(network, inputs, starts):
    """Outputs `[LENGTH, BATCH, ...]`: step by step, and unrolled but for the last step."""
    params = network.init(jax.random.key(0), jax.tree.map(lambda x: x[0], inputs))
    params = jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size).reshape(x.shape)), params)

    def step(carry, x):
        output, carry = network.step(params, carry, *x)
        return carry, (output, carry)

    _, (steps, carries) = jax.lax.scan(step, network.initial_carry(BATCH), (inputs, starts))
    held = jax.tree.map(lambda x: x[BEFORE - 1], carries)
    rest = jax.tree.map(lambda x: x[BEFORE:-1], (inputs, starts))
    outputs, carry = network.unroll(params, held, *rest)
    last, _ = network.step(params, carry, *jax.tree.map(lambda x: x[-1], (inputs, starts)))
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), outputs, last)
    return jax.tree.map(lambda x: x[BEFORE:], steps), joined


# The cores of the others are held against themselves in step_unroll.py.
@pytest.mark.parametrize("kind", daily(["transformer"], KINDS))
def test_a_memory_steps_as_it_unrolls_past_starts_and_windows(kind):
    ways = jax.jit(functools.partial(both_ways, NETWORKS[kind]))(*draw_inputs())
    for steps, unrolled in zip(*ways, strict=True):
        np.testing.assert_allclose(steps, unrolled, atol=1e-5)
        assert np.std(steps) > 1e-4  # there is something to compare


@pytest.mark.parametrize("kind", daily(["transformer"], KINDS))
def test_ppo_takes_every_memory_in_windows(kind):
    """Shapes only: nothing is compiled."""
    env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
    settings = agents.RecurrentSettings(kind, (8,), heads=2, window=WINDOW, slots=3, sizes=(6,))
    vec = gpicljax.VectorEnv(env, 4, resets="fresh")
    config = ppo.PPOConfig(unroll=8, minibatches=2, window=4)
    trainer = agents.get_algorithm("recurrent-ppo").make(config, vec, settings)
    state = jax.eval_shape(lambda: trainer.init(jax.random.key(0), ppo.PPOHParams()))
    after = jax.eval_shape(trainer.update, state)[0]
    assert jax.tree.structure(state) == jax.tree.structure(after)
    # Instances come first, so that they can be spread over devices and put into windows.
    for leaf in jax.tree.leaves(state.rollout.carry):
        assert leaf.shape[0] == 4


def test_a_transformer_remembers_its_window_in_every_layer():
    carry = memory("transformer", (16, 16), heads=4, window=5).initial_carry(3)
    assert carry.keys.shape == (3, 2, 4, 5, 4) and carry.windowed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rnn", (8,)), "memory: got 'rnn'"),
        (("lstm", ()), "core: got .*at least one size"),
        (("delta", (8, 8)), "core: got .*one size"),
        (("dnc", (8, 8)), "core: got .*one size, of the controller"),
        (("dnc", (10,)), "core: got .*multiples of heads = 4"),
        (("esbn", (8, 8)), "core: got .*one size, of the controller"),
        (("dnc", (8,), 4, 1, 0), "slots: got 0"),
        (("transformer", (8, 16)), "core: got .*layers of one size"),
        (("transformer", (12,)), "core: got .*multiples of 2 x heads = 8"),
        (("linear-attention", (10,)), "core: got .*multiples of heads = 4"),
        (("transformer", (8,), 4, 0), "window: got 0"),
    ],
)
def test_what_a_memory_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        memory(*arguments)
