import pytest

import gpicljax
from gpicljax import registration
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


def test_register(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    gpicljax.register("Pond-v0", FrozenLake)
    gpicljax.register("Pond-v0", FrozenLake)  # the same again does no harm
    assert gpicljax.make("Pond-v0") == FrozenLake()
    with pytest.raises(ValueError, match="env_id: got 'Pond-v0', which is registered already"):
        gpicljax.register("Pond-v0", lambda: FrozenLake(size=3))
