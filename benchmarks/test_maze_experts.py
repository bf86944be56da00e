"""Privileged agents in Maze World without frames: the agent's choice and the environment's step.

Per CPU-second of one pinned core, steps of a `VectorEnv` with a bank, in the middle of their
episodes: agents explore at first, and go back and forth between targets later.
"""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.rollout import rollout, start_rollout
from gpicljax.runtime import FAST_COMPILE
from gpicljax.systems.maze_world.experts import privileged as experts

LENGTH, ROUNDS = 64, 7
# Of instances of one run, so that some explore more than others.
PROBABILITIES = (0.05, 0.25, 0.5, 1.0)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("num_envs", [64, 256, 1024])
@pytest.mark.parametrize(
    ("size", "static", "rule"),
    [
        (15, {}, "default"),
        (35, {}, "default"),
        (15, {}, "reference"),
        (35, {}, "reference"),
        (15, {"actions": "continuous"}, "default"),
        (15, {"actions": "moves"}, "default"),
        (15, {"mode": "survival"}, "default"),
    ],
)
def test_steps(benchmark, one_core, size, static, rule, num_envs):
    env = gpicljax.make("MazeWorld-v0", size=size, resolution=(1, 128), **static)
    vec = gpicljax.VectorEnv(env, num_envs, resets="bank", bank_size=256, privileged=True)
    probability = jnp.resize(jnp.asarray(PROBABILITIES), num_envs)
    agent = experts.privileged_agent(env, probability, rule)

    def chunk(state):
        return rollout(vec, agent, None, state, LENGTH, lambda r: r.timestep.reward.sum())

    start = jax.jit(lambda key: start_rollout(key, vec, agent), compiler_options=FAST_COMPILE)
    state = start(jax.random.key(0))
    options = {"donate_argnums": 0, "compiler_options": FAST_COMPILE}
    program, compile_s = compile_program(chunk, state, **options)
    benchmark.extra_info["compile_cpu_s"] = compile_s
    carry = [state]

    def run():
        carry[0], rewards = program(carry[0])
        jax.block_until_ready((carry[0], rewards))

    for _ in range(8):  # past the first hundreds of steps
        run()
    benchmark.pedantic(run, rounds=ROUNDS)
    rate = num_envs * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = rate
