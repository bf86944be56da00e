"""The in-context RL experiment as a user runs it, at a toy size; and what it holds out."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import incontext_rl
from incontext_rl_settings import CUSTOM, Config, lake_number, named_lakes, tasks, updates

import gpicljax
from gpicljax.agents.acting import agent_input, initial_memory
from gpicljax.networks.experience import ExperienceSettings
from gpicljax.storage import SavedError

TINY = [
    "--actions=20",
    "--num-envs=8",
    "--observations=168",
    "--log-lines=1",
    "--replicas=64",
    "--network.code",
    "8",
    "4",
    "--network.embedding=8",
    "--network.sizes=8",
    "--network.readout=8",
    "--no-progress",
]


def run(folder, family, learner, *more):
    arguments = [*TINY, f"--runs-dir={folder}", "--family", family, "--learner", learner, *more]
    return incontext_rl.main(arguments)


@pytest.mark.slow
def test_the_table_has_everybody_on_the_same_tasks(tmp_path):
    outcome = run(tmp_path, "two-arms", "dpt")
    folder = tmp_path / "incontext_rl" / "quick-two-arms-dpt"
    for name in ("rolling", "cumulative", "episodes"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 5_000
    results = json.loads((folder / "summary.json").read_text())["results"]
    found = {name.removeprefix("two-arms: "): row for name, row in results.items()}
    assert found["random"]["score"] == 0 and found["oracle"]["score"] == 1
    assert found["oracle"]["regret"] == 0 and found["random"]["regret"] == pytest.approx(6, abs=0.6)
    for name in ("Thompson sampling", "UCB1, tuned (0.2)"):
        assert 0.2 < found[name]["score"] < 1
    assert abs(found["Q-learning, reference"]["score"]) < 0.3
    for condition in ("memory wiped", "rewards hidden", "another trial's context"):
        assert f"**dpt, {condition}**" in found
    # All are tested on the same arms.
    best = [np.asarray(tested.best) for tested in outcome.baselines[""].values()]
    assert all((each == best[0]).all() for each in best)
    text = incontext_rl.joint_table([outcome, outcome])
    assert text.count("| oracle |") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "family, learner",
    [
        ("lakes-anywhere", "rl2"),
        ("lakes", "ad"),
        ("ten-arms", "rl2-events"),
        ("ten-arms", "rl2-lstm"),
    ],
)
def test_every_learner_runs(family, learner, tmp_path):
    outcome = run(tmp_path, family, learner)
    assert np.isfinite(outcome.curve("return")).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lakes", "lakes-anywhere", "two-arms", "ten-arms"])
def test_agents_learn_within_unseen_tasks(family, tmp_path):
    """The quick preset, with fewer updates: minutes of a processor's time each."""
    arguments = ["--family", family, "--observations", str(updates(15)), "--log-lines=1"]
    incontext_rl.main([*arguments, f"--runs-dir={tmp_path}", "--no-progress"])
    summary = tmp_path / "incontext_rl" / f"quick-{family}-dpt" / "summary.json"
    results = json.loads(summary.read_text())["results"]
    found = {name.removeprefix(f"{family}: "): row for name, row in results.items()}
    trained, blind = found["**dpt**"], found["**dpt, rewards hidden**"]
    if family.endswith("arms"):
        assert trained["regret high"] < found["Thompson sampling"]["regret low"]
    if family == "lakes":
        assert trained["score"] > 0.75
        assert trained["low"] > found["Q-learning, tuned"]["high"]
    if family == "lakes-anywhere":
        assert blind["score"] < 0.05 and found["**dpt, memory wiped**"]["score"] < 0.05


def test_a_trained_agent_is_saved_and_loaded(tmp_path):
    sizes = ExperienceSettings(code=(4, 3), embedding=4, sizes=(4,), readout=4)
    config = Config(family="two-arms", actions=9, temperature=0.25, network=sizes)
    env, _ = tasks("two-arms", False).trials(9)
    network = incontext_rl._network(config, env)
    vec = gpicljax.VectorEnv(env, 2, resets="fresh")

    @jax.jit
    def begin(key):
        space, timestep = env.action_space(), vec.init(key)[1]
        return network.init(key, agent_input(space, initial_memory(network, space, 2), timestep))

    params = begin(jax.random.key(0))
    incontext_rl.save_trained(tmp_path, config, params=params, training={"seed": 0})
    agent, loaded, trials = incontext_rl.load_trained(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, loaded, params)
    assert trials.actions == 9 and agent.initial_carry(3).core.places.shape == (3, 1, 3)
    (tmp_path / "params.npz").write_bytes(b"damaged")
    with pytest.raises(SavedError, match="params.npz"):
        incontext_rl.load_trained(tmp_path)


def test_lakes_that_are_tested_on_are_never_trained_on(key):
    drawn = {}
    for held_out in (False, True):
        env = tasks("lakes", held_out).env
        keys = jax.random.split(key, 400)
        found = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, env.default_params)
        drawn[held_out] = {tuple(cells.ravel().tolist()) for cells in np.asarray(found.cells)}
        numbers = jax.vmap(lake_number)(found)
        assert ((numbers % 8 == 0) == held_out).all()
    assert len(drawn[False]) > 150 and not drawn[False] & drawn[True]
    for name, named in named_lakes().items():
        task = named.env.sample_task(key, named.env.default_params)
        assert lake_number(task) == 0, name
    assert named_lakes()["custom"].env.description == CUSTOM
