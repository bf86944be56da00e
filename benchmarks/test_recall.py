"""Environment steps of Recall with observations, a new structure for every episode."""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax

NUM_ENVS, LENGTH = 1024, 64


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("stimulus", ["scs", "ohe"])
def test_environment_steps(benchmark, one_core, stimulus):
    env = gpicljax.make("Recall-v0", stimulus=stimulus)
    vec = gpicljax.VectorEnv(env, NUM_ENVS, resets="fresh")

    @jax.jit
    def chunk(carry, key):
        def step(carry, key):
            answers = jax.random.randint(key, (NUM_ENVS,), 0, env.wait, jnp.int32)
            vstate, timestep = vec.step(carry[0], answers)
            # Every leaf of the observation is consumed, so that none is optimised away.
            used = sum(x.astype(jnp.float32).sum() for x in jax.tree.leaves(timestep.observation))
            return (vstate, timestep), (timestep.reward.sum(), used)

        return jax.lax.scan(step, carry, jax.random.split(key, LENGTH))

    state = [jax.jit(vec.init)(jax.random.key(0))]
    began = time.process_time()
    state[0], _ = jax.block_until_ready(chunk(state[0], jax.random.key(1)))
    benchmark.extra_info["first call, CPU seconds"] = round(time.process_time() - began, 1)

    def run():
        state[0], out = chunk(state[0], jax.random.key(2))
        jax.block_until_ready((state[0], out))

    benchmark.pedantic(run, rounds=9, warmup_rounds=8)  # past the first episodes
    steps = NUM_ENVS * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = round(steps)
    print(benchmark.extra_info)
