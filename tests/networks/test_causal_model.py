"""Causal models: the paper's sizes, what each head may see, steps as the whole, all cores."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import (
    MODEL,
    WINDOW,
    CausalModelSettings,
    causal_model,
    sequence_model,
)
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.embeddings import ResidualHead

LENGTH, BATCH, ACTIONS = 7, 2, spaces.Discrete(5)
PICTURES = standardise(autoencoder(AutoencoderSettings("patches", latent=4, width=4), (8, 8)))
SMALL = CausalModelSettings(layers=2, width=8, heads=2, slots=8, rewards=True)
KINDS = ("transformer", "linear-attention", "lstm", "events")


def draw(actions=ACTIONS, seed=0):
    """Random inputs `[LENGTH, BATCH, ...]`, the actions as they were done before."""
    random = np.random.default_rng(seed)
    images = jnp.asarray(random.integers(256, size=(LENGTH, BATCH, 8, 8, 3)), jnp.uint8)
    if isinstance(actions, spaces.Discrete):
        done = jnp.asarray(random.integers(actions.n, size=(LENGTH, BATCH)), jnp.int32)
        done = done.at[0].set(-1)
    else:
        done = jnp.asarray(random.uniform(-1, 1, (LENGTH, BATCH, 2)), jnp.result_type(float))
    return AgentInput(images, done, jnp.zeros((LENGTH, BATCH)))


def made(settings, actions=ACTIONS):
    network = causal_model(settings, PICTURES, actions, capacity=2 * LENGTH, part=3)
    first = jax.tree.map(lambda x: x[0], draw(actions))
    shapes = jax.eval_shape(network.init, jax.random.key(0), first)
    random = np.random.default_rng(1)
    params = jax.tree.map(lambda s: jnp.asarray(0.5 * random.normal(size=s.shape), s.dtype), shapes)
    return network, params | {WINDOW: jnp.int32(2**20)}


@pytest.mark.parametrize(
    ("layers", "width", "heads", "parameters", "policy", "latent"),
    [
        (8, 512, 8, 25_737_216, 1_053_701, 1_576_448),
        (12, 1280, 16, 237_407_744, None, None),
    ],
)
def test_sizes_of_the_paper(layers, width, heads, parameters, policy, latent):
    settings = CausalModelSettings(layers=layers, width=width, heads=heads)
    model = sequence_model(settings, 1024, ACTIONS, capacity=2048)

    def shapes():
        carry = jax.eval_shape(lambda: model.initial_carry(1))
        inputs = {"latent": jnp.zeros((1, 1024)), "action": jnp.zeros(1, jnp.int32)}
        init = lambda key, carry: model.init(  # noqa: E731
            key, carry, inputs, jnp.zeros(1, bool), method="step"
        )
        return jax.eval_shape(init, jax.random.key(0), carry)["params"]

    count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))  # noqa: E731
    parts = shapes()
    heads_of = [name for name in parts if name.startswith("heads")]
    assert len(heads_of) == 2
    assert count({k: v for k, v in parts.items() if k not in heads_of}) == parameters
    if policy is not None:
        assert sorted(count(parts[name]) for name in heads_of) == [policy, latent]
    assert isinstance(model.heads[0][2], ResidualHead)


@pytest.mark.parametrize(
    "changes",
    [
        *({"kind": kind} for kind in KINDS),
        {"map_memory": 2, "noisy": 0.0},
        {"map_memory": 2, "noisy": 0.0, "plan_sweeps": 3},
    ],
)
def test_steps_are_the_whole_and_no_head_sees_what_it_is_to_say(changes):
    network, params = made(dataclasses.replace(SMALL, **changes))
    inputs = draw()
    starts = jnp.zeros((LENGTH, BATCH), bool).at[4, 0].set(True)

    @jax.jit
    def all_ways(params, inputs):
        def tick(carry, x):
            output, carry = network.step(params, carry, *x)
            return carry, output

        stepped = jax.lax.scan(tick, network.initial_carry(BATCH), (inputs, starts))[1]
        whole = network.unroll(params, None, inputs, starts)[0]
        # What is seen and done at step 3 is another thing.
        changed = inputs._replace(
            observation=inputs.observation.at[3].set(255 - inputs.observation[3]),
            last_action=inputs.last_action.at[3].set((inputs.last_action[3] + 1) % 5),
        )
        altered = network.unroll(params, None, changed, starts)[0]
        altered_picture = changed._replace(last_action=inputs.last_action)
        looked = network.unroll(params, None, altered_picture, starts)[0]
        return stepped, whole, altered, looked

    stepped, whole, altered, looked = all_ways(params, inputs)
    mask = np.ones((LENGTH, BATCH), bool)
    mask[0] = mask[4, 0] = False  # before a start nothing is expected
    for name, values in whole._asdict().items():
        if values is None or name == "shown":  # for losses alone
            continue
        counts = mask if name in ("latent", "image", "reward") else np.ones_like(mask)
        np.testing.assert_allclose(getattr(stepped, name)[counts], values[counts], atol=2e-5)
    assert whole.image.shape == (LENGTH, BATCH, 8, 8, 3)
    assert whole.reward.shape == (LENGTH, BATCH)

    def differs(a, b):
        return np.abs(a - b).reshape(LENGTH, BATCH, -1).max(-1) > 1e-6

    # The past stays the past; an action changes what is expected with it, a picture what is done.
    assert not differs(altered.policy, whole.policy)[:3].any()
    assert not differs(altered.latent, whole.latent)[1:3].any()
    assert differs(altered.latent, whole.latent)[3].all()
    assert not differs(looked.latent, whole.latent)[3].any()
    assert differs(looked.policy, whole.policy)[3].all()
    # A trial that starts knows nothing of it.
    assert differs(altered.policy, whole.policy)[5:, 1].any()
    assert not differs(altered.policy, whole.policy)[4:, 0].any()


def test_a_window_of_one_step_is_a_model_without_context():
    # Shares of half of the steps on average: those of so few steps may well be none by default.
    network, params = made(dataclasses.replace(SMALL, masked=1.0, noisy=1.0))
    inputs = draw()
    altered = inputs._replace(observation=inputs.observation.at[:3].set(0))

    @jax.jit
    def unroll_twice(params, inputs):
        outputs = network.unroll(params, None, inputs, None)[0]
        disturbed = network.unroll(params, None, inputs, None, jax.random.key(0))[0]
        return outputs, disturbed

    for window, blind in ((1, True), (3, False)):
        limited = params | {WINDOW: jnp.int32(window)}
        (a, disturbed), (b, _) = unroll_twice(limited, inputs), unroll_twice(limited, altered)
        assert np.array_equal(a.policy[4], b.policy[4]) == blind
        # What is expected needs what was seen before, the one step that it has.
        assert np.array_equal(a.latent[4], b.latent[4]) == blind
    assert np.array_equal(a.observed_latent, disturbed.observed_latent)
    assert np.abs(a.policy - disturbed.policy).max() > 0.01


@pytest.mark.parametrize("bins", [0, 5])
def test_continuous_actions(bins):
    space = spaces.Box(-1.0, 1.0, (2,))
    settings = dataclasses.replace(SMALL, kind="lstm", layers=1, bins=bins)
    network, params = made(settings, space)
    inputs = jax.eval_shape(lambda: network.unroll(params, None, draw(space), None)[0])
    assert inputs.policy.shape == (LENGTH, BATCH, 2 * bins if bins else 4)
    assert MODEL in params


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"width": 10, "heads": 4}, "width: got 10; accepted: a multiple of 8"),
        ({"kind": "lstm", "window": 2}, "window: got 2; accepted: 0, for the kind lstm"),
        ({"masked": 1.5}, "masked: got 1.5"),
        ({"kind": "gru"}, "kind: got 'gru'"),
    ],
)
def test_bad_settings_are_named(options, match):
    with pytest.raises(ValueError, match=match):
        CausalModelSettings(**options)
