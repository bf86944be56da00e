"""The in-context RL experiment as a user runs it, at a toy size; and what it holds out."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import incontext_rl
from incontext_rl_settings import CUSTOM, lake_number, named_lakes, tasks

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
