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
import types

import jax
import jax.numpy as jnp
import numpy as np
import parrot
import pytest
from browser import browse, in_browser
from variants import daily

import gpicljax
from gpicljax import agents, spaces
from gpicljax.environment import Environment, Transition
from gpicljax.play import command, write_replay
from gpicljax.play.browser import play_page, replay_page, server, situation
from gpicljax.play.game import NotPlayableError, PlaySession
from gpicljax.play.match import find_match
from gpicljax.play.terminal import half_blocks, play_in_terminal, printable, screen
from gpicljax.runs import save_agent, shipped_models
from gpicljax.viz.episode_page import episode_page, side_by_side


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
                          "m": "reveal"}  # fmt: skip
    task = int(game.task)
    for key in ("1", "1", "x", "", "0", "1", "1"):
        game.press(key)
    assert game.words() == "cell 3" and game.facts()["step"] == "5" and not game.over
    game.press("1")
    assert "over" in game.over and game.facts()["so far"] == "+1"
    game.press("0")
    assert game.facts()["step"] == "6" and game.words() == "cell 4"
    game.press("r")
    assert game.facts() == {"step": "0", "reward": "+0", "so far": "+0"}
    assert not game.over and int(game.task) == task
    game.press("n")
    assert int(game.task) != task


def test_what_is_hidden_is_drawn_when_it_is_asked_for(game):
    assert not game.revealed and game.drawing().frames.shape == (1, 4, 10, 3)
    game.press("m")
    assert game.revealed
    game.press("r")
    assert not game.revealed


MOVED = ["FrozenLake-v1", "MountainCar-v0", "CliffWalking-v1"]


@pytest.mark.parametrize("env_id", daily(["FrozenLake-v1"], MOVED))
def test_arrows_move(env_id):
    env = gpicljax.make(env_id)
    game = PlaySession(env, env.default_params)
    assert set(game.actions) >= {"ArrowLeft", "ArrowRight"}
    assert sorted(game.actions.values()) == list(range(env.action_space().n))
    before = game.drawing().frames[-1]
    for _ in range(3):
        game.press("ArrowDown" if env_id == "FrozenLake-v1" else "ArrowRight")
        game.press("ArrowUp" if env_id == "CliffWalking-v1" else "ArrowRight")
    assert game.recording.rewards and (game.drawing().frames[-1] != before).any()


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
    [("BernoulliBandit-v0", "0 of 100 pulls made"), ("MetaRG-v1", "support game 1")],
)
def test_what_draws_no_pictures_is_played_in_words(env_id, words):
    game = PlaySession(gpicljax.make(env_id))
    assert game.drawing().frames is None and words in game.words()
    assert words in screen(game, 200, 24)
    game.press(next(iter(game.actions)))
    assert game.facts()["step"] == "1"


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
        assert state["last"] == 1 and state["live"]["players"][0]["name"] == "you"
        assert state["sheets"][0].startswith("data:image/webp;base64,") and state["width"] == 10
        replay = ask("GET", "/replay")[1].decode()
        assert replay.count("<iframe") == 1 and "cell 1" in replay
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
        assert state["last"] == 1 and state["words"] == ["", "cell 1"]
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
    assert len(game.recording.rewards) == 2 and len(shown) == 7
    assert "step 2" in shown[-1] and "quit" in shown[-1] and shown[0] != shown[1]
    for end in ("\x03", ""):
        play_in_terminal(game, lambda end=end: end, shown.append, lambda: (60, 20))
    assert len(game.recording.rewards) == 2


def test_the_screen_fits(game):
    game.press("m")
    for columns, lines in ((80, 24), (30, 8), (5, 3)):
        text = screen(game, columns, lines)
        assert text.count("\r\n") < lines
        words = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split("\r\n")
        assert max(map(len, words)) <= columns


def test_arrows_are_no_bytes_and_letters_are_one():
    stream = PlaySession(parrot.Parrot())
    keys = iter("a\x1b[A\x1bOB\x1b[3~\x1b[1;5Cé\N{EURO SIGN}b\x03")
    play_in_terminal(stream, lambda: next(keys), lambda text: None, lambda: (40, 10))
    assert "".join(map(chr, stream.recording.actions)) == "aéb"


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
    stream, shown = PlaySession(parrot.Parrot()), []

    def said():
        return "".join(chr(int(byte)) for byte in stream.recording.seen)

    first = said()

    def read():
        # The echo of what can be read; a space where that is wrong, at the latest after six.
        return said()[-1] if len(stream.recording.rewards) < 6 else "\x03"

    play_in_terminal(stream, read, shown.append, lambda: (40, 10))
    assert said().startswith(first) and len(said()) == 7
    assert "".join(map(chr, stream.recording.actions)) == said()[:6]
    assert stream.over
    stream.press("A")
    assert len(stream.recording.actions) == 6
    rows = [line.removesuffix("\x1b[K") for line in shown[-1].split("\r\n")]
    assert rows[0] == f"\x1b[HInput  : {''.join(map(printable, map(ord, said())))}"
    assert rows[1].startswith("Output : ") and rows[2].startswith("Reward : ")
    assert "The stream is over." in rows[-1].removesuffix("\x1b[J")


