"""Saved agents come back as they were, and whatever is wrong with them is named."""

import dataclasses
import io
import json
import os
import pickle
import shutil
import sys
import tracemalloc
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from variants import ALGORITHMS, daily

import gpicljax
from gpicljax import agents, registration
from gpicljax.agents.acting import random_agent
from gpicljax.agents.algorithm import greedy_agent
from gpicljax.agents.language_agent import LanguageModelConfig
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.networks.experience import ExperienceSettings
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.rollout import play, rollout, start_rollout
from gpicljax.runs import (
    load_agent,
    load_language_model,
    save_agent,
    saved_agents,
    shipped_model,
    shipped_models,
)
from gpicljax.storage import array_folder
from gpicljax.storage.array_folder import SavedError
from gpicljax.wrappers.settings import TrialSettings

MAP = ("SFF", "FHF", "FFG")
CASES = {
    "ppo": ("FrozenLake-v1", {"description": MAP, "is_slippery": False}),
    "recurrent-ppo": ("Pendulum-v1", {}),
    "dqn": ("MountainCar-v0", {}),
    "td3": ("Pendulum-v1", {}),
    "ddpg": ("Pendulum-v1", {}),
    "sac": ("Pendulum-v1", {}),
    "r2d2": ("BernoulliBandit-v0", {"num_arms": 3}),
    "cloning": ("BernoulliBandit-v0", {"num_arms": 3}),
    "causal-model": ("MazeWorld-v0", {"size": 7, "view": "local"}),
    "language-model": ("MetaLanguage-v0", {"vocab_size": 5, "max_order": 3, "calibration": "none"}),
    "q-learning": ("CliffWalking-v1", {}),
    "ucb1": ("BernoulliBandit-v0", {"num_arms": 3}),
    "thompson": ("BernoulliBandit-v0", {}),
    "random": ("FrozenLake-v1", {}),
}


def settings(name, **env_overrides):
    """Arguments of `save_agent`; parameters are numbers that no initialiser draws."""
    env_id, options = CASES[name]
    algorithm, env = agents.get_algorithm(name), gpicljax.make(env_id, **options)
    config, network = algorithm.config(), algorithm.network()
    like = algorithm.acting(env, 4, config, network).params
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), like)
    return {
        "algorithm": name,
        "env_id": env_id,
        "env_options": options,
        "env_params": env.make_params(**env_overrides),
        "num_envs": 4,
        "config": config,
        "network": network,
        "params": params,
    }


@pytest.fixture
def saved_agent(tmp_path):
    folder = tmp_path / "deep" / "agent"
    arguments = settings("ppo", success_rate=0.8)
    save_agent(folder, **arguments, evaluation={"mean_return": np.float32(0.5)}, note="a note")
    return folder, arguments


@pytest.mark.parametrize("name", daily(["r2d2", "language-model", "td3"], ALGORITHMS))
def test_agents_of_every_kind_come_back(name, tmp_path):
    arguments = settings(name)
    save_agent(tmp_path, **arguments)
    loaded = load_agent(tmp_path)
    assert loaded.env == gpicljax.make(arguments["env_id"], **arguments["env_options"])
    for actual, expected in (
        (loaded.params, arguments["params"]),
        (loaded.env_params, arguments["env_params"]),
    ):
        assert jax.tree.structure(actual) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)
    original = greedy_agent(
        name, loaded.env, 4, arguments["config"], arguments["network"], arguments["params"]
    )
    act = first_actions(loaded.env, loaded.agent, original)
    actual, expected = act(loaded.params, arguments["params"])
    assert np.array_equal(actual, expected)


def first_actions(env, *agents):
    """Returns the first actions of agents, as one program."""

    @jax.jit
    def act(*params):
        timestep = gpicljax.VectorEnv(env, 4, resets="fresh").init(jax.random.key(0))[1]
        keys = jax.random.split(jax.random.key(1), 4)
        return [
            agent.act(keys, agent_params, agent.initial_carry(4), timestep)[0]
            for agent, agent_params in zip(agents, params, strict=True)
        ]

    return act


