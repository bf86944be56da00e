"""The two-player experiment as a user runs it, at toy sizes; and what it refuses."""

import json

import jax.numpy as jnp
import pytest
from small_studies import small_flags
from variants import daily

from gpicljax.systems.meta_rg.studies.meta_rg_players import program as meta_rg_players
from gpicljax.systems.meta_rg.studies.meta_rg_players import report as players_report

TINY = small_flags("meta_rg_players, any")
SEQUENCES = small_flags("meta_rg_players, sequences")
AGENTS = small_flags("meta_rg_players, agents")
METHODS = {
    "reinforce": SEQUENCES,
    "straight-through": SEQUENCES,
    "rule": SEQUENCES,
    "quantiser": SEQUENCES,
    "vdn": AGENTS,
    "vdn-sad": AGENTS,
    "independent": [*AGENTS, "--rounds=2", "--replies", "--network.event-when=round=3"],
}


@pytest.mark.parametrize("method", daily(["reinforce"], METHODS))
def test_every_way_to_learn_runs(method, tmp_path, monkeypatch):
    paged = method != "reinforce"
    if not paged:  # The page of an episode is a program of its own; the other methods write it.
        monkeypatch.setattr(meta_rg_players, "record_with_attention", lambda *_: jnp.zeros(()))
        monkeypatch.setattr(players_report, "replay", lambda *_: "no page")
    outcome = meta_rg_players.main(
        [*TINY, *METHODS[method], f"--method={method}", f"--runs-dir={tmp_path}"]
    )
    folder = outcome.run.path
    text = (folder / "summary.md").read_text()
    assert "messages re-permuted every game" in text and f"two players, {method}" in text
    assert ("not learnt: bins; 1-nearest neighbour" in text) == ("--replies" not in METHODS[method])
    results = json.loads((folder / "summary.json").read_text())["results"]
    learnt = results["S = 1, O = 1"]
    assert set(meta_rg_players.CONDITIONS) <= set(learnt)
    assert len(learnt["greedy"]["query"]) == 2
    compared = method in ("reinforce", "straight-through")
    assert ("S = 1, O = 1, frozen speaker" in results) == compared
    assert ("Welch" in text) == compared
    spoken = method != "rule"
    assert ("ease of acquisition" in learnt) == ("Ease of acquisition" in text) == spoken
    assert ("posdis, end" in learnt) == spoken == (folder / "figures" / "languages.png").exists()
    assert (folder / "figures" / "learning.png").stat().st_size > 5_000
    assert (folder / "figures" / "episode.html").exists() == paged
