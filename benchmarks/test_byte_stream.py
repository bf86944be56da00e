"""Bytes of streams, half with an oracle, half with random bytes.

In a mixture, streams need questions at different steps. In the default curriculum all of them begin
with the same task set, whose questions are one byte long: many need one at every step.
"""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from gpicljax.runtime import FAST_COMPILE
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum

NUM_ENVS, LENGTH = 4096, 256


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("mode", ["ordered", "mixture"])
@pytest.mark.parametrize("rules", ["corrected", "reference"])
def test_byte_steps(benchmark, one_core, rules, mode):
    env = gpicljax.make("ByteStream-v0", rules=rules)
    params = env.make_params(curriculum=Curriculum(mode=mode), horizon=10**9)
    vec = gpicljax.VectorEnv(env, NUM_ENVS, resets="fresh", params=params, privileged=True)
    oracle = jnp.arange(NUM_ENVS) < NUM_ENVS // 2

    def chunk(carry, key):
        def step(carry, key):
            vstate, timestep = carry
            random = jax.random.bits(key, (NUM_ENVS,), jnp.uint8).astype(jnp.int32)
            actions = jnp.where(oracle, timestep.privileged["answer"], random)
            vstate, timestep = vec.step(vstate, actions)
            used = timestep.observation.sum(), timestep.reward.sum(), timestep.info["solved"].sum()
            return (vstate, timestep), used

        return jax.lax.scan(step, carry, jax.random.split(key, LENGTH))

    began = time.process_time()
    init = jax.jit(vec.init, compiler_options=FAST_COMPILE)
    chunk = jax.jit(chunk, donate_argnums=0, compiler_options=FAST_COMPILE)
    state = [init(jax.random.key(0))]
    state[0], _ = jax.block_until_ready(chunk(state[0], jax.random.key(1)))
    benchmark.extra_info["first calls, CPU seconds"] = round(time.process_time() - began, 1)

    def run():
        state[0], out = chunk(state[0], jax.random.key(2))
        jax.block_until_ready((state[0], out))

    benchmark.pedantic(run, rounds=7, warmup_rounds=2)
    steps = NUM_ENVS * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = round(steps)
    print(benchmark.extra_info)
