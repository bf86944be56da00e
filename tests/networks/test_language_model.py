"""Language models of every kind: sizes, and step against unroll."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

from gpicljax.networks.language_model import LanguageModelSettings, language_model

KINDS = ("transformer", "linear", "delta", "lstm")


def size(settings):
    network = language_model(settings)
    params = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros(2, jnp.int32))
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def test_sizes_are_the_papers():
    sizes = [(6, 64, 4), (12, 256, 8), (12, 1024, 16)]
    counts = [size(LanguageModelSettings("transformer", *shape)) for shape in sizes]
    assert counts == [303_008, 9_484_832, 151_185_440]


@pytest.mark.parametrize("shape", [(6, 64, 4), (12, 256, 8)])
def test_kinds_have_about_equal_budgets(shape):
    counts = [size(LanguageModelSettings(kind, *shape)) for kind in KINDS]
    assert max(counts) / min(counts) < 1.03, counts


OVER_MEMORY = LanguageModelSettings("transformer", 2, 8, 2, features="online")
READS_LATEST = LanguageModelSettings("transformer", 2, 8, 2, features="latest")
READS_FOLLOWERS = LanguageModelSettings("transformer", 2, 8, 2, features="followers")
SETTINGS = [LanguageModelSettings(kind, 2, 8, 2) for kind in (*KINDS, "online")]


@pytest.mark.parametrize(
    "settings",
    daily(SETTINGS[:1], (*SETTINGS, READS_LATEST, READS_FOLLOWERS, OVER_MEMORY)),
    ids=lambda x: x.title,
)
def test_step_is_unroll(settings):
    network = language_model(settings, 5, capacity=12)
    draw = np.random.default_rng(0)
    tokens = jnp.asarray(draw.integers(5, size=(12, 3)), jnp.int32)
    starts = jnp.asarray(draw.random((12, 3)) < 0.2)
    params = network.init(jax.random.key(0), tokens[0])
    whole, _ = jax.jit(network.unroll)(params, network.initial_carry(3), tokens, starts)
    step, carry, logits = jax.jit(network.step), network.initial_carry(3), []
    for token, start in zip(tokens, starts, strict=True):
        output, carry = step(params, carry, token, start)
        logits.append(output)
    np.testing.assert_allclose(whole, np.stack(logits), atol=3e-6)
    without_carry, _ = jax.jit(network.unroll)(params, None, tokens, None)
    fresh, _ = jax.jit(network.unroll)(
        params, network.initial_carry(3), tokens, jnp.zeros_like(starts)
    )
    np.testing.assert_allclose(without_carry, fresh, atol=3e-6)


def test_a_transformer_over_an_online_memory_begins_with_its_predictions():
    network = language_model(OVER_MEMORY, 5)
    alone = language_model(LanguageModelSettings("online"), 5)
    tokens = jax.random.randint(jax.random.key(0), (12, 3), 0, 5)
    params = network.init(jax.random.key(1), tokens[0])
    logits, _ = jax.jit(network.unroll)(params, None, tokens, None)
    alone_params = {"params": params["params"]["reader"]["memory"]}
    expected, _ = jax.jit(alone.unroll)(alone_params, None, tokens, None)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layers": 0}, "layers: got 0"),
        ({"heads": 3}, "width: got 64; accepted: a multiple of 2 x heads = 6"),
        ({"window": -1}, "window: got -1"),
        ({"dropout": 1.0}, "dropout: got 1.0"),
        ({"dropout": 0.1, "kind": "lstm"}, "dropout: got 0.1; accepted: 0, for the kind lstm"),
        ({"hidden": -1}, "hidden: got -1"),
        ({"features": "online", "kind": "lstm"}, "features: got 'online'; accepted: tokens"),
    ],
)
def test_bad_settings_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        LanguageModelSettings(**options)
