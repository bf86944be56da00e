"""Causal models learn to imitate and to foresee from context; they act, and dream as they act."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.agents import causal_losses, causal_model, sequence
from gpicljax.agents.causal_losses import Targets
from gpicljax.agents.causal_model import Cooling, causal_agent, imagined_agent
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams, Sequences
from gpicljax.interface import TimeStep
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import (
    AUTOENCODER,
    MODEL,
    UNLIMITED,
    WINDOW,
    CausalModelSettings,
    CausalOutput,
)
from gpicljax.networks.causal_model import (
    causal_model as causal_network,
)
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.policies import BinnedPolicy, GaussianPolicy, policy_for

STEPS, BATCH, LATENT = 8, 16, 2
ACTIONS = spaces.Discrete(2)
PICTURES = standardise(autoencoder(AutoencoderSettings("patches", LATENT, width=4), (8, 8)))
POLICY = policy_for(ACTIONS)


def two_colours(keys, data=None):
    """A picture in one of two colours for a trial; what was done flips it, and is to be undone.

    The teacher's action is the trial's first colour, which the picture no longer shows.
    """
    del data

    def trial(key):
        first_key, key = jax.random.split(key)
        first = jax.random.bernoulli(first_key).astype(jnp.int32)
        done = jax.random.bernoulli(key, shape=(STEPS,)).astype(jnp.int32)
        last = jnp.concatenate([jnp.full(1, -1, jnp.int32), done[:-1]])
        shown = (first + jnp.cumsum(jnp.maximum(last, 0))) % 2
        images = jnp.where(shown[:, None, None, None] == 1, 255, 0).astype(jnp.uint8)
        return jnp.broadcast_to(images, (STEPS, 8, 8, 3)), last, jnp.full(STEPS, first)

    images, last, label = jax.tree.map(lambda x: x.swapaxes(0, 1), jax.vmap(trial)(keys))
    inputs = AgentInput(images, last, jnp.zeros(last.shape))
    return Sequences(inputs, None, Targets(label, jnp.ones(last.shape, bool)))


def train(window):
    """A model of these trials, with what it lost at every step."""
    settings = CausalModelSettings(layers=1, width=16, heads=2, masked=0.0, noisy=0.0)
    network = causal_network(settings, PICTURES, ACTIONS, capacity=STEPS)
    losses = [causal_losses.imitation_loss(POLICY), causal_losses.latent_loss()]
    config = SequenceConfig(batch_size=BATCH, schedule="constant")
    frozen = (AUTOENCODER, WINDOW)
    trainer = sequence.make(config, network, two_colours, losses, length=STEPS, frozen=frozen)

    @jax.jit
    def run(key, window):
        state = trainer.init(key, SequenceHParams(learning_rate=1e-2, warmup_updates=20))
        state = state.replace(params=state.params | {WINDOW: window})
        before = state.params
        state, _ = jax.lax.scan(lambda s, _: trainer.update(s), state, None, 300)
        fresh = two_colours(jax.random.split(jax.random.key(1), 64))
        losses_found = sequence.evaluate(network, losses, state.params, fresh)
        return before, state.params, jax.tree.map(lambda x: x.mean(1), losses_found)

    return network, *jax.vmap(run, (None, 0))(jax.random.key(0), window)


@pytest.fixture(scope="module")
def models():
    return train(jnp.asarray([UNLIMITED, 1], jnp.int32))


def test_context_is_what_lets_it_imitate(models):
    _, before, after, lost = models
    full, free = lost["policy_loss"]
    # Without context, what is asked for is a coin.
    assert full[-1] < 0.1
    assert free[1:] == pytest.approx(np.log(2), abs=0.05)
    # What is seen next follows from what is seen and done now, in one step.
    assert (lost["latent_loss"][:, 1:] < 0.1).all()
    for name in (AUTOENCODER, WINDOW):
        jax.tree.map(np.testing.assert_array_equal, before[name], after[name])
    assert not np.array_equal(*(jax.tree.leaves(x[MODEL])[0] for x in (before, after)))


def test_it_acts_as_it_was_trained_and_dreams_what_comes(models):
    network, _, params, _ = models
    params = jax.tree.map(lambda x: x[0], params)
    sequences = two_colours(jax.random.split(jax.random.key(2), 4))
    images, counts = sequences.inputs.observation, 4
    awake = causal_agent(network, POLICY, greedy=True)
    asleep = imagined_agent(network, POLICY, LATENT, greedy=True)

    def timestep(image, start):
        false, nothing = jnp.zeros(counts, bool), jnp.zeros(counts)
        return TimeStep(image, nothing, false, false, start, start, {}, None)

    @jax.jit
    def play(params):
        """Shown its own actions' consequences: a world of two colours, awake for three steps."""
        keys = jax.random.split(jax.random.key(0), counts)
        carry, image, actions, dreamt = awake.initial_carry(counts), images[0], [], []
        for t in range(6):
            start = jnp.full(counts, t == 0)
            agent = awake if t < 3 else asleep
            action, aux, carry = agent.act(keys, params, carry, timestep(image, start))
            actions.append(action)
            if t >= 3:
                dreamt.append(jnp.abs(aux["image"] - image / 255).mean((1, 2, 3)))
            image = jnp.where(action[:, None, None, None] == 1, 255 - image, image)
        return jnp.stack(actions), jnp.stack(dreamt), carry

    actions, errors, carry = play(params)
    # Once it has seen the first colour, it does what that says, awake or not.
    np.testing.assert_array_equal(actions, np.broadcast_to(sequences.targets.label[0], (6, 4)))
    reconstruct = jax.jit(lambda p: PICTURES.decode(p, PICTURES.encode(p, images[0])[0]))
    floor = np.abs(reconstruct(params[AUTOENCODER]) - images[0] / 255).mean((1, 2, 3))
    assert np.abs(errors - floor).max() < 0.1
    np.testing.assert_array_equal(carry.decisions, 6)


