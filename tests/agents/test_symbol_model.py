"""A model of streams acts by what it would predict, and learns a teacher's trials."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents import sequence, symbol_model
from gpicljax.agents.acting import random_agent
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.agents.symbol_lessons import (
    OWN_SHARE,
    OwnTrials,
    StreamTask,
    mixed_lessons,
    mixed_sampler,
    stream_sampler,
)
from gpicljax.agents.symbol_model import SymbolModelConfig, symbol_agent, symbol_losses
from gpicljax.interface import Agent
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.rollout import rollout, start_rollout
from gpicljax.symbols import ACTION, SYMBOLS, write_stream
from gpicljax.systems.gradual_learning import experts
from gpicljax.wrappers import Trial

SMALL = LanguageModelSettings(layers=1, width=16, heads=2, features="followers")


@functools.cache
def network(capacity=256):
    """A small model with random parameters."""
    model = language_model(SMALL, SYMBOLS, capacity)
    params = model.init(jax.random.key(0), jnp.zeros(1, jnp.int32))
    head = params["params"]["head"]["kernel"]
    noise = jax.random.normal(jax.random.key(1), head.shape)
    params["params"]["head"]["kernel"] = noise
    return model, params


def played(env, steps, batch=3):
    """Time steps, actions and logits of a model that acts, and the streams of its trials."""
    model, params = network()
    vec, agent = gpicljax.VectorEnv(env, batch), symbol_agent(model, env)

    @jax.jit
    def run(key):
        start = start_rollout(key, vec, agent)
        _, (timesteps, actions, aux) = rollout(vec, agent, params, start, steps)
        stream = write_stream(env.symbols(), actions, timesteps, 8 * steps)
        logits, _ = model.unroll(params, None, stream.symbols, stream.starts)
        return timesteps, actions, aux, stream, logits

    return jax.device_get(run(jax.random.key(2)))


@pytest.mark.parametrize("wraps", [False, True])
def test_it_acts_by_the_logits_of_its_stream(wraps):
    env = gpicljax.make("FrozenLake-v1", size=4)
    env = Trial(env, actions=20) if wraps else env
    timesteps, actions, aux, stream, logits = played(env, steps=15)
    for i in range(3):
        places = np.flatnonzero(stream.is_action[:, i])
        counts = ~(timesteps.trial_start | timesteps.episode_start)[1:, i]
        assert (stream.symbols[places - 1, i] == ACTION).all()
        np.testing.assert_array_equal(stream.symbols[places, i], actions[:-1, i][counts])
        expected = logits[places - 1, i, :4]
        np.testing.assert_allclose(aux["logits"][:-1, i][counts], expected, atol=2e-4)


def test_where_silence_is_an_action_the_marker_decides():
    env = gpicljax.make("ByteStream-v0", families=("mapping",))
    _, actions, aux, stream, logits = played(env, steps=15)
    chances = np.asarray(jax.nn.softmax(aux["logits"]))
    np.testing.assert_allclose(chances.sum(-1), 1, atol=1e-4)
    # After the first byte, the third symbol at the latest, it speaks as often as it expects to.
    speaks = np.asarray(jax.nn.softmax(logits[1]))[:, ACTION]
    np.testing.assert_allclose(1 - chances[0, :, ord(" ")], speaks, atol=1e-4)
    spoken = actions[:-1] != ord(" ")
    assert stream.is_action.sum() == spoken.sum()


def test_predictions_are_those_of_the_next_token():
    env = gpicljax.make("MetaLanguage-v0")
    _, actions, _, stream, logits = played(env, steps=10)
    expected = jax.nn.log_softmax(logits[1:11, :, :32])
    np.testing.assert_allclose(actions, expected, atol=2e-4)
    assert stream.is_written[:11].all() and not stream.is_written[11:].any()


def always(action):
    """A teacher that always does the same."""

    def act(keys, params, carry, timestep):
        return jnp.full(keys.shape[0], action, jnp.int32), {}, carry

    return Agent(lambda batch: (), act)


def test_replaced_actions_keep_the_teachers_labels():
    env = gpicljax.make("FrozenLake-v1", size=4)
    vec = gpicljax.VectorEnv(env, 16)
    sample = jax.jit(lambda key: stream_sampler(vec, always(2), 40, 80, 0.9)(key[None], None))
    drawn = jax.device_get(sample(jax.random.key(0)))
    is_action = drawn.targets["is_action"][:-1]
    assert (drawn.targets["next"][:-1][is_action] == 2).all()
    taken = drawn.inputs[1:][is_action]
    assert 0.2 < (taken != 2).mean() < 0.5


def test_a_teacher_that_cannot_be_told_is_not_replaced():
    env = gpicljax.make("FrozenLake-v1", size=4)
    forgetful = always(1)._replace(initial_carry=lambda batch: jnp.zeros(batch))
    with pytest.raises(ValueError, match="exploration"):
        stream_sampler(gpicljax.VectorEnv(env, 2), forgetful, 4, 8, 0.5)
    lake = kinds_of_trials()[0]._replace(teacher=forgetful)
    with pytest.raises(ValueError, match="own_trials"):
        mixed_lessons([lake], 1, 8, lambda env: symbol_agent(network()[0], env), 2)


def test_sources_lie_side_by_side():
    lake = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1", size=4), 2)
    stream = gpicljax.VectorEnv(
        gpicljax.make("ByteStream-v0", families=("mapping",)), 2, privileged=True
    )
    sample = mixed_sampler(
        [
            stream_sampler(lake, always(1), 10, 30),
            stream_sampler(stream, experts.teacher_agent(), 20, 30),
        ]
    )
    drawn = jax.jit(lambda keys: sample(keys, (None, None)))(jax.random.split(jax.random.key(0), 4))
    assert drawn.inputs.shape == (30, 4)
    assert drawn.targets["source"].tolist() == [[0, 0, 1, 1]] * 30
    losses = symbol_losses(["lakes", "bytes"])
    assert [loss.name for loss in losses] == ["nats", "nats.lakes", "nats.bytes"]
    # Of what the streams of each source say, its choices alone count once more.
    counted = [loss.counts(drawn) for loss in losses[1:]]
    for number, is_counted in enumerate(counted):
        is_own = drawn.targets["source"] == number
        assert (is_counted == (is_own & drawn.targets["is_action"])).all()
        assert is_counted.any()
    assert [loss.weight for loss in losses] == [1.0, 2.0, 2.0]


def kinds_of_trials():
    """A lake and a byte stream that a model plays itself, and a lake that it does not play."""
    lake = gpicljax.make("FrozenLake-v1", size=4)
    stream = gpicljax.make("ByteStream-v0", families=("mapping",))
    about = {"measure": "reward", "nulls": {}, "oracle": (always(1), "")}

    def kind(env, teacher, plays_own):
        params = env.default_params
        spaces = {"env": env, "params": params, "test_env": env, "test_params": params}
        return StreamTask(**spaces, teacher=teacher, steps=20, **about, plays_own=plays_own)

    kinds = (
        (lake, always(3), True),
        (stream, experts.teacher_agent(), True),
        (lake, always(2), False),
    )
    return [kind(*settings) for settings in kinds]


def test_a_model_learns_from_trials_of_its_own():
    model, _ = network()
    student = functools.partial(symbol_agent, model, must_speak=True)
    lessons = mixed_lessons(kinds_of_trials(), 1, 60, student, 8)
    config = SequenceConfig(batch_size=3)
    trainer = sequence.make(config, model, lessons.sample, symbol_losses("abc"), length=60)
    state = jax.jit(trainer.init)(jax.random.key(0), SequenceHParams(), lessons.data)
    later = jax.device_get(jax.jit(lessons.play_own)(state))
    lake, stream, second_lake = later.data
    assert [float(x.share) for x in lessons.data[:2]] == [0, 0]
    assert lake.share == stream.share == OWN_SHARE and not isinstance(second_lake, OwnTrials)
    # Its labels are the teacher's, its actions those of a model that has learnt nothing.
    is_action = lake.streams.targets["is_action"][:-1]
    assert (lake.streams.targets["next"][:-1][is_action] == 3).all()
    taken = lake.streams.inputs[1:][is_action]
    assert 0.4 < (taken != 3).mean() < 1 and len(set(taken.tolist())) == 4
    # In a byte stream it speaks where its teacher does, and is told what it should have said.
    is_action, label = stream.streams.targets["is_action"][:-1], stream.streams.targets["next"][:-1]
    assert is_action.any() and (label[is_action] != ord(" ")).all()
    assert (stream.streams.inputs[1:][is_action] != label[is_action]).mean() > 0.5


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 1)])
def test_own_trials_are_drawn_as_often_as_they_should_be(share, expected):
    student = functools.partial(symbol_agent, network()[0], must_speak=True)
    lessons = mixed_lessons(kinds_of_trials()[:1], 64, 16, student, 4)
    (data,) = lessons.data
    marked = jax.tree.map(jnp.ones_like, data.streams)
    data = data._replace(streams=marked, share=jnp.full((), share))
    drawn = jax.jit(lessons.sample)(jax.random.split(jax.random.key(0), 64), (data,))
    is_marked = (drawn.inputs == 1).all(0) & drawn.starts.all(0)
    assert is_marked.mean() == expected


def test_it_learns_what_its_teacher_does():
    env = gpicljax.make("FrozenLake-v1", size=4)
    vec = gpicljax.VectorEnv(env, 8)
    model, _ = network()
    config = SymbolModelConfig(length=64, steps=30, exploration=0.5, schedule="constant")
    trainer = symbol_model.make(config, vec, model, always(3))
    hparams = SequenceHParams(learning_rate=1e-2, warmup_updates=1)

    @jax.jit
    def final_chances(key):
        state = trainer.init(key, hparams)
        state, _ = jax.lax.scan(lambda state, _: trainer.update(state), state, None, 60)
        agent = trainer.agent()
        start = start_rollout(key, vec, agent)
        aux = rollout(vec, agent, state.params, start, 5, lambda record: record.aux)[1]
        return jax.nn.softmax(aux["logits"])[..., 3]

    chances = np.stack([final_chances(jax.random.key(seed)) for seed in range(2)])
    assert (chances.mean((1, 2)) > 0.9).all(), chances.mean((1, 2))


def test_it_is_registered_and_can_be_named():
    trainer = gpicljax.agents.make(
        "symbol-model",
        gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1", size=4), 2),
        SymbolModelConfig(length=32, steps=8),
        SMALL,
    )
    assert trainer.observations == 64
    state = jax.eval_shape(trainer.init, jax.random.key(0), SequenceHParams())
    assert state.params["params"]["head"]["kernel"].shape == (16, SYMBOLS)


def test_random_agents_write_what_they_do():
    env = gpicljax.make("MetaRG-v1", max_samples=4)
    vec, agent = gpicljax.VectorEnv(env, 2), random_agent(env)

    @jax.jit
    def written(key):
        start = start_rollout(key, vec, agent)
        keep = lambda record: (record.timestep, record.action)  # noqa: E731
        _, (timesteps, actions) = rollout(vec, agent, (), start, 12, keep)
        return timesteps, write_stream(env.symbols(), actions, timesteps, 80)

    timesteps, stream = jax.device_get(written(jax.random.key(0)))
    # A message of three tokens and three values, a decision, and three values of feedback.
    games = (timesteps.observation["round"][1:] == 2).sum()
    assert stream.is_action.sum() == games
    first = stream.symbols[1:7, 0]
    np.testing.assert_array_equal(first[:3], timesteps.observation["message"][1, 0])
    assert (first[3:] < 64).all()
