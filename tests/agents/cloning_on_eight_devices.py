"""Run with 8 forced host devices: one training run, its environments spread over them."""

import sys

import jax
from agent_checks import assert_same_run
from cloning_subjects import make

import gpicljax
from gpicljax.agents.cloning import CloningHParams
from gpicljax.runtime import make_mesh
from gpicljax.runtime.mesh import AXIS, per_part, shard_parts

assert len(jax.devices()) == 8
resets = sys.argv[1]
options = {"steps_per_trial": 12} if resets == "synchronous" else {}
env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
vec = gpicljax.VectorEnv(
    env,
    32,
    resets=resets,
    params=env.make_params(horizon=7),
    bank_size=40,
    group=4,
    privileged=True,
    **options,
)
whole = make(vec, unroll=12)


def chunk(trainer, vec):
    """Three updates, then what is generated between them."""

    def run(state):
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, 3)
        vstate, timestep = vec.renew(state.rollout.vstate, state.rollout.timestep)
        rollout = state.rollout._replace(vstate=vstate, timestep=timestep)
        return state.replace(rollout=rollout), metrics

    return run


initial = jax.jit(whole.init)(jax.random.key(0), CloningHParams(teacher_share=0.3))
run_single = jax.jit(chunk(whole, vec))
state = initial
for _ in range(5):
    state, metrics = run_single(state)

mesh = make_mesh()
part = vec.part(mesh.size)
run_spread = per_part(chunk(make(part, unroll=12, axis=AXIS), part), mesh, whole.partition)
spread = shard_parts(initial, mesh, whole.partition)
assert spread.rollout.vstate.keys.addressable_shards[0].data.shape == (4,)
assert spread.params["params"]["value"]["kernel"].sharding.is_fully_replicated
for _ in range(5):
    spread, spread_metrics = run_spread(spread)
assert_same_run((state, metrics), (spread, spread_metrics), rtol=1e-4, atol=1e-5)
assert int(state.updates) == 15
print("all well")
