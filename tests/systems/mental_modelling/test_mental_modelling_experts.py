"""Rules that act without training: each agent has numbers of its own."""

import jax
import numpy as np

import gpicljax
from gpicljax.systems.mental_modelling.data.recording import recorder
from gpicljax.systems.mental_modelling.experts.habits import Habit, draw_habit, habit


def record(task, policy, **numbers):
    """Returns eight episodes of an agent with these numbers, and as drawn for the rest."""
    env, settings = gpicljax.make(task), Habit(policy)
    params = draw_habit(jax.random.key(0), settings, env)
    params = params.replace(**{name: np.float32(x) for name, x in numbers.items()})
    play = recorder(env, habit(settings, env), environment=task, episodes=8, max_steps=200)
    return play(jax.random.key(1), params, policy, "")


def test_a_controller_reaches_the_flag():
    car = record("MountainCar-v0", "controller", gain=1, noise=0, repeat=0)
    # From a standstill at the bottom it may stay where it is.
    assert np.median(car.length) < 120 and (car.length < 200).mean() > 0.8


def test_a_random_network_does_the_same_in_the_same_state():
    lake = record("FrozenLake-v1", "mixture", noise=0, repeat=0)
    pairs = {*zip(lake.states[lake.is_step], lake.actions[lake.is_step], strict=True)}
    assert len({int(state) for state, _ in pairs}) == len(pairs)


def test_actions_are_repeated_and_stay_in_their_range():
    swing = record("Pendulum-v1", "sticky", repeat=0.9).actions[..., 0]
    assert np.abs(swing).max() <= 2 and swing.std() > 0.5
    assert 0.8 < (swing[:, 1:] == swing[:, :-1]).mean() < 0.97
