"""Language models on disk."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gpicljax
from gpicljax.networks.language import LanguageModelSettings, language_model
from gpicljax.runtime import (
    SavedError,
    load_language_model,
    save_language_model,
    shipped,
    shipped_models,
)

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


def test_the_shipped_model_learns_a_language_that_it_has_never_seen():
    assert shipped_models() == ["meta_language_tiny"]
    folder = shipped("meta_language_tiny")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2e6
    model = load_language_model(folder)
    assert model.info["parameters"] == 303_008
    env = gpicljax.make("MetaLanguage-v0")
    params = env.make_params(min_order=3, max_order=3)
    keys = jax.random.split(jax.random.key(0), (2, 16))

    @jax.jit
    def nats(task_keys, keys):
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params)
        tokens = env.sample_sequences(keys, tasks, 512)[:, 0].T.astype(jnp.int32)
        logits, _ = model.network.unroll(model.params, None, tokens[:-1], None)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:]).mean(1)

    nats = np.asarray(nats(*keys))
    # The 16 languages are new. Without their context the best there is are log(32) = 3.47 nats.
    assert nats[448:].mean() < nats[12:20].mean() - 0.3
    assert nats[448:].mean() < 1.5


def test_an_unknown_shipped_model_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'meta_language_tiny'"):
        shipped("meta_langage")
