"""Run with 8 forced host devices: one training run, its environments spread over them."""

import dataclasses
import sys
import warnings

import jax

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports, not ours
    import distrax  # noqa: F401

import cloning_subjects
from agent_checks import assert_same_run
from ppo_subjects import HPARAMS, trainer_of, vec_of

import gpicljax
from gpicljax.agents.cloning import CloningHParams
from gpicljax.runtime import make_mesh
from gpicljax.runtime.mesh import AXIS, per_part, shard_parts

assert len(jax.devices()) == 8
NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
PPO = {
    # Minibatches of every instance's own steps or windows, or all of it at once: the same run.
    "feed-forward": (False, {"minibatches": 3, **NORMALISED}),
    "windows": (True, {"minibatches": 3, "window": 4, "horizon": "trial"}),
    "recurrent": (True, NORMALISED),
}
UPDATES, CHUNKS = 3, 5


def ppo(case):
    recurrent, options = PPO[case]
    # Adam's epsilon is large enough not to blow rounding up, see test_ppo.
    hparams = dataclasses.replace(HPARAMS, learning_rate=3e-3)
    make = lambda vec, axis=None: trainer_of(recurrent, vec, axis, epochs=2, **options)  # noqa: E731
    return vec_of(16), make, hparams, {"rtol": 1e-3, "atol": 1e-4}


def cloning(resets):
    env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
    options = {"steps_per_trial": 12} if resets == "synchronous" else {}
    options |= {"params": env.make_params(horizon=7), "bank_size": 40, "group": 4}
    vec = gpicljax.VectorEnv(env, 32, resets=resets, privileged=True, **options)
    make = lambda vec, axis=None: cloning_subjects.make(vec, unroll=12, axis=axis)  # noqa: E731
    return vec, make, CloningHParams(teacher_share=0.3), {"rtol": 1e-4, "atol": 1e-5}


def chunk(trainer, vec):
    """Some updates, then what is generated between them."""

    def run(state):
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, UPDATES)
        vstate, timestep = vec.renew(state.rollout.vstate, state.rollout.timestep)
        rollout = state.rollout._replace(vstate=vstate, timestep=timestep)
        return dataclasses.replace(state, rollout=rollout), metrics

    return run


case = sys.argv[1]
vec, make, hparams, tolerance = ppo(case) if case in PPO else cloning(case)
whole, mesh = make(vec), make_mesh()
initial = jax.jit(whole.init)(jax.random.key(0), hparams)
part = vec.part(mesh.size)
run_single = jax.jit(chunk(whole, vec))
run_spread = per_part(chunk(make(part, AXIS), part), mesh, whole.partition)
state, spread = initial, shard_parts(initial, mesh, whole.partition)
assert spread.rollout.vstate.keys.addressable_shards[0].data.shape == (vec.num_envs // 8,)
network = getattr(spread.params, "network", spread.params)
assert network["params"]["value"]["kernel"].sharding.is_fully_replicated
for _ in range(CHUNKS):
    state, metrics = run_single(state)
    spread, spread_metrics = run_spread(spread)
assert_same_run((state, metrics), (spread, spread_metrics), **tolerance)
assert int(state.updates) == UPDATES * CHUNKS
print("all well")
