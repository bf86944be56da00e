"""Maze World: new tasks, environment steps without frames, and steps with their pictures.

Per CPU-second of one pinned core. Steps are a `VectorEnv`'s with a bank; they are timed within
episodes, as these last 2,048 steps: `test_new_tasks` says what a new one costs.
"""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.runtime import ENVIRONMENT_COMPILE

BATCH, ROUNDS = 256, 5


OPTIONS = {"compiler_options": ENVIRONMENT_COMPILE}


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("size", [15, 35])
def test_new_tasks(benchmark, one_core, size):
    env = gpicljax.make("MazeWorld-v0", size=size)
    keys = jax.random.split(jax.random.key(0), BATCH)
    sample = jax.vmap(env.sample_task, (0, None))
    program, compile_s = compile_program(sample, keys, env.default_params, **OPTIONS)
    jax.block_until_ready(program(keys, env.default_params))
    benchmark.pedantic(
        lambda: jax.block_until_ready(program(keys, env.default_params)), rounds=ROUNDS
    )
    benchmark.extra_info["ms_per_task"] = 1e3 * benchmark.stats.stats.median / BATCH
    benchmark.extra_info["compile_cpu_s"] = compile_s


def chunk_of(env, num_envs, length, observe):
    """A function that does `length` steps of all instances with random actions; compile time."""
    vec = gpicljax.VectorEnv(env, num_envs, resets="bank")
    keys = jax.random.split(jax.random.key(0), length)
    init, init_s = compile_program(vec.init, jax.random.key(0), **OPTIONS)
    space = env.action_space()

    def carry_of(vstate, timestep):
        # What is carried has to be made in every step; whole pictures, as a rollout stores them.
        return vstate, timestep if observe else timestep._replace(observation=())

    def chunk(carry):
        def step(carry, key):
            if env.actions == "continuous":
                actions = jax.random.uniform(key, (num_envs, 2), jnp.float32, -1, 1)
            else:
                actions = jax.random.randint(key, (num_envs,), 0, space.n, jnp.int32)
            carry = carry_of(*vec.step(carry[0], actions))
            return carry, (carry[1].reward.sum(), carry[1].last.sum())

        return jax.lax.scan(step, carry, keys)

    carry = [carry_of(*init(jax.random.key(0)))]
    program, compile_s = compile_program(chunk, carry[0], donate_argnums=0, **OPTIONS)

    def run():
        carry[0], used = program(carry[0])
        jax.block_until_ready((carry[0], used))

    return run, init_s + compile_s


def measure(benchmark, env, num_envs, length, observe):
    run, compile_s = chunk_of(env, num_envs, length, observe)
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    rate = num_envs * length / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = rate
    benchmark.extra_info["compile_cpu_s"] = compile_s


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("mode", ["navigation", "survival"])
@pytest.mark.parametrize("actions", ["discrete", "continuous", "moves"])
def test_steps_without_frames(benchmark, one_core, actions, mode):
    # XLA leaves out pictures that nobody looks at.
    env = gpicljax.make("MazeWorld-v0", actions=actions, mode=mode, view="local")
    measure(benchmark, env, num_envs=1024, length=256, observe=False)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("size", [15, 35])
@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_steps_with_pictures(benchmark, one_core, actions, size):
    env = gpicljax.make("MazeWorld-v0", size=size, actions=actions)
    measure(benchmark, env, num_envs=BATCH, length=32, observe=True)
