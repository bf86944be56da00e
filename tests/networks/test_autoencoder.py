"""Autoencoders of pictures: the paper's sizes, parts as the whole, standardised latents."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.networks.autoencoder import (
    AutoencoderSettings,
    autoencoder,
    decode_in_parts,
    encode_in_parts,
    latent_statistics,
    standardise,
)

PATCHES = AutoencoderSettings("patches", latent=4, width=8)
CONVOLUTIONS = AutoencoderSettings(latent=4, width=16, decoder_width=8, blocks=1)


def count(params):
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def shapes(settings, resolution):
    bundle = autoencoder(settings, resolution)
    return bundle, jax.eval_shape(bundle.init, jax.random.key(0))


def pictures(*shape):
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)


@pytest.mark.parametrize("side", [128, 64, 32])
def test_the_papers_has_as_many_parameters(side):
    bundle, params = shapes(AutoencoderSettings(), (side, side))
    # What depends on the resolution: the dense layers beside the smallest grid.
    lost = (128**2 - side**2) // 64 * 96
    assert count(params["encoder"]) == 11_076_528 - 384 * lost
    assert count(params["decoder"]) == 14_343_923 - 385 * lost
    assert count(params["mean"]) + count(params["log_variance"]) == 788_480
    images = jax.ShapeDtypeStruct((2, 3, side, side, 3), jnp.uint8)
    mean, log_variance = jax.eval_shape(bundle.encode, params, images)
    assert mean.shape == log_variance.shape == (2, 3, 1024)
    decoded = jax.eval_shape(bundle.decode, params, mean)
    assert decoded.shape == images.shape and decoded.dtype == jnp.float32


def test_the_prototypes_has_as_many_parameters():
    _, params = shapes(AutoencoderSettings("patches", latent=64, width=64), (32, 32))
    position = 8 * 8 * 64
    encoder = (48 + 1) * 64 + position + (256 + 1) * 64 + (1024 + 1) * 256
    decoder = (64 + 1) * 256 + (256 + 1) * 1024 + (64 + 1) * 256 + position
    assert count(params["encoder"]) == encoder
    assert count(params["decoder"]) == decoder + (64 + 1) * 128 + (128 + 1) * 48
    assert count(params["mean"]) == count(params["log_variance"]) == (256 + 1) * 64


def test_parts_and_axes_change_nothing(key):
    small = autoencoder(PATCHES, (8, 16))
    params, images = small.init(key), jnp.asarray(pictures(2, 5, 8, 16))

    @functools.partial(jax.jit, static_argnums=2)
    def run(params, images, part):
        mean, log_variance = encode_in_parts(small, params, images, part)

        def error(params, mean):
            decoded = decode_in_parts(small, params, mean, part)
            return jnp.square(decoded - images / 255).mean(), decoded

        (_, decoded), gradient = jax.value_and_grad(error, (0, 1), has_aux=True)(params, mean)
        return mean, log_variance, decoded, gradient

    whole = run(params, images, None)
    assert whole[0].shape == whole[1].shape == (2, 5, 4) and whole[2].shape == images.shape
    assert 0 < whole[2].min() < whole[2].max() < 1
    # Pictures differ, and so do their latents and what is made of those.
    assert whole[0].std(1).min() > 1e-3 and whole[2].std(1).max() > 1e-3
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(run(params, images, 4)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_weights_keep_the_variance(key):
    small = autoencoder(PATCHES, (8, 16))
    params = small.init(key)
    kernel = params["decoder"]["Linear_1"]["kernel"]
    assert kernel.shape == (32, 2 * 8) and abs(kernel.var() * 32 - 2) < 0.4
    assert np.abs(kernel.mean()) < 0.05 and np.abs(kernel).max() <= np.sqrt(6 / 32)
    assert not params["decoder"]["Linear_1"]["bias"].any()
    other_params = small.init(jax.random.key(1))
    assert (other_params["decoder"]["Linear_1"]["kernel"] != kernel).all()
    assert (params["mean"]["kernel"] != params["log_variance"]["kernel"]).all()


def test_convolutions_see_the_whole_picture(key):
    small = autoencoder(CONVOLUTIONS, (8, 16))
    params, images = small.init(key), jnp.asarray(pictures(2, 8, 16))
    changed = images.at[1].set(images[0].at[:, -1].set(255 - images[0][:, -1]))

    @jax.jit
    def run(params, images):
        mean, log_variance = small.encode(params, images)
        return mean, log_variance, small.decode(params, mean)

    (mean, log_variance, decoded), altered = run(params, images), run(params, changed)
    assert mean.shape == log_variance.shape == (2, 4) and decoded.shape == images.shape
    np.testing.assert_allclose(mean[0], altered[0][0], rtol=1e-5)
    # A change of the last column alone reaches every latent, and every pixel that is made of them.
    assert (altered[0][1] != mean[0]).all()
    assert (altered[2][1] != decoded[0]).any(-1).all()


def test_standardised_latents_are_brought_back(key):
    small = autoencoder(PATCHES, (8, 16))
    small = small._replace(encode=jax.jit(small.encode), decode=jax.jit(small.decode))
    bundle, images = standardise(small), jnp.asarray(pictures(64, 8, 16))
    params = bundle.init(key)
    raw = small.encode(params.network, images)
    jax.tree.map(np.testing.assert_array_equal, raw, bundle.encode(params, images))
    shift, scale = latent_statistics(raw[0])
    params = params._replace(shift=shift, scale=scale)
    mean, log_variance = bundle.encode(params, images)
    np.testing.assert_allclose(mean.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(mean.std(0), 1, rtol=1e-3)
    np.testing.assert_allclose(np.exp(log_variance / 2) * scale, np.exp(raw[1] / 2), rtol=1e-4)
    expected = small.decode(params.network, raw[0])
    np.testing.assert_allclose(bundle.decode(params, mean), expected, atol=1e-5)


def test_small_pictures_are_read_with_zeros_around_them(key):
    small, whole = autoencoder(PATCHES, (3, 5)), autoencoder(PATCHES, (8, 8))
    params, images = small.init(key), pictures(4, 3, 5)
    padded = np.pad(images, ((0, 0), (0, 5), (0, 3), (0, 0)))
    latents, expected = (
        jax.jit(bundle.encode)(params, jnp.asarray(pictured))[0]
        for bundle, pictured in ((small, images), (whole, padded))
    )
    np.testing.assert_array_equal(latents, expected)
    decoded, in_whole = (jax.jit(bundle.decode)(params, latents) for bundle in (small, whole))
    np.testing.assert_array_equal(decoded, in_whole[:, :3, :5])


def test_half_precision_is_near():
    half = dataclasses.replace(CONVOLUTIONS, precision="bfloat16")
    bundle, params = shapes(half, (16, 16))
    kinds = {leaf.dtype.name for leaf in jax.tree.leaves(params)}
    mean, _ = jax.eval_shape(bundle.encode, params, jnp.asarray(pictures(1, 16, 16)))
    assert kinds == {"float32"} and mean.dtype == jnp.float32
    assert jax.eval_shape(bundle.decode, params, mean).dtype == jnp.float32


def test_what_does_not_fit_is_refused():
    small, params = shapes(PATCHES, (16, 16))
    with pytest.raises(ValueError, match=r"resolution: got \(16, 0\); accepted: a height"):
        autoencoder(PATCHES, (16, 0))
    with pytest.raises(ValueError, match="kind: got 'patch'"):
        AutoencoderSettings("patch")
    with pytest.raises(ValueError, match="blocks: got -1"):
        AutoencoderSettings(blocks=-1)
    with pytest.raises(ValueError, match=r"images: got uint8\[16, 24, 3\]"):
        small.encode(params, jnp.asarray(pictures(16, 24)))
    with pytest.raises(ValueError, match=r"images: got float32\[16, 16, 3\]"):
        small.encode(params, jnp.zeros((16, 16, 3)))
    with pytest.raises(ValueError, match=r"latents: got float32\[2, 5\]"):
        small.decode(params, jnp.zeros((2, 5)))
    with pytest.raises(ValueError, match="part: got 0"):
        encode_in_parts(small, params, jnp.asarray(pictures(2, 16, 16)), 0)