def test_settings_that_decide_how_it_acts_come_back(tmp_path):
    arguments = settings("recurrent-ppo", gravity=(9.0, 11.0))
    algorithm = agents.get_algorithm("recurrent-ppo")
    arguments["config"] = dataclasses.replace(
        arguments["config"], bounds="squash", normalise_observations=True
    )
    arguments["network"] = agents.RecurrentSettings("transformer", (4, 4), 1, 3, sizes=(8,))
    env = gpicljax.make("Pendulum-v1")
    like = algorithm.acting(env, 4, arguments["config"], arguments["network"]).params
    arguments["params"] = jax.tree.map(lambda x: np.full(x.shape, 0.3, x.dtype), like)
    save_agent(tmp_path, **arguments)
    loaded = load_agent(tmp_path)
    assert np.array_equal(loaded.env_params.gravity, np.float32([9, 11]))
    assert jax.tree.structure(loaded.params) == jax.tree.structure(like)
    core = loaded.agent.initial_carry(2).core
    cache = [(2, 2, 1, 3, 4)] * 2 + [(2,)]  # keys, values, length
    assert [x.shape for x in jax.tree.leaves(core)] == cache
    clipping = dataclasses.replace(arguments["config"], bounds="clip")
    other_agent = algorithm.acting(env, 4, clipping, arguments["network"]).agent
    act = first_actions(env, loaded.agent, other_agent)
    squashed, clipped = act(loaded.params, loaded.params)
    # Torques of up to 2, from the same means.
    np.testing.assert_allclose(squashed, 2 * np.tanh(np.asarray(clipped) / 2), rtol=1e-5)
    assert np.abs(clipped).max() < 2


def test_the_card_says_everything(saved_agent):
    folder, _ = saved_agent
    assert sorted(file.name for file in folder.iterdir()) == ["agent.json", "params.npz"]
    info = load_agent(folder).info
    assert info["algorithm"] == "ppo" and info["env"]["id"] == "FrozenLake-v1"
    assert info["env"]["options"] == {"description": list(MAP), "is_slippery": False}
    assert info["spaces"] == {"observation": "Discrete(n=9)", "action": "Discrete(n=4)"}
    assert info["evaluation"] == {"mean_return": 0.5} and info["note"] == "a note"
    assert info["parameters"] == 2 * (9 * 64 + 64 + 64 * 64 + 64) + 64 * 4 + 4 + 65


def test_it_can_be_used_in_a_like_environment_only(saved_agent):
    folder, _ = saved_agent
    slippery = gpicljax.make("FrozenLake-v1", description=MAP)
    loaded = load_agent(folder, slippery)
    assert loaded.env == slippery
    assert float(loaded.env_params.success_rate) == pytest.approx(1 / 3)
    same = load_agent(folder, gpicljax.make("FrozenLake-v1", description=MAP, is_slippery=False))
    assert float(same.env_params.success_rate) == pytest.approx(0.8)
    for other_id in ("FrozenLake-v1", "CliffWalking-v1", "Pendulum-v1"):
        with pytest.raises(SavedError, match="another environment") as error:
            load_agent(folder, gpicljax.make(other_id))
        assert "FrozenLake-v1" in str(error.value) and other_id.split("-")[0] in str(error.value)


