"""Numbers and paths as people type them."""

import dataclasses
from pathlib import Path

import pytest

from gpicljax.runs.arguments import program_name, read_arguments, user_path, whole_number
from gpicljax.runs.config import TrainingConfig, parse


@dataclasses.dataclass(frozen=True)
class Arguments:
    counts: tuple[int, ...] = (1,)
    out: Path | None = None
    name: str = "a"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("1e6", 10**6), ("1E6", 10**6), ("1_000_000", 10**6), ("1000000.0", 10**6)),
        *(("2.5e3", 2_500), ("-3", -3), ("+3", 3), ("12e0", 12)),
    ],
)
def test_whole_numbers(text, number):
    assert whole_number(text) == number
    arguments = ["--observations", text]
    if number > 0:
        assert parse({"quick": TrainingConfig()}, arguments).observations == number


@pytest.mark.parametrize("text", ["1,000", "1M", "0x10", "1.5", "1e-3", "", "nan", "1e999", "_1"])
def test_what_is_no_whole_number_is_refused_in_words(text, capsys):
    with pytest.raises(ValueError, match="accepted: a whole number, such as 1000000"):
        whole_number(text)
    with pytest.raises(SystemExit) as stop:
        parse({"quick": TrainingConfig()}, [f"--observations={text}"])
    assert stop.value.code == 2 and "a whole number" in capsys.readouterr().err


def test_a_home_folder_is_found_in_every_place():
    parsed = read_arguments(Arguments, args=["--counts", "1e2", "3", "--out=~/x", "--name", "~"])
    assert parsed == Arguments((100, 3), Path.home() / "x", "~")
    assert parse({"quick": TrainingConfig()}, ["--runs-dir=~/x"]).runs_dir == Path.home() / "x"
    with pytest.raises(ValueError, match="the name of a user"):
        user_path("~nobody-of-this-name/x")


@pytest.mark.parametrize(
    ("called", "name"),
    [("slippery.py", "python slippery.py"), ("/bin/gpicljax", "gpicljax run mazes")],
)
def test_help_says_how_a_study_was_called(called, name, monkeypatch):
    monkeypatch.setattr("sys.argv", [called])
    assert program_name("mazes") == name
