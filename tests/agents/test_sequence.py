"""The sequence trainer: it learns in context, in parts as in one, on eight devices as on one."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sequence_subjects import LENGTH, TOKENS, Model, alternating, make

from gpicljax.agents import sequence
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams, Sequences
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.language_model import LanguageModelSettings, language_model


def evaluate(params, sequences):
    losses = [sequence.cross_entropy("next_token")]
    return sequence.evaluate(as_network(Model()), losses, params, sequences)["next_token"]


def train(trainer, hparams, updates, seed=0):
    @jax.jit
    def run(key):
        state = trainer.init(key, hparams)
        return jax.lax.scan(lambda s, _: trainer.update(s), state, None, updates)

    return run(jax.random.key(seed))


def test_it_learns_in_context():
    trainer = make()
    hparams = SequenceHParams(learning_rate=1e-2, warmup_updates=100)
    state, metrics = train(trainer, hparams, 250)
    assert metrics["loss"][0] == pytest.approx(np.log(TOKENS), abs=0.1)
    fresh = alternating(jax.random.split(jax.random.key(1), 512))
    nats = evaluate(state.params, fresh).mean(1)
    # Nobody can know which of the five others comes first; once both are seen, all is known.
    # Without a memory beyond the last token it would stay at log 5 = 1.61.
    assert nats[0] > np.log(TOKENS - 1) - 0.05
    assert nats[2:].max() < 0.1


def test_microbatches_add_up_to_the_batch():
    """They are parts of the same sequences."""
    hparams = SequenceHParams(warmup_updates=1)
    whole = train(make(SequenceConfig(8)), hparams, 3)
    parts = train(make(SequenceConfig(8, microbatches=4)), hparams, 3)
    for a, b in zip(jax.tree.leaves(whole[1]), jax.tree.leaves(parts[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5)


@pytest.mark.slow
def test_seeds_are_vmapped():
    trainer = make(SequenceConfig(4))
    hparams = SequenceHParams()

    def loss(key):
        return trainer.update(trainer.init(key, hparams))[1]["loss"]

    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(loss))(keys)
    np.testing.assert_allclose(together, [loss(key) for key in keys], rtol=1e-5)
    assert len(np.unique(together)) == 3


def test_several_models_learn_from_sequences_that_are_made_once():
    """Each as it would alone; what the first's frozen part makes of the sequences serves all."""

    def prepare(params, sequences):
        return sequences._replace(inputs=(sequences.inputs + params["shift"]) % TOKENS)

    plain = as_network(Model(8))

    def init(key, inputs):
        return {"model": plain.init(key, inputs), "shift": jnp.asarray(2, jnp.int32)}

    network = plain._replace(
        init=init, unroll=lambda params, *given: plain.unroll(params["model"], *given)
    )
    losses = [sequence.cross_entropy("next_token", weight=lambda data: data)]
    config = SequenceConfig(batch_size=8, microbatches=2)
    options = {"prepare": prepare, "frozen": ["shift"]}
    single = sequence.make(config, network, alternating, losses, **options)
    joint = sequence.make(config, network, alternating, losses, several=True, **options)
    hparams, weights = SequenceHParams(warmup_updates=1), jnp.asarray([1.0, 0.5, 2.0])
    rates = hparams.replace(learning_rate=jnp.asarray([1e-2, 1e-3, 1e-2]))

    def begun(rate, weight):
        return single.init(jax.random.key(0), hparams.replace(learning_rate=rate), weight)

    states = jax.vmap(begun)(rates.learning_rate, weights)
    joint_states = states.replace(key=jax.random.split(states.key[0], 3).at[0].set(states.key[0]))
    after, metrics = jax.jit(joint.update)(joint_states)
    expected, single_metrics = jax.jit(jax.vmap(single.update))(states)
    joint_leaves, single_leaves = map(
        jax.tree.leaves, ((after.params, metrics), (expected.params, single_metrics))
    )
    for a, b in zip(joint_leaves, single_leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(after.params["shift"], 2)
    assert len(np.unique(metrics["loss"])) == 3 and len(np.unique(metrics["next_token"])) == 1


def test_every_update_draws_anew_and_the_host_may_change_the_data():
    firsts = []

    def sample(keys, data):
        sequences = alternating(keys)
        return sequences._replace(inputs=(sequences.inputs + data) % TOKENS)

    trainer = make(SequenceConfig(2), sample, [sequence.Loss("first", lambda o, s: s.inputs * 1.0)])
    update = jax.jit(trainer.update)
    state = jax.jit(trainer.init)(jax.random.key(0), SequenceHParams(), jnp.int32(0))
    for data in (0, 0, 1):
        state, metrics = update(state.replace(data=jnp.int32(data)))
        firsts.append(float(metrics["first"]))
    assert len(set(firsts)) == 3 and int(state.updates) == 3
    assert update._cache_size() == 1


class TestLosses:
    LOGITS = jnp.log(jnp.array([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]]))

    def sequences(self, targets):
        return Sequences(None, jnp.zeros((1, 2), bool), jnp.asarray(targets))

    def test_cross_entropy(self):
        loss = sequence.cross_entropy("x").at(self.LOGITS, self.sequences([[0, 2]]))
        np.testing.assert_allclose(loss, -np.log([[0.5, 0.7]]), rtol=1e-6)

    def test_negative_targets_do_not_count(self):
        def sample(keys, data):
            del data
            full = alternating(keys)
            return full._replace(targets=full.targets.at[4:].set(-1))

        trainer = make(SequenceConfig(4), sample)
        state = jax.jit(trainer.init)(jax.random.key(0), SequenceHParams())
        drawn = sample(jax.random.split(jax.random.key(5), 4), None)
        nats = evaluate(state.params, drawn)
        keyed = make(SequenceConfig(4), lambda keys, data: drawn)
        _, metrics = jax.jit(keyed.update)(state)
        np.testing.assert_allclose(metrics["loss"], nats[:4].mean(), rtol=1e-5)

    def test_terms_are_weighed_and_positions_ramped(self):
        def position(name, weight):
            index = lambda o, s: jnp.broadcast_to(jnp.arange(LENGTH)[:, None] * 1.0, s.starts.shape)  # noqa: E731
            return sequence.Loss(name, index, weight)

        trainer = make(SequenceConfig(2, ramp=4), losses=[position("a", 0.5), position("b", 2.0)])
        state = jax.jit(trainer.init)(jax.random.key(0), SequenceHParams())
        _, metrics = jax.jit(trainer.update)(state)
        weights = np.minimum(np.arange(1, LENGTH + 1) / 4, 1)
        mean = (weights * np.arange(LENGTH)).sum() / weights.sum()
        np.testing.assert_allclose([metrics["a"], metrics["loss"]], [mean, 2.5 * mean], rtol=1e-6)

    def test_squared_error(self):
        out, target = jnp.ones((1, 2, 3)), jnp.array([[[1.0, 0, 0], [1, 1, 1]]])
        loss = sequence.squared_error("z").at(out, self.sequences(target))
        np.testing.assert_allclose(loss, [[2 / 3, 0]], rtol=1e-6)


