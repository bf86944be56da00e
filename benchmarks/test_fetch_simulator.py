"""Environment steps of Fetch, random play: ours, and the simulator's own called from Python."""

import time

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.rollout import play, start_rollout

TASKS = "FetchPush-v4", "FetchPickAndPlace-v4", "FetchSlide-v4"
NUM_ENVS, LENGTH, ROUNDS = 20, 50, 3
NEEDED = pytest.mark.skipif(TASKS[0] not in gpicljax.registered(), reason="needs gpicljax[fetch]")


def report(benchmark):
    rate = NUM_ENVS * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = rate


@NEEDED
@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("env_id", TASKS)
def test_environment_steps(benchmark, one_core, env_id):
    env = gpicljax.make(env_id)
    vec = gpicljax.VectorEnv(env, NUM_ENVS, resets="synchronous", steps_per_trial=LENGTH + 1)
    agent = random_agent(env)

    @jax.jit
    def played(key):
        return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=LENGTH).records

    run = lambda: jax.block_until_ready(played(jax.random.key(0)))  # noqa: E731
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark)


@NEEDED
@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("env_id", TASKS)
def test_the_simulator_alone(benchmark, one_core, env_id):
    from gpicljax.envs.fetch.simulator import simulator

    env = type(simulator(gpicljax.make(env_id).task)._env)()
    actions = np.random.default_rng(0).uniform(-1, 1, (LENGTH, 4)).astype(np.float32)

    def run():
        for seed in range(NUM_ENVS):
            env.reset(seed=seed)
            for action in actions:
                env.step(action)

    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark)
