"""Run with 8 forced host devices: one training run, its environments spread over them."""

import dataclasses
import sys
import warnings

import jax

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports, not ours
    import distrax  # noqa: F401

from agent_checks import assert_same_run
from ppo_subjects import HPARAMS, trainer_of, vec_of

from gpicljax.runtime import make_mesh
from gpicljax.runtime.mesh import AXIS, per_part, shard_parts

assert len(jax.devices()) == 8
NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
CASES = {
    # Minibatches of every instance's own steps or windows, or all of it at once: the same run.
    "feed-forward": (False, {"minibatches": 3, **NORMALISED}),
    "windows": (True, {"minibatches": 3, "window": 4, "horizon": "trial"}),
    "recurrent": (True, NORMALISED),
}
recurrent, options = CASES[sys.argv[1]]
vec = vec_of(16)
whole = trainer_of(recurrent, vec, epochs=2, **options)


def chunk(trainer):
    def run(state):
        return jax.lax.scan(lambda s, _: trainer.update(s), state, None, 5)

    return run


# Adam's epsilon is large enough not to blow rounding up, see test_ppo.
hparams = dataclasses.replace(HPARAMS, learning_rate=3e-3)
initial = jax.jit(whole.init)(jax.random.key(0), hparams)
run_single = jax.jit(chunk(whole))
state = initial
for _ in range(2):
    state, metrics = run_single(state)

mesh = make_mesh()
part = vec.part(mesh.size)
run_spread = per_part(
    chunk(trainer_of(recurrent, part, AXIS, epochs=2, **options)), mesh, whole.partition
)
spread = shard_parts(initial, mesh, whole.partition)
assert spread.rollout.vstate.keys.addressable_shards[0].data.shape == (2,)
assert spread.params.network["params"]["value"]["kernel"].sharding.is_fully_replicated
for _ in range(2):
    spread, spread_metrics = run_spread(spread)
assert_same_run((state, metrics), (spread, spread_metrics), rtol=1e-3, atol=1e-4)
assert int(state.updates) == 10
print("all well")
