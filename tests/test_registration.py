import importlib.metadata
import sys

import pytest

import gpicljax
from gpicljax import agents, registration
from gpicljax.agents.acting import random_agent
from gpicljax.envs.frozen_lake import FrozenLake


def test_make_passes_the_static_configuration():
    assert gpicljax.make("FrozenLake-v1", size=6) == FrozenLake(size=6)


def test_registered_is_sorted_and_holds_the_first_ids():
    assert gpicljax.registered() == sorted(gpicljax.registered())
    assert {"BernoulliBandit-v0", "FrozenLake-v1", "MetaRG-v0"} <= set(gpicljax.registered())


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [("FrozenLake-v0", "FrozenLake-v1"), ("BernouliBandit-v0", "BernoulliBandit-v0")],
)
def test_an_unknown_id_suggests_the_nearest(unknown, nearest):
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'"):
        gpicljax.make(unknown)


def test_a_hopeless_id_lists_the_known_ones():
    with pytest.raises(ValueError, match="accepted: .*FrozenLake-v1") as error:
        gpicljax.make("%%%")
    assert "did you mean" not in str(error.value)


def test_bad_static_configuration_names_the_id_and_the_argument():
    with pytest.raises(ValueError, match=r"FrozenLake-v1: .*'colour'"):
        gpicljax.make("FrozenLake-v1", colour="red")


CELL = """
class Chain(FrozenLake):
    pass

gpicljax.register("Chain-v0", Chain)
stay = agents.algorithm_from_agent("stay", lambda config, env: random_agent(env))
agents.register_algorithm(stay)
"""


def test_a_cell_of_a_notebook_that_is_run_again_replaces_what_it_registered(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", {})
    monkeypatch.setattr(agents.algorithm, "CATALOGUE", {})
    names = {"gpicljax": gpicljax, "agents": agents, "FrozenLake": FrozenLake}
    names |= {"random_agent": random_agent, "__name__": "__main__"}
    exec(CELL, names)
    first = names["Chain"]
    with pytest.warns(UserWarning, match="is registered anew") as warned:
        exec(CELL, names)
    assert [str(warning.message).split()[0] for warning in warned] == ["Chain-v0", "stay"]
    assert names["Chain"] is not first and type(gpicljax.make("Chain-v0")) is names["Chain"]
    with pytest.raises(ValueError, match="Chain-v0"):
        gpicljax.register("Chain-v0", FrozenLake)


def test_register(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    gpicljax.register("Pond-v0", FrozenLake)
    gpicljax.register("Pond-v0", FrozenLake)  # the same again does no harm
    assert gpicljax.make("Pond-v0") == FrozenLake()
    with pytest.raises(ValueError, match="env_id: got 'Pond-v0', which is registered already"):
        gpicljax.register("Pond-v0", lambda: FrozenLake(size=3))


def test_ids_that_need_a_package_are_listed_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    monkeypatch.setattr(registration, "_NEEDS", dict(registration._NEEDS))
    gpicljax.register("Lake-v0", FrozenLake, needs=("numpy", "numpy"))
    gpicljax.register("Sea-v0", FrozenLake, needs=("no_such_package", "gpicljax[sea]"))
    assert "Lake-v0" in gpicljax.registered() and "Sea-v0" not in gpicljax.registered()
    with pytest.raises(ModuleNotFoundError, match=r"Sea-v0 needs no_such_package.*gpicljax\[sea\]"):
        gpicljax.make("Sea-v0")


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A module that registers an environment when it is imported, and an empty registry's copy."""
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    (tmp_path / "my_ponds.py").write_text(
        "import gpicljax\nfrom gpicljax.envs.frozen_lake import FrozenLake\n"
        "gpicljax.register('Puddle-v0', FrozenLake)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_ponds", None)


def test_an_id_of_ones_own_module(own_package):
    with pytest.raises(ValueError, match="env_id: got 'Puddle-v0'"):
        gpicljax.make("Puddle-v0")
    assert gpicljax.make("my_ponds:Puddle-v0", size=5) == FrozenLake(size=5)
    assert "Puddle-v0" in gpicljax.registered()
    with pytest.raises(ValueError, match="env_id: got 'my_pond:Puddle-v0'.*No module named"):
        gpicljax.make("my_pond:Puddle-v0")


def test_entry_points_of_installed_packages(own_package, monkeypatch):
    entry = importlib.metadata.EntryPoint(
        "Mere-v0", "gpicljax.envs.frozen_lake:FrozenLake", "gpicljax.environments"
    )
    entries = {"gpicljax.environments": [entry]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries[group])
    registration._enter_installed.cache_clear()
    assert gpicljax.make("Mere-v0") == FrozenLake() and "Mere-v0" in gpicljax.registered()
