"""A look-up by a learnt pose: which steps count as the same, and learning from that alone."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gpicljax import spaces
from gpicljax.networks.causal_model import CausalModelSettings, sequence_model

LATENT, PLACES = 8, 6
LEFT, FORWARD = 1, 4
SETTINGS = CausalModelSettings("lstm", 1, 8, 1, noisy=0.0, learnt_map=4)
MODEL = sequence_model(SETTINGS, LATENT, spaces.Discrete(5), 32)


def outputs_of(params, latents, action, hidden):
    inputs = {"latent": latents, "action": action, "observed": latents, "hidden": hidden}
    return MODEL.apply(params, None, inputs, None, method="unroll")[0]


@jax.jit
def read(latents, action, hidden):
    inputs = {"latent": latents, "action": action, "observed": latents, "hidden": hidden}
    params = MODEL.init(jax.random.key(0), None, inputs, None, method="unroll")
    return outputs_of(params, latents, action, hidden)


def walk(places, hidden=(), action=FORWARD):
    """Returns what is read by one agent that sees a place's latent at each step."""
    pictures = np.random.default_rng(0).normal(size=(PLACES, LATENT)).astype(np.float32)
    is_hidden = np.isin(np.arange(len(places)), hidden)[:, None]
    actions = np.full((len(places), 1), action, np.int32)
    return jax.device_get(read(pictures[list(places)][:, None], actions, is_hidden))


def test_steps_whose_picture_returns_have_an_address():
    nats = walk([0, 1, 2, 0, 1, 3])["address"][:, 0]
    assert (nats > 0).tolist() == [False, False, False, True, True, False]


def test_hidden_steps_are_not_found_again():
    nats = walk([0, 1, 2, 0, 1, 3], hidden=[0])["address"][:, 0]
    assert (nats > 0).tolist() == [False, False, False, False, True, False]


def test_a_blocked_step_leaves_the_same_picture():
    has_moved = walk([0, 1, 1, 2])["has_moved"][:, 0]
    assert has_moved.tolist() == [True, True, False, True]
    assert walk([0, 1, 1])["address"][2, 0] == 0
    assert walk([0, 1, 1], action=LEFT)["address"][2, 0] > 0  # a turn is never in vain


@pytest.mark.parametrize("seed", [0, 1])
def test_rotations_are_learnt_from_equal_pictures(seed):
    # Three places on a ring, with four views each.
    draw = np.random.default_rng(seed)
    steps, batch, views = 24, 32, 4
    action = np.where(draw.random((steps, batch)) < 0.5, LEFT, FORWARD).astype(np.int32)

    def sample(key):
        pictures = jax.random.normal(key, (batch, views * 3, LATENT))
        rows = (moves % 3) * views + turns % views
        return jnp.take_along_axis(pictures.swapaxes(0, 1), rows[..., None], axis=0)

    begun = np.arange(steps)[:, None] > 0
    turns = np.cumsum((action == LEFT) & begun, axis=0)
    moves = np.cumsum((action == FORWARD) & begun, axis=0)
    optimiser = optax.adam(1e-2)

    @jax.jit
    def train(key):
        hidden = jnp.zeros((steps, batch), bool)
        inputs = {"action": action, "hidden": hidden}
        first = sample(key)
        example = inputs | {"latent": first, "observed": first}
        params = MODEL.init(key, None, example, None, method="unroll")

        def update(state, key):
            params, memory = state

            def loss(params):
                return outputs_of(params, sample(key), action, hidden)["address"].mean()

            nats, gradient = jax.value_and_grad(loss)(params)
            change, memory = optimiser.update(gradient, memory)
            return (optax.apply_updates(params, change), memory), nats

        return jax.lax.scan(update, (params, optimiser.init(params)), jax.random.split(key, 300))[1]

    nats = np.asarray(train(jax.random.key(seed)))
    assert nats[-10:].mean() < 0.2 * nats[:10].mean()
