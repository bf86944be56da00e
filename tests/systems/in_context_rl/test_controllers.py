"""Controllers that are told a system's physics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.evaluation.returns import episode_returns
from gpicljax.systems.in_context_rl.experts.control import (
    balancing_controller,
    mean_physics,
    predictive_controller,
)


def play(env, agent, params, agent_params=(), steps=30):
    sizes = {"episodes": 8, "max_steps": steps, "env_params": params, "privileged": True}
    program = jax.jit(lambda: episode_returns(jax.random.key(0), env, agent, agent_params, **sizes))
    return program()


@pytest.mark.parametrize(
    ("name", "make", "constant", "rounding"),
    [
        ("Pendulum-v1", predictive_controller, "mass", 1e-2),  # rounding decides which are elites
        ("InvertedDoublePendulum-v5", balancing_controller, "force", 1e-5),
    ],
)
def test_told_and_mean_physics_differ_only_where_tasks_do(name, make, constant, rounding):
    env = gpicljax.make(name)
    options = {"horizon": 5} if make is predictive_controller else {"sweeps": 20}
    told, average = make(env, True, **options), make(env, False, **options)
    (value,) = {float(x) for x in getattr(env.default_params, constant)}
    for spread in (0.0, 0.5):
        params = env.make_params(**{constant: ((1 - spread) * value, (1 + spread) * value)})
        first = play(env, told, params).returns
        second = play(env, average, params, mean_physics(env, params)).returns
        assert np.allclose(first, second, rtol=rounding) == (spread == 0.0)


def test_a_hanging_pendulum_is_swung_up():
    env = gpicljax.make("Pendulum-v1")
    returns = play(env, predictive_controller(env, True), None, steps=100).returns
    assert returns.mean() > -300  # random play: about -600
    assert returns.min() > -500


def test_poles_are_kept_upright_and_the_cart_comes_to_rest():
    env = gpicljax.make("InvertedDoublePendulum-v5")
    played = play(env, balancing_controller(env, True), env.make_params(horizon=100), steps=100)
    assert played.truncated.all()
    assert played.returns.min() > 9.2 * 100


def test_another_system_is_refused():
    env = gpicljax.make("Acrobot-v1")
    for make in (predictive_controller, balancing_controller):
        with pytest.raises(ValueError, match="env: got"):
            make(env, True)


def test_mean_physics_are_those_of_the_ranges():
    env = gpicljax.make("Pendulum-v1")
    physics = mean_physics(env, env.make_params(mass=(0.5, 1.5)))
    assert jnp.isclose(physics["mass"], 1.0) and set(physics) == set(env.constants)
