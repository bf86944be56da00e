"""Environments are played by hand, in a page or a terminal; neither is needed here."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import parrot
import pytest
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment, Transition
from gpicljax.play import command
from gpicljax.play.browser import server, situation
from gpicljax.play.game import NotPlayableError, PlaySession
from gpicljax.play.stream import Stream, play_stream
from gpicljax.play.terminal import half_blocks, play_in_terminal, screen


class Corridor(Environment):
    """Five cells in a row; the last one ends the episode. Seen as a picture, and from above."""

    @property
    def default_params(self):
        return {}

    def sample_task(self, key, params):
        return jax.random.randint(key, (), 1, 10_000)

    def initial(self, key, task):
        return jnp.zeros((), jnp.int32)

    def transition(self, key, state, action, task):
        state = jnp.clip(state + jnp.where(action == 1, 1, -1), 0, 4)
        over = state == 4
        return Transition(state, over * 1.0, over, jnp.zeros((), bool), {})

    def observe(self, state, task):
        picture = jnp.zeros((4, 10, 3), jnp.uint8)
        return {"image": picture.at[:, 2 * state].set(255), "other": state}

    def render(self, state, task):
        return jnp.full((6, 6, 3), 10 * state, jnp.uint8)

    def action_space(self, task=None):
        return spaces.Discrete(2)

    def observation_space(self, task=None):
        image = spaces.Box(0, 255, (4, 10, 3), jnp.uint8)
        return spaces.Dict.of(image=image, other=spaces.Discrete(5))

    def describe(self, state, task):
        return f"cell {int(state)}"


@pytest.fixture
def game():
    return PlaySession(Corridor())


def test_keys_act_until_the_episode_is_over(game):
    assert game.names == {"0": "action 0", "1": "action 1", "r": "new episode", "n": "new task",
                          "m": "map"}  # fmt: skip
    task = int(game.task)
    for key in ("1", "1", "x", "", "0", "1", "1"):
        game.press(key)
    assert game.words() == "cell 3" and game.facts()["step"] == "5" and not game.over
    game.press("1")
    assert "over" in game.over and game.facts()["so far"] == "+1"
    game.press("0")
    assert game.steps == 6 and game.words() == "cell 4"
    game.press("r")
    assert game.steps == 0 and not game.over and game.total == 0 and int(game.task) == task
    game.press("n")
    assert int(game.task) != task


def test_the_map_is_shown_when_asked_for(game):
    (view,) = game.pictures().values()
    assert view.shape == (4, 10, 3) and view[0, 0, 0] == 255
    game.press("1")
    game.press("m")
    view, above = game.pictures().values()
    assert view[0, 2, 0] == 255 and above[0, 0, 0] == 10
    game.press("m")
    assert list(game.pictures()) == ["what the agent sees"]


MOVED = ["FrozenLake-v1", "MountainCar-v0", "CliffWalking-v1"]


@pytest.mark.parametrize("env_id", daily(["FrozenLake-v1"], MOVED))
def test_arrows_move(env_id):
    env = gpicljax.make(env_id)
    game = PlaySession(env, env.default_params)
    assert set(game.actions) >= {"ArrowLeft", "ArrowRight"}
    assert sorted(game.actions.values()) == list(range(env.action_space().n))
    before = game.pictures()["picture"]
    for _ in range(3):
        game.press("ArrowDown" if env_id == "FrozenLake-v1" else "ArrowRight")
        game.press("ArrowUp" if env_id == "CliffWalking-v1" else "ArrowRight")
    assert game.steps > 0 and (game.pictures()["picture"] != before).any()


def test_names_and_keys_fit_the_mazes_actions():
    for actions in ("discrete", "moves"):
        env = gpicljax.make("MazeWorld-v0", size=7, max_landmarks=2, actions=actions)
        keys = [key for _, key in env.controls]
        space = env.action_space()
        assert isinstance(space, spaces.Discrete) and space.n == len(keys) == len(set(keys)) == 5
        assert ("forward" in dict(env.controls)) == (actions == "discrete")


def test_what_cannot_be_played_is_refused():
    with pytest.raises(NotPlayableError, match="accepted"):
        PlaySession(gpicljax.make("Pendulum-v1"))


@pytest.mark.parametrize(
    ("env_id", "words"),
    [("BernoulliBandit-v0", "0 of 100 pulls made"), ("MetaRG-v1", "support game 1, ")],
)
def test_what_draws_no_pictures_is_played_in_words(env_id, words):
    game = PlaySession(gpicljax.make(env_id))
    assert game.pictures() == {} and words in game.words()
    game.press("1")
    assert game.steps == 1 and words in screen(game, 200, 24).replace("1 of", "0 of")
    assert situation(game)["said"] == game.words()


def test_without_words_the_observation_is_shown():
    class Silent(type(gpicljax.make("BernoulliBandit-v0"))):
        def describe(self, state, task):
            raise NotImplementedError

    assert PlaySession(Silent()).words() == "observation: [0.0]"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["FrozenLak-v1"], "did you mean 'FrozenLake-v1'"),
        (["Pendulum-v1"], "Discrete actions"),
        (["FrozenLake-v1", "--set", "width=3"], "width"),
        (["FrozenLake-v1", "--set", "size"], "name=value"),
        (["FrozenLake-v1", "--params", "horizon=-1"], "horizon"),
        (["FrozenLake-v1", "--params", "nothing=1"], "nothing"),
        (["FrozenLake-v1", "--terminal"], "must be a terminal"),
        (["FrozenLake-v1", "--port", "99999"], "99999"),
    ],
)
def test_bad_commands_are_refused(arguments, word, capsys):
    assert command.main([*arguments, "--no-browser"]) == 2
    assert word in capsys.readouterr().err


def test_the_page_is_served_here_only(game):
    web = server(game, "A <corridor>")
    port = web.server_address[1]
    threading.Thread(target=web.serve_forever, daemon=True).start()

    def ask(method, path, body=None, **headers):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    try:
        assert web.server_address[0] == "127.0.0.1"
        status, page = ask("GET", "/")
        assert status == 200 and b"A &lt;corridor&gt;" in page and b"{{" not in page
        assert not re.search(rb"https?://", page)
        status, content = ask("POST", "/key", "1")
        state = json.loads(content)
        assert state["facts"]["step"] == "1" and state["said"] == ""
        (picture,) = state["pictures"].values()
        assert picture["uri"].startswith("data:image/png;base64,") and picture["width"] == 10
        assert ask("GET", "/etc/passwd")[0] == 404
        assert ask("POST", "/other", "1")[0] == 400
        assert ask("POST", "/key", "1" * 100)[0] == 400
        assert ask("POST", "/key", "1", Origin="http://elsewhere.example")[0] == 403
        for name in ("localhost:9000", "127.0.0.1:9000"):  # as a tunnel forwards it
            assert ask("GET", "/", Host=name)[0] == 200
            assert ask("POST", "/key", "", Host=name, Origin=f"http://{name}")[0] == 200
            assert ask("POST", "/key", "1", Host=name, Origin="http://localhost:1")[0] == 403
        assert b"answers requests for 127.0.0.1" in ask("GET", "/", Host="elsewhere.example")[1]
        for method, path in (("POST", "/key"), ("GET", "/")):
            assert ask(method, path, "1", Host="elsewhere.example")[0] == 403
        state = json.loads(ask("POST", "/key", "m")[1])
        assert state["facts"]["step"] == "1" and state["said"] == "cell 1"
    finally:
        web.shutdown()
        web.server_close()


def test_half_blocks_show_two_pixels_each():
    picture = np.zeros((4, 3, 3), np.uint8)
    picture[0] = (255, 0, 0)
    picture[3] = (0, 0, 255)
    text = half_blocks(picture, 3, 2)
    lines = text.split("\r\n")
    assert len(lines) == 2 and [line.count("▀") for line in lines] == [3, 3]
    assert lines[0].startswith("\x1b[38;2;255;0;0m\x1b[48;2;0;0;0m▀")
    assert "\x1b[48;2;0;0;255m▀\x1b[0m" in lines[1]
    assert "\x1b[38;5;196m\x1b[48;5;16m▀" in half_blocks(picture, 3, 2, true_colour=False)
    wide = half_blocks(np.zeros((100, 200, 3), np.uint8), 40, 50).split("\r\n")
    assert len(wide) == 10 and wide[0].count("▀") == 40
    with pytest.raises(ValueError, match="accepted"):
        half_blocks(picture, 0, 5)


def test_the_terminal_game_reads_arrows_and_ends():
    env = gpicljax.make("FrozenLake-v1", is_slippery=False)
    game, shown = PlaySession(env), []
    other_keys = "\x1b[H", "\x1b[3~", "\x1bx"  # Home, Delete, Alt-x
    keys = iter("\x1b[B" + "\x1bOC" + "x" + "".join(other_keys) + "q" + "\x1b[B")
    play_in_terminal(game, lambda: next(keys), shown.append, lambda: (60, 20))
    assert game.steps == 2 and len(shown) == 7
    assert "step 2" in shown[-1] and "quit" in shown[-1] and shown[0] != shown[1]
    for end in ("\x03", ""):
        play_in_terminal(game, lambda end=end: end, shown.append, lambda: (60, 20))
    assert game.steps == 2


def test_the_screen_fits(game):
    game.press("m")
    for columns, lines in ((80, 24), (30, 8), (5, 3)):
        text = screen(game, columns, lines)
        assert text.count("\r\n") < lines
        words = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split("\r\n")
        assert max(map(len, words)) <= columns


def test_arrows_are_no_bytes_and_letters_are_one():
    stream = Stream(parrot.Parrot())
    keys = iter("a\x1b[A\x1bOB\x1b[3~\x1b[1;5Cé\N{EURO SIGN}b\x03")
    play_stream(stream, lambda: next(keys), lambda text: None, lambda: (40, 10))
    assert stream.replied == "aéb"


TERMINAL = """
import os, sys
os.login_tty(0)
import gpicljax, parrot
from gpicljax.play.command import main
gpicljax.register("Parrot-v0", parrot.Parrot)
sys.exit(main(["Parrot-v0", "--terminal"]))
"""


@pytest.mark.parametrize(
    ("awaited", "keys", "code", "shown"),
    [
        ("compiling", "\x03", -signal.SIGINT, ""),
        ("Type a byte", "é\x1b[A\x1b[B\x03", 0, "step 1 "),
    ],
)
def test_the_terminal_is_left_by_ctrl_c(awaited, keys, code, shown, child_environment):
    """While it compiles, and among keys of which arrows are none of a stream's."""
    pty = pytest.importorskip("pty")
    parent_end, child_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL],
        stdin=child_end,
        stdout=child_end,
        stderr=child_end,
        env=child_environment,
    )
    os.close(child_end)
    text, sent = "", False
    with contextlib.suppress(OSError):  # the other side was closed
        while output := os.read(parent_end, 4096):
            text += output.decode(errors="replace")
            if not sent and awaited in text:
                sent = True
                os.write(parent_end, keys.encode())
    assert process.wait(60) == code, text
    assert shown in text and ("Output : é" in text) == (code == 0), text
    assert not shown or "step 2" not in text
    os.close(parent_end)


def test_a_stream_of_bytes_is_played_byte_by_byte():
    stream, shown = Stream(parrot.Parrot()), []
    first = stream.said

    def read():
        # The echo of what can be read; a space where that is wrong, at the latest after six.
        return stream.said[-1] if len(stream.replied) < 6 else "\x03"

    play_stream(stream, read, shown.append, lambda: (40, 10))
    assert stream.said.startswith(first) and len(stream.said) == 7
    assert stream.replied == stream.said[:6]
    assert stream.total == stream.paid.count("+") - stream.paid.count("-")
    assert stream.over
    stream.reply(65)
    assert len(stream.replied) == 6
    rows = [line.removesuffix("\x1b[K") for line in shown[-1].split("\r\n")]
    assert rows[0] == f"\x1b[HInput  : {stream.said}"
    assert rows[1:3] == [f"Output : {stream.replied}", f"Reward : {stream.paid}"]
    assert "The stream is over." in rows[-1]
