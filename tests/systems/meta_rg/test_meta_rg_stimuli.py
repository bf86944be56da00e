"""Measures of disentangled stimuli, as a user asks for them, and refusals."""

import json

import pytest

from gpicljax.systems.meta_rg.studies.meta_rg_stimuli import program as meta_rg_stimuli


def test_measures_are_tabled(tmp_path):
    outcome = meta_rg_stimuli.main(
        ["--values=3", "--samples=2", "--rows=0", "--structures=2", f"--runs-dir={tmp_path}"]
    )
    results = json.loads((outcome.run.path / "summary.json").read_text())["results"]
    assert set(results) == {"scs, O = 2, all", "mhe, O = 1, all"}
    for measures in results.values():
        assert set(measures) == set(meta_rg_stimuli.MEASURES)
    assert min(results["scs, O = 2, all"]["FactorVAE score"]) == 1
    assert "| scs | 2 | all |" in (outcome.run.path / "summary.md").read_text()


def test_contradictions_are_refused(capsys):
    for flag, word in (
        ("--stimuli=pixels", "stimuli"),
        ("--rows=-1", "rows"),
        ("--values=1", "val"),
    ):
        with pytest.raises(SystemExit) as stop:
            meta_rg_stimuli.main([flag])
        assert stop.value.code == 2 and word in capsys.readouterr().err
