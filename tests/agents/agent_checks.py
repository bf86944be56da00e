"""Checks that tests of agents and trainers share."""

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.interface import TimeStep


def keys_of(batch, seed=0):
    return jax.random.split(jax.random.key(seed), batch)


def timestep(batch, **fields):
    """One in which nothing is seen and nothing happens, but for these fields."""
    false = jnp.zeros(batch, bool)
    blank = TimeStep(jnp.zeros(batch, jnp.int32), jnp.zeros(batch), false, false, false, false, {})
    return blank._replace(**fields)


def is_key(x):
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def raw(tree):
    """Typed keys as their data."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, tree)


def round_trip(tree):
    """Copies a tree to the host and back as a checkpoint does, typed keys by their data."""

    def copy(x):
        if is_key(x):
            data = np.array(jax.device_get(jax.random.key_data(x)))
            return jax.random.wrap_key_data(jax.device_put(data), impl=jax.random.key_impl(x))
        return jax.device_put(np.array(jax.device_get(x)))

    return jax.tree.map(copy, tree)


def assert_resumes_exactly(update, state):
    """A compiled update goes on from a state that was on the host as from the state itself."""
    count = update._cache_size()
    on, metrics = update(state)
    resumed, resumed_metrics = update(round_trip(state))
    jax.tree.map(np.testing.assert_array_equal, raw(resumed), raw(on))
    jax.tree.map(np.testing.assert_array_equal, resumed_metrics, metrics)
    assert update._cache_size() == count  # nothing in it was weakly typed
    assert not any(x.weak_type for x in jax.tree.leaves(raw(on)))


def assert_one_float_type(trainer, hparams, single=()):
    """In double precision all floats of a run are, but for leaves `single`; shapes only.

    Tracing is enough: scans refuse a carry that changes its type.
    """
    state = jax.eval_shape(trainer.init, jax.random.key(0), hparams)
    after, metrics = jax.eval_shape(trainer.update, state)
    assert jax.tree.map(lambda x: x.dtype, after) == jax.tree.map(lambda x: x.dtype, state)
    leaves = jax.tree_util.tree_leaves_with_path((state, metrics))
    floats = [jax.tree_util.keystr(path) for path, x in leaves if x.dtype == jnp.float32]
    assert floats == [f"[0]{name}" for name in single]


def assert_replica_is(batched, i, single, **tolerance):
    """Lane `i` of what was trained under `vmap` is what was trained alone."""
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(np.asarray(a)[i], b, **tolerance),
        raw(batched),
        raw(single),
    )


def assert_seeds_are_the_seeds_alone(trainer, init, update, hparams, **tolerance):
    """Three updates of two seeds under `vmap`, and of each by compiled `init` and `update`."""
    keys = keys_of(2, seed=6)
    states = jax.jit(jax.vmap(trainer.init, (0, None)))(keys, hparams)
    together = jax.jit(jax.vmap(trainer.update), donate_argnums=0)
    for _ in range(3):
        states, metrics = together(states)
    for i in range(2):
        state = init(keys[i], hparams)
        for _ in range(3):
            state, expected = update(state)
        assert_replica_is((states, metrics), i, (state, expected), **tolerance)


def assert_same_run(single, spread, **tolerance):
    """Asserts that a run on one device is that on several: floats agree, all else is equal."""

    def compare(path, a, b):
        check, allowed = np.testing.assert_array_equal, {}
        if np.issubdtype(a.dtype, np.floating):
            check, allowed = np.testing.assert_allclose, tolerance
        path_text = jax.tree_util.keystr(path)
        check(np.asarray(a), np.asarray(b), err_msg=path_text, **allowed)

    jax.tree_util.tree_map_with_path(compare, raw(single), raw(spread))
