"""Environment steps of MetaRG with observations, by kind of reset."""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.runtime import FAST_COMPILE

NUM_ENVS, LENGTH = 4096, 64
# Skeletons in the bank, and how many of them each chunk of 64 x 4,096 steps draws anew. Values,
# permutations and draws of the games are fresh in every episode whichever is chosen.
BANK, RENEWED = 65_536, 256


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("resets", ["bank", "fresh"])
def test_environment_steps(benchmark, one_core, resets):
    env = gpicljax.make("MetaRG-v0")
    vec = gpicljax.VectorEnv(
        env, NUM_ENVS, resets=resets, bank_size=BANK, renew_share=RENEWED / BANK
    )
    vstate, timestep = jax.jit(vec.init, compiler_options=FAST_COMPILE)(jax.random.key(0))

    def chunk(vstate, timestep, key):
        def step(carry, key):
            vstate, timestep = carry
            waiting = timestep.observation["action_mask"][:, -1]
            guess = jax.random.randint(key, (NUM_ENVS,), 0, 2, jnp.int32)
            vstate, timestep = vec.step(vstate, jnp.where(waiting, 2, guess))
            # Every leaf of the observation is consumed, so that none is optimised away.
            used = sum(x.astype(jnp.float32).sum() for x in jax.tree.leaves(timestep.observation))
            return (vstate, timestep), (timestep.reward.sum(), used)

        carry, out = jax.lax.scan(step, (vstate, timestep), jax.random.split(key, LENGTH))
        return *carry, out

    options = {"donate_argnums": (0, 1), "compiler_options": FAST_COMPILE}
    state = [vstate, timestep]
    rollout, rollout_s = compile_program(chunk, *state, jax.random.key(1), **options)
    renew, renew_s = compile_program(vec.renew, *state, **options)

    def run():
        *state[:], out = rollout(*state, jax.random.key(2))
        state[:] = renew(*state)
        jax.block_until_ready((state, out))

    for _ in range(4):  # past the first episodes, which all start together
        run()
    benchmark.pedantic(run, rounds=9)
    steps = NUM_ENVS * LENGTH
    benchmark.extra_info["steps_per_cpu_second"] = steps / benchmark.stats.stats.median
    benchmark.extra_info["compile_rollout_cpu_s"] = rollout_s
    benchmark.extra_info["compile_renewal_cpu_s"] = renew_s
    benchmark.extra_info["resets"] = resets
