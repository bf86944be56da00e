"""Accelerators give the same results as a CPU, from programs that suit them.

None is needed here. Programs are lowered for them, and where a CPU has a branch of its own, the
other one is run on the CPU.
"""

import dataclasses
import functools
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import OPTIMISED

import gpicljax
from gpicljax import agents, batching
from gpicljax.networks.attention import causal_attention
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.networks.memories import CACHES, MemoryKind
from gpicljax.runtime import targets


@pytest.fixture
def others_branch(monkeypatch):
    """Has programs take the branch that is not the CPU's, wherever one is their own."""

    def chosen(*arguments, default, **platforms):
        return default(*arguments)

    jax.clear_caches()
    monkeypatch.setattr(jax.lax, "platform_dependent", chosen)
    yield
    jax.clear_caches()


def random_timesteps(vec, steps=150):
    """The timesteps of random actions."""
    space = vec.env.action_space()

    def step(carry, key):
        vstate, _ = carry
        actions = jax.vmap(space.sample)(jax.random.split(key, vec.num_envs))
        vstate, timestep = vec.step(vstate, actions)
        return (vstate, timestep), timestep

    key, keys = jax.random.key(3), jax.random.split(jax.random.key(4), steps)
    options = OPTIMISED if jax.default_backend() == "cpu" else None
    program = jax.jit(lambda: jax.lax.scan(step, vec.init(key), keys)[1], compiler_options=options)
    return program()


CASES = [
    ("MountainCar-v0", {}, {"horizon": 20}),
    ("MountainCar-v0", {"resets": "bank", "bank_size": 64}, {"horizon": 20}),
    ("FrozenLake-v1", {"episodes_per_trial": 2}, {}),
    ("MetaRG-v1", {"resets": "bank", "bank_size": 32}, {}),
    ("MetaLanguage-v0", {"resets": "bank", "bank_size": 16}, {"horizon": 30}),
    *(
        pytest.param(env_id, kinds, changes, marks=pytest.mark.slow)
        for env_id, kinds, changes in [
            ("Acrobot-v1", {}, {"horizon": 20}),
            ("MazeWorld-v0", {"resets": "bank", "bank_size": 16}, {"horizon": 20}),
            ("MetaRG-v1", {}, {}),
            ("Recall-v0", {}, {}),
        ]
    ),
]


@pytest.mark.parametrize(("env_id", "kinds", "changes"), CASES)
def test_accelerators_start_the_same_episodes_as_a_cpu(env_id, kinds, changes, request):
    def timesteps():
        env = gpicljax.make(env_id)
        params = env.make_params(**changes)
        return random_timesteps(gpicljax.VectorEnv(env, 24, params=params, **kinds))

    on_cpu = timesteps()
    request.getfixturevalue("others_branch")
    elsewhere = timesteps()
    assert on_cpu.episode_start.sum() > 10
    jax.tree.map(np.testing.assert_array_equal, on_cpu, elsewhere)


@pytest.mark.skipif(jax.default_backend() == "cpu", reason="there is no accelerator")
@pytest.mark.parametrize("env_id", gpicljax.registered())
def test_an_accelerator_plays_the_episodes_of_a_cpu(env_id):
    def timesteps(device):
        with jax.default_device(device):
            vec = gpicljax.VectorEnv(env_id, 24, resets="bank", bank_size=32)
            return jax.device_get(random_timesteps(vec, steps=30))

    def compare(device, cpu):
        close = np.isclose(device.astype("float64"), cpu.astype("float64"), 1e-3, 1e-3)
        # A ray of MazeWorld can meet an edge on one of them alone.
        assert close.mean() >= (0.999 if cpu.dtype == np.uint8 else 1)

    on_accelerator, on_cpu = timesteps(jax.devices()[0]), timesteps(jax.devices("cpu")[0])
    jax.tree.map(compare, on_accelerator, on_cpu)


