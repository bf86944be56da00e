"""Speakers and listeners on whole episodes: the same as in the game, and what teaches whom."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.agents.sequence import SequenceHParams
from gpicljax.batching import strip_weak_types
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.meta_rg.env.sequences import game_observations, game_sequence, rule_messages
from gpicljax.systems.meta_rg.env.types import LISTENER, SPEAKER
from gpicljax.systems.meta_rg.learners import signalling
from gpicljax.systems.meta_rg.learners.signalling_games import game_sequences, signalling_game
from gpicljax.systems.meta_rg.learners.speakers import GameInputs

ENV = gpicljax.make("MetaRG-v1", max_values=3)
GAME = signalling_game(ENV)
PARAMS = ENV.make_params(min_values=2, max_values=3)
LISTENING = RecurrentQSettings(
    encoded="stimulus",
    encoder=(),
    mixer=(),
    memory="events",
    core=(8,),
    heads=2,
    slots=16,
    event_keys=("message",),
    event_values=("stimulus",),
    event_when="round=2",
    predictor=8,
    compare=("feedback",),
    head=(8,),
)
CONFIG = signalling.SignallingConfig(
    speaker="reinforce", games=10, episodes=2, batch_size=2, copies=2, speaker_sizes=(8,)
)
NEAREST = dataclasses.replace(
    LISTENING, event_metric="distance", event_keys=("stimulus",), event_values=("message",)
)


def listener_of(config):
    """Beside a speaker that remembers, the listener compares what was said of similar stimuli."""
    return NEAREST if config.speaker_slots else LISTENING


@functools.cache
def programs_of(config):
    """The trainer, and its compiled functions: whether a speaker learns is traced."""
    draw = game_sequences(ENV, config.games, config.episodes, config.copies)
    trainer = signalling.signalling_trainer(config, GAME, listener_of(config), draw)
    hparams = SequenceHParams(learning_rate=1e-2, warmup_updates=1)
    init = jax.jit(lambda key, lesson: trainer.init(key, hparams, lesson))
    return trainer, init, jax.jit(trainer.update)


def train_once(config, learns=1.0):
    """A state and the next one, metrics, and the trainer."""
    trainer, init, update = programs_of(config)
    state = init(jax.random.key(0), strip_weak_types(signalling.SignallingData(PARAMS, learns)))
    return state, *update(state), trainer


def change(before, after, part):
    pairs = zip(*map(jax.tree.leaves, (before.params[part], after.params[part])), strict=True)
    return max(float(abs(a - b).max()) for a, b in pairs)


REMEMBERS = dataclasses.replace(
    CONFIG, speaker="straight-through", speaker_slots=8, speaker_heads=4
)


@pytest.mark.parametrize("speaker", daily(["reinforce"], [*signalling.LEARNING, "remembers"]))
def test_only_who_is_to_learn_learns(speaker):
    options = {} if speaker == "remembers" else {"speaker": speaker}
    config = dataclasses.replace(CONFIG if options else REMEMBERS, **options)
    before, after, metrics, trainer = train_once(config)
    assert change(before, after, "speaker") > 1e-3 and change(before, after, "listener") > 1e-3
    assert set(metrics) >= {"decision", "feedback", "entropy"}
    assert trainer.observations == 2 * 2 * 10 * 3
    before, after, _, _ = train_once(config, learns=0.0)
    assert change(before, after, "speaker") == 0 and change(before, after, "listener") > 1e-3


@pytest.mark.parametrize("config", [CONFIG, REMEMBERS], ids=["no memory", "memory"])
def test_sequences_are_what_the_agents_do_in_the_game(config):
    # The same parameters in the players' view: the listener's Q-values at every decision.
    _, state, _, _ = train_once(config)
    players = dataclasses.replace(ENV, view="players")
    vec = gpicljax.VectorEnv(players, 3, params=PARAMS, privileged=True)
    agent = signalling.players_agent(config, GAME, listener_of(config))
    network = signalling.players_network(config, GAME, listener_of(config))

    def keep(record):
        return {
            "timestep": record.timestep._replace(info={}),
            "q_values": record.aux["q_values"],
            "action": record.action,
        }

    steps = 3 * 6

    @jax.jit
    def play_records(params):
        start = start_rollout(jax.random.key(1), vec, agent)
        played = play(vec, agent, params, start, max_steps=steps, trials=1, keep=keep)
        return jax.tree.map(lambda x: x[:, 0], played.records)

    kept = jax.device_get(play_records(state.params))
    observation = kept["timestep"].observation

    def games(x):  # [B, T, ...] -> [G, B, R, ...]
        return np.moveaxis(x.reshape(3, 6, 3, *x.shape[2:]), 0, 1)

    listener_view = {name: games(value[:, :, LISTENER]) for name, value in observation.items()}
    listener_view["action_mask"] = listener_view["action_mask"][..., 0, : ENV.num_decisions + 1]
    last = np.roll(kept["action"][:, :, LISTENER, 0], 1, axis=1)
    last[:, 0] = -1
    rewards = games(kept["timestep"].reward[:, :, LISTENER])
    shown = AgentInput(listener_view, games(last), rewards)
    tokens = ENV.vocab_size + 1
    # A channel that leads from what the speaker says to what was heard.
    stimulus = games(observation["stimulus"][:, :, SPEAKER])[:, :, 0]
    messages = games(kept["action"][:, :, SPEAKER, 1:])[:, :, 0]
    heard = listener_view["message"][:, :, 1]
    channel = np.zeros((*messages.shape, tokens), np.int32)
    np.put_along_axis(channel, messages[..., None], heard[..., None], -1)
    starts = np.zeros((6, 3), bool)
    starts[0] = True
    inputs = GameInputs(shown, starts, stimulus, channel, np.zeros(channel.shape))
    batch = signalling.PlayersInputs(inputs, np.zeros((6, 3)))
    out, _ = jax.jit(network.unroll)(state.params, None, jax.tree.map(jnp.asarray, batch), None)
    np.testing.assert_array_equal(out.message, messages)
    q_values = games(kept["q_values"])[:, :, 1, : ENV.num_decisions]
    np.testing.assert_allclose(out.logits, q_values, atol=1e-5)


def test_noise_is_one_for_an_episode_or_a_game():
    keys = jax.random.split(jax.random.key(0), 2)
    kinds, noises = ("episode", "game"), {}
    draws = [game_sequences(ENV, 24, 3, copies=2, noise=kind) for kind in kinds]
    drawn = jax.jit(lambda *arguments: [draw(*arguments) for draw in draws])(keys, PARAMS)
    for kind, (inputs, targets) in zip(kinds, drawn, strict=True):
        noises[kind] = np.asarray(inputs.noise)
        assert inputs.noise.shape == (24, 4, 3, 7) and targets.answer.shape == (24, 4)
        # Copies have the same games, and noise of their own.
        np.testing.assert_array_equal(targets.answer[:, 0], targets.answer[:, 1])
        assert (inputs.noise[:, 0] != inputs.noise[:, 1]).all()
        assert (np.asarray(targets.answer[:, 0]) != np.asarray(targets.answer[:, 2])).any()
        starts = np.asarray(inputs.starts)
    same = (noises["episode"][1:] == noises["episode"][:-1]).all((-1, -2))
    np.testing.assert_array_equal(same, ~starts[1:])
    assert not (noises["game"][1:] == noises["game"][:-1]).any()


def test_what_is_refused():
    with pytest.raises(ValueError, match="copies: got 1"):
        signalling.SignallingConfig(speaker="reinforce")
    with pytest.raises(ValueError, match=r"speaker: got 'frozen'"):
        signalling.SignallingConfig(speaker="frozen")
    with pytest.raises(ValueError, match="view"):
        game_sequences(dataclasses.replace(ENV, view="players"), 4)
    with pytest.raises(ValueError, match="num_rounds"):
        game_sequences(gpicljax.make("MetaRG-v1", num_rounds=2), 4)


# Games as sequences are what stepping shows, one behind the other ---------------------------------


GAMES, EPISODES = 40, 3


SHORT = {"num_rounds": 2, "num_dims": 2, "message_length": 1, "max_samples": 4, "max_values": 3}
OPTIONS = {
    "ablated, two rounds": {"ablations": True, **SHORT},
    "ablated": {"ablations": True},
    "two rounds": SHORT,
    "distractor": {"feedback": False, "num_distractors": 1, "stimulus": "mhe", "max_values": 3},
}


@pytest.mark.parametrize("name", daily(["ablated, two rounds"], OPTIONS))
def test_sequences_are_what_stepping_shows(name):
    env = gpicljax.make("MetaRG-v1", **OPTIONS[name])
    params = dataclasses.replace(env.make_params(), max_values=jnp.int32(3))
    if env.ablations:
        params = dataclasses.replace(params, channel=jnp.int32(1))

    @jax.jit
    def shown_and_stepped(key):
        games = game_sequence(key, env, params, games=GAMES, episodes=EPISODES)
        decisions = jax.random.randint(key, (GAMES,), 0, env.num_decisions, jnp.int32)
        shown = game_observations(env, games, rule_messages(env, games), decisions)

        def step(carry, place):
            # An episode begins in its first state; what follows is stepped.
            state, game = carry
            first, task = jax.tree.map(lambda x: x[game], (games.state, games.task))
            fresh = games.start[game] & (state.index != first.index)
            state = jax.tree.map(lambda a, b: jnp.where(fresh, a, b), first, state)
            observation = env.observe(state, task)
            decided = state.round == env.num_rounds
            following = env.transition(key, state, decisions[game], task).state
            over = (place + 1) % (env.num_rounds + 1 + env.feedback) == 0
            return (following, game + over), (observation, decided)

        start = jax.tree.map(lambda x: x[0], games.state)
        length = GAMES * (env.num_rounds + 1 + env.feedback)
        _, (stepped, _) = jax.lax.scan(step, (start, jnp.int32(0)), jnp.arange(length))
        return games, shown, stepped

    games, shown, stepped = jax.device_get(shown_and_stepped(jax.random.key(3)))
    assert games.start.sum() >= 2 and games.valid.any() and games.start[0]
    assert games.query.any() and not games.query[games.start].any()
    real = np.repeat(games.valid, shown["round"].shape[1])
    for name, value in shown.items():
        flat = value.reshape(-1, *value.shape[2:])
        np.testing.assert_array_equal(flat[real], stepped[name][real], err_msg=name)


def test_what_is_no_sequence_is_refused():
    env = gpicljax.make("MetaRG-v1", view="players", listener_speaks=True)
    games = jax.eval_shape(
        lambda key: game_sequence(key, env, env.default_params, games=4), jax.random.key(0)
    )
    with pytest.raises(ValueError, match="listener_speaks: got True"):
        game_observations(env, games, jnp.zeros((4, 1, 3), jnp.int32), jnp.zeros(4, jnp.int32))
    with pytest.raises(ValueError, match="games: got 0"):
        game_sequence(jax.random.key(0), env, env.default_params, games=0)