def test_no_episode_is_replayed_where_no_seed_is_sound():
    drawing = PlaySession(Corridor()).drawing(whole=True)
    outcome = types.SimpleNamespace(sound=np.zeros(2, bool))
    assert write_replay(outcome, drawing, "seed 0") == "No episode to replay: no seed is sound."


# Players beside a person ------------------------------------------------------------------------


def beside(env, **players):
    match = find_match(env)
    return PlaySession(match.env, match.params, 3, players, match.draw, match.skip)


def test_everyone_plays_the_same_episode():
    env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
    program = find_match(env).program
    game = beside(env, first=program, second=program)
    compiled = beside(env, first=program)
    compiled.compile()
    for _ in range(12):
        game.press("0")
        compiled.press("0")
    one, two = game.others["first"], game.others["second"]
    assert one.actions == two.actions and one.rewards == two.rewards
    assert len(one.rewards) == len(game.recording.rewards) == 12
    assert compiled.others["first"].actions == one.actions
    # Where the program chose the person's arm at the same step, it was paid the same.
    same = [t for t, action in enumerate(one.actions) if action == 0]
    assert same and all(one.rewards[t] == game.recording.rewards[t] for t in same)
    named = [player["name"] for player in situation(game)["live"]["players"]]
    assert named == ["you", "first", "second"]
    assert [other["name"] for other in situation(game)["others"]] == ["first", "second"]
    page = replay_page(game, "Three", "")
    assert page.count("<iframe") == 3
    game.press("n")
    assert not game.others["first"].rewards


def hidden(content):
    """Returns the parts of a page that the listener may not see."""
    game = content["games"][-1]
    return game["speaker"], game["answer"], content["sections"], content["sent"], content["counts"]


def test_compiling_teaches_nobody_anything():
    env = gpicljax.make("MetaRG-v1")
    games = [beside(env, program=find_match(env).program) for _ in range(2)]
    games[0].compile()
    while not games[0].over:
        for game in games:
            game.press("s")
    one, two = (game.others["program"] for game in games)
    assert one.actions == two.actions and one.rewards == two.rewards


def test_a_listener_is_not_told_the_answer_before_the_feedback():
    game = beside(gpicljax.make("MetaRG-v1"))
    for _ in range(6):
        content = situation(game)
        assert hidden(content) == ([], None, [], None, None)
        assert content["games"][-1]["right"] is None
        game.press("s")  # decides
        one = situation(game)["games"][-1]
        assert one["decision"] == 0 and one["right"] is (one["answer"] == 0) and one["speaker"]
        game.press(" ")  # past the feedback, and what the speaker says
    game.press("m")
    assert None not in hidden(situation(game)) and [] not in hidden(situation(game))


def test_queries_without_feedback_tell_nothing():
    game = beside(gpicljax.make("MetaRG-v2"))
    while not situation(game)["games"][-1]["query"]:
        game.press("s")
    before = situation(game)["live"]["players"][0]["last"]
    for _ in range(3):
        game.press("s")
    content = situation(game)
    queries = [one for one in content["games"] if one["query"]]
    assert len(queries) > 2 and {one["right"] for one in queries} == {None}
    assert content["live"]["players"][0]["last"] == before and "right, query" not in before


@pytest.mark.parametrize(
    ("env_id", "static", "key", "dark"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, "ArrowRight", True),
        ("DarkRoom-v0", {}, "ArrowRight", True),
        ("AnyMDP-v0", {}, "1", None),
    ],
)
def test_a_trial_is_dark_where_nobody_has_been(env_id, static, key, dark):
    game = beside(gpicljax.make(env_id, **static))
    game.press(key)
    frames = game.drawing().frames
    game.press("m")
    revealed = game.drawing().frames
    if dark is None:
        assert frames is None and revealed is not None
    else:
        is_dark = (frames[0] == (128, 134, 142)).all(-1).mean()
        assert 0.5 < is_dark < 1 and not (revealed[0] == (128, 134, 142)).all(-1).any()


