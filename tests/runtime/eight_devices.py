"""Run with 8 forced host devices: seeds spread over them, checkpoints read on fewer."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.runs.checkpoints import Checkpointer
from gpicljax.runtime import make_mesh, per_replica
from gpicljax.runtime.mesh import per_part, shard_leading
from gpicljax.runtime.replicas import Replicas

assert len(jax.devices()) == 8
mesh = make_mesh()
assert mesh.shape == {"data": 8} and mesh.axis_types == (jax.sharding.AxisType.Auto,)
assert make_mesh(2).size == 2
six = Replicas(("a", "b", "c", "d", "e", "f"), mesh)
assert six.places.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
assert [len(Replicas(("",) * n, mesh).places) for n in (1, 6, 8, 9)] == [8, 8, 8, 16]
for wrong in (0, 9):
    with pytest.raises(ValueError, match=f"num_devices: got {wrong}; accepted: 1 to 8"):
        make_mesh(wrong)

keys = jax.random.split(jax.random.key(0), 8)
state = {"key": keys, "x": jnp.zeros((8, 3)), "common": jnp.float32(2)}
with pytest.raises(ValueError, match=r"tree\['x'\].*multiple of 8"):
    shard_leading({"x": np.zeros((6, 3))}, mesh)


@jax.jit
def chunk(state):
    def update(state, _):
        def one(key, x):
            key, sub = jax.random.split(key)
            return key, jnp.sin(x + jax.random.normal(sub, x.shape)) * state["common"]

        key, x = jax.vmap(one)(state["key"], state["x"])
        return state | {"key": key, "x": x}, None

    return jax.lax.scan(update, state, None, 10)[0]


def values(state):
    return jax.tree.map(np.asarray, state | {"key": jax.random.key_data(state["key"])})


sharded = shard_leading(state, mesh)
assert len(sharded["x"].sharding.device_set) == 8
assert sharded["key"].addressable_shards[0].data.shape == (1,)
result = chunk(sharded)
assert result["x"].sharding.spec == jax.sharding.PartitionSpec("data"), result["x"].sharding
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), values(result),
             values(chunk(state)))  # fmt: skip

# The trap that make_mesh keeps away: JAX's own default, explicit axes, refuses the same program.
explicit = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))


@jax.jit
@jax.vmap
def sum_of_draws(key):
    add = lambda total, key: (total + jax.random.normal(key), None)  # noqa: E731
    return jax.lax.scan(add, jnp.float32(0), jax.random.split(key, 4))[0]


with pytest.raises(ValueError, match="Resource axis: data"):
    sum_of_draws(shard_leading(keys, explicit))
np.testing.assert_array_equal(sum_of_draws(shard_leading(keys, mesh)), sum_of_draws(keys))

# Arrays come in as arguments, not from the surrounding code: those would be constants of the
# program, and in several processes JAX refuses them (two_processes.py).
plus_total = per_replica(lambda x, everything: x + everything.sum(), mesh, (0, None))
x = np.arange(8, dtype=np.float32)
spread = shard_leading(x, mesh)
np.testing.assert_array_equal(plus_total(spread, spread), x + 28)

# An array without elements comes back as it went in, so that a compiled program takes it again.
parts = shard_leading({"x": x, "nothing": np.zeros((8, 0, 3), np.float32)}, mesh)
more = lambda tree: jax.tree.map(lambda y: y + 1, tree)  # noqa: E731
compiled = per_replica(more, mesh).lower(parts).compile()
np.testing.assert_array_equal(compiled(compiled(parts))["x"], x + 2)
part = per_part(lambda tree: (more(tree), ()), mesh, lambda batch, whole: batch)
compiled = part.lower(parts).compile()
np.testing.assert_array_equal(compiled(compiled(parts)[0])[0]["x"], x + 2)

saver = Checkpointer(sys.argv[1])
saver.save(1, result)
for like, devices in ((sharded, 8), (state, 1), (shard_leading(state, make_mesh(2)), 2)):
    restored = saver.restore_latest(like)[1]
    assert len(restored["x"].sharding.device_set) == devices
    assert len(restored["key"].sharding.device_set) == devices
    jax.tree.map(np.testing.assert_array_equal, values(restored), values(result))

# Six runs on eight devices are six in a checkpoint, and on any other number of devices.
runs = six.spread({"key": keys[:6], "x": np.arange(12.0, dtype=np.float32).reshape(6, 2)})
stored = six.to_checkpoint(runs)
assert stored["x"].shape == (6, 2) and stored["key"].shape == (6,)
saver.save(2, stored)
for devices in (1, 4, 6):
    fewer = Replicas(six.names, make_mesh(devices))
    like = fewer.checkpoint_template(fewer.spread(stored))
    restored_again = fewer.from_checkpoint(saver.restore_latest(like)[1])
    assert len(restored_again["x"].sharding.device_set) == devices
    jax.tree.map(np.testing.assert_array_equal, fewer.fetch(restored_again), six.fetch(runs))
print("all well")
