"""A memory that plans: steps are unrolled, whole or in parts; grids whose moves are known."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trial_inputs import BATCH, inputs_of, play_steps, space

import gpicljax
from gpicljax import spaces
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.planning import PlanningSettings, grid_moves, planning_network
from gpicljax.wrappers.trial import Trial

SMALL = PlanningSettings(sweeps=3, slots=4, code=(8, 6), hidden=8, readout=8)
SPLIT = PlanningSettings(**{**SMALL.__dict__, "splits_episodes": True, "slots": 40})


def test_grid_moves_are_those_of_dark_rooms():
    env = gpicljax.make("DarkRoom-v0", size=4)
    task = env.sample_task(jax.random.key(0), env.default_params)
    following = env.transition_model(task).following[..., 0]
    np.testing.assert_array_equal(following, grid_moves(4))


@pytest.mark.parametrize("settings", [SMALL, SPLIT], ids=["four steps", "split"])
def test_steps_are_unrolled_whole_or_in_parts(settings):
    network = planning_network(*space(), settings)

    @jax.jit
    def both(key):
        params = network.init(key, jax.tree.map(lambda x: x[0], inputs))
        whole, _ = network.unroll(params, network.initial_carry(BATCH), inputs, starts)
        outputs, carries, last = play_steps(network, params, inputs, starts)
        carry = jax.tree.map(lambda x: x[7], carries)
        rest, end = network.unroll(params, carry, *jax.tree.map(lambda x: x[8:], (inputs, starts)))
        return whole, outputs, rest, last, end

    with jax.enable_x64(True):  # logits are gaps divided by their spread, which magnifies rounding
        inputs, starts = inputs_of(jax.random.key(0))
        whole, outputs, rest, last, end = both(jax.random.key(1))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, whole, outputs)
    jax.tree.map(close, rest, jax.tree.map(lambda x: x[8:], outputs))
    jax.tree.map(close, end, last)


def test_it_plans_from_what_it_has_seen_with_weights_untrained():
    """Along a corridor, one step at a time; then it goes where it was paid from anywhere."""
    env = Trial(gpicljax.make("DarkRoom-v0", size=3), 8)
    network = planning_network(
        env.observation_space(), env.action_space(), PlanningSettings(grid=3, sweeps=8)
    )
    cells = jnp.array([4, 5, 8, 7, 6, 3, 0])  # the last one pays
    actions = jnp.array([-1, 1, 3, 0, 0, 2, 2])
    before = jnp.concatenate([cells[:1], cells[:-1]])
    false = jnp.zeros((7, 1), bool)
    observation = {
        "now": cells[:, None],
        "before": before[:, None],
        "reached": cells[:, None],
        "terminated": false,
        "truncated": false,
        "elapsed": jnp.arange(7.0)[:, None, None] / 8,
    }
    pay = jnp.zeros((7, 1)).at[-1].set(100.0)
    inputs = AgentInput(observation, actions[:, None], pay)
    # The same memory read in another cell: the carry after all steps, and no new one.
    params = network.init(jax.random.key(0), jax.tree.map(lambda x: x[0], inputs))
    _, carry = network.unroll(params, None, inputs, None)
    for cell, best in ((0, (0, 2, 4)), (1, (0,)), (3, (2,)), (8, (0, 2))):
        seen = {name: x[-1] for name, x in observation.items()} | {"now": jnp.array([cell])}
        still = AgentInput(seen, jnp.array([-1]), jnp.zeros(1))
        output, _ = network.step(params, carry, still, jnp.zeros(1, bool))
        assert int(output.logits[0].argmax()) in best, (cell, output.logits)


def test_an_index_decides_until_an_action_has_led_elsewhere():
    inputs, _ = inputs_of(jax.random.key(0))
    here = jnp.zeros_like(inputs.observation["now"])
    sizes = dataclasses.replace(SMALL, slots=40)
    params = planning_network(*space(), sizes).init(
        jax.random.key(1), jax.tree.map(lambda x: x[0], inputs)
    )

    def logits(reached, sweeps):
        places = {"now": reached, "before": here, "reached": reached}
        seen = inputs._replace(observation=inputs.observation | places)
        network = planning_network(*space(), dataclasses.replace(sizes, sweeps=sweeps))
        return network.unroll(params, None, seen, None)[0].logits

    np.testing.assert_array_equal(logits(here, 1), logits(here, 3))
    one, three = (logits(here.at[5:].set(1), sweeps) for sweeps in (1, 3))
    np.testing.assert_array_equal(one[:5], three[:5])
    assert (one[-1] != three[-1]).any()


def test_gradients_are_finite_and_reach_every_parameter():
    network = planning_network(*space(), SPLIT)
    inputs, starts = inputs_of(jax.random.key(0))
    params = network.init(jax.random.key(1), jax.tree.map(lambda x: x[0], inputs))

    def loss(params):
        output, _ = network.unroll(params, None, inputs, starts)
        log = jax.nn.log_softmax(output.logits[..., :3])
        return -log[..., 0].mean() + (output.value**2).mean()

    grads = jax.jit(jax.grad(loss))(params)
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(grad).all(), path
        assert np.abs(grad).max() > 0, path


def test_other_spaces_and_grids_are_refused():
    with pytest.raises(ValueError, match="whole trials"):
        planning_network(spaces.Discrete(5), spaces.Discrete(2))
    with pytest.raises(ValueError, match="grid: got 3; accepted: 0, or the side of a square of 5"):
        planning_network(*space(), PlanningSettings(grid=3))


def test_one_seed_learns_in_a_room_whose_episodes_are_split():
    """Sums apart by the pay of the episode have crashed the compiled gradient of a single seed."""
    env = Trial(gpicljax.make("DarkRoom-v0", size=9), 200)
    spaces_of_trial = env.observation_space(), env.action_space()
    network = planning_network(*spaces_of_trial, PlanningSettings(grid=9, splits_episodes=True))
    cells = jnp.tile(jnp.arange(81), 10)[:804].reshape(201, 4)
    false = jnp.zeros(cells.shape, bool)
    names = dict.fromkeys(("now", "before", "reached"), cells)
    ends = dict.fromkeys(("terminated", "truncated"), false)
    elapsed = jnp.zeros((*cells.shape, 1))
    inputs = AgentInput(names | ends | {"elapsed": elapsed}, cells % 5, cells / 81)
    first = jax.tree.map(lambda x: x[0], inputs)
    params = jax.vmap(lambda key: network.init(key, first))(jax.random.key(0)[None])

    def loss(params):
        return jax.nn.log_softmax(network.unroll(params, None, inputs, None)[0].logits)[
            ..., 0
        ].mean()

    gradient = jax.jit(jax.vmap(jax.grad(loss)))(params)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))