def test_damage_is_reported_by_name(saved_agent):
    folder, _ = saved_agent
    arrays, card = folder / "params.npz", folder / "agent.json"
    content, text = arrays.read_bytes(), card.read_text()

    def fails(word):
        with pytest.raises(SavedError, match=word) as error:
            load_agent(folder)
        assert str(folder) in str(error.value)

    arrays.write_bytes(content[:-10])
    fails(r"params.npz has \d+ bytes instead of \d+")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    arrays.write_bytes(bytes(flipped))
    fails("params.npz has changed")
    arrays.unlink()
    fails("params.npz cannot be read")
    arrays.write_bytes(content)
    card.write_text(text[: len(text) // 2])
    fails("agent.json is damaged")
    card.write_text("[]")
    fails("agent.json is damaged")
    for change, word in (
        ({"format": 99}, "format 99"),
        ({"algorithm": "ppq"}, "did you mean 'ppo'"),
        ({"network": {"sizes": "many"}}, "sizes"),
        ({"network": {"sizes": [7]}}, "is needed"),
        ({"env": {"id": "FrozenLake-v9", "options": {}}}, "env_id: got 'FrozenLake-v9'"),
        ({"num_envs": 0}, "num_envs"),
        ({"env": {"id": "FrozenLake-v1", "options": {"description": MAP}}}, "its hash differs"),
    ):
        card.write_text(json.dumps(json.loads(text) | change))
        fails(word)
    card.unlink()
    fails("never finished")
    arrays.unlink()
    fails("holds no saved agent")
    card.write_text(text)
    arrays.write_bytes(content)
    load_agent(folder)


POND = """
import pathlib
import gpicljax
from gpicljax import agents, registration

pathlib.Path(__file__).with_suffix(".imported").touch()
gpicljax.register("Pond-v0", lambda: gpicljax.make("BernoulliBandit-v0", num_arms=3))
rule = agents.get_algorithm("random").make
agents.register_algorithm(agents.Algorithm("drifting", rule, lambda seen, done: None))
"""


@pytest.mark.parametrize("env_id", ["pond_module:Pond-v0", "Pond-v0"])
@pytest.mark.parametrize("algorithm", ["random", "drifting"])
def test_a_card_imports_nothing_unless_the_caller_names_it(
    env_id, algorithm, tmp_path, monkeypatch
):
    (tmp_path / "pond_module.py").write_text(POND)
    imported, folder = tmp_path / "pond_module.imported", tmp_path / "agent"
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(registration._FACTORIES), dict(agents.CATALOGUE)

    def forget():
        for registry, kept in zip((registration._FACTORIES, agents.CATALOGUE), before, strict=True):
            registry.clear()
            registry.update(kept)
        sys.modules.pop("pond_module", None)
        imported.unlink(missing_ok=True)

    try:
        env = gpicljax.make("pond_module:Pond-v0")
        save_agent(
            folder,
            algorithm=algorithm,
            env_id=env_id,
            env_options={},
            env_params=env.default_params,
            num_envs=1,
            config=agents.NoSettings(),
            network=agents.NoSettings(),
            params=(),
        )
        assert json.loads((folder / "agent.json").read_text())["modules"]["env"] == "pond_module"
        assert load_agent(folder).env == env
        forget()
        with pytest.raises(SavedError, match=r"env_id: got 'Pond-v0'.*modules=\('pond_module',\)"):
            load_agent(folder)
        assert not imported.exists() and "pond_module" not in sys.modules
        assert load_agent(folder, modules=("pond_module",)).env.num_arms == 3
        with pytest.raises(ValueError, match="modules: got 'no_module'"):
            load_agent(folder, modules=("no_module",))
    finally:
        forget()


def signed_again(folder, change):
    """Changes arrays and card of a saved agent, and makes checksum and hash fit."""
    card, arrays = array_folder.read_folder(folder, "agent.json", 2, "agent")
    arrays = dict(arrays)
    change(card, arrays)
    identity = {name: card[name] for name in saved_agents._IDENTITY}
    card["hash"] = saved_agents._hash(identity, arrays)
    del card["arrays"]
    array_folder.write_folder(folder, "agent.json", card, arrays)


def large(card, arrays):
    name = next(name for name in arrays if name.startswith("params/"))
    arrays[name] = np.zeros(2**24, np.float32)


def text(card, arrays):
    name = next(name for name in arrays if name.startswith("params/"))
    arrays[name] = np.full(arrays[name].shape, "text")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (large, r"has \[16777216\] at params/.* is needed"),
        (text, "has <U4 at params/.*; float32 is needed"),
        (
            lambda card, arrays: arrays.update({"params/x": np.zeros(1)}),
            "has params/x, which is not",
        ),
        (lambda card, arrays: arrays.update(x=np.zeros(2**24)), "has arrays of no agent: x"),
        (
            lambda card, arrays: arrays.update({"env_params/0002.horizon": np.int32(-1)}),
            "params that are not accepted: horizon: got -1",
        ),
        (
            lambda card, arrays: card.update(spaces={"observation": "a", "action": "b"}),
            "agent.json has changed: FrozenLake-v1 has observation Discrete",
        ),
        (lambda card, arrays: card.update(env=[]), "agent.json: "),
        (lambda card, arrays: card.update(num_envs=10**400), "agent.json: "),
        (lambda card, arrays: card["env"].update(options={"size": [[]] * 9}), "agent.json: size"),
    ],
)
def test_a_signed_folder_is_judged_by_what_it_says(change, words, saved_agent, tmp_path):
    folder = tmp_path / "agent"
    shutil.copytree(saved_agent[0], folder)
    signed_again(folder, change)
    tracemalloc.start()
    with pytest.raises(SavedError, match=words):
        load_agent(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


@pytest.mark.parametrize("kind", ["shape", "packed", "version", "not zip"])
def test_archives_that_numpy_would_choke_on_are_saved_errors(kind, tmp_path):
    stream = io.BytesIO()
    header = {
        "descr": "<f4",
        "fortran_order": False,
        "shape": (2**40,) if kind == "shape" else (3,),
    }
    np.lib.format.write_array_header_1_0(stream, header)
    content = stream.getvalue() + b"\0" * 12
    if kind == "version":
        content = content[:6] + b"\x09" + content[7:]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("w.npy", content)
    packed = bytearray(b"nothing" if kind == "not zip" else archive.getvalue())
    if kind == "packed":
        packed[-30 - 20] ^= 0xFF
        packed[60] ^= 0xFF
    with pytest.raises(SavedError, match=r"params\.npz (is damaged|cannot be read) at"):
        array_folder.Arrays(tmp_path / "params.npz", bytes(packed))["w"]


def test_pipes_in_a_folder_are_not_waited_for(saved_agent, tmp_path):
    for name in ("agent.json", "params.npz"):
        folder = tmp_path / name
        shutil.copytree(saved_agent[0], folder)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(SavedError, match=name):
            load_agent(folder)


def test_replacing_an_agent_leaves_one_or_the_other(saved_agent, monkeypatch):
    folder, arguments = saved_agent
    new = arguments | {"params": jax.tree.map(lambda x: x + 1, arguments["params"])}
    save_agent(folder, **new)
    first = jax.tree.leaves(load_agent(folder).params)[0]
    assert np.array_equal(first, jax.tree.leaves(new["params"])[0])
    write = array_folder.write_atomically

    def full_disk(path, content):
        if path.name == "agent.json":
            raise OSError("no space left on device")
        write(path, content)

    monkeypatch.setattr(array_folder, "write_atomically", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_agent(folder, **arguments)
    with pytest.raises(SavedError, match="never finished"):
        load_agent(folder)


def test_nothing_is_written_that_could_not_be_loaded(tmp_path):
    arguments = settings("ppo")
    wrong = jax.tree.map(lambda x: jnp.zeros((*x.shape, 2)), arguments["params"])
    with pytest.raises(ValueError, match="params"):
        save_agent(tmp_path, **arguments | {"params": wrong})
    with pytest.raises(ValueError, match="env_id: got 'FrozenLake-v9'"):
        save_agent(tmp_path, **arguments | {"env_id": "FrozenLake-v9"})
    with pytest.raises(ValueError, match="algorithm: got 'ppq'"):
        save_agent(tmp_path, **arguments | {"algorithm": "ppq"})
    with pytest.raises(TypeError, match="about|value|note"):
        save_agent(tmp_path, **arguments, note=object())
    assert not list(tmp_path.iterdir())


# Language models ----------------------------------------------------------------------------------

SMALL = LanguageModelSettings("transformer", layers=1, width=8, heads=2)


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """A folder, and the parameters in it."""
    folder = tmp_path_factory.mktemp("models") / "m"
    options = {"vocab_size": 5, "max_order": 3, "calibration": "none"}
    env = gpicljax.make("MetaLanguage-v0", **options)
    params = jax.jit(language_model(SMALL, 5).init)(jax.random.key(0), jnp.zeros(1, jnp.int32))
    save_agent(
        folder,
        algorithm="language-model",
        env_id="MetaLanguage-v0",
        env_options=options,
        env_params=env.default_params,
        num_envs=2,
        config=LanguageModelConfig(batch_size=2, length=16),
        network=SMALL,
        params=params,
    )
    return folder, params


@pytest.mark.slow
def test_a_model_that_is_loaded_predicts_the_same(saved_model):
    folder, params = saved_model
    model = load_language_model(folder, capacity=32)
    tokens = jnp.arange(12).reshape(6, 2) % 5
    before, _ = jax.jit(language_model(SMALL, 5).unroll)(params, None, tokens, None)
    unroll = jax.jit(model.network.unroll)
    np.testing.assert_array_equal(unroll(model.params, None, tokens, None)[0], before)
    assert model.settings == SMALL
    assert model.info["parameters"] == sum(x.size for x in jax.tree.leaves(params))
    assert model.network.initial_carry(3).capacity == 32
    assert load_language_model(folder).network.initial_carry(3).capacity == 16
    # As an agent it says the same: the log-probabilities of the next token.
    loaded = load_agent(folder)
    vec = gpicljax.VectorEnv(loaded.env, 2, resets="fresh")
    start = start_rollout(jax.random.key(0), vec, loaded.agent)
    _, (timestep, action, _) = rollout(vec, loaded.agent, loaded.params, start, 6)
    logits, _ = unroll(params, None, timestep.observation, timestep.trial_start)
    np.testing.assert_allclose(action, jax.nn.log_softmax(logits), atol=1e-5)


def test_a_model_of_symbols_acts_in_every_environment_with_a_code():
    folder = shipped_model("one_learner")
    for env in (gpicljax.make("DarkRoom-v0"), gpicljax.make("MetaRG-v1")):
        loaded = load_agent(folder, env)
        vec = gpicljax.VectorEnv(env, 2)
        start = jax.eval_shape(lambda key, v=vec, a=loaded.agent: start_rollout(key, v, a), KEY)
        played = jax.eval_shape(
            lambda start, v=vec, x=loaded: rollout(v, x.agent, x.params, start, 3), start
        )
        assert played[1][1].shape == (3, 2)
    with pytest.raises(SavedError, match="MountainCar has no symbols"):
        load_agent(folder, "MountainCar-v0")


def test_another_model_is_refused(saved_model, saved_agent):
    other_settings = LanguageModelSettings("transformer", layers=2, width=8, heads=2)
    with pytest.raises(SavedError, match="another size"):
        load_language_model(saved_model[0], settings=other_settings)
    with pytest.raises(SavedError, match="no language model: ppo"):
        load_language_model(saved_agent[0])


KEY = jax.random.key(0)
LANGUAGE_MODELS = {"meta_language_online": 10_639, "meta_language_tiny": 303_008}


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_shipped_models_learn_a_language_that_they_have_never_seen(name):
    agents = "byte_stream_quick", "dark_room_planning", "in_context_rl_mixture"
    others = "maze_world_small", "meta_rg_exact", "one_learner"
    assert shipped_models() == sorted([*agents, *others, *LANGUAGE_MODELS])
    folder = shipped_model(name)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2e6
    model = load_language_model(folder)
    assert model.info["parameters"] == LANGUAGE_MODELS[name]
    env = gpicljax.make("MetaLanguage-v0")
    params = env.make_params(min_order=3, max_order=3)
    keys = jax.random.split(jax.random.key(0), (2, 16))

    @jax.jit
    def nats(task_keys, keys):
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params)
        tokens = env.sample_sequences(keys, tasks, 512)[:, 0].T.astype(jnp.int32)
        logits, _ = model.network.unroll(model.params, None, tokens[:-1], None)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:]).mean(1)

    nats = np.asarray(nats(*keys))
    # The 16 languages are new. Without their context the best there is are log(32) = 3.47 nats.
    assert nats[448:].mean() < nats[12:20].mean() - 0.3
    assert nats[448:].mean() < 1.5


