"""Prioritised replay: probabilities, the ring, and flashbax as an oracle."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.data import replay as r

sample = jax.jit(r.sample, static_argnums=2)
sample_many = jax.jit(jax.vmap(r.sample, (0, None, None)), static_argnums=2)
add = jax.jit(r.add)
set_priorities = jax.jit(r.set_priorities)


def item(value=0):
    return {"number": np.int32(value), "carry": np.full(2, value, np.float32)}


def items(*values):
    return jax.tree.map(lambda *x: np.stack(x), *[item(v) for v in values])


def filled(capacity, priorities):
    """A replay whose first places have these priorities (exponent 1)."""
    replay = r.init(item(), capacity)
    for i in range(len(priorities)):
        replay = add(replay, items(i))
    return set_priorities(
        replay, np.arange(len(priorities)), np.asarray(priorities, np.float32), 1.0
    )


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


PRIORITIES = np.array([0.5, 3.0, 0.01, 1.2, 7.0, 2.0, 0.3])


def test_frequencies_are_proportional_to_priorities():
    draws = 20_000
    indices = np.asarray(sample_many(keys(draws), filled(10, PRIORITIES), 1).indices).ravel()
    counts = np.bincount(indices, minlength=10)
    expected = draws * PRIORITIES / PRIORITIES.sum()
    assert counts[7:].sum() == 0
    chi_square = ((counts[:7] - expected) ** 2 / expected).sum()
    assert chi_square < 22.5  # the 99.9 % quantile at 6 degrees of freedom


def test_stratified_sampling_is_unbiased_and_even():
    batch, draws = 8, 4000
    drawn = sample_many(keys(draws, 1), filled(10, PRIORITIES), batch)
    counts = np.stack([(drawn.indices == i).sum(-1) for i in range(7)], axis=1)
    expected = batch * PRIORITIES / PRIORITIES.sum()
    error = counts.std(0) / np.sqrt(draws) + 1e-12
    assert (np.abs(counts.mean(0) - expected) < 3 * error).all()
    # Each batch is spread: no item is more than two draws off its share, and the variance is less
    # than that of independent draws.
    assert np.abs(counts - expected).max() < 2
    assert (counts.var(0)[expected > 1] < (expected * (1 - expected / batch))[expected > 1]).all()


def test_samples_are_the_items_at_the_indices():
    replay = filled(10, PRIORITIES)
    drawn = sample(jax.random.key(0), replay, 64)
    np.testing.assert_array_equal(drawn.items["number"], drawn.indices)
    np.testing.assert_array_equal(drawn.items["carry"][:, 1], drawn.indices)
    np.testing.assert_allclose(
        drawn.probabilities, (PRIORITIES / PRIORITIES.sum())[drawn.indices], rtol=1e-6
    )
    assert drawn.indices.dtype == jnp.int32 and drawn.probabilities.dtype == jnp.float32


def test_probabilities_are_flashbaxs():
    exponent, count = 0.9, len(PRIORITIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the oracle's own
        import flashbax

        buffer = flashbax.make_prioritised_trajectory_buffer(
            add_batch_size=1,
            sample_batch_size=64,
            sample_sequence_length=1,
            period=1,
            min_length_time_axis=1,
            max_length_time_axis=count,
            priority_exponent=exponent,
        )
        state = buffer.init({"number": jnp.zeros((), jnp.int32)})
        state = buffer.add(state, {"number": jnp.arange(count, dtype=jnp.int32)[None]})
        state = buffer.set_priorities(state, jnp.arange(count), jnp.asarray(PRIORITIES))
        theirs = jax.jit(buffer.sample)(state, jax.random.key(0))
    number = np.asarray(theirs.experience["number"]).ravel()
    replay = filled(count, np.ones(count))
    replay = r.set_priorities(
        replay, jnp.arange(count), jnp.asarray(PRIORITIES, jnp.float32), exponent
    )
    ours = np.asarray(replay.priorities / replay.priorities.sum())
    assert set(number) >= {1, 4, 5}
    np.testing.assert_allclose(ours[number], np.asarray(theirs.probabilities).ravel(), rtol=1e-5)
    drawn = sample(jax.random.key(0), replay, 64)
    np.testing.assert_allclose(drawn.probabilities, ours[drawn.indices], rtol=1e-6)


def test_the_ring_overwrites_the_oldest():
    replay = r.init(item(), 6)
    for first in range(0, 12, 3):
        replay = add(replay, items(first, first + 1, first + 2))
        newest = first + 2
        expected = sorted(range(max(0, newest - 5), newest + 1))
        present = np.asarray(replay.items["number"])[np.asarray(replay.priorities) > 0]
        assert sorted(present) == expected
    np.testing.assert_array_equal(replay.items["number"], [6, 7, 8, 9, 10, 11])
    replay = add(replay, items(12, 13, 14))
    np.testing.assert_array_equal(replay.items["number"], [12, 13, 14, 9, 10, 11])
    np.testing.assert_array_equal(replay.items["carry"][:, 0], [12, 13, 14, 9, 10, 11])
    assert int(replay.cursor) == 3 and replay.capacity == 6


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="capacity: got 6; accepted: a multiple of the 4 items"):
        r.add(r.init(item(), 6), items(0, 1, 2, 3))
    with pytest.raises(ValueError, match="capacity: got 0; accepted: an integer >= 1"):
        r.init(item(), 0)


def test_new_items_get_the_highest_priority_ever_seen():
    replay = add(r.init(item(), 6), items(0, 1))
    np.testing.assert_array_equal(replay.priorities, [1, 1, 0, 0, 0, 0])
    replay = r.set_priorities(replay, jnp.array([0, 1]), jnp.array([4.0, 0.1]), 0.5)
    np.testing.assert_allclose(replay.priorities[:2], [2, 0.1**0.5], rtol=1e-6)
    replay = r.set_priorities(replay, jnp.array([0]), jnp.array([0.25]), 0.5)
    replay = add(replay, items(2, 3))
    np.testing.assert_allclose(replay.priorities, [0.5, 0.1**0.5, 2, 2, 0, 0], rtol=1e-6)


def test_each_item_may_be_valid_or_not():
    replay = add(r.init(item(), 8), items(0, 1, 2, 3), jnp.array([True, False, False, True]))
    np.testing.assert_array_equal(replay.priorities, [1, 0, 0, 1, 0, 0, 0, 0])
    drawn = sample_many(keys(500), replay, 4)
    assert set(np.asarray(drawn.indices).ravel()) == {0, 3}


def test_items_that_are_not_valid_leave_their_places_empty():
    replay = add(r.init(item(), 8), items(0, 1), False)
    np.testing.assert_array_equal(replay.priorities, 0)
    replay = add(add(replay, items(2, 3), True), items(4, 5), jnp.bool_(True))
    np.testing.assert_array_equal(replay.priorities, [0, 0, 1, 1, 1, 1, 0, 0])
    drawn = sample_many(keys(500), replay, 8)
    assert set(np.asarray(drawn.indices).ravel()) == {2, 3, 4, 5}
    np.testing.assert_array_equal(drawn.probabilities, 0.25)
    for first in range(6, 12, 2):  # the ring comes round to them
        replay = add(replay, items(first, first + 1))
    np.testing.assert_array_equal(replay.items["number"], [8, 9, 10, 11, 4, 5, 6, 7])
    np.testing.assert_array_equal(replay.priorities, 1)


def test_exponent_zero_samples_uniformly():
    replay = filled(7, np.ones(7))
    replay = r.set_priorities(replay, jnp.arange(7), jnp.asarray(PRIORITIES), 0.0)
    np.testing.assert_array_equal(replay.priorities, 1)
    drawn = sample(jax.random.key(0), replay, 7)
    np.testing.assert_array_equal(drawn.indices, np.arange(7))  # one per stratum
    np.testing.assert_allclose(r.importance_weights(replay, drawn.probabilities, 0.6), 1)


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_importance_weights(beta):
    replay = filled(10, PRIORITIES)
    probabilities = (PRIORITIES / PRIORITIES.sum())[[0, 1, 4, 4, 2]]
    weights = r.importance_weights(replay, jnp.asarray(probabilities, jnp.float32), beta)
    # N counts the filled places, not the capacity; it drops out by the scaling.
    expected = (7 * probabilities) ** -beta
    np.testing.assert_allclose(weights, expected / expected.max(), rtol=1e-5)
    assert float(weights.max()) > 1 - 1e-6 and weights.dtype == jnp.float32


def test_importance_weights_correct_the_mean():
    # Weighted by 1 / (N p), unscaled, the mean over samples is the mean over items.
    replay = filled(10, PRIORITIES)
    drawn = sample_many(keys(4000, 2), replay, 8)
    value = np.cos(np.arange(7.0))
    estimates = (value[drawn.indices] / (7 * np.asarray(drawn.probabilities))).mean(-1)
    error = estimates.std() / np.sqrt(4000)
    assert abs(estimates.mean() - value.mean()) < 3 * error


def test_the_upper_end_cannot_slip_past_the_last_item(monkeypatch):
    # The largest float below 1, plus 31, rounds to 32: the very end of the total.
    monkeypatch.setattr(
        jax.random, "uniform", lambda key, shape, dtype: jnp.full(shape, 1 - 2**-24)
    )
    drawn = r.sample(jax.random.key(0), filled(10, PRIORITIES), 32)
    assert int(drawn.indices[-1]) == 6
    assert float(drawn.probabilities.min()) > 0


def test_an_empty_replay_gives_nothing():
    drawn = sample(jax.random.key(0), r.init(item(), 4), 3)
    np.testing.assert_array_equal(drawn.probabilities, 0)
    np.testing.assert_array_equal(drawn.items["carry"], 0)


def test_vmap_over_seeds():
    replays = [filled(4, p) for p in ([1.0, 2, 3, 4], [5.0, 1, 1, 1], [1.0, 1, 1, 1])]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *replays)

    def turn(key, replay):
        drawn = r.sample(key, replay, 4)
        replay = r.set_priorities(replay, drawn.indices, drawn.probabilities + 1, 0.9)
        return r.add(replay, items(7, 8)), drawn

    together = jax.jit(jax.vmap(turn))(keys(3), stacked)
    alone = jax.jit(turn)
    for i, replay in enumerate(replays):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[i], b, rtol=1e-6),  # noqa: B023
            together,
            alone(keys(3)[i], replay),
        )


def test_a_donated_update_keeps_shapes_and_types():
    traces = []

    @functools.partial(jax.jit, donate_argnums=0)
    def turn(replay, key, exponent):
        traces.append(None)
        drawn = r.sample(key, replay, 4)
        weights = r.importance_weights(replay, drawn.probabilities, exponent)
        replay = r.set_priorities(replay, drawn.indices, weights, exponent)
        return r.add(replay, items(1, 2))

    replay = r.init(item(), 6)
    before = jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), replay)
    for key in keys(3):
        donated, replay = replay, turn(replay, key, jnp.float32(0.9))
        assert donated.priorities.is_deleted()
    assert jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), replay) == before
    assert not any(x.weak_type for x in jax.tree.leaves(replay))
    assert len(traces) == 1


# Behind the interface `Replay` ------------------------------------------------------------------


def grid(first, valid):
    """Items numbered from `first` in the order of time, `[T, B]`, and no end of an episode."""
    valid = np.asarray(valid, bool)
    number = first + np.arange(valid.size, dtype=np.int32).reshape(valid.shape)
    carry = np.repeat(number[..., None], 2, axis=-1).astype(np.float32)
    return {"number": number, "carry": carry}, jnp.asarray(valid), jnp.zeros(valid.shape, bool)


def present(state):
    return sorted(np.asarray(state.items["number"])[: int(state.size)])


def test_uniform_replay_keeps_the_newest_valid_items():
    replay = r.uniform(5)
    state = replay.init(item(), 2)
    assert int(replay.size(state)) == 0
    put = jax.jit(replay.add)
    state = put(state, *grid(10, [[1, 0], [1, 1]]))  # not 11
    assert present(state) == [10, 12, 13] and int(replay.size(state)) == 3
    state = put(state, *grid(20, [[0, 0], [0, 0]]))
    assert present(state) == [10, 12, 13]
    state = put(state, *grid(30, [[1, 1], [1, 1]]))  # the write wraps around
    assert present(state) == [13, 30, 31, 32, 33] and int(replay.size(state)) == 5
    state = put(state, *grid(40, [[0, 1], [0, 1]]))
    assert present(state) == [31, 32, 33, 41, 43]
    np.testing.assert_array_equal(state.items["carry"][:, 1], state.items["number"])


def test_uniform_replay_draws_all_of_its_items_alike():
    replay = r.uniform(11)
    state = replay.add(replay.init(item(), 3), *grid(0, [[1, 1, 0], [1, 1, 1], [0, 1, 1]]))
    draw = jax.jit(replay.sample, static_argnums=2)
    items = draw(jax.random.key(0), state, 14_000)
    number = np.asarray(items["number"])
    np.testing.assert_array_equal(items["carry"][:, 0], number)
    counts = np.bincount(number, minlength=9)
    assert set(np.flatnonzero(counts)) == {0, 1, 3, 4, 5, 7, 8}
    chi_square = ((counts[counts > 0] - 2000) ** 2 / 2000).sum()
    assert chi_square < 22.5  # the 99.9 % quantile at 6 degrees of freedom


def test_uniform_replay_under_vmap_and_donated():
    replay = r.uniform(4)
    state = jax.vmap(lambda _: replay.init(item(), 1))(jnp.arange(2))
    items, _, last = grid(0, [[1], [1], [1]])
    both = jax.tree.map(lambda x: jnp.stack([x, x + 10]), items)
    valid = jnp.array([[[True], [False], [True]], [[True], [True], [True]]])
    put = jax.jit(jax.vmap(replay.add, (0, 0, 0, None)), donate_argnums=0)
    first, state = state, put(state, both, valid, last)
    assert first.size.is_deleted()
    np.testing.assert_array_equal(state.size, [2, 3])
    np.testing.assert_array_equal(state.items["number"], [[0, 2, 0, 0], [10, 11, 12, 0]])
    assert not any(x.weak_type for x in jax.tree.leaves(state))


def test_uniform_replay_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="capacity: got 0; accepted: an integer >= 1"):
        r.uniform(0)
    replay = r.uniform(3)
    with pytest.raises(ValueError, match="capacity: got 3; accepted: at least the 4 items"):
        replay.add(replay.init(item(), 2), *grid(0, [[1, 1], [1, 1]]))


@pytest.mark.parametrize("capacity", [50_000, 1_000_000])
def test_empty_places_among_many_are_never_drawn(capacity):
    """Float32 prefix sums of so many priorities fall here and there."""
    chance = np.random.default_rng(0)
    priorities = (chance.exponential(0.3, capacity) + 1e-3) ** 0.6
    priorities[chance.random(capacity) < 0.5] = 0
    priorities[[0, 1, -1]] = 0
    replay = r.init(jnp.zeros(()), capacity).replace(
        priorities=jnp.asarray(priorities, jnp.float32)
    )
    drawn = jax.jit(r.sample, static_argnums=2)(jax.random.key(1), replay, 2**20)
    assert (drawn.probabilities > 0).all()
    # Also where all sums are off by rounding: places at both ends, and an empty one between.
    places = r._filled_place(jnp.asarray([0.0, 0, 3, 0, 2, 0]), jnp.arange(6))
    assert places.tolist() == [2, 2, 2, 2, 4, 4]
