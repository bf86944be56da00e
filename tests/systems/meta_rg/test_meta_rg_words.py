"""`MetaRG.describe` tells what the listener observes, and no more."""

import jax
import jax.numpy as jnp
import pytest

import gpicljax

SAW, SEES = [0.125, -0.5, 1.0], [0.5, 0.25, -1.0]


def blank(shape):
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jax.random.key(0)
    return jnp.zeros(shape.shape, shape.dtype)


def moment(env, saw, sees, **state):
    """Returns task and state in the fourteenth of fourteen support games, before any message."""
    key = jax.random.key(0)
    task = jax.tree.map(blank, jax.eval_shape(env.sample_task, key, env.default_params))
    start = jax.tree.map(blank, jax.eval_shape(env.initial, key, task))
    tokens = jnp.arange(env.vocab_size + 1)
    heard = jnp.where(tokens > 0, tokens % env.vocab_size + 1, 0)
    task = task.replace(
        heard=jnp.broadcast_to(heard, (env.message_length, len(heard))),
        positions=jnp.arange(env.message_length),
        num_values=jnp.asarray([4, 3, 2]),
    )
    skeleton = start.skeleton.replace(num_support=jnp.int32(14), num_games=jnp.int32(29))
    dtype = start.game.speaker.dtype
    game = start.game.replace(
        speaker=jnp.asarray([saw], dtype),
        listener=jnp.asarray([sees], dtype),
        answer=jnp.int32(1),
        speaker_latents=jnp.full((1, 3), 3),
    )
    state = {name: jnp.int32(value) for name, value in ({"index": 13} | state).items()}
    return task, start.replace(game=game, skeleton=skeleton, **state)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_words_are_those_of_the_listeners_observation(version):
    env = gpicljax.make(f"MetaRG-v{version}")
    task, state = moment(env, SAW, SEES)
    game, sees = "support game 14", "the listener sees (0.50, 0.25, -1.00) and hears"
    assert env.describe(state, task) == f"{game}, round 0: {sees} [0, 0, 0]"
    state = state.replace(channel=jnp.asarray([[1, 6, 2], [0, 0, 0]]), round=jnp.int32(1))
    assert env.describe(state, task) == f"{game}, decision: {sees} [2, 1, 3]"
    query = state.replace(index=jnp.int32(15))
    assert env.describe(query, task) == f"query game 2, decision: {sees} [2, 1, 3]"
    saw = "the listener sees the speaker's (0.12, -0.50, 1.00) and hears"
    state = state.replace(round=jnp.int32(2))
    assert env.describe(state, task) == f"{game}, feedback: {saw} [2, 1, 3]"


@pytest.mark.parametrize(
    ("stimulus", "entries", "words"),
    [
        ("mhe", [0, 1, 0, 1, 0, 0, 0, 0, 0], "(1, 0, -)"),
        ("categorical", [3, 12, 0], "(3, 12, -)"),
        ("pseudoword", [1, 2, 1, 2, 26, 25, 26, 25, 0, 0, 0, 0], "(abab, zyzy, -)"),
    ],
)
def test_values_have_the_names_that_are_observed(stimulus, entries, words):
    env = gpicljax.make("MetaRG-v0", stimulus=stimulus, max_values=3)
    hidden = [0] * len(entries)
    assert f"sees {words} and" in env.describe(*moment(env, hidden, entries)[::-1])


def test_of_two_players_the_listeners_view_is_told():
    env = gpicljax.make("MetaRG-v0", view="players")
    task, state = moment(env, SAW, SEES)
    text = "support game 14, round 0: the listener sees (0.50, 0.25, -1.00) and hears [0, 0, 0]"
    assert env.describe(state, task) == text
