"""A map of what was seen where: dead reckoning, what is kept, and what is imagined."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import CausalModelSettings, causal_model, draw_spans
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.map_memory import UNLIMITED, empty_map, follow

STAY, LEFT, RIGHT, BACK, FORWARD = range(5)
RADIUS, LATENT = 3, 2


@jax.jit
def follow_all(latents, actions, hidden, window, moved=None):
    """Follows one agent through `[T, ...]`; returns the poses, and where each step led."""

    def see(memory, step):
        latent, action, is_hidden, start = jax.tree.map(lambda x: x[None], step)
        arguments = latent, action, is_hidden, start, RADIUS, window, moved
        memory, where = follow(memory, *arguments)
        return memory, jax.tree.map(lambda x: x[0], (memory.pose, where))

    starts = jnp.arange(len(actions)) == 0
    return jax.lax.scan(see, empty_map(1, LATENT, RADIUS), (latents, actions, hidden, starts))[1]


def walk(latents, actions, hidden=(), window=UNLIMITED, moved=None):
    """Returns the poses of one agent, and where each of its steps led."""
    is_hidden = np.isin(np.arange(len(actions)), hidden)
    poses, where = jax.device_get(
        follow_all(np.array(latents, float), np.array(actions), is_hidden, window, moved)
    )
    return poses.tolist(), [jax.tree.map(lambda x, i=i: x[i], where) for i in range(len(poses))]


A, B, C = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)


def test_a_returning_agent_recalls_the_latent_of_the_place():
    # Forward into the next cell, against its wall, and back again.
    poses, wheres = walk([A, B, B, A], [-1, FORWARD, FORWARD, BACK])
    assert poses == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert [bool(where.is_recalled) for where in wheres] == [False, False, False, True]
    np.testing.assert_array_equal(wheres[3].recalled, A)
    assert wheres[3].here == wheres[0].here
    assert wheres[2].ahead != wheres[2].here  # where it would have gone


def test_another_direction_is_another_place():
    poses, wheres = walk([A, B, C, B, A], [-1, RIGHT, FORWARD, BACK, LEFT])
    assert poses == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    np.testing.assert_array_equal(wheres[3].recalled, B)
    np.testing.assert_array_equal(wheres[4].recalled, A)
    assert [bool(where.is_free) for where in wheres] == [False, True, False, True, True]


def test_hidden_latents_are_not_kept_and_newer_ones_replace_older():
    _, wheres = walk([A, B, C, B, C, B], [-1, LEFT, RIGHT, LEFT, RIGHT, LEFT], hidden=(2,))
    np.testing.assert_array_equal(wheres[2].recalled, A)
    np.testing.assert_array_equal(wheres[4].recalled, A)  # C was hidden
    _, wheres = walk([A, B, C, B, C], [-1, LEFT, RIGHT, LEFT, RIGHT])
    np.testing.assert_array_equal(wheres[4].recalled, C)


def test_a_window_ends_what_the_map_remembers():
    latents, actions = [A, B, C, C, B, A], [-1, RIGHT, RIGHT, STAY, LEFT, LEFT]
    assert [bool(x.is_recalled) for x in walk(latents, actions, window=4)[1]][4:] == [True, False]
    assert [bool(x.is_recalled) for x in walk(latents, actions, window=6)[1]][4:] == [True, True]
    assert not any(x.is_recalled for x in walk(latents, actions, window=1)[1])


def test_given_moves_replace_dead_reckoning():
    moved = np.ones(1, bool)
    assert walk([A, A], [-1, FORWARD], moved=moved)[0] == [[0, 0, 0], [1, 0, 0]]
    assert walk([A, B], [-1, FORWARD], moved=~moved)[0] == [[0, 0, 0], [0, 0, 0]]


def test_beyond_its_reach_a_map_ends_at_its_edge():
    latents = [(float(i), 1.0) for i in range(RADIUS + 3)]
    poses, wheres = walk(latents, [-1] + [FORWARD] * (RADIUS + 2))
    assert poses[-1] == [RADIUS + 2, 0, 0]
    assert wheres[-1].here == wheres[RADIUS].here


def test_imagined_latents_are_not_kept_and_free_cells_are_entered():
    pictures = standardise(autoencoder(AutoencoderSettings("patches", latent=4, width=4), (8, 8)))
    settings = CausalModelSettings(layers=1, width=8, heads=2, noisy=0.0, map_memory=2)
    network = causal_model(settings, pictures, spaces.Discrete(5), capacity=16)
    images = jax.random.randint(jax.random.key(0), (2, 1, 8, 8, 3), 0, 256).astype("uint8")

    @jax.jit
    def imagine(key):
        carry, start = network.initial_carry(1), jnp.zeros(1, bool)
        inputs = AgentInput(images[0], jnp.array([-1]), jnp.zeros(1))
        params = network.init(key, inputs)
        _, carry = network.step(params, carry, inputs, ~start)
        seen = AgentInput(images[1], jnp.array([FORWARD]), jnp.zeros(1))
        _, carry = network.step(params, carry, seen, start)
        believed = AgentInput(jnp.ones((1, 4)), jnp.array([BACK]), jnp.zeros(1))
        output, after = network.step(params, carry, believed, start)
        return carry[1], output, after[1]

    before, output, after = imagine(jax.random.key(1))
    assert before.pose.tolist() == [[1, 0, 0]] and after.pose.tolist() == [[0, 0, 0]]
    assert output.has_moved.tolist() == [True]
    np.testing.assert_array_equal(after.stored, before.stored)
    assert (before.seen_at >= 0).sum() == (after.seen_at >= 0).sum() == 2


@pytest.mark.parametrize("longest", [1, 12])
def test_spans_and_pauses_have_their_lengths(longest):
    spans = jax.jit(draw_spans, static_argnums=(1, 2))
    hidden = np.asarray(spans(jax.random.key(0), 4_000, longest))
    edges = np.flatnonzero(np.diff(hidden)) + 1
    lengths = np.diff(edges)
    hidden_spans, pauses = lengths[::2], lengths[1::2]
    assert not hidden[0] and set(hidden_spans) == set(range(1, longest + 1))
    assert abs(hidden_spans.mean() - (longest + 1) / 2) < 0.6 and 12 < pauses.mean() < 18
