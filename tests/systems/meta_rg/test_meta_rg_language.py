"""Speakers' messages for every meaning, and how easily somebody new learns them."""

import dataclasses
import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageColor

import gpicljax
from gpicljax.interface import Agent
from gpicljax.systems.meta_rg.env.types import SPEAKER
from gpicljax.systems.meta_rg.figures.languages import languages_film
from gpicljax.systems.meta_rg.figures.messages import token_hues
from gpicljax.systems.meta_rg.measures.acquisition import ease_of_acquisition
from gpicljax.systems.meta_rg.measures.speaker_language import languages, meanings, utterances

ENV = gpicljax.make("MetaRG-v1", view="players", max_values=3)


def speaker(say):
    """Both players; the speaker says a function of its stimulus, times `params`."""

    def act(keys, params, carry, timestep):
        message = params * say(timestep.observation["stimulus"][:, SPEAKER])
        action = jnp.zeros((len(keys), 2, 4), jnp.int32).at[:, SPEAKER, 1:].set(message)
        return action, {}, carry

    return Agent(lambda batch: (), act)


def thirds():
    """It tells the thirds in which its stimulus lies."""
    return speaker(lambda x: 1 + jnp.clip(jnp.floor((x + 1) * 1.5), 0, 2).astype(jnp.int32))


def test_every_meaning_is_asked_for():
    # All structures have two or three values; sections are told by the stimulus alone.
    params = ENV.make_params(min_values=3, max_values=3)
    ask = jax.jit(functools.partial(languages, env=ENV, agent=thirds(), structures=4))
    key = jax.random.key(0)
    codes = jax.device_get(ask(key, params=1, env_params=params))
    assert codes.messages.shape == (4, 27, 3) and (codes.counts == 1).all()
    # A stimulus leaves its section in 0.05 % of all cases.
    assert (codes.messages == meanings(ENV) + 1).mean() > 0.99
    assert (codes.posdis > 0.95).all() and (codes.topsim > 0.8).all() and (codes.bosdis < 0.5).all()
    params = ENV.make_params(min_values=2, max_values=3)
    mixed = jax.device_get(ask(key, params=1, env_params=params))
    assert set(mixed.counts.sum(-1)) <= {8, 12, 18, 27} and mixed.counts.sum() < 4 * 27
    silent = ask(key, params=0, env_params=params)
    assert (silent.messages == 0).all() and np.isnan(silent.posdis).all()


def test_every_sample_is_spoken_of():
    env = dataclasses.replace(ENV, max_samples=3)
    ends = speaker(lambda x: jnp.where(x > 0, 6, 1))
    params = env.make_params(min_values=2, max_values=2, samples=2)
    ask = jax.jit(
        lambda key: utterances(key, env, ends, 1, params, structures=2, samples=env.max_samples)
    )
    codes = jax.device_get(ask(jax.random.key(0)))
    assert codes.messages.shape == codes.stimuli.shape == (2, 27, 3, 3)
    assert (codes.messages == np.where(codes.stimuli > 0, 6, 1)).all()
    exists = codes.counts > 0
    assert exists.sum() == 16 and (codes.num_values == 2).all()
    # Of two samples there are, the third is the first again.
    first, second, third = np.moveaxis(codes.stimuli[exists], 1, 0)
    assert (first == third).all() and (first != second).all()


def test_a_speaker_is_asked_before_it_has_spoken_or_after():
    # It says how often it has spoken before, cut at the largest token.
    def act(keys, params, carry, timestep):
        begins = timestep.observation["round"][:, SPEAKER] == 0
        carry = jnp.where(timestep.trial_start, 0, carry) + begins
        action = jnp.zeros((len(keys), 2, 4), jnp.int32)
        said = jnp.minimum(carry, ENV.vocab_size)
        return action.at[:, SPEAKER, 1:].set(said[:, None]), {}, carry

    counts = Agent(lambda batch: jnp.zeros(batch, jnp.int32), act)
    sizes = {"agent": counts, "params": (), "env_params": ENV.default_params, "structures": 2}

    @jax.jit
    def ask(key):
        return [languages(key, ENV, **sizes, asked=when).messages for when in ("start", "end")]

    first, last = jax.device_get(ask(jax.random.key(0)))
    assert (first == 1).all() and (last == ENV.vocab_size).all()


def test_a_code_is_learnt_and_noise_is_not():
    space = jnp.asarray(meanings(ENV))
    key = jax.random.key(1)
    query = (space % 2 == 1).sum(-1) >= 2
    samples = jnp.stack([space, space], 1)
    stimuli = (2 * samples + 1) / 3 - 1 + 0.05 * jax.random.normal(key, samples.shape)
    noise = jax.random.randint(key, samples.shape, 1, 4)
    codes = jnp.stack([samples + 1, noise])

    @jax.jit
    @jax.vmap
    def learn(messages):
        return ease_of_acquisition(
            key, messages, stimuli, ~query, query, vocab_size=3, epochs=200, learning_rate=3e-3
        )

    learnt = jax.device_get(learn(codes))
    assert learnt.support.shape == (2, 200)
    # Twenty combinations teach the others only in part.
    assert learnt.query[0] > 0.6 and learnt.learnt[0] > 0.9
    assert abs(learnt.query[1] - 0.5) < 0.2


def test_what_is_refused():
    sent, inputs, mask = jnp.ones((4, 1, 3), jnp.int32), jnp.zeros((4, 1, 2)), jnp.ones(4)
    for arguments, words in (
        ((sent[0], inputs, mask, mask), "messages"),
        ((sent, inputs[:2], mask, mask), "stimuli"),
        ((sent, inputs, mask[:2], mask), "support"),
    ):
        with pytest.raises(ValueError, match=words):
            ease_of_acquisition(jax.random.key(0), *arguments, vocab_size=3)
    with pytest.raises(ValueError, match="epochs: got 0"):
        ease_of_acquisition(jax.random.key(0), sent, inputs, mask, mask, vocab_size=3, epochs=0)


def test_a_film_of_a_language_has_a_frame_for_each_moment_and_fixed_colours():
    space = meanings(dataclasses.replace(ENV, max_values=2))
    moments = np.stack([np.full_like(space, token) for token in (1, 5, 0)])
    film = Image.open(io.BytesIO(languages_film(moments, space, 6, titles=["a", "b", "c"])))
    assert film.n_frames == 3 and max(film.size) <= 640
    hues = np.array([ImageColor.getrgb(hue) for hue in token_hues(6)])
    shown = []
    for moment in range(3):
        film.seek(moment)
        pixels = np.asarray(film.convert("RGB")).astype(int)
        shown.append([(np.abs(pixels - hue).max(-1) < 12).sum() for hue in hues])
    # Besides the cells there is the legend.
    assert np.argmax(shown, axis=0)[[1, 5]].tolist() == [0, 1]
    assert shown[0][1] > 10_000 < shown[1][5] and shown[0][5] < 1_000 > shown[1][1]


@pytest.mark.parametrize(
    ("moments", "titles", "message"),
    [(np.ones((8, 3), int), ["a"], "messages"), (np.ones((2, 8, 3), int), ["a"], "titles: got 1")],
)
def test_a_film_refuses_what_does_not_fit(moments, titles, message):
    with pytest.raises(ValueError, match=message):
        languages_film(moments, np.ones((8, 3), int), 6, titles=titles)
