"""The Recall experiment as a user runs it, at a toy size; and what it refuses."""

import json

import jax
import numpy as np
import pytest
from small_studies import small_flags

from gpicljax.runs import load_agent
from gpicljax.systems.meta_rg.studies.recall import program as recall

TINY = small_flags("recall", "--seeds=2 --log-lines=2")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return folder / "recall" / "quick-scs-lstm", recall.main([*TINY, f"--runs-dir={folder}"])


def test_writes_everything(finished_run):
    run, outcome = finished_run
    for name in ("learning", "first_shot"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    results = json.loads((run / "summary.json").read_text())["results"]
    assert set(recall.CONDITIONS) <= set(results)
    assert len(results["greedy"]["second shot"]) == 2
    # All has been seen: who ranks values, or is told their names, is never wrong.
    assert results["ranking oracle"]["second shot"] == results["1-NN oracle"]["second shot"] == 1
    random, single = (results[x]["second shot"] for x in ("random", "single stimulus"))
    assert abs(random - 1 / 3) < 0.1 and random + 0.2 < single < 0.99
    lines = (run / "summary.md").read_text().splitlines()
    assert sum(line.startswith("| **R2D2**") for line in lines) == 2 * len(recall.CONDITIONS)
    assert len(outcome.history) == 2 and "second_shot" in outcome.history[0]


def test_games_are_those_of_whole_episodes(finished_run):
    games = finished_run[1].measured["greedy"]
    assert games.answered.shape == (2, 32, 2 * 27)
    played = games.answered.sum(-1)
    assert np.array_equal(games.answered, np.arange(54) < played[..., None])
    # Both shots show the same stimuli.
    second = (games.answered & (games.shot == 1)).sum(-1)
    assert np.array_equal(2 * second, played) and played.min() >= 2 * 8


def test_saved_agents_load(finished_run):
    run, outcome = finished_run
    loaded = load_agent(run / "agents" / "seed_1")
    loaded_leaves, trained_leaves = (jax.tree.leaves(p) for p in (loaded.params, outcome.params))
    assert all(np.array_equal(a, b[1]) for a, b in zip(loaded_leaves, trained_leaves, strict=True))
    assert loaded.env == outcome.program.more
    results = json.loads((run / "summary.json").read_text())["results"]
    assert loaded.info["evaluation"]["greedy"] == results["greedy"]["second shot"][1]


def test_the_paper_preset_has_the_reference_s_sizes():
    paper = recall.PRESETS["paper-figure8"]
    agent = paper.agent
    assert paper.seeds == 10 and paper.network.memory == "dnc-unlinked"
    assert (agent.num_envs, agent.unroll, agent.burn_in) == (32, 40, 0)
    assert (agent.batch_size, agent.n_step) == (32, 3)


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["paper", "reference"])
def test_one_hot_stimuli_with_other_memories(rules, tmp_path):
    more = [f"--rules={rules}", "--stimulus=ohe", "--network.memory=dnc", "--network.slots=8"]
    outcome = recall.main([*TINY, *more, f"--runs-dir={tmp_path}"])
    assert "single stimulus" not in outcome.host_measured and outcome.sound.all()


@pytest.mark.slow
def test_one_hot_stimuli_are_recalled(tmp_path):
    quick = ["--stimulus=ohe", "--seeds=1", "--observations=320000", "--no-progress"]
    outcome = recall.main([*quick, f"--runs-dir={tmp_path}"])
    assert outcome.curve("second_shot")[0, -1] > 0.9