def test_what_only_few_need_is_made_for_all_unless_it_is_expensive(others_branch):
    def loops(make):
        need, current = jnp.zeros(64, bool), jnp.zeros(64, jnp.float32)
        update = lambda need: batching.update_compacted(need, current, make, 8)  # noqa: E731
        return str(jax.make_jaxpr(update)(need)).count("while")

    def long(indices):
        sums = jnp.ones((indices.size, 1 + batching.EVERYWHERE), jnp.float32).cumsum(1)
        return sums[:, -1]

    def serial(indices):
        step = lambda x, _: (jnp.sin(x), None)  # noqa: E731
        rounds = 1 + batching.ROUNDS
        return jax.lax.scan(step, indices.astype(jnp.float32), None, rounds)[0]

    def search(indices):
        return jax.vmap(lambda i: jax.lax.while_loop(lambda x: x < 9, lambda x: x + 1, i))(
            indices
        ).astype(jnp.float32)

    assert loops(lambda indices: jnp.sin(indices.astype(jnp.float32))) == 0
    assert loops(long) == 1
    assert loops(serial) == 1
    assert loops(search) == 2


@pytest.mark.parametrize("window", [None, 1100])
@pytest.mark.parametrize("restarts", [False, True])
def test_attention_of_accelerators_goes_through_all_keys_to_the_same_result(
    window, restarts, request
):
    # Longer than two of its tiles.
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 1, 8, 1200))
    starts = jax.random.bernoulli(jax.random.key(1), 0.002, (1200, 2)) if restarts else None

    def loss(q, k, v):
        return (causal_attention(q, k, v, starts=starts, window=window) ** 2).sum()

    gradient = jax.value_and_grad(loss, (0, 1, 2))
    on_cpu = jax.jit(gradient)(q, k, v)
    request.getfixturevalue("others_branch")
    program = jax.jit(lambda *x: gradient(*x))
    elsewhere = program(q, k, v)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), on_cpu, elsewhere)


def lowered_program(function, *arguments):
    """The program for a GPU and a TPU, which need not be there; the host must not be asked."""
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda", "tpu"))


KEY = jax.eval_shape(lambda: jax.random.key(0))
ENVIRONMENTS = [
    env_id
    for env_id in gpicljax.registered()
    # Bandits differ in numbers alone, as do Fetch's tasks with a block; earlier versions hardly.
    if not env_id.startswith("Bandit")
    and env_id
    not in (
        "CliffWalking-v0",
        "FetchPickAndPlace-v4",
        "InvertedDoublePendulum-v4",
        "MetaRG-v0",
    )
]


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_every_environment_can_be_lowered_for_accelerators_without_the_host(env_id):
    vec = gpicljax.VectorEnv(env_id, 4, resets="bank", bank_size=4)
    vstate, _ = jax.eval_shape(vec.init, KEY)
    actions = jax.eval_shape(
        lambda key: jax.vmap(vec.env.action_space().sample)(jax.random.split(key, 4)), KEY
    )
    init = lowered_program(lambda key: vec.renew(*vec.init(key)), KEY)
    step = lowered_program(vec.step, vstate, actions)
    # By default, an accelerator rounds what it multiplies to eleven bits or fewer.
    for line in (init.as_text() + step.as_text()).splitlines():
        assert "stablehlo.dot" not in line or "precision = [HIGHEST, HIGHEST]" in line


TRAINED = {
    "ppo": "MountainCar-v0",
    "recurrent-ppo": "BernoulliBandit-v0",
    "dqn": "MountainCar-v0",
    "r2d2": "MetaRG-v1",
    "td3": "Pendulum-v1",
    "sac": "Pendulum-v1",
    "q-learning": "CliffWalking-v1",
    "cloning": "BernoulliBandit-v0",
    "causal-model": "MazeWorld-v0",
    "language-model": "MetaLanguage-v0",
}


