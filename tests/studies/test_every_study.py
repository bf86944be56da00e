"""Every study from its command line: presets, a dry run, a run, a kill, a resume, a refusal."""

import dataclasses
import importlib
import json
import shutil

import jax
import numpy as np
import pytest
from small_studies import SMALL, small_flags
from variants import daily

from gpicljax.llm.options import LanguageModelOptions
from gpicljax.studies.registry import STUDIES, run_study


def program_of(study):
    return importlib.import_module(f"{STUDIES[study]}.program")


@pytest.mark.parametrize("study", STUDIES)
def test_presets_are_sound(study):
    for preset, config in getattr(program_of(study), "PRESETS", {}).items():
        config = dataclasses.replace(config, preset=preset)
        if study == "in_context_rl_bias":  # its presets name no model to be asked
            options = LanguageModelOptions("http://127.0.0.1/v1", prompts=("raw",))
            config = dataclasses.replace(config, llm=options)
        config.validate()
        if study == "meta_rg_players":
            assert program_of(study).build(config).cells
        if study == "meta_rg" and not preset.startswith("paper"):
            assert config.observations % config.log_lines == 0


def records(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def results(run):
    content = json.loads((run / "summary.json").read_text())["results"]
    return {name: x for name, x in content.items() if not name.endswith("_per_s")}


@pytest.mark.parametrize("study", daily(["train_agent"], SMALL))
def test_a_study_runs_stops_and_goes_on(study, tmp_path, capsys):
    flags = small_flags(study, "--seeds=2 --log-lines=2 --checkpoint-every=1")
    flags += [f"--runs-dir={tmp_path / 'whole'}"]

    run_study(study, [*flags, "--dry-run"])
    assert "parameters" in capsys.readouterr().out and not list(tmp_path.iterdir())

    outcome = run_study(study, flags)
    run = outcome.run.path
    assert len(records(run)) == 2 and results(run)
    assert (run / "summary.md").read_text().startswith("# ")
    assert {path.suffix for path in (run / "figures").iterdir()} >= {".png"}
    saved = {path.relative_to(run) for path in (run / "agents").rglob("*.npz")}
    # Players of signalling games are no algorithm of the catalogue, and not saved.
    assert len(saved) == (0 if study == "meta_rg_players" else 2)

    for more, word in ([], "--resume"), (["--resume", "--seed=9"], "seed"):
        with pytest.raises(SystemExit, match="1"):
            run_study(study, [*flags, *more])
        assert word in capsys.readouterr().err

    # As if killed after the first of two checkpoints.
    killed = tmp_path / "killed" / run.parent.name / run.name
    shutil.copytree(run, killed)
    newest = max((killed / "checkpoints").iterdir(), key=lambda path: int(path.name))
    for folder in (newest, killed / "agents", killed / "figures"):
        shutil.rmtree(folder, ignore_errors=not saved)
    (killed / "summary.json").unlink()
    resumed = run_study(study, [*flags, f"--runs-dir={tmp_path / 'killed'}", "--resume"])
    assert records(killed) == records(run) and results(killed) == results(run)
    pairs = zip(jax.tree.leaves(resumed.params), jax.tree.leaves(outcome.params), strict=True)
    assert all(np.array_equal(first, second) for first, second in pairs)
    assert {path.relative_to(killed) for path in (killed / "agents").rglob("*.npz")} == saved
