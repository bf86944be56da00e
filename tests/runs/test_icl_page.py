"""The command `gpicljax profile`."""

import json
from pathlib import Path

import numpy as np
import pytest

from gpicljax.cli import main
from gpicljax.evaluation import icl_record


def write_records(folder, *systems):
    rng = np.random.default_rng(0)
    records = [
        icl_record(
            {
                "agent": 1 - 0.5 * 0.8 ** np.arange(30) + rng.normal(0, 0.01, (3, 10, 30)),
                "oracle": np.ones((10, 30)),
                "memory wiped": np.full((10, 30), 0.5),
            },
            {"always the same": np.full((10, 30), 0.6)},
            system=system,
            task="easy",
            agent="LSTM",
            measure="accuracy",
            context="games",
            oracle="told",
        ).to_json()
        for system in systems
    ]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "icl.json").write_text(json.dumps(records))


def test_all_runs_make_one_table_and_one_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "runs" / "games" / "quick", "Games")
    write_records(tmp_path / "runs" / "mazes" / "quick", "Mazes", "Games")
    (tmp_path / "runs" / "mazes" / "other").mkdir()  # has none
    assert main(["profile", "--out", "page"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    systems = [row.split(" | ")[0] for row in rows]
    assert systems == ["| system", "| Games", "| Games", "| Mazes"]
    for content in (
        "**0.99** [0.99, 1.00]",
        "**0.79** [0.79, 0.79]",
        "always the same: 0.6",
        "-0.2 |",
    ):
        assert content in rows[1]
    assert (tmp_path / "page" / "in_context_learning.png").stat().st_size > 10_000
    # The files that it wrote give the same again, and so does a part of the runs.
    assert main(["profile", "page/in_context_learning.json"]) == 0
    assert (
        capsys.readouterr().out == (tmp_path / "page" / "in_context_learning.md").read_text() + "\n"
    )
    assert main(["profile", "mazes/quick"]) == 0
    assert "Mazes" in capsys.readouterr().out


def test_the_committed_page_is_what_its_records_say(capsys):
    page = Path(__file__).parents[2] / "experiments" / "results" / "in_context_learning.md"
    assert main(["profile", str(page.with_suffix(".json"))]) == 0
    table, explained = capsys.readouterr().out.strip().split("\n\n")
    assert table in page.read_text() and explained in page.read_text()


def test_names_from_files_stay_in_their_cells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "runs" / "games" / "quick", "Games\x1b[2J | more\n| lines")
    assert main(["profile"]) == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if "easy" in line]
    assert "\x1b" not in out and row.count(" | ") == 13 and row.startswith("| Games")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 10_000, '[{"system": "x"}]', "\x00"])
def test_files_that_hold_anything_are_refused_in_a_line(tmp_path, monkeypatch, capsys, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.json").write_text(text)
    assert main(["profile", "some.json"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("text", ["[{", '[{"system": "x"}]', "[]x", '{"a": 1}'])
def test_a_damaged_record_hides_no_other(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "runs" / "games" / "sound", "Games")
    write_records(tmp_path / "runs" / "games" / "bad", "Bad")
    (tmp_path / "runs" / "games" / "bad" / "icl.json").write_text(text)
    assert main(["profile"]) == 0
    captured = capsys.readouterr()
    assert "| Games" in captured.out and captured.err.startswith("damaged: games/bad: icl.json (")
    assert captured.err.count("\n") == 1
    assert main(["profile", "games/bad", "games/sound"]) == 1


def test_runs_without_records_are_refused_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["profile"]) == 2
    assert "finished runs that record" in capsys.readouterr().err
    assert main(["profile", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err
    (tmp_path / "runs" / "games" / "quick").mkdir(parents=True)
    (tmp_path / "runs" / "games" / "quick" / "config.json").write_text("{}")
    assert main(["profile", "games/quick"]) == 1