@pytest.mark.parametrize("name", TRAINED)
def test_every_update_can_be_lowered_for_accelerators_without_the_host(name):
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(
        TRAINED[name], 4, resets="bank", bank_size=4, privileged=algorithm.privileged
    )
    trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
    state = jax.eval_shape(lambda key: trainer.init(key, algorithm.hparams()), KEY)
    lowered_program(trainer.update, state)


def test_a_program_that_asks_the_host_is_found():
    def asking():
        return jax.pure_callback(np.zeros, jax.ShapeDtypeStruct((2,), jnp.float32), 2)

    with pytest.raises(NotImplementedError, match="callback"):
        lowered_program(asking)


BUDGETS = {
    # Kernels that an H100 starts for a step of 1,024 instances with random actions: with a bank,
    # and with fresh starts where these are cheap.
    "Acrobot-v1": (10, 12),
    "BernoulliBandit-v0": (9, 9),
    "ByteStream-v0": (107, 125),
    "CliffWalking-v1": (14, 27),
    "FrozenLake-v1": (18, 24),
    "InvertedDoublePendulum-v5": (20, 25),
    "LunarLander-v3": (25, 43),
    "MazeWorld-v0": (27, None),
    "MetaLanguage-v0": (16, None),
    "MetaRG-v1": (27, None),
    "MountainCar-v0": (13, 17),
    "Pendulum-v1": (8, 11),
    "Recall-v0": (12, 20),
}
CHEAP = [(env_id, "bank") for env_id in BUDGETS] + [
    (env_id, "fresh") for env_id, (_, fresh) in BUDGETS.items() if fresh
]


def compiled_for(machine, function, *arguments):
    """The report on a function compiled for a machine; skips without its compiler."""
    try:
        target = targets.target(machine)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    return targets.report(targets.compile_for(target, function, *arguments))


def compiled_steps(machine, env_id, resets, num_envs=1024):
    """Rewards and ends of a thousand steps with random actions."""
    vec = gpicljax.VectorEnv(env_id, num_envs, resets=resets)
    space = vec.env.action_space()

    def step(vstate, key):
        actions = jax.vmap(space.sample)(jax.random.split(key, num_envs))
        vstate, timestep = vec.step(vstate, actions)
        return vstate, (timestep.reward, timestep.terminated)

    # The state makes room for the next one, as in a run.
    @functools.partial(jax.jit, donate_argnums=0)
    def steps(vstate, key):
        return jax.lax.scan(step, vstate, jax.random.split(key, 1000))

    vstate, _ = jax.eval_shape(vec.init, KEY)
    return compiled_for(machine, steps, vstate, KEY)


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "resets"), CHEAP)
def test_a_gpu_starts_few_kernels_for_a_step_and_never_asks_the_host(env_id, resets):
    report = compiled_steps("h100", env_id, resets)
    kernels = report.program.main_loop.body.kernels
    print(f"\n{env_id}, {resets}: {kernels} kernels a step")
    assert report.data_loops == 0
    assert kernels <= BUDGETS[env_id][resets == "fresh"]


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "most"), [("MetaLanguage-v0", 150), ("MetaRG-v1", 60)])
@pytest.mark.parametrize("resets", ["bank", "fresh"])
def test_small_arrays_fill_the_tiles_of_a_tpu(env_id, most, resets):
    report = compiled_steps("v5e", env_id, resets)
    print(f"\n{env_id}, {resets}: {report.temporary_bytes / 2**20:.0f} MiB of temporaries")
    assert report.temporary_bytes < most * 2**20


ACTING = [
    ("ppo", "FrozenLake-v1", None),
    ("ppo", "MetaRG-v1", None),
    *(("recurrent-ppo", "BernoulliBandit-v0", kind) for kind in ("lstm", "gru", "transformer")),
    ("dqn", "MountainCar-v0", None),
    *(("r2d2", "MetaRG-v1", kind) for kind in get_args(MemoryKind) if kind not in CACHES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "env_id", "memory"), ACTING)
