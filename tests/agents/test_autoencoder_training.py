"""Autoencoders learn: schedules, the two losses, noise that comes from the trainer's key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.agents.autoencoder import Inputs, Schedules, autoencoder_network, divergence, make
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder

SMALL = autoencoder(AutoencoderSettings("patches", latent=4, width=16), (16, 16))


def squares(keys, level):
    """Two pictures for each key: a bright square of 8 x 8 pixels in one of four corners."""

    def draw(key):
        corner = jax.random.randint(key, (2, 2), 0, 2)
        at = jnp.arange(16) // 8
        inside = (at[:, None] == corner[:, :1, None]) & (at == corner[:, 1:, None])
        return jnp.where(inside, level, 0).astype(jnp.uint8)

    drawn = jax.vmap(draw)(keys).reshape(-1, 16, 16, 1)
    return jnp.broadcast_to(drawn, (*drawn.shape[:-1], 3))


def test_schedules_are_piecewise_linear():
    after = jax.jit(jax.vmap(Schedules().after))
    weights, noise = after(jnp.array([0, 500, 1000, 1500, 2500, 3000, 10**6]))
    np.testing.assert_allclose(weights, [0, 5e-8, 1e-7, 5.5e-7, 5.5e-6, 1e-5, 1e-5], rtol=1e-5)
    np.testing.assert_allclose(noise, [0, 0.05, 0.1, 0.15, 0.6, 1, 1], rtol=1e-5)
    assert weights.dtype == noise.dtype == jnp.float32
    for arguments, message in (
        ({"updates": (0, 2, 2, 3)}, r"updates: got \(0, 2, 2, 3\)"),
        ({"updates": ()}, "updates: got"),
        ({"divergence": (0.0, 1.0)}, "divergence: got .*accepted: 4 numbers"),
        ({"noise": (0.0, 0.0, 0.0, -1.0)}, "noise: got"),
    ):
        with pytest.raises(ValueError, match=message):
            Schedules(**arguments)


def test_the_divergence_is_summed_over_latents():
    rng = np.random.default_rng(0)
    mean, log_variance = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    result = divergence(jnp.asarray(mean), jnp.asarray(log_variance))
    # The mean of log p / q over samples of p.
    deviation = np.exp(log_variance / 2)
    samples = mean + deviation * rng.normal(size=(100_000, 2, 3, 4))
    terms = samples**2 - ((samples - mean) / deviation) ** 2 - log_variance
    estimate = terms.sum(-1) / 2
    error = estimate.std(0) / np.sqrt(len(estimate))
    assert result.shape == (2, 3) and (np.abs(result - estimate.mean(0)) < 4 * error).all()


def test_noise_comes_from_the_key(key):
    network = autoencoder_network(SMALL)
    images = squares(jax.random.split(key, 3), 200)[None]
    params = network.init(key, None)

    @jax.jit
    def run(params, key):
        inputs = Inputs(images, jnp.ones(images.shape[:2]))
        silent = inputs._replace(noise=jnp.zeros_like(inputs.noise))
        first = jax.tree.map(lambda x: x[0], inputs)
        return (
            network.unroll(params, None, inputs, None)[0],
            network.unroll(params, None, silent, None, key)[0],
            network.unroll(params, None, inputs, None, key)[0],
            network.step(params, (), first, jnp.zeros(6, bool))[0],
            SMALL.decode(params, SMALL.encode(params, images)[0]),
        )

    plain, silent, loud, step, decoded = run(params, key)
    assert plain["image"].shape == images.shape and plain["mean"].shape == (1, 6, 4)
    assert network.initial_carry(6) == ()
    for image in (decoded, silent["image"], step["image"][None]):
        np.testing.assert_allclose(plain["image"], image, atol=1e-6)
    assert np.abs(plain["image"] - loud["image"]).mean() > 1e-3
    np.testing.assert_allclose(plain["mean"], loud["mean"], atol=1e-6)


@pytest.fixture(scope="module")
def training():
    schedules = Schedules((0, 300), divergence=(1e-5, 1e-5), noise=(0.0, 1.0))
    config = SequenceConfig(batch_size=16, schedule="constant")
    trainer = make(config, SMALL, squares, schedules, images_per_key=2)
    hparams = SequenceHParams(learning_rate=3e-3, warmup_updates=10)
    first = jax.jit(trainer.init)(jax.random.key(0), hparams, jnp.int32(200))
    run = jax.jit(lambda state: jax.lax.scan(lambda s, _: trainer.update(s), state, None, 300))
    state, metrics = run(first)
    darker = run(state.replace(data=jnp.int32(50)))[1]
    return trainer, first, state, *jax.device_get((metrics, darker))


def test_what_there_is_to_see_is_learnt(training):
    trainer, first, state, metrics, darker = training
    assert trainer.observations == 32 and int(state.updates) == 300
    # Four kinds of pictures: their mean is off by 3/16 of the bright pixels' square.
    mean_image = (200 / 255) ** 2 * 3 / 16
    error = metrics["reconstruction"]
    assert error[0] > mean_image and error[-20:].mean() < 0.1 * mean_image
    # Noise, which comes with time, pulls the latents apart until they say which corner it is.
    assert metrics["divergence"][-1] > 2
    np.testing.assert_allclose(
        metrics["loss"], error + 1e-5 * metrics["divergence"], rtol=1e-5, atol=1e-7
    )
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, state)
    # The source is a part of the state: other pictures are news at first.
    first, last = darker["reconstruction"][0], darker["reconstruction"][-1]
    assert first > 0.05 > 10 * last


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="images_per_key: got 0"):
        make(SequenceConfig(), SMALL, squares, images_per_key=0)
    with pytest.raises(ValueError, match="devices: got 3"):
        make(SequenceConfig(), SMALL, squares, devices=3)
    with pytest.raises(ValueError, match="agent: got None"):
        make(SequenceConfig(), SMALL, squares).agent()
