"""The page replays its episode, in a browser, from one file and nothing else."""

import base64
import io
import json
import re

import numpy as np
import pytest
from browser import browse, in_browser
from PIL import Image
from small_maze import COLOURS, PATH, small_maze, views

from gpicljax.systems.maze_world.figures.episode_page import maze_episode_page
from gpicljax.systems.maze_world.figures.trajectories import FLOOR, UNSEEN
from gpicljax.viz.episode_page import STYLE, TILES, Stage
from gpicljax.viz.episode_page import episode_page as any_page

LAST = len(PATH) - 1
WORDS = [f"act {t}" for t in range(LAST)]


def page(**changes):
    arguments = {
        "frames": views(),
        "episode": small_maze(),
        "title": "A <small> maze",
        "about": {"seed": 3, "agent": "</script><b>"},
        "actions": WORDS,
        "advice": [f"do {t}" for t in range(LAST)],
    }
    return maze_episode_page(**arguments | changes)


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_everything_is_in_the_file():
    text = page()
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import", text)
    assert "default-src 'none'" in text  # so the browser would refuse the network, too
    assert "A &lt;small&gt; maze" in text and "&lt;/script&gt;&lt;b&gt;" in text
    assert text.count("</script>") == 2 and "{{" not in text
    data = data_of(text)
    assert data["position"] == (np.array(PATH) + 0.5).tolist()
    assert data["walls"][0] == "1111111" and data["walls"][1] == "1000001"


def test_frames_are_in_their_tiles():
    count = TILES + 5
    path = small_maze(
        position=np.full((count, 2), 1.5),
        heading=np.zeros(count),
        command=None,
        reward=None,
        memory=None,
    )
    frames = np.random.default_rng(0).integers(0, 255, (count, 40, 50, 3)).astype(np.uint8)
    data = data_of(page(frames=frames, episode=path, actions=None, advice=None, quality=100))
    assert len(data["sheets"]) == 2
    for t in (0, 7, 8, TILES - 1, TILES, TILES + 4):
        content = base64.b64decode(data["sheets"][t // TILES].split(",")[1])
        sheet = np.asarray(Image.open(io.BytesIO(content)))
        row, column = divmod(t % TILES, data["columns"])
        y, x = row * data["tileHeight"], column * data["tileWidth"]
        assert np.array_equal(sheet[y : y + 40, x : x + 50], frames[t])


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": views(3)},
        {"frames": views().astype(float)},
        {"frames": views()[..., :2]},
        {"actions": WORDS[1:]},
        {"advice": ["one"]},
        {"quality": 0},
        {"episode": small_maze(heading=np.zeros(2))},
    ],
)
def test_bad_input_is_refused(changes):
    with pytest.raises(ValueError, match="accepted"):
        page(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"words": None},
        {"frames": views(3)},
        {"frames": views(3), "frame_steps": [0, 1]},
        {"frames": views(3), "frame_steps": [0, 2, 4]},
        {"frames": views(3), "frame_steps": [1, 2, 3]},
        {"frames": views(3), "frame_steps": [0, 2, 2]},
        {"rewards": [1.0]},
        {"readings": {"pulse": ["60"] * 3}},
        {"stage": Stage(STYLE, {}, [0, 4])},
        {"stage": Stage(STYLE, {}, [2, 1])},
    ],
)
def test_what_does_not_belong_together_is_refused_on_any_page(changes):
    with pytest.raises(ValueError, match="accepted"):
        any_page(**{"title": "t", "words": ["a"] * 4} | changes)