def test_weights_and_phases_follow_the_updates_and_what_is_frozen_stays():
    """A line through the origin, a x + b x, of which b is given; its noise and weight change."""

    def unroll(params, carry, inputs, starts, key=None):
        return params["learnt"] * inputs + params["given"] * inputs, carry

    def init(key, inputs):
        return {"learnt": jnp.zeros(()), "given": jnp.full((), 2.0)}

    line = Network(init, lambda batch: (), unroll, unroll)

    def sample(keys, data):
        x = jax.vmap(jax.random.normal)(keys)[None]
        return Sequences(x, None, data["slope"] * x)

    def at(outputs, sequences):
        return jnp.square(outputs - sequences.targets)

    def phase(data, updates):
        return {**data, "weight": jnp.where(updates < 10, 0.0, data["weight"])}

    losses = [sequence.Loss("error", at, weight=lambda data: data["weight"])]
    config = SequenceConfig(batch_size=8, schedule="constant")
    trainer = sequence.make(config, line, sample, losses, phase=phase, frozen=("given",))
    data = {"slope": jnp.full((), 3.0), "weight": jnp.full((), 1.0)}

    @jax.jit
    def run(key):
        state = trainer.init(key, SequenceHParams(learning_rate=0.1, warmup_updates=1), data)
        return jax.lax.scan(lambda s, _: trainer.update(s), state, None, 100)

    state, metrics = run(jax.random.key(0))
    assert not metrics["loss"][:10].any() and metrics["error"][:10].all()
    assert metrics["loss"][10] == metrics["error"][10]
    assert state.params["given"] == 2.0
    assert state.params["learnt"] == pytest.approx(1.0, abs=0.05)
    with pytest.raises(ValueError, match="frozen: got 'other'; accepted: an entry"):
        sequence.make(config, line, sample, losses, frozen=("other",)).init(
            jax.random.key(0), SequenceHParams(), data
        )


@pytest.mark.parametrize("schedule", ["noam", "cosine", "constant"])
def test_schedules(schedule):
    hparams = SequenceHParams(
        learning_rate=2e-3, warmup_updates=10, decay_updates=110, final_share=0.25
    )
    rates = [float(sequence.learning_rate(schedule, hparams, i)) for i in range(300)]
    np.testing.assert_allclose(rates[:10], 2e-4 * np.arange(1, 11), rtol=1e-5)
    if schedule == "noam":
        np.testing.assert_allclose(rates[39], 1e-3, rtol=1e-5)  # (40 / 10)^-1/2
    elif schedule == "cosine":
        oracle = optax.warmup_cosine_decay_schedule(0.0, 2e-3, 10, 110, 5e-4)
        np.testing.assert_allclose(rates, [oracle(i + 1) for i in range(300)], rtol=1e-4)
    else:
        np.testing.assert_allclose(rates[10:], 2e-3, rtol=1e-6)