def test_temperatures_cool():
    keys = jax.random.split(jax.random.key(0), 512)
    choose = causal_model._chooser(POLICY, False, Cooling(1.0, 0.5, 1e-3))
    logits = jnp.tile(jnp.asarray([0.0, 1.0]), (512, 1))
    drawn = jax.jit(jax.vmap(choose, (None, None, 0)))
    decisions = jnp.asarray([[0] * 512, [1] * 512, [30] * 512])
    share = drawn(keys, logits, decisions).mean(1)
    assert share[0] == pytest.approx(1 / (1 + np.exp(-1)), abs=0.06)
    assert share[1] == pytest.approx(1 / (1 + np.exp(-2)), abs=0.06)
    assert share[2] == 1


def test_continuous_teachers():
    space = spaces.Box(-1.0, 1.0, (2,))
    label = jnp.asarray([[[0.5, -1.0]]])
    targets = Targets(label, jnp.ones((1, 1), bool))
    sequences = Sequences(AgentInput(None, None, None), None, targets)

    def nats(policy, outputs):
        out = CausalOutput(outputs, *[None] * 5)
        return float(causal_losses.imitation_loss(policy).at(out, sequences)[0, 0])

    gaussian = GaussianPolicy(space)
    right = jnp.asarray([[[0.5, -1.0, 0.0, 0.0]]])
    assert nats(gaussian, right) == pytest.approx(np.log(2 * np.pi))
    assert nats(gaussian, right.at[..., 0].set(0.0)) > nats(gaussian, right)
    binned = BinnedPolicy(space, bins=5)
    assert nats(binned, jnp.zeros((1, 1, 10))) == pytest.approx(2 * np.log(5))
    logits = jnp.zeros((1, 1, 10)).at[..., 3].set(20.0).at[..., 5].set(20.0)
    assert nats(binned, logits) == pytest.approx(0, abs=1e-4)
