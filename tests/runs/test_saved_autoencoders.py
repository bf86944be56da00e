"""Saved autoencoders come back as they were, and whatever is wrong with them is named."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.runs import load_agent, load_autoencoder, shipped_model
from gpicljax.runs.saved_autoencoders import save_autoencoder
from gpicljax.storage.array_folder import SavedError

SETTINGS, RESOLUTION = AutoencoderSettings("patches", latent=4, width=8), (8, 16)


@pytest.fixture(scope="module")
def params():
    like = jax.eval_shape(standardise(autoencoder(SETTINGS, RESOLUTION)).init, jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: rng.uniform(0.1, 1, x.shape).astype(x.dtype), like)


@pytest.fixture
def saved_autoencoder(tmp_path, params):
    save_autoencoder(tmp_path / "saved", SETTINGS, RESOLUTION, params, evaluation={"error": 0.25})
    return tmp_path / "saved"


def test_comes_back_as_it_was(saved_autoencoder, params):
    loaded = load_autoencoder(saved_autoencoder, RESOLUTION, SETTINGS)
    assert loaded.settings == SETTINGS and loaded.autoencoder.resolution == RESOLUTION
    assert loaded.info["evaluation"] == {"error": 0.25}
    assert loaded.info["parameters"] == sum(x.size for x in jax.tree.leaves(params.network))
    jax.tree.map(np.testing.assert_array_equal, loaded.params, params)
    images = jnp.asarray(np.random.default_rng(1).integers(0, 256, (3, *RESOLUTION, 3), np.uint8))
    mean, _ = loaded.autoencoder.encode(loaded.params, images)
    raw, _ = autoencoder(SETTINGS, RESOLUTION).encode(params.network, images)
    np.testing.assert_allclose(mean, (raw - params.shift) / params.scale, rtol=1e-5, atol=1e-5)


def test_what_is_not_its_own_is_not_saved(tmp_path, params):
    for changed in (params.network, params._replace(shift=np.zeros(5, np.float32))):
        with pytest.raises(ValueError, match="params: got .*accepted: the standardised parameters"):
            save_autoencoder(tmp_path, SETTINGS, RESOLUTION, changed)
    with pytest.raises(ValueError, match="params: got 'others'"):
        save_autoencoder(tmp_path, SETTINGS, (16, 16), params)
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_named(saved_autoencoder):
    with pytest.raises(SavedError, match=r"pictures of 8 x 16, not 16 x 16"):
        load_autoencoder(saved_autoencoder, (16, 16))
    with pytest.raises(SavedError, match="another saved autoencoder: .*latent=4.*, not .*latent=5"):
        load_autoencoder(saved_autoencoder, settings=dataclasses.replace(SETTINGS, latent=5))
    with pytest.raises(SavedError, match="holds no saved autoencoder|autoencoder.json is missing"):
        load_autoencoder(shipped_model("meta_language_tiny"))
    with pytest.raises(SavedError, match=r"agent.json is missing"):
        load_agent(saved_autoencoder)
    with pytest.raises(ValueError, match="folder: got 3"):
        load_autoencoder(3)
    card = saved_autoencoder / "autoencoder.json"
    whole = json.loads(card.read_text())
    for change, message in (
        ({"format": 9}, "format 9"),
        ({"resolution": [8, 8]}, "is needed"),
        ({"resolution": [0, 16]}, "a height and a width above 0"),
        ({"resolution": [9, 16]}, "is needed"),
        ({"autoencoder": whole["autoencoder"] | {"latent": 5}}, "is needed"),
        ({"autoencoder": {"kind": "dense"}}, "dense"),
    ):
        card.write_text(json.dumps(whole | change))
        with pytest.raises(SavedError, match=message):
            load_autoencoder(saved_autoencoder)
    card.write_text(json.dumps(whole))
    content = (saved_autoencoder / "params.npz").read_bytes()
    (saved_autoencoder / "params.npz").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(SavedError, match="has changed"):
        load_autoencoder(saved_autoencoder)
    (saved_autoencoder / "params.npz").write_bytes(content[:100])
    with pytest.raises(SavedError, match="has 100 bytes"):
        load_autoencoder(saved_autoencoder)
