"""Tokens of the Meta-Language generator, as data and as an environment."""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.runtime import FAST_COMPILE

ROUNDS = 9
LENGTH = 4096
# Languages, sequences of each, cap of the order, order.
SHAPES = [
    (256, 1, 4, 4),
    (1024, 1, 4, 4),
    (256, 1, 8, 8),
    (32, 8, 4, 4),
    (256, 8, 4, 4),
    (32, 8, 8, 8),
    (8, 32, 4, 4),
]


def draw_tasks(env, key, num):
    return jax.vmap(env.sample_task, (0, None))(jax.random.split(key, num), env.default_params)


def measure(benchmark, run, tokens, compile_s):
    """Times `run` and notes its throughput."""
    jax.block_until_ready(run())
    benchmark.pedantic(lambda: jax.block_until_ready(run()), rounds=ROUNDS)
    benchmark.extra_info["tokens_per_cpu_second"] = tokens / benchmark.stats.stats.median
    benchmark.extra_info["best_tokens_per_cpu_second"] = tokens / benchmark.stats.stats.min
    benchmark.extra_info["compile_cpu_s"] = compile_s


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("with_log_probs", [False, True], ids=["tokens", "with_log_probs"])
@pytest.mark.parametrize(("num", "sequences", "cap", "order"), SHAPES)
def test_sequences(benchmark, one_core, num, sequences, cap, order, with_log_probs):
    env = gpicljax.make("MetaLanguage-v0", max_order=cap)
    params = env.make_params(min_order=order, max_order=order)
    keys = jax.random.split(jax.random.key(0), num)
    tasks = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, params)

    def draw(key, tasks):
        return env.sample_sequences(key, tasks, LENGTH, sequences, with_log_probs=with_log_probs)

    program, compile_s = compile_program(draw, jax.random.key(1), tasks)
    measure(
        benchmark, lambda: program(jax.random.key(2), tasks), num * sequences * LENGTH, compile_s
    )


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("sequences", [1, 8])
def test_sequences_of_fresh_languages(benchmark, one_core, sequences):
    """A training step on the paper's distribution: languages are drawn, too."""
    env = gpicljax.make("MetaLanguage-v0", max_order=6)
    num = 64

    def draw(key):
        task_key, key = jax.random.split(key)
        return env.sample_sequences(key, draw_tasks(env, task_key, num), LENGTH, sequences)

    program, compile_s = compile_program(draw, jax.random.key(0))
    measure(benchmark, lambda: program(jax.random.key(1)), num * sequences * LENGTH, compile_s)


@pytest.mark.benchmark(timer=time.process_time)
def test_environment_steps(benchmark, one_core):
    """Rewards included, for a prediction of 32 random numbers."""
    num_envs, length = 1024, 256
    vec = gpicljax.VectorEnv(gpicljax.make("MetaLanguage-v0"), num_envs, resets="bank")

    def chunk(carry, key):
        def step(carry, key):
            actions = jax.random.normal(key, (num_envs, 32))
            vstate, timestep = vec.step(carry[0], actions)
            return (vstate, timestep), jnp.mean(timestep.reward)

        carry, rewards = jax.lax.scan(step, carry, jax.random.split(key, length))
        return vec.renew(*carry), rewards

    carry = jax.jit(vec.init, compiler_options=FAST_COMPILE)(jax.random.key(0))
    program, compile_s = compile_program(chunk, carry, jax.random.key(1), donate_argnums=0)
    carry = [carry]

    def run():
        carry[0], rewards = program(carry[0], jax.random.key(2))
        return rewards

    measure(benchmark, run, num_envs * length, compile_s)
