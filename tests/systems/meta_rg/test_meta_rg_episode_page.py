"""The page of an episode draws its games: what is seen, said, decided and attended to."""

import base64
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from browser import browse, in_browser

import gpicljax
from gpicljax.agents.acting import q_agent, random_agent
from gpicljax.evaluation.returns import record_episode
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.systems.meta_rg.figures.episode_page import games_stage
from gpicljax.systems.meta_rg.figures.replay import moves, readings, record_with_attention
from gpicljax.viz.episode_page import episode_page

HEADS = 2
SETTINGS = RecurrentQSettings(
    encoded="stimulus",
    encoder=(),
    mixer=(),
    memory="events",
    core=(8,),
    heads=HEADS,
    slots=64,
    event_keys=("message", "last_action", "last_reward"),
    event_values=("stimulus",),
    event_when="round=2",
    predictions=("feedback",),
    predictor=4,
)


def page_of(env, episode, attention=None):
    length = int(episode.length)
    return episode_page(
        title="Games",
        words=[f"moment {t}" for t in range(length + 1)],
        actions=moves(env, episode),
        rewards=np.reshape(episode.rewards[:length], (length, -1))[:, 0],
        readings=readings(env, episode),
        stage=games_stage(env, episode, attention),
    )


@pytest.fixture(scope="module")
def heard():
    """A listener with a memory of events, with what it attends to and what its network read."""
    env = gpicljax.make("MetaRG-v1", max_values=2)
    spaces = env.observation_space(), env.action_space()
    network = SETTINGS.network(*spaces)
    inputs = AgentInput(env.observation_space().sample(jax.random.key(0)), 0, 0.0)
    params = network.init(jax.random.key(1), jax.tree.map(lambda x: jnp.asarray(x)[None], inputs))
    agent = q_agent(network, env.action_space())

    def read(params, inputs, starts):
        """Attention, and the values beside it as heads that attend to their own step."""
        values = network.unroll(params, network.initial_carry(1), inputs, starts)[0].q_values
        own_values = values[..., None] * jnp.eye(len(starts))[:, None, None]
        return jnp.concatenate([network.attention(params, inputs, starts), own_values], axis=2)

    play = jax.jit(lambda key, params: record_with_attention(key, env, agent, params, None, read))
    episode, attention = jax.device_get(play(jax.random.key(2), params))
    return env, episode, attention[:, :HEADS], attention[:, HEADS:]


def test_the_network_reads_again_what_the_agent_has_read(heard):
    env, episode, _, values = heard
    decides = np.flatnonzero(episode.states.round[: episode.length] == env.num_rounds)
    reread = values[np.arange(len(decides)), :, np.arange(len(decides))]
    np.testing.assert_allclose(reread, episode.aux["q_values"][decides], rtol=1e-4, atol=1e-5)


def test_listeners_attend_to_the_games_before(heard):
    env, episode, attention, _ = heard
    games = int(episode.states.index[episode.length]) + 1
    played = attention[:games]
    assert (np.triu(played[..., :games].transpose(1, 0, 2), 0) == 0).all()
    share = played.sum(-1)
    assert (share <= 1 + 1e-5).all() and (share[0] == 0).all() and (share[1:] > 0).all()
    data = games_stage(env, episode, attention).data
    assert data["heads"] == HEADS and len(data["attention"]) == games
    last = np.frombuffer(base64.b64decode(data["attention"][-1]), np.uint8)
    np.testing.assert_allclose(
        last.reshape(HEADS, games) / 255, attention[games - 1, :, :games], atol=1 / 255
    )


def test_games_are_told_as_they_were_played(heard):
    env, episode, attention, _ = heard
    stage = games_stage(env, episode, attention)
    data, length, states = stage.data, int(episode.length), episode.states
    games, support = data["games"], int(states.skeleton.num_support[0])
    assert (
        stage.chapters == list(range(0, length + 1, 3))
        and len(games) == data["counts"][0] + (data["counts"][1])
    )
    assert [game["query"] for game in games] == [int(g >= support) for g in range(len(games))]
    assert games[support]["number"] == 1 and data["sections"] == [2, 2, 2]
    for g, game in enumerate(games):
        np.testing.assert_allclose(game["speaker"], states.game.speaker[3 * g], atol=1e-3)
        np.testing.assert_allclose(game["listener"], states.game.listener[3 * g], atol=1e-3)
        assert game["right"] == (episode.rewards[3 * g + 1] > 0)
        assert game["right"] == (game["decision"] == states.game.answer[3 * g])
    # What is heard is the channel's permutation of what is said; nothing is, at first.
    sent, arrives = np.asarray(data["sent"]), np.asarray(data["heard"])
    assert (sent[::3] == 0).all() and (arrives[::3] == 0).all() and (arrives[1::3] > 0).all()
    assert (arrives == episode.task.heard[np.arange(3), sent]).all()


