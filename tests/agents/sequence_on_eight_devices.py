"""Run with 8 forced host devices: one training run, its sequences spread over them."""

import jax
import numpy as np
from sequence_subjects import make

from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.runtime import make_mesh
from gpicljax.runtime.compiled import read_hlo
from gpicljax.runtime.mesh import AXIS, per_part, shard_parts

assert len(jax.devices()) == 8
config = SequenceConfig(batch_size=32, microbatches=2, ramp=4)
single = make(config)
initial = single.init(jax.random.key(0), SequenceHParams(learning_rate=1e-2, warmup_updates=5))
state, update = initial, jax.jit(single.update)
for _ in range(15):
    state, metrics = update(state)

mesh = make_mesh()
distributed = make(config, devices=mesh.size, axis=AXIS)
spread = shard_parts(initial, mesh, distributed.partition)
spread_update = per_part(distributed.update, mesh, distributed.partition)
for _ in range(15):
    spread, spread_metrics = spread_update(spread)

for a, b in zip(
    jax.tree.leaves((state.params, metrics)),
    jax.tree.leaves((spread.params, spread_metrics)),
    strict=True,
):
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
assert int(spread.updates) == 15

# The gradients are summed over devices once, with the metrics; the positions that count, for every
# microbatch. Sequences are made without a word to other devices.
program = read_hlo(spread_update.lower(spread).compile().as_text())
kinds = {collective.kind for collective in program.collectives}
whole = sum(collective.bytes for collective in program.collectives if not collective.loops)
parts = [collective for collective in program.collectives if collective.loops]
gradients = sum(leaf.nbytes for leaf in jax.tree.leaves(initial.params))
assert kinds == {"all-reduce"}, program.collectives
assert gradients < whole <= gradients + 16, (gradients, whole)
assert sum(collective.bytes for collective in parts) <= 4 and {
    len(part.loops) for part in parts
} == {1}, parts
print("all well")
