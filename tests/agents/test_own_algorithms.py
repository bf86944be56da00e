"""Algorithms of users: by module and name, from installed packages, and saved."""

import subprocess
import sys

import pytest

from gpicljax import agents
from gpicljax.agents import algorithm

MODULE = """
from gpicljax import agents
from gpicljax.agents.acting import random_agent

entry = agents.algorithm_from_agent("drift", lambda config, env: random_agent(env))
agents.register_algorithm(entry)
"""


@pytest.fixture
def drift(tmp_path, monkeypatch):
    (tmp_path / "own_drift.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(algorithm, "CATALOGUE", dict(algorithm.CATALOGUE))
    yield tmp_path
    sys.modules.pop("own_drift", None)


def test_a_module_and_a_name(drift):
    with pytest.raises(ValueError, match="algorithm: got 'drift'"):
        agents.get_algorithm("drift")
    assert agents.get_algorithm("own_drift:drift").name == "drift"
    assert agents.get_algorithm("drift").name == "drift"
    with pytest.raises(ValueError, match="algorithm: got 'own_drift:drifting'|got 'drifting'"):
        agents.get_algorithm("own_drift:drifting")
    with pytest.raises(ValueError, match="no_such_module"):
        agents.get_algorithm("no_such_module:drift")


def test_an_installed_package_names_its_algorithms(drift, monkeypatch):
    monkeypatch.setattr(algorithm, "_entry_points", lambda: {"drift": "own_drift"})
    assert algorithm.is_known("drift") and not algorithm.is_known("own_drift:drift")
    assert agents.get_algorithm("drift").name == "drift"


def test_the_command_trains_it_and_another_process_loads_it(drift):
    flags = ["--env=BernoulliBandit-v0", "--algo=own_drift:drift", "--seeds=1", "--no-progress"]
    flags += ["--evaluation-episodes=4", "--probe-episodes=2", "--film-frames=0"]
    command = [sys.executable, "-m", "gpicljax", "run", "train_agent", *flags]
    done = subprocess.run(command, cwd=drift, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder,) = drift.glob("runs/train_agent/*/agents/seed_0")
    assert ":" not in str(folder)
    load = "from gpicljax.runs import load_agent; load_agent({!r}{}); print('loaded')"
    for modules, words in ((", modules=('own_drift',)", "loaded"), ("", "modules=('own_drift',)")):
        script = load.format(str(folder), modules)
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=drift, capture_output=True, text=True, check=False)
        assert words in done.stdout + done.stderr
        assert (done.returncode == 0) == bool(modules)