def test_arms_keep_their_means_to_themselves():
    game = beside(gpicljax.make("BanditTenArmedRandomFixed-v0"))
    assert len(game.actions) == 10
    game.press("3")
    assert situation(game)["arms"] == {"count": 10, "pulled": [3], "means": None} | {
        "paid": game.recording.rewards
    }
    game.press("m")
    assert len(situation(game)["arms"]["means"]) == 10


@in_browser
def test_keys_reach_the_program_and_the_page_follows(tmp_path):
    env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
    game = beside(env, program=find_match(env).program)
    page = play_page(game, "Arms <b>", "Pull <i>.")
    answers = []
    for key in ("", "1", "2"):
        game.press(key)
        answers.append(json.dumps(situation(game)))
    script = f"""
      const answers = {json.dumps(answers)}, sent = [];
      window.fetch = async (_, request) => {{ sent.push(request.body);
        const answer = answers[Math.min(sent.length, answers.length - 1)];
        return {{ json: async () => JSON.parse(answer) }}; }};
      const press = (key) => window.dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
      press("1"); press("x"); press("Tab");
      setTimeout(() => {{ document.querySelector("#buttons button:nth-child(3)").click(); }}, 400);
      setTimeout(() => {{
        say(sent.join(","));
        say(document.getElementById("standing").innerText.replace(/\\s+/g, " "));
        say(document.getElementById("play").offsetParent === null);
        const box = document.querySelector(".dock").getBoundingClientRect();
        say(window.innerWidth + " " + (box.top >= 0 && box.bottom <= window.innerHeight));
      }}, 1200);
    """
    # Buttons and score are in view without scrolling.
    dom = browse(page, tmp_path, script, flags=("--dump-dom", "--window-size=1280,720"))
    assert "Arms &lt;b&gt;" in dom and "Pull &lt;i&gt;." in dom
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    assert said[0] == "1,2" and said[2:] == ["true", "1280 true"]
    assert said[1].strip().startswith("so far you ") and "program" in said[1]


@in_browser
def test_one_slider_leads_all_pages(tmp_path):
    pages = {
        name: episode_page(
            title=name, words=[f"{name} {t}" for t in range(count)], rewards=[0.0] * (count - 1)
        )
        for name, count in (("short", 3), ("long", 6))
    }
    script = """
      const pause = (time) => new Promise((done) => setTimeout(done, time));
      (async () => {
        say(document.getElementById("slider").max);
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
        await pause(200);
        say(document.body.dataset.step + " " + [...ends.values()].sort().join(","));
        window.postMessage({ step: 1 }, "*");  // of nobody that is shown
        await pause(200);
        say(document.body.dataset.step);
      })();
    """
    dom = browse(side_by_side("Two <b>", pages), tmp_path, script)
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    assert said == ["5", "5 2,5", "5"]


# Watching ----------------------------------------------------------------------------------------


def watch(tmp_path, *arguments):
    out = tmp_path / "page.html"
    assert command.watch([*arguments, "--out", str(out), "--no-browser"]) == 0
    return out.read_text(encoding="utf-8")


def test_an_agent_is_watched_beside_itself_without_memory_and_a_program(tmp_path):
    page = watch(tmp_path, "meta_rg_exact", "meta_rg_exact:wiped", "program")
    assert page.count("<iframe") == 3
    assert "1-nearest neighbour" in page and "attention" in page


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "MountainCar-v0"])
def test_a_saved_agent_of_single_episodes_is_watched(env_id, tmp_path):
    rule, env = agents.get_algorithm("random"), gpicljax.make(env_id)
    settings = {"config": rule.config(), "network": rule.network(), "params": ()}
    where = {"env_id": env_id, "env_options": {}, "env_params": env.default_params}
    save_agent(tmp_path / "mine", algorithm="random", num_envs=1, **settings, **where)
    page = watch(tmp_path, str(tmp_path / "mine"))
    assert "<h1>mine</h1>" in page and "data:image/webp" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_agent_is_watched(name, tmp_path):
    page = watch(tmp_path, name)
    assert f"<h1>{name}</h1>" in page and "{{" not in page


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nobody"], "nobody"),
        (["program"], "--in: got none"),
        (["meta_rg_exact", "--in", "MazeWorld-v0"], "another environment"),
        (["program", "--in", "MountainCar-v0"], "has none"),
    ],
)
def test_who_cannot_be_watched_is_refused(arguments, word, capsys):
    assert command.watch([*arguments, "--no-browser"]) == 2
    assert word in capsys.readouterr().err
