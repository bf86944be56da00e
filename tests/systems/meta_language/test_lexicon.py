"""Texts of random words, and their part in the training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.meta_language.data.lexicon import LONGEST, sample_lexicon_text
from gpicljax.systems.meta_language.data.training import TrainingTexts
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.systems.meta_language.measures import adaptive_ngram


@pytest.fixture(scope="module")
def texts():
    draw = functools.partial(sample_lexicon_text, length=500, vocab_size=32)
    return np.asarray(jax.vmap(draw)(jax.random.split(jax.random.key(0), 64)))


def test_texts_are_of_words_with_a_space_of_their_own(texts):
    assert texts.shape == (64, 501) and texts.min() >= 0 and texts.max() < 32
    spaces = set()
    for text in texts:
        # The space never follows itself, and no word is longer than the longest.
        follows_itself = {int(a) for a, b in zip(text, text[1:], strict=False) if a == b}
        fitting = [
            token
            for token in set(text.tolist()) - follows_itself
            if np.diff(np.flatnonzero(text == token)).max(initial=0) <= LONGEST + 1
            and np.diff(np.flatnonzero(text == token)).min(initial=2) >= 2
        ]
        assert fitting
        spaces.add(fitting[0])
    assert len(spaces) > 10  # which token it is differs


def test_words_come_again(texts):
    """Longer contexts predict better, as in natural text."""
    nats = [adaptive_ngram(texts, order, 32)[:, 250:].mean() for order in (0, 1, 3)]
    assert nats[0] - nats[1] > 0.2 and nats[1] - nats[2] > 0.1


def test_other_languages_have_other_scales_and_weights():
    env = MetaLanguage()
    texts = TrainingTexts(env, 512, 0, jax.random.key(1), other_languages=0.5, lexicons=0.25)
    equal = MetaLanguage(max_order=env.num_slots, slot_weights="uniform")
    keys = jax.random.split(jax.random.key(0), 400)
    params = env.default_params
    tasks = jax.vmap(env.sample_task, (0, None))(keys, params)
    vary = functools.partial(texts.vary_language, equal, params)
    varied = jax.vmap(vary)(keys, tasks)
    is_other = np.asarray(varied.scale != tasks.scale)
    is_equal = np.asarray((varied.tables != tasks.tables).any((1, 2, 3)))
    assert abs(is_other.mean() - 0.5) < 0.1 and abs(is_equal.mean() - 0.25) < 0.1
    assert not (is_equal & ~is_other).any()
    assert 1 <= varied.scale[is_other].min() < 2 < 5 < varied.scale[is_other].max() <= 6
    tokens = jnp.full((400, 513), -1)
    mixed = jax.vmap(texts.replace_by_lexicon)(keys, tokens)
    assert abs(float((mixed[:, 0] >= 0).mean()) - 0.25) < 0.1
