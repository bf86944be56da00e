"""Every algorithm of the catalogue fits what it says, and has the one interface."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_checks import assert_one_float_type
from variants import ALGORITHMS, daily

import gpicljax
from gpicljax import agents
from gpicljax.agents import algorithm
from gpicljax.agents.acting import random_agent
from gpicljax.agents.algorithm import greedy_agent
from gpicljax.interface import Agent
from gpicljax.spaces import Box, Dict, Discrete, MultiDiscrete, Space, repeat

LAKE = "FrozenLake-v1"  # discrete in, discrete out
PENDULUM = "Pendulum-v1"  # floats in, floats out
FITS = {
    "ppo": (LAKE, PENDULUM, "MountainCar-v0", "MetaRG-v1"),
    "recurrent-ppo": (LAKE, PENDULUM, "BernoulliBandit-v0"),
    "dqn": (LAKE, "MountainCar-v0"),
    "r2d2": ("BernoulliBandit-v0", "MetaRG-v1"),
    "td3": (PENDULUM,),
    "ddpg": (PENDULUM,),
    "sac": (PENDULUM,),
    "q-learning": (LAKE, "CliffWalking-v1"),
    "cloning": ("BernoulliBandit-v0",),
    "causal-model": ("MazeWorld-v0",),
    "language-model": ("MetaLanguage-v0",),
    "symbol-model": (LAKE, "MetaRG-v1", "MetaLanguage-v0"),
    "ucb1": ("BernoulliBandit-v0", "BanditTenArmedRandomFixed-v0"),
    "thompson": ("BernoulliBandit-v0",),
    "random": (LAKE, PENDULUM, "MetaRG-v1"),
}
PAIRS = [f"{name}, {env_id}" for name in ALGORITHMS for env_id in FITS[name]]
FIRST = [f"{name}, {FITS[name][0]}" for name in ALGORITHMS]


@pytest.mark.parametrize("pair", daily([*FIRST, f"ppo, {PENDULUM}"], PAIRS))
def test_every_entry_has_the_one_interface(pair):
    """Shapes only: nothing is compiled."""
    name, env_id = pair.split(", ")
    algorithm, env = agents.get_algorithm(name), gpicljax.make(env_id)
    vec = gpicljax.VectorEnv(env, 4, resets="fresh", privileged=algorithm.privileged)
    config = algorithm.to_act(algorithm.config())
    trainer = algorithm.make(config, vec, algorithm.network())

    def study(key):
        state = trainer.init(key, algorithm.hparams(), env.default_params)
        following, metrics = trainer.update(state)
        vstate, timestep = vec.init(key)
        actions = []
        for greedy in (False, True):
            agent = trainer.agent(greedy=greedy)
            carry = agent.initial_carry(4)
            keys = vec.choice_keys(vstate)
            action, aux, after = agent.act(keys, following.params, carry, timestep)
            assert isinstance(aux, dict)
            assert jax.tree.structure(carry) == jax.tree.structure(after)
            actions.append(action)
        return state, following, metrics, actions, vec.step(vstate, actions[0])

    state, following, metrics, actions, _ = jax.eval_shape(study, jax.random.key(0))
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(following), strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
        assert not after.weak_type
    assert state.key.shape == () and state.updates.dtype == jnp.int32
    assert all(metric.shape == () for metric in metrics.values())
    space = env.action_space()
    for action in actions:
        assert action.shape == (4, *space.shape)
    if algorithm.trains:
        assert trainer.observations >= 4 and trainer.observations % 4 == 0
        assert trainer.optimiser_steps >= 1
        # What the experiment renews lies there, where the algorithm acts as it learns.
        sequences = name in ("causal-model", "language-model", "symbol-model")
        assert sequences or state.rollout.vstate.keys.shape == (4,)
    else:
        assert trainer.observations == 0 and not jax.tree.leaves(state.params)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_fits_is_not_refused_and_several_agents_where_it_says_so(name):
    algorithm = agents.get_algorithm(name)
    for env_id in FITS[name]:
        env = gpicljax.make(env_id)
        assert algorithm.refusal(env.observation_space(), env.action_space(), None) is None
        spaces = env.observation_space(), env.action_space()
        reason = algorithm.refusal(*(repeat(space, 2) for space in spaces), 2)
        assert (reason is None) == algorithm.multi_agent
        assert algorithm.multi_agent or "2" in reason
        assert algorithm.refusal(*spaces, 2) is not None


@pytest.mark.parametrize(
    "name",
    daily(["r2d2"], [name for name in ALGORITHMS if agents.get_algorithm(name).multi_agent]),
)
def test_both_players_of_a_game_are_trained(name):
    """A decision and a message each, with masks and an agent axis. Shapes only."""
    algorithm, env = agents.get_algorithm(name), gpicljax.make("MetaRG-v1", view="players")
    assert algorithm.refusal(env.observation_space(), env.action_space(), 2) is None
    vec = gpicljax.VectorEnv(env, 4, resets="fresh")
    counts = []
    for separate in (False, True):
        config = algorithm.config()
        if algorithm.trains:
            options = {"mixing": "vdn"} if name == "r2d2" and not separate else {}
            config = dataclasses.replace(config, share_parameters=not separate, **options)
        trainer = algorithm.make(algorithm.to_act(config), vec, algorithm.network())

        def study(key, trainer=trainer):
            state = trainer.init(key, algorithm.hparams())
            following, metrics = trainer.update(state)
            vstate, timestep = vec.init(key)
            agent, keys = trainer.agent(), vec.choice_keys(vstate)
            action, _, _ = agent.act(keys, state.params, agent.initial_carry(4), timestep)
            return state, following, metrics, action, vec.step(vstate, action)

        state, following, metrics, action, _ = jax.eval_shape(study, jax.random.key(0))
        shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), tree) for tree in (state, following)]
        assert shapes[0] == shapes[1]
        assert all(metric.shape == () for metric in metrics.values())
        assert action.shape == (4, *env.action_space().shape) and action.dtype == jnp.int32
        counts.append(sum(x.size for x in jax.tree.leaves(state.params)))
    assert counts[1] == 2 * counts[0]


VECTOR = Box(-1, 1, (3,))
REFUSED = [
    ("ppo", VECTOR, MultiDiscrete(((2, 2), (2, 2))), "discrete or continuous"),
    ("cloning", VECTOR, MultiDiscrete((2, 2)), "discrete actions"),
    ("r2d2", VECTOR, Box(-1, 1, (1,)), "discrete actions"),
    ("language-model", VECTOR, Discrete(3), "tokens"),
    ("language-model", Discrete(3), Discrete(4), "one number for each token"),
    ("ppo", VECTOR, Box(0, 3, (2,), jnp.int32), "discrete or continuous"),
    ("dqn", VECTOR, Box(-1, 1, (1,)), "discrete actions"),
    ("q-learning", VECTOR, Discrete(2), "discrete observations"),
    ("q-learning", Discrete(2), Box(-1, 1, (1,)), "discrete actions"),
    ("ucb1", VECTOR, Box(-1, 1, (1,)), "discrete actions"),
    ("td3", VECTOR, Discrete(2), "continuous"),
    ("ddpg", VECTOR, Box(-float("inf"), float("inf"), (1,)), "finite"),
    ("sac", VECTOR, Discrete(2), "continuous"),
]


@pytest.mark.parametrize(
    ("name", "observations", "actions", "word"),
    [case for case in REFUSED if case[0] in ALGORITHMS],
)
def test_refusals_say_why(name, observations, actions, word):
    reason = agents.get_algorithm(name).refusal(observations, actions, None)
    assert reason is not None and word in reason


def test_observations_that_no_mlp_reads_are_refused():
    class Odd(Space):
        pass

    for name in ("ppo", "dqn"):
        assert "MLP" in agents.get_algorithm(name).refusal(Odd(), Discrete(2), None)
        assert "MLP" in agents.get_algorithm(name).refusal(Dict.of(a=Odd()), Discrete(2), None)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'dqn'.*accepted: causal-model, .*ppo"):
        agents.get_algorithm("dqn2")


def test_greedy_agents_check_their_parameters():
    env, settings = gpicljax.make(LAKE), agents.ActorCriticSettings(sizes=(8,))
    algorithm = agents.get_algorithm("ppo")
    trainer = algorithm.make(algorithm.config(), gpicljax.VectorEnv(env, 4), settings)
    like = jax.eval_shape(lambda key: trainer.init(key, algorithm.hparams()), jax.random.key(0))
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), like.params)
    agent = greedy_agent("ppo", env, 4, algorithm.config(), settings, params)
    vec = gpicljax.VectorEnv(env, 4, resets="fresh")

    @jax.jit
    def first_action(params):
        timestep = vec.init(jax.random.key(0))[1]
        return agent.act(
            jax.random.split(jax.random.key(0), 4), params, agent.initial_carry(4), timestep
        )[:2]

    action, aux = first_action(params)
    assert np.array_equal(action, np.zeros(4)) and "value" in aux
    wider = dataclasses.replace(settings, sizes=(16,))
    with pytest.raises(
        ValueError, match=r"got \(8, 4\); accepted: \(16, 4\), what ppo on FrozenLake has"
    ):
        greedy_agent("ppo", env, 4, algorithm.config(), wider, params)
    scaled = dataclasses.replace(algorithm.config(), normalise_observations=True)
    with pytest.raises(ValueError, match="params.scale.*got 'nothing'"):
        greedy_agent("ppo", env, 4, scaled, settings, params)
    pendulum = gpicljax.make(PENDULUM)
    table = agents.get_algorithm("q-learning")
    with pytest.raises(ValueError, match="Pendulum.*accepted: discrete"):
        table.acting(pendulum, 4, table.config(), table.network())


def test_random_actions_are_uniform_over_what_is_legal():
    env = gpicljax.make("MetaRG-v1")
    vec = gpicljax.VectorEnv(env, 900, resets="fresh")
    timestep = jax.eval_shape(lambda: vec.init(jax.random.key(0))[1])
    timestep = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), timestep)
    mask = jnp.tile(jnp.array([[True, False, True]]), (900, 1))
    timestep = timestep._replace(observation=timestep.observation | {"action_mask": mask})
    keys = jax.random.split(jax.random.key(1), 900)
    action, _, _ = random_agent(env).act(keys, (), (), timestep)
    counts = np.bincount(action, minlength=3)
    # Four standard errors of a fair coin.
    assert counts[1] == 0 and abs(counts[0] - 450) < 4 * np.sqrt(900 / 4)


def test_the_catalogue_is_open():
    """A registered rule is an algorithm like all others, and may teach."""

    def build(config, env):
        def act(keys, params, carry, timestep):
            return timestep.privileged["best_arm"], {}, carry

        return Agent(lambda batch: (), act)

    oracle = agents.algorithm_from_agent("the-best-arm", build, privileged=True)
    try:
        assert agents.register_algorithm(oracle) is agents.register_algorithm(oracle)
        with pytest.raises(ValueError, match="algorithm: got 'ppo'; accepted: a name that is not"):
            agents.register_algorithm(dataclasses.replace(oracle, name="ppo"))
        assert agents.get_algorithm("the-best-arm") is oracle and not oracle.trains
        vec = gpicljax.VectorEnv(
            gpicljax.make("BernoulliBandit-v0"), 4, resets="fresh", privileged=True
        )
        cloning = agents.get_algorithm("cloning")
        config = agents.TeacherCloningConfig(unroll=3, teacher="the-best-arm")
        trainer = cloning.make(config, vec, cloning.network())
        like = jax.eval_shape(lambda key: trainer.init(key, cloning.hparams()), jax.random.key(0))
        jax.eval_shape(trainer.update, like)
    finally:
        del agents.CATALOGUE["the-best-arm"]
    # To act, a clone needs no teacher.
    assert cloning.acting(vec.env, 4, config, cloning.network()).agent is not None
    with pytest.raises(ValueError, match="teacher: got 'ppo'; accepted: .*nothing to train"):
        cloning.make(agents.TeacherCloningConfig(teacher="ppo"), vec, cloning.network())
    with pytest.raises(ValueError, match="vec: got 'no privileged views'"):
        cloning.make(config, dataclasses.replace(vec, privileged=False), cloning.network())


TRAINERS = [name for name in ALGORITHMS if agents.get_algorithm(name).trains]


@pytest.mark.parametrize(
    "name", daily(["recurrent-ppo", "td3", "q-learning", "cloning", "language-model"], TRAINERS)
)
def test_a_state_made_without_jit_can_be_donated(name):
    """No buffer is in it twice, and none belongs to the caller or the environments."""
    algorithm = agents.get_algorithm(name)
    env = gpicljax.make(FITS[name][-1])
    vec = gpicljax.VectorEnv(env, 4, resets="fresh", privileged=algorithm.privileged)
    trainer = algorithm.make(algorithm.to_act(algorithm.config()), vec, algorithm.network())
    key, hparams = jax.random.key(0), jax.tree.map(jnp.asarray, algorithm.hparams())
    state = trainer.init(key, hparams)
    jax.block_until_ready(jax.jit(lambda state: state, donate_argnums=0)(state))
    assert not any(x.is_deleted() for x in jax.tree.leaves((key, hparams, vec.params)))


PRECISE = {
    "ppo": {"normalise_observations": True, "normalise_rewards": True},
    "dqn": {"n_step": 2, "target": "polyak"},
    "r2d2": {"target": "polyak", "rescale": True},
    **dict.fromkeys(("td3", "ddpg", "sac"), {"n_step": 2, "normalise_observations": True}),
}
"""Options with which more is computed."""


@pytest.mark.parametrize("name", TRAINERS)
def test_double_precision_is_one_float_type_throughout(name):
    algorithm = agents.get_algorithm(name)
    with jax.enable_x64(True):
        env = gpicljax.make(FITS[name][0])
        vec = gpicljax.VectorEnv(env, 4, resets="fresh", privileged=algorithm.privileged)
        config = algorithm.to_act(algorithm.config(**PRECISE.get(name, {})))
        trainer = algorithm.make(config, vec, algorithm.network())
        prioritised = name in ("dqn", "r2d2")
        single = (".replay.priorities", ".replay.highest") if prioritised else ()
        assert_one_float_type(trainer, algorithm.hparams(), single)


# Algorithms of users: by module and name, and from installed packages -----------------------------


MODULE = """
from gpicljax import agents
from gpicljax.agents.acting import random_agent

entry = agents.algorithm_from_agent("drift", lambda config, env: random_agent(env))
agents.register_algorithm(entry)
"""


@pytest.fixture
def drift(tmp_path, monkeypatch):
    (tmp_path / "own_drift.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(algorithm, "CATALOGUE", dict(algorithm.CATALOGUE))
    yield tmp_path
    sys.modules.pop("own_drift", None)


def test_a_module_and_a_name(drift):
    with pytest.raises(ValueError, match="algorithm: got 'drift'"):
        agents.get_algorithm("drift")
    assert agents.get_algorithm("own_drift:drift").name == "drift"
    assert agents.get_algorithm("drift").name == "drift"
    with pytest.raises(ValueError, match="algorithm: got 'own_drift:drifting'|got 'drifting'"):
        agents.get_algorithm("own_drift:drifting")
    with pytest.raises(ValueError, match="no_such_module"):
        agents.get_algorithm("no_such_module:drift")


def test_an_installed_package_names_its_algorithms(drift, monkeypatch):
    monkeypatch.setattr(algorithm, "_entry_points", lambda: {"drift": "own_drift"})
    assert algorithm.is_known("drift") and not algorithm.is_known("own_drift:drift")
    assert agents.get_algorithm("drift").name == "drift"
