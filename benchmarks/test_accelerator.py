"""Environment steps and training on an accelerator: wall time, once everything is compiled.

    pytest benchmarks/test_accelerator.py --benchmark-only -s

Every program is compiled before the first is timed, several at once. A CPU skips all of it.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

import gpicljax
from gpicljax import agents

pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="measures accelerators, of which there is none"
)
LENGTH, ROUNDS = 256, 5
ENVIRONMENTS = [
    (env_id, resets, 4096)
    for env_id in (
        "Acrobot-v1",
        "BernoulliBandit-v0",
        "ByteStream-v0",
        "CliffWalking-v1",
        "FrozenLake-v1",
        "InvertedDoublePendulum-v5",
        "LunarLander-v3",
        "MazeWorld-v0",
        "MetaLanguage-v0",
        "MetaRG-v1",
        "MountainCar-v0",
        "Pendulum-v1",
        "Recall-v0",
    )
    for resets in ("bank", "fresh")
] + [(env_id, "bank", 65_536) for env_id in ("LunarLander-v3", "MetaRG-v1", "MountainCar-v0")]
GYMNAX = ["Acrobot-v1", "MountainCar-v0", "Pendulum-v1"]
TRAINERS = {
    "ppo": ("MetaRG-v1", 4096),
    "r2d2": ("MetaRG-v1", 64),
    "dqn": ("MountainCar-v0", 1024),
    "sac": ("Pendulum-v1", 1024),
    "language-model": ("MetaLanguage-v0", 64),
    "causal-model": ("MazeWorld-v0", 16),
}


def program_of(function, *arguments):
    """The compiled function, which takes over its first argument's memory, and when it began."""
    began = time.perf_counter()
    return jax.jit(function, donate_argnums=0).lower(*arguments).compile(), began


def environment(env_id, resets, num_envs):
    """Steps with random actions, all of whose results are used."""
    vec = gpicljax.VectorEnv(env_id, num_envs, resets=resets)
    space = vec.env.action_space()

    def steps(carry, key):
        def step(carry, key):
            actions = jax.vmap(space.sample)(jax.random.split(key, num_envs))
            vstate, timestep = vec.step(carry[0], actions)
            used = timestep.observation, timestep.reward, timestep.terminated
            return (vstate, timestep), jax.tree.map(lambda x: x.sum(dtype="float32"), used)

        return jax.lax.scan(step, carry, jax.random.split(key, LENGTH))

    carry = jax.jit(vec.init)(jax.random.key(0))
    return (*program_of(steps, carry, jax.random.key(1)), carry, num_envs * LENGTH)


def gymnax_environment(env_id, num_envs):
    """The same with gymnax's own resets."""
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make(env_id)
    space = env.action_space(params)

    def each(function, key, *arguments):
        return jax.vmap(function)(jax.random.split(key, num_envs), *arguments)

    def steps(state, key):
        def step(state, key):
            actions = each(space.sample, key)
            observation, state, reward, done, *_ = each(
                lambda key, state, action: env.step(key, state, action, params),
                *(key, state, actions),
            )
            used = observation, reward, done
            return state, jax.tree.map(lambda x: x.sum(dtype="float32"), used)

        return jax.lax.scan(step, state, jax.random.split(key, LENGTH))

    _, state = each(lambda key: env.reset(key, params), jax.random.key(0))
    return (*program_of(steps, state, jax.random.key(1)), state, num_envs * LENGTH)


def trainer(name, env_id, num_envs):
    """An update by the default settings."""
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(env_id, num_envs, resets="bank", privileged=algorithm.privileged)
    learner = algorithm.make(algorithm.config(), vec, algorithm.network())
    state = jax.jit(lambda key: learner.init(key, algorithm.hparams()))(jax.random.key(0))
    program, began = program_of(lambda state, _: learner.update(state), state, jax.random.key(1))
    return program, began, state, learner.observations


ARGUMENTS = {
    environment: ENVIRONMENTS,
    gymnax_environment: [(env_id, 4096) for env_id in GYMNAX],
    trainer: [(name, *sizes) for name, sizes in TRAINERS.items()],
}
CASES = [(make, *arguments) for make, rows in ARGUMENTS.items() for arguments in rows]


def case_id(case):
    """Returns the name of a case on the command line."""
    make, *arguments = case
    return "-".join([make.__name__, *map(str, arguments)])


@pytest.fixture(scope="session")
def programs(request):
    """The programs of the chosen cases, on their way."""
    items = [item for item in request.session.items if item.function is test_rate]
    chosen = [item.callspec.params["case"] for item in items]
    with ThreadPoolExecutor() as pool:

        def make(case):
            program, began, carry, amount = case[0](*case[1:])
            return program, time.perf_counter() - began, carry, amount

        return {case_id(case): pool.submit(make, case) for case in chosen}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rate(benchmark, programs, case):
    program, compile_s, carry, amount = programs[case_id(case)].result()
    carry = [carry]

    def run():
        carry[0], used = program(carry[0], jax.random.key(2))
        jax.block_until_ready((carry[0], used))

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=2)
    rate = amount / benchmark.stats.stats.median
    benchmark.extra_info["per_second"], benchmark.extra_info["compile_s"] = rate, compile_s
    benchmark.extra_info["device"] = jax.devices()[0].device_kind
    print(f"\n{case_id(case)}: {rate:,.0f} per second, compiled in {compile_s:.1f} s")
