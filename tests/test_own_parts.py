"""An environment and an algorithm take one file each, outside the package, and no other edit."""

import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import gpicljax
from gpicljax import registration
from gpicljax.agents import algorithm
from gpicljax.llm.chat import FakeModel
from gpicljax.llm.prompts import PromptSettings
from gpicljax.play.game import PlaySession
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers import Trial


@pytest.fixture
def pond(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    monkeypatch.setattr(algorithm, "CATALOGUE", dict(algorithm.CATALOGUE))
    yield gpicljax.make("own_pond:Pond-v0")
    sys.modules.pop("own_pond", None)


def test_an_own_environment_is_played_with_its_keys(pond):
    game = PlaySession(pond)
    assert game.names["ArrowRight"] == "on" and game.actions["ArrowLeft"] == 0
    game.press("ArrowRight")
    assert game.words() == "stone 1"


def test_an_own_environment_is_explained_to_a_language_model(pond, tmp_path):
    vec = gpicljax.VectorEnv(Trial(pond, 4), 1, resets="fresh")
    prompts, settings = [], PromptSettings(explanations=True)

    def answer(messages, seed):
        prompts.append(" ".join(message.content for message in messages))
        return "[SELECT: 1]"

    result = play_trials(jax.random.key(0), vec, FakeModel(answer), tmp_path, settings)
    assert "Five stones lie in a row" in prompts[0]
    assert [report.status for report in result.reports] == ["finished"]


def test_own_parts_are_trained_by_the_command_and_loaded_elsewhere(tmp_path):
    for name in ("own_pond.py", "own_reinforce.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    flags = ["--env=own_pond:Pond-v0", "--algo=own_reinforce:reinforce", "--seeds=1"]
    flags += ["--no-progress", "--evaluation-episodes=4", "--probe-episodes=2", "--film-frames=0"]
    flags += ["--observations=20480", "--num-envs=16"]
    command = [sys.executable, "-m", "gpicljax", "run", "train_agent", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("runs/train_agent/*/agents/seed_0")
    assert ":" not in str(folder)
    load = "from gpicljax.runs import load_agent; print(load_agent({!r}{}).params.argmax(-1))"
    for modules, words in (
        (", modules=('own_pond', 'own_reinforce')", "[1 1 1 1 1]"),
        ("", "modules=('own_pond',)"),
    ):
        command = [sys.executable, "-c", load.format(str(folder), modules)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert words in done.stdout + done.stderr
        assert (done.returncode == 0) == bool(modules)