def test_acting_starts_few_kernels_besides_those_of_environment_and_network(name, env_id, memory):
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(env_id, 32, resets="bank")
    network = algorithm.network()
    if memory is not None:
        network = dataclasses.replace(network, memory=memory)
    trainer = algorithm.make(algorithm.config(), vec, network)
    state = jax.eval_shape(lambda key: trainer.init(key, algorithm.hparams()), KEY)
    agent = trainer.agent()

    def choices(params, carry, timestep, keys):
        def choose(carry, keys):
            action, _, carry = agent.act(keys, params, carry, timestep)
            return carry, action

        return jax.lax.scan(choose, carry, keys)

    _, timestep = jax.eval_shape(vec.init, KEY)
    keys = jax.eval_shape(lambda key: jax.random.split(key, (50, 32)), KEY)
    carry = jax.eval_shape(lambda: agent.initial_carry(32))
    update = compiled_for("h100", trainer.update, state)
    network = compiled_for("h100", choices, state.params, carry, timestep, keys)
    environment = compiled_steps("h100", env_id, "bank", 32).program.main_loop.body.kernels
    # An update begins with acting.
    acting, choosing = (
        loop.body.kernels for loop in (update.program.loops[0], network.program.main_loop)
    )
    print(
        f"\n{name}, {memory}, {env_id}: {acting} kernels an acting step, network {choosing}, "
        f"environment {environment}; an update {update.kernels}"
    )
    assert update.data_loops == 0
    assert acting <= 1.5 * (choosing + environment)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*TRAINED} - {name for name, *_ in ACTING}))
def test_no_update_asks_the_host(name):
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(TRAINED[name], 32, resets="bank", privileged=algorithm.privileged)
    trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
    state = jax.eval_shape(lambda key: trainer.init(key, algorithm.hparams()), KEY)
    update = compiled_for("h100", trainer.update, state)
    print(f"\n{name}, {TRAINED[name]}: an update {update.kernels} kernels")
    assert update.data_loops == 0


@pytest.mark.slow
def test_an_online_memory_learns_a_token_with_few_kernels():
    """Its two scans forwards, and the one backwards, which reads the rows in use alone."""
    network = language_model(LanguageModelSettings("online"))
    tokens = jax.ShapeDtypeStruct((512, 8), jnp.int32)
    params = jax.eval_shape(network.init, KEY, jax.ShapeDtypeStruct((8,), jnp.int32))

    def gradient(params, tokens):
        return jax.grad(lambda p: network.unroll(p, None, tokens, None)[0].mean())(params)

    report = compiled_for("h100", gradient, params, tokens)
    print(f"\nonline memory: {report.kernels / 512:.1f} kernels a token")
    assert report.data_loops == 0
    assert report.kernels <= 60 * 512


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "more"), [("Acrobot-v1", 0), ("Pendulum-v1", 0), ("MountainCar-v0", 7)]
)
def test_a_step_has_hardly_more_kernels_than_that_of_gymnax(env_id, more):
    """Each of our instances has a task of its own, gymnax's share theirs."""
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make(env_id)
    space = env.action_space(params)

    def over_batch(function, key, *arguments):
        return jax.vmap(function)(jax.random.split(key, 1024), *arguments)

    def step(state, key):
        action = over_batch(space.sample, key)
        _, state, reward, done, *_ = over_batch(
            lambda key, state, action: env.step(key, state, action, params), key, state, action
        )
        return state, (reward, done)

    @functools.partial(jax.jit, donate_argnums=0)
    def steps(state, key):
        return jax.lax.scan(step, state, jax.random.split(key, 1000))

    _, state = jax.eval_shape(lambda key: over_batch(lambda key: env.reset(key, params), key), KEY)
    gymnax_kernels = compiled_for("h100", steps, state, KEY).program.main_loop.body.kernels
    kernels = compiled_steps("h100", env_id, "bank").program.main_loop.body.kernels
    print(f"\n{env_id}: {kernels} kernels a step, gymnax {gymnax_kernels}")
    assert kernels <= gymnax_kernels + more