def test_the_shipped_model_of_mazes_knows_what_it_was_trained_on():
    folder = shipped_model("maze_world_small")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4e6
    model = load_agent(folder)
    assert model.env.size == 7 and model.env.resolution == (32, 32)
    assert model.info["parameters"] == 826_230
    assert float(model.params["autoencoder"].scale.min()) > 0 and model.params["window"] > 128


@pytest.mark.slow
def test_the_shipped_model_of_mazes_walks_to_where_it_is_sent():
    model = load_agent(shipped_model("maze_world_small"))

    def next_timestep(record):
        return record.next_timestep.reward > 0

    @jax.jit
    def arrivals(key):
        vec = single_trial_batch(model.env, 32, 100)

        def of(agent, params):
            start = start_rollout(key, vec, agent, model.env_params)
            return (
                play(vec, agent, params, start, max_steps=100, keep=next_timestep).records.sum()
                / 32
            )

        return of(model.agent, model.params), of(random_agent(model.env), None)

    walked, wandered = arrivals(jax.random.key(0))
    assert walked > 3 * wandered > 0


def test_an_unknown_shipped_model_suggests_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'meta_language_tiny'"):
        shipped_model("meta_langage_tiny")


def test_who_learns_within_whole_trials_acts_in_any_of_the_same_spaces(tmp_path, key):
    """Nothing is compiled but the choice of one action."""
    lake, cliff = gpicljax.make("FrozenLake-v1"), gpicljax.make("CliffWalking-v1")
    trials = TrialSettings(9, observations=48, choices=10)
    algorithm = agents.get_algorithm("cloning")
    config = algorithm.config(unroll=10, whole_trials=True, temperature=1e-3)
    tables = ExperienceSettings(code=(4, 3), embedding=4, sizes=(4,), readout=4)
    network = algorithm.network("tables", tables=tables)
    like = algorithm.acting(trials.wrap(lake), 4, config, network).params
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), like)
    arguments = settings("cloning") | {"config": config, "network": network, "params": params}
    arguments |= {"env_id": "FrozenLake-v1", "env_options": {}, "env_params": lake.default_params}
    save_agent(tmp_path, **arguments, trials=trials)
    loaded = load_agent(tmp_path)
    assert loaded.env == trials.wrap(lake) and loaded.env.horizon() == 9
    jax.tree.map(np.testing.assert_array_equal, loaded.params, params)
    assert loaded.agent.initial_carry(3).core.pairs.shape == (3, 48, 10, 3)
    elsewhere = load_agent(tmp_path, trials.wrap(cliff))
    assert elsewhere.env.name == "PaddedSpaces(Trial(CliffWalking))"
    with pytest.raises(SavedError, match="another environment"):
        load_agent(tmp_path, cliff)
    # Nothing was tried, all actions are alike: any temperature draws from those that exist.
    vec = gpicljax.VectorEnv(elsewhere.env, 8, resets="fresh")

    @jax.jit
    def first(key):
        start = start_rollout(key, vec, elsewhere.agent)
        keys = vec.choice_keys(start.vstate)
        return elsewhere.agent.act(keys, loaded.params, start.carry, start.timestep)[0]

    drawn = set(first(key).tolist())
    assert len(drawn) > 1 and drawn <= {0, 1, 2, 3}


def test_a_loaded_agent_can_be_pickled():
    loaded = load_agent(shipped_model("meta_language_tiny"))
    copied = pickle.loads(pickle.dumps(loaded))
    assert (copied.env, copied.info) == (loaded.env, loaded.info)
    jax.tree.map(np.testing.assert_array_equal, copied.params, loaded.params)
    vec = gpicljax.VectorEnv(loaded.env, 2, resets="fresh", params=loaded.env_params)

    def actions(agent):
        def some(key):
            start = start_rollout(key, vec, agent.agent)
            return rollout(vec, agent.agent, agent.params, start, 3, lambda record: record.action)[
                1
            ]

        return jax.jit(some)(jax.random.key(0))

    np.testing.assert_array_equal(actions(copied), actions(loaded))


def test_a_loaded_agent_is_shown_in_one_line():
    loaded = load_agent(shipped_model("meta_language_tiny"))
    assert repr(loaded).startswith("LoadedAgent(language-model, 303,008 parameters")
    assert len(repr(loaded).splitlines()) == 1 and len(repr(loaded)) < 300