@pytest.fixture(scope="module")
def conversation():
    """Two players with choices of places, several rounds, multi-hot stimuli and no memory."""
    env = gpicljax.make(
        "MetaRG-v0",
        view="players",
        max_values=3,
        vocab_size=12_345,
        num_rounds=2,
        num_distractors=1,
        stimulus="mhe",
        listener_speaks=True,
    )
    agent = random_agent(env)
    play = jax.jit(lambda key: record_episode(key, env, agent, (), max_steps=10))
    return env, jax.device_get(play(jax.random.key(0)))


def test_two_players_talk_about_several_stimuli(conversation):
    env, episode = conversation
    stage = games_stage(env, episode)
    data, states = stage.data, episode.states
    assert data["attention"] is None and not data["expects"] and data["rounds"] == 2
    assert data["choices"] == ["place 1", "place 2", "absent", "wait"]
    assert stage.chapters == [0, 4, 8] and len(data["games"][0]["listener"]) == 2
    # The last game was cut off before its decision.
    assert data["games"][2]["right"] is None and data["games"][2]["decision"] is None
    # The middle of a section stands for a value that is named.
    latents, counts = states.game.speaker_latents[0], episode.task.num_values
    middle = (2 * latents + 1) / counts - 1
    np.testing.assert_allclose(data["games"][0]["speaker"], middle, atol=1e-3)
    assert np.array_equal(data["sent"], states.channel[:11, 0])
    assert np.array_equal(data["reply"], states.channel[:11, 1])
    assert max(max(message) for message in data["sent"]) > 9


def said_by(dom):
    return re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")


@in_browser
def test_stimuli_tokens_and_games_are_drawn(heard, tmp_path):
    env, episode, attention, _ = heard
    text = page_of(env, episode, attention)
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import", text)
    assert len(text) < 500_000
    script = """
      const text = (id) => document.getElementById(id).textContent;
      const key = (name) => window.dispatchEvent(new KeyboardEvent("keydown", {key: name}));
      const colours = (id) => [...document.querySelectorAll(`#${id} polygon`)]
        .map((x) => x.getAttribute("fill")).join(" ");
      const tokens = (id) => [...document.querySelectorAll(`#${id} .glyph`)]
        .map((x) => x.dataset.token).join(" ");
      say(text("which-game") + "|" + tokens("heard") + "|" + text("verdict"));
      key("PageDown");
      say(document.body.dataset.step + "|" + text("which-game"));
      key("ArrowRight"); key("ArrowRight");
      say(tokens("sent") + "|" + tokens("heard") + "|" + text("verdict"));
      say(colours("feedback") === colours("speaker"));
      key("PageUp");
      say(document.body.dataset.step);
      const box = $("games").getBoundingClientRect();
      const x = box.left + LEFT + 4.5 * column(box.width);
      $("games").dispatchEvent(new MouseEvent("click", { clientX: x, clientY: box.top + 20 }));
      say(document.body.dataset.step + "|" + document.querySelectorAll("#read-games .card").length);
      const same = (a, b) => stimulus(a).innerHTML === stimulus(b).innerHTML;
      say([same([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]), same([0.1, 0.2, 0.3], [0.1, 0.2, 0.4])]);
      const shape = (token) => glyph(token).innerHTML.split("<title>")[0];
      say(new Set([...Array(20000).keys()].map(shape)).size);
    """
    output = said_by(browse(text, tmp_path, script))
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    counts = data["counts"]
    assert output[0] == f"Support game 1 of {counts[0]}: the speaker speaks|0 0 0|"
    assert output[1] == f"3|Support game 2 of {counts[0]}: the speaker speaks"
    sent, arrives, verdict = output[2].split("|")
    assert [sent, arrives] == [" ".join(map(str, data[x][5])) for x in ("sent", "heard")]
    marks = {True: "\N{CHECK MARK} right", False: "\N{BALLOT X} wrong (right: "}
    assert marks[data["games"][1]["right"]] in verdict
    assert output[3:5] == ["true", "3"]
    step, cards = output[5].split("|")
    assert step == "12" and 1 <= int(cards) <= 4
    assert output[6] == "true,false"
    assert output[7] == "20000"


@in_browser
def test_what_an_episode_lacks_is_left_out(conversation, tmp_path):
    script = """
      show(3);
      say(["attention-box", "expected-box", "reply-box"].map((id) => $(id).hidden));
      say(document.querySelectorAll("#listener .chosen").length);
      show(0);
      say(document.querySelectorAll("#listener .chosen").length);
    """
    env, episode = conversation
    output = said_by(browse(page_of(env, episode), tmp_path, script))
    chosen = games_stage(env, episode).data["games"][0]["decision"]
    assert output == ["true,true,false", str(int(chosen < 2)), "0"]
