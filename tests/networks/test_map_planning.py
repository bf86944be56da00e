"""Planning on a map: what latents show where, shortest ways, and what was in the way."""

import jax
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.causal_model import CausalModelSettings, sequence_model
from gpicljax.networks.map_memory import UNLIMITED
from gpicljax.networks.map_planning import (
    NEVER,
    SIGHTS,
    cells_ahead,
    cells_in_sight,
    values_of_neighbours,
)

SIDE, RADIUS, WALL = 5, 2, 20.0
PARTS = slice(7), slice(7, None)
EAST, SOUTH, WEST, NORTH = range(4)  # by quarter of a turn: +x, +y, -x, -y
BEND = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]


@jax.jit
def best(worth, cost, place):
    """Returns the values of entering the cells around a place, and the gradient of the best."""

    def greatest(worth, cost):
        values = values_of_neighbours(worth, cost, place, sweeps=2 * SIDE)
        return values.max(), values

    return jax.grad(greatest, argnums=(0, 1), has_aux=True)(worth, cost)


def plan(start, goal, cells=BEND):
    """Returns the values of the cells around the start, and the gradients by worth and cost."""
    worth, cost = np.full((SIDE, SIDE, 1), -9.0), np.full((SIDE, SIDE, 1), WALL)
    worth[goal], cost[tuple(zip(*cells, strict=True))] = 9.0, 1.0
    place = np.array([pose_number(start[0], start[1], NORTH)])
    gradients, values = jax.device_get(best(worth, cost, place))
    return values[:, 0].tolist(), *(x[..., 0] for x in gradients)


def pose_number(x, y, heading):
    return (x * SIDE + y) * 4 + heading


def test_a_shorter_way_to_a_goal_is_worth_more():
    values, *_ = plan((1, 0), (2, 2))
    assert values[EAST] == 9 - 3 and values[WEST] == 9 - 5  # there and back
    assert values[NORTH] == NEVER and values[SOUTH] < values[WEST]
    assert plan((2, 1), (2, 2))[0][SOUTH] == 9 - 1


def test_gradients_are_those_of_the_best_way():
    _, worth, cost = plan((0, 0), (2, 2))
    assert worth[2, 2] == 1 and worth.sum() == 1
    assert [cost[cell] for cell in BEND] == [0, -1, -1, -1, -1] and cost.sum() == -4


def test_latents_show_cells_before_the_agent():
    ahead, right = (SIGHTS.tolist().index(sight) for sight in ([1, 0], [2, 1]))
    table = cells_in_sight(RADIUS)
    assert table[pose_number(2, 2, EAST), [ahead, right]].tolist() == [3 * SIDE + 2, 4 * SIDE + 3]
    assert table[pose_number(2, 2, NORTH), [ahead, right]].tolist() == [2 * SIDE + 1, 3 * SIDE]
    assert table[pose_number(0, 0, WEST), ahead] == SIDE * SIDE


@pytest.mark.parametrize("window", [1, 3, UNLIMITED])
@pytest.mark.parametrize("kind", [{"map_memory": RADIUS, "plan_sweeps": 6}, {"learnt_map": 2}])
def test_maps_are_read_step_by_step_as_in_whole_sequences(kind, window):
    settings = CausalModelSettings("lstm", 1, 8, 1, noisy=0.0, **kind)
    model = sequence_model(settings, 6, spaces.Discrete(5), 12)
    draw, (steps, batch) = np.random.default_rng(0), (12, 3)
    latents = draw.normal(size=(steps, batch, 6)).astype(np.float32)
    latents[4] = latents[3]  # something is in the way
    is_hidden = draw.random((steps, batch)) < 0.3
    action = draw.integers(0, 5, (steps, batch)).astype(np.int32)
    inputs = {"latent": latents, "action": action, "observed": latents, "hidden": is_hidden}
    starts = np.zeros((steps, batch), bool)
    starts[5, 1] = True
    carry = model.initial_carry(batch)

    @jax.jit
    def run(inputs, starts):
        first, rest = (
            jax.tree.map(lambda x, part=part: x[part], (inputs, starts)) for part in PARTS
        )
        params = model.init(jax.random.key(0), carry, *first, method="unroll")
        whole, _ = model.apply(params, carry, inputs, starts, window, method="unroll")
        _, later = model.apply(params, carry, *first, window, method="unroll")
        continued, _ = model.apply(params, later, *rest, window, method="unroll")

        def step(carry, moment):
            outputs, carry = model.apply(params, carry, *moment, window, method="step")
            return carry, outputs["policy"]

        _, stepped = jax.lax.scan(step, carry, (inputs, starts))
        _, stepped_later = jax.lax.scan(step, later, rest)
        return whole["policy"], continued["policy"], stepped, stepped_later

    whole, continued, stepped, stepped_later = map(np.asarray, run(inputs, starts))
    np.testing.assert_allclose(stepped.reshape(whole.shape), whole, atol=1e-4)
    for part in (continued, stepped_later):
        np.testing.assert_allclose(
            part.reshape(5, batch, -1), whole[7:].reshape(5, batch, -1), atol=1e-4
        )


def test_cells_ahead_of_poses_are_next_to_them():
    poses = np.zeros((1, SIDE, SIDE, 4), bool)
    poses[0, 2, 1, EAST] = poses[0, 0, 0, NORTH] = True
    ahead = np.asarray(jax.jit(cells_ahead)(poses))[0]
    assert np.argwhere(ahead).tolist() == [[3, 1]]
