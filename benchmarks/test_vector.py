"""Costs of `VectorEnv` over a bare `vmap(env.step)`: between resets, and with them.

Both sides run in turn in one process; the overhead is the median of their ratios. With resets, the
second yardstick is the usual way of resetting: every instance computes a new start in every step
and `where` keeps it for those that ended.
"""

import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program, time_call
from gpicljax.runtime import ENVIRONMENT_COMPILE

NUM_ENVS, ROUNDS = 4096, 9
# Between resets: steps from a common start that end no episode, whatever is done.
SETTINGS = {
    "BernoulliBandit-v0": ({}, 60),
    "FrozenLake-v1": ({"description": ("S" + 7 * "F", *["F" * 8] * 6, 7 * "F" + "G")}, 14),
    "MetaRG-v0": ({}, 15),
}


def consume(observation, reward):
    """A number that depends on every leaf, so that none is optimised away."""
    return sum(x.astype(jnp.float32).sum() for x in jax.tree.leaves((observation, reward)))


def make_programs(vec, length):
    """Scans of `length` random steps: `VectorEnv`, bare `vmap(step)`, and reset by selection."""
    env, actions = vec.env, jax.vmap(vec.env.action_space().sample)

    def vector(vstate, key):
        def body(vstate, key):
            vstate, timestep = vec.step(vstate, actions(jax.random.split(key, NUM_ENVS)))
            return vstate, consume(timestep.observation, timestep.reward)

        return jax.lax.scan(body, vstate, jax.random.split(key, length))

    def by_hand(carry, key, reset):
        def body(carry, key):
            keys, task, state = carry
            action_key, number = jax.random.split(key)
            action = actions(jax.random.split(action_key, NUM_ENVS))
            fresh = jax.vmap(jax.random.fold_in, (0, None))(keys, jax.random.bits(number))
            out = jax.vmap(env.transition)(fresh, state, action, task)
            task, state = (
                reset(fresh, out.terminated | out.truncated, task, out.state)
                if reset
                else (task, out.state)
            )
            observation = jax.vmap(env.observe)(state, task)
            return (keys, task, state), consume(observation, out.reward)

        return jax.lax.scan(body, carry, jax.random.split(key, length))

    def select(keys, ended, task, state):
        split = jax.vmap(jax.random.split)(keys)
        tasks = jax.vmap(env.sample_task, (0, None))(split[:, 0], vec.params)
        starts = jax.vmap(env.initial)(split[:, 1], tasks)

        def pick(new, old):
            return jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        return jax.tree.map(pick, (tasks, starts), (task, state))

    return vector, lambda c, k: by_hand(c, k, None), lambda c, k: by_hand(c, k, select)


def measure(benchmark, programs, states, steps):
    """Rates of all programs, and the median ratios of the first one's CPU seconds to theirs."""
    compiled, info, times = [], {}, []
    for (name, program), state in zip(programs.items(), states, strict=True):
        options = {"donate_argnums": 0, "compiler_options": ENVIRONMENT_COMPILE}
        run, seconds = compile_program(program, state, jax.random.key(0), **options)
        compiled.append(run)
        info[f"compile_{name}_cpu_s"] = seconds

    def once(program, state):
        state = jax.block_until_ready(jax.tree.map(jnp.copy, state))
        return time_call(program, state, jax.random.key(1))[1]

    def compare():
        times.append([once(*pair) for pair in zip(compiled, states, strict=True)])

    benchmark.pedantic(compare, rounds=ROUNDS, warmup_rounds=1)
    times = times[1:]
    for i, name in enumerate(programs):
        info[f"{name}_steps_per_cpu_second"] = steps / sorted(t[i] for t in times)[ROUNDS // 2]
        if i:
            ratios = sorted(t[0] / t[i] for t in times)
            info[f"cost_relative_to_{name}"] = ratios[ROUNDS // 2]
    benchmark.extra_info.update(info)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("env_id", SETTINGS)
def test_between_resets(benchmark, one_core, env_id):
    static, length = SETTINGS[env_id]
    vec = gpicljax.VectorEnv(gpicljax.make(env_id, **static), NUM_ENVS, resets="bank")
    vstate, _ = jax.jit(vec.init)(jax.random.key(0))
    after, _ = jax.jit(make_programs(vec, length)[0])(vstate, jax.random.key(1))
    assert not after.ended.any() and not after.episode.any() and int(after.time) == length
    vector, bare, _ = make_programs(vec, length)
    carry = (vstate.keys, vstate.task, vstate.state)
    measure(benchmark, {"vector": vector, "bare": bare}, (vstate, carry), NUM_ENVS * length)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("resets", ["bank", "fresh"])
@pytest.mark.parametrize("env_id", SETTINGS)
def test_with_resets(benchmark, one_core, env_id, resets):
    length = 64
    vec = gpicljax.VectorEnv(gpicljax.make(env_id), NUM_ENVS, resets=resets, bank_size=65_536)
    vstate, _ = jax.jit(vec.init)(jax.random.key(0))
    # Past the first episodes, which all start together.
    vstate, _ = jax.jit(make_programs(vec, 4 * length)[0])(vstate, jax.random.key(2))
    carry = (vstate.keys, vstate.task, vstate.state)
    vector, bare, select = make_programs(vec, length)
    programs = {"vector": vector, "bare": bare}
    # A thousand times slower with MetaRG's generator; nobody needs the exact figure.
    if env_id != "MetaRG-v0":
        programs["select"] = select
    states = (vstate, carry, carry)[: len(programs)]
    measure(benchmark, programs, states, NUM_ENVS * length)
