"""Work in pieces: what is whole is not made anew, and what is damaged or foreign is refused."""

import dataclasses
import os
from typing import ClassVar

import pytest

from gpicljax.runs.pieces import complete_pieces
from gpicljax.runs.run_directory import RunError, open_run
from gpicljax.runtime import RunConfig


@dataclasses.dataclass(frozen=True)
class Growing(RunConfig):
    """More seeds extend its runs."""

    free: ClassVar[tuple[str, ...]] = ("seeds",)


PIECES = {"lives/0": 0, "lives/1": 1}


def live_pieces(folder, *, seeds=1, seed=0, make=lambda number: {"steps": [number, None]}):
    config = Growing(runs_dir=folder, seeds=seeds, seed=seed)
    with open_run("e", config) as run:
        return complete_pieces(run, PIECES, make, lambda number, content: content["steps"])


def refuse_to_make(number):
    raise AssertionError(f"piece {number} is made")


def test_pieces_that_are_whole_are_not_made_anew(tmp_path):
    assert live_pieces(tmp_path) == {"lives/0": [0, None], "lives/1": [1, None]}
    assert live_pieces(tmp_path, seeds=2, make=refuse_to_make) == live_pieces(tmp_path)
    (tmp_path / "e" / "quick" / "lives" / "1.json").unlink()
    assert live_pieces(tmp_path, make=lambda number: {"steps": number + 5})["lives/1"] == 6


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "{}", "is damaged"),
        (lambda text: "[]", "is damaged"),
        (lambda text: text[:40], "is damaged"),
        (lambda text: text.replace("null", "3"), "has changed"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "has format 2"),
        (lambda text: text.replace("lives/1", "lives/0"), "has changed"),
        ("another's place", "piece: got 'lives/0'; accepted: lives/1"),
        ("another run", "seed: 1 -> 0"),
        ("pipe", "not a regular file"),
    ],
)
def test_a_piece_that_is_damaged_or_foreign_is_refused_before_any_is_made(damage, words, tmp_path):
    live_pieces(tmp_path)
    folder = tmp_path / "e" / "quick" / "lives"
    if damage == "another run":
        live_pieces(tmp_path / "other", seed=1)
        folder.joinpath("1.json").write_text(
            (tmp_path / "other" / "e" / "quick" / "lives" / "1.json").read_text()
        )
    elif damage == "another's place":
        (folder / "0.json").rename(folder / "1.json")
    elif damage == "pipe":
        folder.joinpath("1.json").unlink()
        os.mkfifo(folder / "1.json")
    else:
        folder.joinpath("1.json").write_text(damage(folder.joinpath("1.json").read_text()))
    folder.joinpath("0.json").unlink(missing_ok=True)
    with pytest.raises((RunError, OSError), match=words) as refused:
        live_pieces(tmp_path, make=refuse_to_make)
    assert "1.json" in str(refused.value)
