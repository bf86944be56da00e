"""Environment steps of LunarLander with observations, random actions, ends and resets included."""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.runtime import ENVIRONMENT_COMPILE

LENGTH = 128


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("num_envs", [256, 1024])
@pytest.mark.parametrize("resets", ["bank", "fresh"])
def test_environment_steps(benchmark, one_core, resets, num_envs):
    env = gpicljax.make("LunarLander-v3")
    vec = gpicljax.VectorEnv(env, num_envs, resets=resets)
    options = {"compiler_options": ENVIRONMENT_COMPILE}
    init, init_s = compile_program(vec.init, jax.random.key(0), **options)
    vstate, timestep = init(jax.random.key(0))

    def chunk(vstate, timestep, key):
        def step(carry, key):
            vstate, timestep = carry
            actions = jax.random.randint(key, (num_envs,), 0, 4, jnp.int32)
            vstate, timestep = vec.step(vstate, actions)
            # Observations are consumed, so that none is optimised away.
            out = timestep.reward.sum(), timestep.observation.sum(), timestep.episode_start.sum()
            return (vstate, timestep), out

        carry, out = jax.lax.scan(step, (vstate, timestep), jax.random.split(key, LENGTH))
        return *carry, out

    state, options = [vstate, timestep], options | {"donate_argnums": (0, 1)}
    rollout, rollout_s = compile_program(chunk, *state, jax.random.key(1), **options)
    renew, renew_s = compile_program(vec.renew, *state, **options)

    def run():
        *state[:], out = rollout(*state, jax.random.key(2))
        state[:] = renew(*state)
        jax.block_until_ready((state, out))

    for _ in range(3):  # past the first episodes, which all start together
        run()
    benchmark.pedantic(run, rounds=7)
    benchmark.extra_info["steps_per_cpu_second"] = num_envs * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["compile_init_cpu_s"] = init_s
    benchmark.extra_info["compile_rollout_cpu_s"] = rollout_s
    benchmark.extra_info["compile_renewal_cpu_s"] = renew_s
    benchmark.extra_info["resets"] = resets
