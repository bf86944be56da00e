"""Environment steps of the control tasks, grid worlds and bandits: random actions, ends and resets.

Three of the tasks are timed against gymnax in turn, round by round, so that whatever else the
machine does meets both alike.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program, time_call
from gpicljax.runtime import FAST_COMPILE

NUM_ENVS, LENGTH, ROUNDS = 8192, 256, 9
SMALL = [
    ("CliffWalking-v1", {}, 1),
    ("CliffWalking-v1", {"is_slippery": True}, 1),
    ("FrozenLake-v1", {}, 1),
    ("FrozenLake-v1", {"map_name": "8x8"}, 1),
    ("DarkRoom-v0", {}, 1),
    ("KeyToDoor-v0", {}, 1),
    ("BernoulliBandit-v0", {}, 1),
    ("GaussianBandit-v0", {}, 1),
    ("BanditTwoArmedHighLowFixed-v0", {}, 200),
    ("BanditTenArmedRandomFixed-v0", {}, 200),
]


def random_action(space, key, num_envs):
    """A random action for each of the environments, from one key."""
    if hasattr(space, "n"):
        return jax.random.randint(key, (num_envs,), 0, space.n, jnp.int32)
    return jax.random.uniform(key, (num_envs, 1), jnp.float32, space.low, space.high)


OPTIONS = {"donate_argnums": 0, "compiler_options": FAST_COMPILE}


def make_chunk(env, num_envs, **kwargs):
    """A function that does `LENGTH` steps of `num_envs` instances; its compile time."""
    vec = gpicljax.VectorEnv(env, num_envs, resets="bank", **kwargs)
    init, init_s = compile_program(vec.init, jax.random.key(0), compiler_options=FAST_COMPILE)

    def chunk(carry, key):
        def step(carry, key):
            actions = random_action(env.action_space(), key, num_envs)
            vstate, timestep = vec.step(carry[0], actions)
            # Everything is consumed, so that nothing is optimised away.
            used = timestep.reward.sum(), timestep.observation.sum(), timestep.terminated.sum()
            return (vstate, timestep), used

        carry, used = jax.lax.scan(step, carry, jax.random.split(key, LENGTH))
        return vec.renew(*carry), used

    carry = [init(jax.random.key(0))]
    program, compile_s = compile_program(chunk, carry[0], jax.random.key(1), **OPTIONS)

    def run():
        carry[0], used = program(carry[0], jax.random.key(2))
        jax.block_until_ready((carry[0], used))

    return run, init_s + compile_s


def make_gymnax_chunk(env_id, num_envs):
    """The same with gymnax's automatic resets."""
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make(env_id)
    space = env.action_space(params)

    def chunk(carry, key):
        def step(state, key):
            action_key, key = jax.random.split(key)
            actions = random_action(space, action_key, num_envs)
            keys = jax.random.split(key, num_envs)
            moved = jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions, params)
            observation, state, reward, terminated, truncated, _ = moved
            ends = (terminated | truncated).sum()
            return state, (reward.sum(), observation.sum(), ends)

        return jax.lax.scan(step, carry, jax.random.split(key, LENGTH))

    keys = jax.random.split(jax.random.key(0), num_envs)
    carry = [jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)[1]]
    program, compile_s = compile_program(chunk, carry[0], jax.random.key(1), **OPTIONS)

    def run():
        carry[0], used = program(carry[0], jax.random.key(2))
        jax.block_until_ready((carry[0], used))

    return run, compile_s


def report(benchmark, num_envs, compile_s):
    """Adds speed and compile time to a benchmark."""
    benchmark.extra_info["steps_per_cpu_second"] = num_envs * LENGTH / benchmark.stats.stats.median
    benchmark.extra_info["compile_cpu_s"] = compile_s


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("env_id", ["MountainCar-v0", "Acrobot-v1", "Pendulum-v1"])
def test_against_gymnax(benchmark, one_core, env_id):
    chunk, compile_s = make_chunk(gpicljax.make(env_id), NUM_ENVS)
    gymnax_chunk, gymnax_compile_s = make_gymnax_chunk(env_id, NUM_ENVS)
    chunk(), gymnax_chunk()
    ratios, times = [], []
    for _ in range(ROUNDS):
        spent = [time_call(run)[1] for run in (chunk, gymnax_chunk)]
        ratios.append(spent[1] / spent[0])
        times.append(spent[1])
    benchmark.pedantic(chunk, rounds=ROUNDS)
    report(benchmark, NUM_ENVS, compile_s)
    rate = NUM_ENVS * LENGTH / statistics.median(times)
    benchmark.extra_info["gymnax_steps_per_cpu_second"] = rate
    benchmark.extra_info["gymnax_compile_cpu_s"] = gymnax_compile_s
    benchmark.extra_info["ratio"] = statistics.median(ratios)
    benchmark.extra_info["ratio_spread"] = [min(ratios), max(ratios)]


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize(("env_id", "static", "episodes"), SMALL, ids=str)
def test_environment_steps(benchmark, one_core, env_id, static, episodes):
    env = gpicljax.make(env_id, **static)
    run, compile_s = make_chunk(env, NUM_ENVS, episodes_per_trial=episodes)
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark, NUM_ENVS, compile_s)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("num_envs", [256, 1024])
def test_inverted_double_pendulum(benchmark, one_core, num_envs):
    run, compile_s = make_chunk(gpicljax.make("InvertedDoublePendulum-v5"), num_envs)
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark, num_envs, compile_s)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("static", [{}, {"garnet": True}, {"num_observations": 16}], ids=str)
def test_random_processes(benchmark, one_core, static):
    """Tables of 16 states and 5 actions, drawn ahead; drawing them is what costs most."""
    num_envs = 4096
    env = gpicljax.make("AnyMDP-v0", **static)
    run, compile_s = make_chunk(env, num_envs, bank_size=num_envs, renew_share=0.0)
    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    report(benchmark, num_envs, compile_s)
