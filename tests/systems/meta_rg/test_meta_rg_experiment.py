"""The listener experiment as a user runs it, at toy sizes; and what it refuses."""

import json
import re

import jax
import numpy as np
import pytest
from small_studies import small_flags

from gpicljax.evaluation.statistics import mean_interval
from gpicljax.runs import load_agent
from gpicljax.systems.meta_rg.measures.rules import RuleAccuracy
from gpicljax.systems.meta_rg.studies.meta_rg import program as meta_rg

EVENTS = "--preset=cpu-events"
TINY = small_flags("meta_rg", "--seeds=2 --log-lines=2 --checkpoint-every=1 --unseen-samples=3")

MEMORYLESS = RuleAccuracy(mean_interval([0.7]), mean_interval([0.6]))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meta_rg, "memoryless_accuracy", lambda *_: MEMORYLESS)
        results = meta_rg.main([*TINY, EVENTS, f"--runs-dir={folder}"])
    return folder, folder / "meta_rg" / "cpu-events-MetaRG-v1", results


def test_writes_everything(finished_run):
    _, run, results = finished_run
    for name in ("learning", "in_context_learning", "listeners", "stimuli", "messages"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    summary = json.loads((run / "summary.json").read_text())
    cell = summary["results"]["S = 1, O = 1"]
    assert set(meta_rg.CONDITIONS) <= set(cell)
    assert len(cell["greedy"]["query by game"]["seeds"]) == 2
    assert cell["rules"]["section oracle"]["query"] > 0.97
    learnt = cell["rules"]["memoryless classifier (learnt)"]
    assert (learnt["query"], learnt["support"], learnt["new"]) == (0.7, 0.6, None)
    assert {"greedy", "greedy, O = 3", "greedy, V = 6", "greedy, V = 6, O = 3"} <= set(cell)
    pairs = cell["minimal pairs"]["greedy"]
    assert pairs["values"] == [2, 3, 4, 5, 6] and np.shape(pairs["AUC"]) == (5, 2)
    # Of V = 6 there are none among the games of training, and no others among those of V = 6.
    areas = np.array(pairs["AUC"][:4], float)
    assert ((areas > 0) & (areas < 1)).all() and pairs["AUC"][4] == [None, None]
    assert cell["minimal pairs"]["greedy, V = 6"]["AUC"][4] != [None, None]
    text = (run / "summary.md").read_text()
    assert "**R2D2**, greedy, AUC" in text and "fixed tolerance" in text
    assert "62.2 ± 3.7" in text and "memory cleared every game" in text
    assert len(results.history) == 2


def test_the_page_tells_the_first_greedy_episode(finished_run):
    _, run, results = finished_run
    page = (run / "figures" / "episode.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    greedy = jax.tree.map(lambda x: x[0, 0], results.measured.games["greedy"])
    games = greedy.valid.sum()
    # Three steps a game but for the last one's feedback; the decision is the second.
    assert data["last"] == 3 * games - 1 and "round 0" in data["words"][0]
    assert set(data["actions"][1::3]) <= {"same", "different"}
    assert set(data["actions"][::3] + data["actions"][2::3]) == {"wait"}
    right = [value > 0 for value in data["reward"][1::3]]
    assert right == greedy.correct[greedy.valid].tolist()
    assert (
        f"{sum(greedy.correct & greedy.query)} of {sum(greedy.query & greedy.valid)}"
        == (data["readings"][-1][-1])
    )
    assert "same " in data["readings"][0][1] and len(data["attention"]) == len(data["games"])
    assert [game["right"] for game in data["games"]] == right
    assert all(len(game["expected"][0]) == 3 for game in data["games"])
    assert "an episode of seed 0" in (run / "summary.md").read_text()


def test_saved_listeners_load(finished_run):
    _, run, results = finished_run
    loaded = load_agent(run / "agents" / "seed_1")
    loaded_leaves, trained_leaves = (jax.tree.leaves(p) for p in (loaded.params, results.params))
    assert all(np.array_equal(a, b[1]) for a, b in zip(loaded_leaves, trained_leaves, strict=True))
    assert loaded.env == results.program.more and loaded.info["training"]["seed_index"] == 1
    assert loaded.info["evaluation"]["greedy"] == pytest.approx(
        json.loads((run / "summary.json").read_text())["results"]["S = 1, O = 1"]["greedy"][
            "query by game"
        ]["seeds"][1]
    )


def test_games_are_those_of_whole_episodes(finished_run):
    greedy = finished_run[2].measured.games["greedy"]
    assert greedy.valid.shape[:2] == (2, 32)
    games = greedy.valid.sum(-1)
    # Support games come first, without gaps, and every episode has both phases.
    assert np.array_equal(greedy.valid, np.arange(greedy.valid.shape[-1]) < games[..., None])
    assert ((greedy.query & greedy.valid).sum(-1) > 0).all()
    assert (np.diff(greedy.query.astype(int), axis=-1)[greedy.valid[..., 1:]] >= 0).all()


def test_refuses_to_resume_another_configuration(finished_run, capsys):
    with pytest.raises(SystemExit) as stop:
        meta_rg.main([*TINY, EVENTS, f"--runs-dir={finished_run[0]}", "--resume", "--vmax=4"])
    assert stop.value.code == 1
    assert "game.max_values" in capsys.readouterr().err


def test_paper_presets_have_the_paper_s_sizes():
    table3 = meta_rg.PRESETS["paper-table3"]
    assert len(table3.game.cells) == 9 and table3.seeds == 6
    agent = table3.agent
    assert (agent.num_envs, agent.unroll, agent.overlap, agent.burn_in) == (32, 20, 10, 10)
    assert (agent.n_step, agent.batch_size) == (3, 32)
    # 50,000 observations, and one update per step of all actors.
    assert agent.capacity * agent.period >= 50_000
    assert agent.updates_per_collect == agent.period


@pytest.mark.slow
def test_the_paper_s_grid_is_one_program(tmp_path, monkeypatch):
    monkeypatch.setattr(meta_rg, "memoryless_accuracy", lambda *_: MEMORYLESS)
    grid = ["--preset=paper-table3", "--seeds=2", "--agent.replay-capacity=640"]
    # The corners of the table, whose programs are those of the whole.
    grid += ["--shots", "1", "4", "--samples", "1", "16"]
    small = [f"--network.{part}=16" for part in ("encoder", "mixer", "core")]
    results = meta_rg.main([*TINY, *grid, *small, f"--runs-dir={tmp_path}"])
    assert len(results.program.cells) == 4
    assert results.measured.games["greedy"].valid.shape[0] == 8
    text = next(tmp_path.glob("meta_rg/*/summary.md")).read_text()
    assert "### Ours (greedy)" in text and "S = 4, O = 16" in text
    assert "messages re-permuted every game" in text and "random tokens" in text
