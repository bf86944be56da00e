"""Tables of what was tried: beside plain Python, step by step, and blind to actions' numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trial_inputs import ACTIONS, BATCH, PLACES, TIME, inputs_of, play_steps, space

from gpicljax import spaces
from gpicljax.networks.experience import ExperienceSettings, experience_network

SETTINGS = ExperienceSettings(code=(8, 6), embedding=8, sizes=(16,), readout=8)


@pytest.fixture(scope="module")
def outcomes():
    network = experience_network(*space(), SETTINGS)
    inputs, starts = inputs_of(jax.random.key(0))

    @jax.jit
    def both(key):
        params = network.init(key, jax.tree.map(lambda x: x[0], inputs))
        whole, carry = network.unroll(params, network.initial_carry(BATCH), inputs, starts)
        outputs, carries, last = play_steps(network, params, inputs, starts)
        middle = jax.tree.map(lambda x: x[4], carries)
        remainder = jax.tree.map(lambda x: x[5:], (inputs, starts))
        resumed, _ = network.unroll(params, middle, *remainder)
        fresh = jax.tree.map(lambda x: x[:6, :1], inputs)
        # Actions under other numbers, in a whole trial without carry and starts.
        order = jnp.array([2, 0, 1, 3])
        renamed = fresh._replace(
            last_action=jnp.where(fresh.last_action < 0, -1, order[fresh.last_action])
        )
        named = [network.unroll(params, None, x, None)[0] for x in (fresh, renamed)]
        return (whole, carry), (outputs, last), resumed, (named, order), carries

    return inputs, starts, both(jax.random.key(1))


def test_steps_unroll_and_resume(outcomes):
    _, _, ((whole, carry), (outputs, last), resumed, _, _) = outcomes
    near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)  # noqa: E731
    jax.tree.map(near, whole, outputs)
    jax.tree.map(near, carry, last)
    jax.tree.map(lambda a, b: near(a[5:], b), whole, resumed)
    assert (
        np.ptp(whole.logits[1:6, :, :3], axis=-1).min() > 0
    )  # before anything is tried all are alike


def test_tables_are_those_of_plain_python(outcomes):
    inputs, starts, (*_, carries) = outcomes
    inputs, starts = jax.device_get((inputs, starts))
    for row in range(BATCH):
        pairs, places = np.zeros((PLACES, ACTIONS, 3)), np.zeros((PLACES, 3))
        for time in range(TIME):
            if starts[time, row]:
                pairs[:], places[:] = 0, 0
            action = inputs.last_action[time, row]
            observation = {name: x[time, row] for name, x in inputs.observation.items()}
            if action >= 0:
                outcome = 1, inputs.last_reward[time, row], observation["terminated"]
                pairs[observation["before"], action] += outcome
                places[observation["reached"]] += outcome
            np.testing.assert_allclose(carries.pairs[time, row], pairs, atol=1e-5)
            np.testing.assert_allclose(carries.places[time, row], places, atol=1e-5)


def test_what_holds_for_an_action_holds_whatever_its_number(outcomes):
    (plain, renamed), order = outcomes[2][3]
    np.testing.assert_allclose(plain.value, renamed.value, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(plain.logits, renamed.logits[..., order], rtol=1e-4, atol=1e-6)


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match="observation_space: got .*accepted: whole trials"):
        experience_network(spaces.Discrete(4), spaces.Discrete(2))
    with pytest.raises(ValueError, match="actions: got"):
        experience_network(space()[0], spaces.Box(0.0, 1.0, (2,)))
