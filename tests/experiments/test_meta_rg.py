"""The listener experiment as a user runs it, at toy sizes; and what it refuses."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import meta_rg

TINY = [
    "--seeds=2",
    "--observations=10240",
    "--collections-per-chunk=4",
    "--checkpoint-every=1",
    "--bank-size=64",
    "--probe-episodes=8",
    "--evaluation-episodes=32",
    "--no-progress",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    results = meta_rg.main([*TINY, f"--runs-dir={folder}"])
    return folder, folder / "meta_rg" / "quick-MetaRG-v0", results


def test_writes_everything(finished):
    _, run, results = finished
    for name in ("learning", "in_context_learning", "listeners", "stimuli", "messages"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    summary = json.loads((run / "summary.json").read_text())
    cell = summary["results"]["S = 1, O = 1"]
    assert set(meta_rg.CONDITIONS) <= set(cell)
    assert len(cell["greedy"]["query by game"]["seeds"]) == 2
    assert cell["rules"]["section oracle"][0] > 0.97
    assert 0.6 < cell["rules"]["memoryless classifier (learnt)"][0] < 0.8
    text = (run / "summary.md").read_text()
    assert "62.2 ± 3.7" in text and "messages re-permuted every game" in text
    assert len(results.history) == 2


def test_games_are_those_of_whole_episodes(finished):
    greedy = finished[2].greedy
    games = greedy.valid.sum(-1)
    # Support games come first, without gaps, and every episode has both phases.
    assert np.array_equal(greedy.valid, np.arange(greedy.valid.shape[-1]) < games[..., None])
    assert ((greedy.query & greedy.valid).sum(-1) > 0).all()
    assert (np.diff(greedy.query.astype(int), axis=-1)[greedy.valid[..., 1:]] >= 0).all()


def test_refuses_an_existing_run(finished, capsys):
    with pytest.raises(SystemExit) as stop:
        meta_rg.main([*TINY, f"--runs-dir={finished[0]}"])
    assert stop.value.code == 1
    assert "--resume" in capsys.readouterr().err


def test_refuses_to_resume_another_configuration(finished, capsys):
    with pytest.raises(SystemExit) as stop:
        meta_rg.main([*TINY, f"--runs-dir={finished[0]}", "--resume", "--vmax=4"])
    assert stop.value.code == 1
    assert "vmax" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seeds", "0"], "seeds"),
        (["--preset", "quik"], "quick"),
        (["--vmin", "4", "--vmax", "3"], "min_values"),
        (["--vmax", "7"], "vocab_size"),
        (["--shots", "0"], "shots"),
        (["--distractors", "9"], "num_distractors"),
        (["--agent.unroll", "0"], "unroll"),
        (["--auxiliary", "none"], "compare"),
        (["--env-id", "MetaRG-v9"], "env_id"),
    ],
)
def test_refuses_bad_arguments_before_compiling(arguments, word, capsys, tmp_path):
    with pytest.raises((SystemExit, ValueError)) as stop:
        meta_rg.main([*arguments, f"--runs-dir={tmp_path}"])
    told = capsys.readouterr().err + str(stop.value)
    assert word in told.replace("-", "_")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("preset", meta_rg.PRESETS)
def test_presets_are_consistent(preset):
    config = dataclasses.replace(meta_rg.PRESETS[preset], preset=preset)
    config.validate()
    assert config.num_chunks >= 1


def test_paper_presets_have_the_paper_s_sizes():
    table3 = meta_rg.PRESETS["paper-table3"]
    assert len(table3.cells) == 9 and table3.seeds == 6
    agent = table3.agent
    assert (agent.num_envs, agent.unroll, agent.overlap, agent.burn_in) == (32, 20, 10, 10)
    assert (agent.n_step, agent.batch_size) == (3, 32)
    # 50,000 observations, and one update per step of all actors.
    assert agent.capacity * agent.period >= 50_000
    assert agent.updates_per_collect == agent.period
