"""Algorithms of users: by module and name, and from installed packages."""

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