@pytest.mark.slow
def test_only_matrices_decay():
    hparams = SequenceHParams(learning_rate=0.1, warmup_updates=1, weight_decay=0.5)
    trainer = make(SequenceConfig(2), losses=[sequence.Loss("none", lambda o, s: s.inputs * 0.0)])
    state = trainer.init(jax.random.key(0), hparams)
    unit_params = jax.tree.map(jnp.ones_like, state.params)
    params = trainer.update(state.replace(params=unit_params))[0].params
    for leaf in jax.tree.leaves(params):
        np.testing.assert_allclose(leaf, 0.95 if leaf.ndim > 1 else 1.0, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_units_are_dropped_in_training_alone(rate):
    settings = LanguageModelSettings(layers=1, width=8, heads=2, dropout=rate)
    network, losses = language_model(settings, TOKENS, LENGTH), [sequence.cross_entropy("nats")]

    def sample_constant(keys, data):
        del data
        return alternating(jnp.broadcast_to(jax.random.key(3), keys.shape))

    trainer = sequence.make(SequenceConfig(2), network, sample_constant, losses, length=LENGTH)
    assert trainer.observations == 2 * LENGTH
    # Nothing moves, and the data are the same: what differs from update to update was dropped.
    state = jax.jit(trainer.init)(jax.random.key(0), SequenceHParams(learning_rate=0.0))
    update = jax.jit(trainer.update)
    repeated, (state, first) = update(state)[1], update(state)
    assert repeated["nats"] == first["nats"]  # drawn from the state's key
    second = update(state)[1]
    of_all = jax.jit(functools.partial(sequence.evaluate, network, losses))
    expected = of_all(state.params, sample_constant(jnp.zeros(2), None))
    if rate:
        assert abs(first["nats"] - second["nats"]) > 1e-3
        assert abs(first["nats"] - expected["nats"].mean()) > 1e-3
    else:
        np.testing.assert_allclose(first["nats"], second["nats"], rtol=1e-6)
        np.testing.assert_allclose(first["nats"], expected["nats"].mean(), rtol=1e-5)
    with pytest.raises(ValueError, match="agent: got None"):
        trainer.agent()


def test_muon_makes_steps_of_a_stack_of_matrices_orthogonal():
    """Each layer's matrix moves by a step whose singular values are about equal."""
    network = Network(lambda key, x: None, lambda batch: (), None, None)
    config = SequenceConfig(optimiser="muon", schedule="constant")
    losses = [sequence.Loss("error", lambda outputs, sequences: outputs)]
    trainer = sequence.make(config, network, None, losses).update.__self__
    params = {"stack": jnp.zeros((3, 6, 6)), "bias": jnp.zeros(6)}
    hparams = SequenceHParams(warmup_updates=0, learning_rate=1.0)
    optimiser = trainer._optimiser(hparams)
    grads = {"stack": jax.random.normal(jax.random.key(0), (3, 6, 6)), "bias": jnp.ones(6)}
    steps, _ = optimiser.update(grads, optimiser.init(params), params)
    values = np.linalg.svd(steps["stack"], compute_uv=False)
    assert values.max() / values.min() < 2.5 and (jnp.vdot(steps["stack"], grads["stack"]) < 0)
    assert (steps["bias"] < 0).all()


def test_bad_input_is_refused():
    for options, text in (
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"microbatches": 3}, "microbatches: got 3; accepted: a divisor of batch_size = 16"),
        ({"ramp": -1}, "ramp: got -1"),
        ({"schedule": "linear"}, "schedule: got 'linear'"),
        ({"optimiser": "sgd"}, "optimiser: got 'sgd'"),
    ):
        with pytest.raises(ValueError, match=text):
            SequenceConfig(**options)
    twice = [sequence.cross_entropy("a"), sequence.cross_entropy("a")]
    for losses in ((), twice):
        with pytest.raises(ValueError, match="one or more different ones"):
            sequence.make(SequenceConfig(), as_network(Model()), alternating, losses)
    with pytest.raises(ValueError, match="devices: got 3; accepted: a divisor"):
        make(devices=3)


@pytest.mark.slow
def test_eight_devices_train_as_one(on_eight_devices):
    on_eight_devices(Path(__file__).with_name("sequence_on_eight_devices.py"))


def test_configurations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SequenceConfig().ramp = 3  # type: ignore[misc]


@pytest.mark.parametrize("schedule", ["noam", "cosine", "constant"])
def test_schedules_over_no_updates_are_finite(schedule):
    hparams = SequenceHParams(learning_rate=0.5, warmup_updates=0, decay_updates=0)
    rates = jax.vmap(lambda n: sequence.learning_rate(schedule, hparams, n))(jnp.arange(4))
    assert jnp.isfinite(rates).all() and (rates[0] > 0)