@in_browser
def test_keys_slider_and_pictures(tmp_path):
    script = """
      const key = (name, shift) => {
        window.dispatchEvent(new KeyboardEvent("keydown", {key: name, shiftKey: !!shift}));
        return document.body.dataset.step;
      };
      const pixel = (id, x, y) => {
        const canvas = document.getElementById(id);
        const at = [x * canvas.width, y * canvas.height].map(Math.floor);
        return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3).join(",");
      };
      const text = (id) => document.getElementById(id).textContent;
      say("start " + document.body.dataset.step);
      say("view " + pixel("view", 0.5, 0.5));
      say("dim " + pixel("map", 5.5 / 7, 4.5 / 7));
      say("target " + pixel("map", 3.07 / 7, 1.2 / 7) + " " + text("target"));
      say("right " + key("ArrowRight") + " " + key("ArrowRight") + " " + key("ArrowRight"));
      say("words " + [text("action"), text("advice"), text("reward"), text("total")].join("|"));
      say("view " + pixel("view", 0.5, 0.5));
      say("target " + text("target"));
      say("left " + key("ArrowLeft") + " " + key("Home") + " " + key("ArrowLeft"));
      say("end " + key("ArrowRight", true) + " " + key("ArrowRight"));
      say("view " + pixel("view", 0.5, 0.5));
      say("end words " + text("step") + "|" + text("action") + "|" + text("known"));
      say("bright " + pixel("map", 5.5 / 7, 4.5 / 7));
      document.getElementById("slider").value = 4;
      document.getElementById("slider").dispatchEvent(new Event("input"));
      say("slider " + document.body.dataset.step);
      document.getElementById("memory").click();
      key("Home");
      say("undimmed " + pixel("map", 5.5 / 7, 4.5 / 7));
      const before = document.getElementById("speed").value;
      key("ArrowUp");
      say("speed " + before + " " + document.getElementById("speed").value);
      key(" ");
      say("playing " + document.body.dataset.playing);
      setTimeout(() => {
        say("played " + document.body.dataset.step + " " + document.body.dataset.playing);
      }, 2000);
    """
    dom = browse(page(quality=100), tmp_path, script)
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    floor = ",".join(map(str, FLOOR))
    assert said[0] == "start 0"
    assert said[1] == "view 0,20,40"
    dim = [int(c) for c in said[2].split()[1].split(",")]
    assert np.abs(np.array(dim) - UNSEEN).max() < 25
    assert said[3] == f"target {','.join(map(str, COLOURS[0]))} 0"
    assert said[4] == "right 1 2 3"
    assert said[5] == "words act 3|do 3|+0.50|+0.48"
    assert said[6] == "view 60,80,100"
    assert said[7] == "target 1"
    assert said[8] == "left 2 0 0"
    assert said[9] == f"end {LAST} {LAST}"
    assert said[10] == f"view {LAST * 20},{LAST * 20 + 20},{LAST * 20 + 40}"
    assert said[11] == f"end words {LAST} of {LAST}|\N{EN DASH}|100 %"
    assert said[12] == f"bright {floor}"
    assert said[13] == "slider 4"
    assert said[14] == f"undimmed {floor}"
    assert said[15] == "speed 10 25"
    assert said[16] == "playing true"
    assert said[17] == f"played {LAST} false"


@in_browser
def test_opens_at_a_step_and_looks_right(tmp_path):
    bare = small_maze(command=None, memory=None, reward=None)
    text = page(episode=bare, actions=None, advice=None, quality=100)
    shot = tmp_path / "shot.png"
    browse(text, tmp_path, fragment="#step=6", flags=(f"--screenshot={shot}",))
    picture = np.asarray(Image.open(shot).convert("RGB")).astype(int)
    frame = (np.abs(picture - [120, 140, 160]).max(-1) <= 2).sum()
    floor = (np.abs(picture - FLOOR).max(-1) <= 2).sum()
    # The view is half as wide as the page, and the map has 24 free cells of 49.
    assert frame > 150_000 and 60_000 < floor < 200_000


@in_browser
def test_any_episode_is_told_in_words_and_pictures_that_last(tmp_path):
    words = [f"<situation> {t}" for t in range(4)]
    text = any_page(
        title="Any",
        words=words,
        frames=views(2),
        frame_steps=[0, 2],
        actions=["go"] * 3,
        rewards=[1, 0, -2],
        readings={"pulse": [f"{60 + t}" for t in range(4)], "<mood>": ["good"] * 4},
        quality=100,
    )
    script = """
      const text = (id) => document.getElementById(id).textContent;
      const view = () => [...document.getElementById("view").getContext("2d")
        .getImageData(1, 1, 1, 1).data].slice(0, 3).join(",");
      for (const t of [0, 1, 2, 3]) {
        show(t);
        say([text("words"), text("total"), view(), text("more").replace(/\\s+/g, "")].join("|"));
      }
    """
    dom = browse(text, tmp_path, script)
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    shown = ["0,20,40", "0,20,40", "20,40,60", "20,40,60"]
    totals = ["+0.00", "+1.00", "+1.00", "\N{MINUS SIGN}1.00"]
    assert said == [
        f"&lt;situation&gt; {t}|{totals[t]}|{shown[t]}|pulse{60 + t}&lt;mood&gt;good"
        for t in range(4)
    ]


def test_numbers_and_characters_that_are_none(tmp_path):
    words = ["a", "b"]
    with pytest.raises(ValueError, match="rewards: got .*accepted: finite numbers"):
        any_page(title="x", words=words, rewards=[np.nan])
    odd = any_page(title="x \ud800", words=["a", "\ud800"], readings={"n": [np.nan, 1.0]})
    assert odd.encode() and '["nan",1.0]' in odd
