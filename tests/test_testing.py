"""Environments of users: what is refused when a batch is made of them, and by the whole suite."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment, Transition
from gpicljax.testing import check_environment, check_interface


@struct.dataclass
class Params:
    """The place of the goal."""

    goal: jax.Array


@struct.dataclass
class State:
    """The present place."""

    place: jax.Array


@dataclasses.dataclass(frozen=True)
class Line(Environment):
    """A line to walk; `fault` names what is wrong with it."""

    fault: str = ""

    @property
    def default_params(self):
        return Params(jnp.int32(3))

    def horizon(self, params=None):
        return np.int32(3 if self.fault == "horizon" else 100)

    def sample_task(self, key, params):
        return params.goal + jax.random.randint(key, (), 0, 2, jnp.int32)

    def initial(self, key, task):
        return State(jnp.zeros((), jnp.int32))

    def move(self, state, action, noise, task):
        place = state.place + jnp.asarray(action, jnp.int32)
        if self.fault == "state":
            place = place.astype(jnp.float32)
        over = place >= task
        reward = over.astype(jnp.float32)
        reward = {"reward": reward[None], "integer": over.astype(jnp.int32)}.get(self.fault, reward)
        if self.fault == "nan":
            reward = jnp.where(over, jnp.nan, reward)
        truncated = jnp.zeros((), jnp.int32 if self.fault == "flag" else bool)
        info = {"places": jnp.zeros(3)} if self.fault == "info" else {"place": place}
        return Transition(State(place), reward, over, truncated, info)

    def observe(self, state, task):
        observation = jnp.minimum(state.place, 9)
        if self.fault == "outside":
            observation = observation + 8
        if self.fault == "shape":
            return observation[None]
        return observation.astype(jnp.uint8) if self.fault == "dtype" else observation

    def observation_space(self, task=None):
        return spaces.Discrete(10)

    def action_space(self, task=None):
        return spaces.Discrete(2)

    def describe(self, state, task):
        if self.fault == "words":
            return ""
        return f"at {state.place}" + f" of {task}" * (self.fault == "secret")


FAULTS = {
    "reward": r"Line: reward: got float32\[1\]; accepted: float32\[\]",
    "integer": r"Line: reward: got int32\[\]; accepted: float32\[\]",
    "state": r"Line: state after a step.*: got float32\[\]; accepted: int32\[\], as after reset",
    "flag": r"Line: truncated: got int32\[\]; accepted: bool\[\]",
    "info": r"Line: info\['places'\]: got float32\[3\]; accepted: a scalar \[\]",
    "shape": r"Line: observation: got int32\[1\]; accepted: int32\[\], as in Discrete",
    "dtype": r"Line: observation: got uint8\[\]; accepted: int32\[\]",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_of_an_environment_at_odds_with_its_spaces_is_refused(fault):
    with pytest.raises(ValueError, match=FAULTS[fault]):
        gpicljax.VectorEnv(Line(fault), 8)


def test_a_sound_one_passes():
    check_environment(Line(), steps=120)
    assert gpicljax.VectorEnv(Line(), 8).env == Line()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("outside", "an observation is in its space: got no at step"),
        ("nan", "everything is finite: got no at step"),
        ("horizon", "steps of an episode: got"),
        ("words", "describe: got ''"),
        ("secret", "describe: got 'at 0 of 3' and 'at 0 of 4'; accepted: one text where all"),
    ],
)
def test_what_only_play_shows_is_refused_by_the_suite(fault, words):
    check_interface(Line(fault))
    with pytest.raises(ValueError, match=words):
        check_environment(Line(fault), steps=120)


def test_classes_that_are_no_values_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Inside(Line):
        pass

    with pytest.raises(ValueError, match="Inside: pickle: got .*; accepted: a class of an import"):
        check_environment(Inside())

    class Table(Line):
        def __init__(self):
            object.__setattr__(self, "fault", "")
            object.__setattr__(self, "table", np.zeros(3))

        def __reduce__(self):
            return (gpicljax.make, ("FrozenLake-v1",))

    with pytest.raises(ValueError, match="Table: a .*: got another value"):
        check_environment(Table())
    assert pickle.loads(pickle.dumps(Line())) == Line()
