"""Language models on disk."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.networks.language import LanguageModelSettings, language_model
from gpicljax.runtime import SavedError, load_language_model, save_language_model

SMALL = LanguageModelSettings("transformer", layers=1, width=8, heads=2)


@pytest.fixture(scope="module")
def params():
    return jax.jit(language_model(SMALL, 5).init)(jax.random.key(0), jnp.zeros(1, jnp.int32))


@pytest.fixture
def saved(tmp_path, params):
    save_language_model(tmp_path / "m", SMALL, params, vocab_size=5, context=16, note="a test")
    return tmp_path / "m"


def test_what_is_loaded_predicts_the_same(saved, params):
    model = load_language_model(saved, capacity=32)
    tokens = jnp.arange(12).reshape(6, 2) % 5
    before, _ = language_model(SMALL, 5).unroll(params, None, tokens, None)
    np.testing.assert_array_equal(model.network.unroll(model.params, None, tokens, None)[0], before)
    assert model.settings == SMALL and model.info["note"] == "a test"
    assert model.info["parameters"] == sum(x.size for x in jax.tree.leaves(params))
    assert model.network.initial_carry(3).capacity == 32
    assert load_language_model(saved).network.initial_carry(3).capacity == 16


def test_another_size_is_refused(saved, params, tmp_path):
    other = LanguageModelSettings("transformer", layers=2, width=8, heads=2)
    with pytest.raises(SavedError, match="another size"):
        load_language_model(saved, settings=other)
    with pytest.raises(SavedError, match="is needed"):
        save_language_model(tmp_path / "n", other, params, vocab_size=5, context=16)
    assert not (tmp_path / "n").exists()


def test_damage_is_named(saved):
    arrays = saved / "params.npz"
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(SavedError, match="params.npz has changed"):
        load_language_model(saved)
    arrays.write_bytes(content[:-5])
    with pytest.raises(SavedError, match="bytes instead of"):
        load_language_model(saved)
    card = saved / "model.json"
    whole = json.loads(card.read_text())
    card.write_text(json.dumps(whole | {"settings": {"kind": "parrot"}}))
    arrays.write_bytes(bytes(content))
    with pytest.raises(SavedError):
        load_language_model(saved)
    card.unlink()
    with pytest.raises(SavedError, match="never finished"):
        load_language_model(saved)
    with pytest.raises(SavedError, match="holds no saved language model"):
        load_language_model(saved.parent)
