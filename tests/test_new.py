"""`gpicljax new` writes files that run as they are, or none."""

import subprocess
import sys

import pytest

import gpicljax
from gpicljax import cli, new, registration
from gpicljax.agents import algorithm
from gpicljax.play.game import PlaySession


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty current folder; its modules and what they register are gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    monkeypatch.setattr(algorithm, "CATALOGUE", dict(algorithm.CATALOGUE))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run_tests(file):
    return pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={file.parent}", str(file)])


def test_an_environment_passes_its_test_and_is_played(folder, capsys):
    assert cli.main(["new", "environment", "my_maze"]) == 0
    assert "gpicljax play my_maze:MyMaze-v0\n" in capsys.readouterr().out
    assert run_tests(folder / "test_my_maze.py") == 0
    game = PlaySession(gpicljax.make("my_maze:MyMaze-v0"))
    game.press("1")
    assert len(game.recording.rewards) == 1 and game.words().startswith("step 1 of 10")


def test_a_network_passes_its_test_and_has_a_name(folder, capsys):
    assert cli.main(["new", "network", "GRUMemory"]) == 0
    assert "--algo gru_memory:gru-memory\n" in capsys.readouterr().out
    assert run_tests(folder / "test_gru_memory.py") == 0
    assert "gru-memory" in algorithm.CATALOGUE


def test_a_study_passes_its_test(folder, capsys):
    assert cli.main(["new", "study", "thaw"]) == 0
    assert "python thaw.py --preset quick\n" in capsys.readouterr().out
    assert run_tests(folder / "test_thaw.py") == 0


@pytest.mark.slow
def test_a_study_runs_as_a_script(folder):
    assert cli.main(["new", "study", "thaw"]) == 0
    subprocess.run([sys.executable, "thaw.py", "--preset", "quick"], cwd=folder, check=True)
    assert "success rate 0.5" in (folder / "runs" / "thaw" / "quick" / "summary.md").read_text()


@pytest.mark.parametrize(
    ("name", "module", "camel"),
    [
        ("my_maze", "my_maze", "MyMaze"),
        ("MyMaze", "my_maze", "MyMaze"),
        ("myMaze", "my_maze", "MyMaze"),
        ("RGBMaze2", "rgb_maze2", "RGBMaze2"),
        ("hidden_prize_2", "hidden_prize_2", "HiddenPrize2"),
    ],
)
def test_a_name_is_written_in_every_spelling(name, module, camel, folder):
    assert new.main(["environment", name]) == 0
    assert {path.name for path in folder.iterdir()} == {f"{module}.py", f"test_{module}.py"}
    assert f'gpicljax.register("{camel}-v0", {camel})' in (folder / f"{module}.py").read_text()
    assert f"from {module} import {camel}\n" in (folder / f"test_{module}.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("maze my_maze", "kind: got 'maze'; accepted: study, environment, network"),
        ("study", "arguments: got ['study']; accepted: gpicljax new"),
        ("environment my-maze", "NAME: got 'my-maze'; accepted: a name of letters"),
        ("environment 2mazes", "NAME: got '2mazes'; accepted: a name of letters"),
        ("environment ../maze", "NAME: got '../maze'; accepted: a name of letters"),
        ("study lambda", "no keyword"),
        ("environment none", "no keyword"),
        ("study Random", "no other module"),
        ("network flax", "no other module"),
        ("environment MazeWorld", "no study, algorithm or environment"),
        ("network recurrent_ppo", "no study, algorithm or environment"),
        ("study meta_rg", "no study, algorithm or environment"),
        ("environment params", "do not use for something else"),
        ("environment there_already", "no test_there_already.py yet"),
    ],
)
def test_names_that_are_taken_are_refused(arguments, words, folder, capsys):
    (folder / "test_there_already.py").write_text("mine")
    assert cli.main(["new", *arguments.split()]) == 2
    assert words in capsys.readouterr().err
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_all_files_are_written_or_none(folder):
    (folder / "b.py").write_text("mine")
    with pytest.raises(ValueError, match="NAME: got 'b.py'; accepted: a file that is not there"):
        new.write_new_files({"a.py": "", "b.py": ""})
    with pytest.raises(OSError, match=r"c\.py"):
        new.write_new_files({"a.py": "", "missing/c.py": ""})
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]
