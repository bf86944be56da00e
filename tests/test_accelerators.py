"""What accelerators run: the same results as a CPU, from programs that suit them.

None is needed here. Programs are lowered for them, and where a CPU has a branch of its own, the
other one is run on the CPU.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import OPTIMISED

import gpicljax
from gpicljax import agents, batching
from gpicljax.networks.attention import causal_attention


@pytest.fixture
def others_branch(monkeypatch):
    """Has programs take the branch that is not the CPU's, wherever one is their own."""

    def chosen(*arguments, default, **platforms):
        return default(*arguments)

    jax.clear_caches()
    monkeypatch.setattr(jax.lax, "platform_dependent", chosen)
    yield
    jax.clear_caches()


def played(vec, steps=150):
    """Everything that random actions lead to."""
    space = vec.env.action_space()

    def step(carry, key):
        vstate, _ = carry
        actions = jax.vmap(space.sample)(jax.random.split(key, vec.num_envs))
        vstate, timestep = vec.step(vstate, actions)
        return (vstate, timestep), timestep

    key, keys = jax.random.key(3), jax.random.split(jax.random.key(4), steps)
    program = jax.jit(
        lambda: jax.lax.scan(step, vec.init(key), keys)[1], compiler_options=OPTIMISED
    )
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
        return played(gpicljax.VectorEnv(env, 24, params=params, **kinds))

    on_cpu = timesteps()
    request.getfixturevalue("others_branch")
    elsewhere = timesteps()
    assert on_cpu.episode_start.sum() > 10
    jax.tree.map(np.testing.assert_array_equal, on_cpu, elsewhere)


def test_what_only_few_need_is_made_for_all_unless_it_is_expensive(others_branch):
    def loops(make):
        need, current = jnp.zeros(64, bool), jnp.zeros(64, jnp.float32)
        replaced = lambda need: batching.update_compacted(need, current, make, 8)  # noqa: E731
        return str(jax.make_jaxpr(replaced)(need)).count("while")

    def long(indices):
        sums = jnp.ones((indices.size, 1 + batching.EVERYWHERE), jnp.float32).cumsum(1)
        return sums[:, -1]

    def searched(indices):
        return jax.vmap(lambda i: jax.lax.while_loop(lambda x: x < 9, lambda x: x + 1, i))(
            indices
        ).astype(jnp.float32)

    assert loops(lambda indices: jnp.sin(indices.astype(jnp.float32))) == 0
    assert loops(long) == 1
    assert loops(searched) == 2


@pytest.mark.parametrize("window", [None, 1100])
@pytest.mark.parametrize("restarts", [False, True])
def test_attention_of_accelerators_goes_through_all_keys_to_the_same_result(
    window, restarts, request
):
    # Longer than two of its tiles.
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 1200, 1, 8))
    starts = jax.random.bernoulli(jax.random.key(1), 0.002, (1200, 2)) if restarts else None

    def loss(q, k, v):
        return (causal_attention(q, k, v, starts=starts, window=window) ** 2).sum()

    gradient = jax.value_and_grad(loss, (0, 1, 2))
    on_cpu = jax.jit(gradient)(q, k, v)
    request.getfixturevalue("others_branch")
    program = jax.jit(lambda *x: gradient(*x))
    elsewhere = program(q, k, v)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), on_cpu, elsewhere)


def lowered(function, *arguments):
    """The program for a GPU and a TPU, which need not be there; the host must not be asked."""
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda", "tpu"))


KEY = jax.eval_shape(lambda: jax.random.key(0))
ENVIRONMENTS = [
    env_id
    for env_id in gpicljax.registered()
    # Those of the simulator MuJoCo run on the host. Bandits differ in numbers alone, and earlier
    # versions hardly.
    if not env_id.startswith(("Fetch", "Bandit"))
    and env_id not in ("CliffWalking-v0", "MetaRG-v0", "InvertedDoublePendulum-v4")
]


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_every_environment_can_be_lowered_for_accelerators_without_the_host(env_id):
    vec = gpicljax.VectorEnv(env_id, 4, resets="bank", bank_size=4)
    vstate, _ = jax.eval_shape(vec.init, KEY)
    actions = jax.eval_shape(
        lambda key: jax.vmap(vec.env.action_space().sample)(jax.random.split(key, 4)), KEY
    )
    lowered(lambda key: vec.renew(*vec.init(key)), KEY)
    lowered(vec.step, vstate, actions)


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
    lowered(trainer.update, state)


def test_a_program_that_asks_the_host_is_found():
    def asking():
        return jax.pure_callback(np.zeros, jax.ShapeDtypeStruct((2,), jnp.float32), 2)

    with pytest.raises(NotImplementedError, match="callback"):
        lowered(asking)
