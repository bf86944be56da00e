"""Costs of each adapter, beside the same work without it and beside the library's own peer.

Where MetaRG is compared with `vector_env`, know that its episodes have 3 k - 1 steps: the step that
`VectorEnv` takes for a reset keeps all instances in step, so that a third of the steps have resets
to do; same-step resets spread over all of them.
"""

import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from benchmarks.timing import time_call
from gpicljax.runtime import FAST_COMPILE

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("gymnax")
pytest.importorskip("jaxmarl")

from gpicljax.interop import (  # noqa: E402
    to_gymnasium,
    to_gymnasium_vector,
    to_gymnax,
    to_jaxmarl,
)

ENVS = {
    "FrozenLake-v1": {},
    "FrozenLake-v1,size=8": {"size": 8},
    "MetaRG-v0": {},
}


def make(name):
    return gpicljax.make(name.split(",")[0], **ENVS[name])


def compare(benchmark, steps, run, peers, rounds=7):
    """Times `run`, and each peer in the same process; ratios are of CPU time to the peer's."""
    for function in (run, *peers.values()):
        function()
    benchmark.pedantic(run, rounds=rounds)
    seconds = benchmark.stats.stats.median
    benchmark.extra_info["steps_per_cpu_second"] = steps / seconds
    for name, peer in peers.items():
        median = statistics.median(time_call(peer)[1] for _ in range(rounds))
        benchmark.extra_info[f"{name}_steps_per_cpu_second"] = steps / median
        benchmark.extra_info[f"cpu_time_over_{name}"] = seconds / median


def chunk(step, carry, length):
    """A compiled scan of `step: (carry, key) -> (carry, kept)`, going on where it stopped."""
    state = [carry, jax.random.key(1)]

    def rollout(carry, key):
        carry, kept = jax.lax.scan(step, carry, jax.random.split(key, length))
        return carry, jax.tree.map(lambda x: x.astype(jnp.float32).sum(), kept)

    program = jax.jit(rollout, compiler_options=FAST_COMPILE)

    def run():
        state[1], key = jax.random.split(state[1])
        state[0], kept = jax.block_until_ready(program(state[0], key))
        return kept

    for _ in range(4):  # past the first episodes, which all start together
        run()
    return run


def naive(env, num_envs, length):
    """Layer 1 with the reset that a `vmap` of "if done" makes: everybody pays, always."""
    params = env.default_params

    def new(key):
        task_key, state_key = jax.random.split(key)
        task = env.sample_task(task_key, params)
        return task, *env.reset(state_key, task)

    def step(task, state, key, action):
        step_key, reset_key = jax.random.split(key)
        moved = env.step(step_key, state, action, task)
        over = moved.terminated | moved.truncated
        following = jax.tree.map(
            lambda a, b: jnp.where(over, a, b),
            new(reset_key),
            (task, moved.observation, moved.state),
        )
        return following, moved.reward

    def body(carry, key):
        task, _, state = carry
        keys = jax.random.split(key, (2, num_envs))
        actions = jax.vmap(env.action_space().sample)(keys[1])
        carry, rewards = jax.vmap(step)(task, state, keys[0], actions)
        return carry, (rewards, carry[1])

    return chunk(body, jax.vmap(new)(jax.random.split(jax.random.key(0), num_envs)), length)


def batch(env, num_envs, length):
    """`VectorEnv` with a new task whenever a trial ends."""
    vec = gpicljax.VectorEnv(env, num_envs, resets="fresh")

    def body(carry, key):
        actions = jax.vmap(env.action_space().sample)(jax.random.split(key, num_envs))
        carry = vec.step(carry[0], actions)
        return carry, (carry[1].reward, carry[1].observation)

    return chunk(body, vec.init(jax.random.key(0)), length)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ENVS)
def test_gymnax(benchmark, one_core, name):
    env = make(name)
    num_envs, length = (256, 16) if name.startswith("MetaRG") else (1024, 32)
    adapter = to_gymnax(env, flatten_observation=False)
    params = adapter.default_params

    def body(carry, key):
        keys = jax.random.split(key, (2, num_envs))
        actions = jax.vmap(adapter.action_space(params).sample)(keys[1])
        out = jax.vmap(adapter.step, (0, 0, 0, None))(keys[0], carry[1], actions, params)
        return out[:2], (out[2], out[0])

    keys = jax.random.split(jax.random.key(0), num_envs)
    start = jax.vmap(adapter.reset, (0, None))(keys, params)
    peers = {
        "reset_for_all": naive(env, num_envs, length),
        "vector_env": batch(env, num_envs, length),
    }
    compare(benchmark, num_envs * length, chunk(body, start, length), peers)


@pytest.mark.benchmark(timer=time.process_time)
def test_jaxmarl(benchmark, one_core):
    num_envs, length = 256, 16
    env = gpicljax.make("MetaRG-v0", view="players")
    adapter = to_jaxmarl(env)

    def body(carry, key):
        keys = jax.random.split(key, (3, num_envs))
        actions = {
            agent: jax.vmap(adapter.action_space(agent).sample)(keys[i])
            for i, agent in enumerate(adapter.agents)
        }
        out = jax.vmap(adapter.step)(keys[2], carry[1], actions)
        return out[:2], (out[2], out[0])

    start = jax.vmap(adapter.reset)(jax.random.split(jax.random.key(0), num_envs))
    peers = {
        "reset_for_all": naive(env, num_envs, length),
        "vector_env": batch(env, num_envs, length),
    }
    compare(benchmark, num_envs * length, chunk(body, start, length), peers)


def episodes(env, num_steps):
    """Some steps of a Gymnasium environment, always to the left and down."""

    def run():
        env.reset(seed=0)
        for t in range(num_steps):
            *_, terminated, truncated, _ = env.step(t % 2)
            if terminated or truncated:
                env.reset()

    return run


@pytest.mark.benchmark(timer=time.process_time)
def test_gymnasium(benchmark, one_core):
    num_steps = 2_000
    env = to_gymnasium(gpicljax.make("FrozenLake-v1"))
    peers = {"gymnasium": episodes(gymnasium.make("FrozenLake-v1"), num_steps)}
    compare(benchmark, num_steps, episodes(env, num_steps), peers)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("num_envs", [16, 1024])
def test_gymnasium_vector(benchmark, one_core, num_envs, mode):
    num_steps = 100
    actions = np.arange(num_envs) % 2

    def steps(envs):
        def run():
            envs.reset(seed=0)
            for _ in range(num_steps):
                envs.step(actions)

        return run

    env = gpicljax.make("FrozenLake-v1")
    adapted = to_gymnasium_vector(env, num_envs, autoreset_mode=mode)
    gymnasium_envs = gymnasium.vector.SyncVectorEnv(
        [functools.partial(gymnasium.make, "FrozenLake-v1")] * num_envs,
        autoreset_mode=gymnasium.vector.AutoresetMode(mode),
    )
    vec = gpicljax.VectorEnv(env, num_envs, resets="fresh")
    init, step = jax.jit(vec.init), jax.jit(vec.step, donate_argnums=0)

    def plain():
        vstate, _ = init(jax.random.key(0))
        for _ in range(num_steps):
            vstate, timestep = step(vstate, actions.astype(np.int32))
            jax.block_until_ready(timestep)

    peers = {"vector_env": plain, "gymnasium": steps(gymnasium_envs)}
    compare(benchmark, num_envs * num_steps, steps(adapted), peers)
