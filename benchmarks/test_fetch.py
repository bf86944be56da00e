"""Environment steps of Fetch, random play: the model in JAX, and MuJoCo called from Python."""

import time

import jax
import numpy as np
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.agents.acting import random_agent
from gpicljax.envs.fetch.env import Fetch
from gpicljax.rollout import play, start_rollout

TASKS = "push", "slide", "pick_and_place"
LENGTH, ROUNDS = 50, 3
SIMULATED = 20  # episodes


def report(benchmark, num_envs):
    rate = num_envs * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = rate


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("num_envs", [256, 1024])
@pytest.mark.parametrize("task", TASKS)
def test_environment_steps(benchmark, one_core, task, num_envs):
    env = Fetch(task)
    vec = gpicljax.VectorEnv(env, num_envs, resets="synchronous", steps_per_trial=LENGTH + 1)
    agent = random_agent(env)

    def play_episodes(key):
        return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=LENGTH).records

    program, compile_s = compile_program(play_episodes, jax.random.key(0))
    benchmark.extra_info["compile_cpu_seconds"] = compile_s
    run = lambda: jax.block_until_ready(program(jax.random.key(0)))  # noqa: E731
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark, num_envs)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("task", TASKS)
def test_the_simulator_alone(benchmark, one_core, task):
    pytest.importorskip("gymnasium_robotics", reason="needs gpicljax[fetch]")
    from benchmarks.mujoco_fetch.simulator import simulator

    env = type(simulator(task)._env)()
    actions = np.random.default_rng(0).uniform(-1, 1, (LENGTH, 4)).astype(np.float32)

    def run():
        for seed in range(SIMULATED):
            env.reset(seed=seed)
            for action in actions:
                env.step(action)

    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark, SIMULATED)
