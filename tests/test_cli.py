"""The command `gpicljax`: its commands, and how it runs studies."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from gpicljax import cli
from gpicljax.registration import registered
from gpicljax.studies import registry


@pytest.fixture
def study(monkeypatch):
    """A study named `sample`; its calls are recorded."""
    calls = []
    program = types.ModuleType("sample_study.program")
    program.main = lambda argv=None: calls.append(argv)
    package = types.ModuleType("sample_study")
    monkeypatch.setitem(sys.modules, "sample_study", package)
    monkeypatch.setitem(sys.modules, "sample_study.program", program)
    monkeypatch.setitem(registry.STUDIES, "sample", "sample_study")
    return calls


def test_help_lists_the_commands(capsys):
    assert cli.main([]) == cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command}" in shown for command in cli.COMMANDS)


def test_run_without_a_study_lists_all_with_a_line_each(capsys):
    assert cli.main(["run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in registry.STUDIES:
        assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in lines)


def test_run_passes_the_flags_on(study):
    assert cli.main(["run", "sample", "--seeds", "6"]) == 0
    assert study == [["--seeds", "6"]]


def test_compile_is_a_dry_run_for_targets(study, capsys):
    assert cli.main(["compile", "sample", "--target", "h100", "--seeds", "6"]) == 0
    assert study == [["--dry-run", "--target", "h100", "--seeds", "6"]]
    assert cli.main(["compile"]) == 0 and "v5e:4x4" in capsys.readouterr().out
    assert cli.main(["compile", "sample", "--seeds", "6"]) == 2
    assert "--target: got none" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["runn"], ["run", "meta_rgg"], ["compile", "meta_rgg"], ["environments", "MazeWorld-v9"]],
)
def test_unknown_names_are_refused_with_the_nearest_one(arguments, capsys):
    assert cli.main(arguments) == 2
    assert "did you mean" in capsys.readouterr().err


def test_an_environment_is_one_argument(capsys):
    assert cli.main(["environments", "Pendulum-v1", "Acrobot-v1"]) == 2
    assert "accepted: one id" in capsys.readouterr().err


def test_play_and_serve_are_commands(capsys):
    for command in ("play", "serve", "runs"):
        with pytest.raises(SystemExit) as stop:
            cli.main([command, "--help"])
        assert stop.value.code == 0
        assert f"gpicljax {command}" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["environments FrozenLake-v1", "run", "--help", "runs list"])
def test_output_that_is_closed_or_full_is_no_traceback(arguments):
    for redirection, code in ((">&-", 0), ("> /dev/full", 1)):
        command = f"'{sys.executable}' -m gpicljax {arguments} {redirection}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        assert done.stderr.count("\n") == code


def test_environments_are_a_short_table_and_details_have_an_id(capsys):
    assert cli.main(["environments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60 and "meta rg" in lines
    assert sum(len(line.split("-v")) - 1 for line in lines) <= len(registered())
    for env_id in registered():
        assert any(line.startswith(f"  {env_id.rpartition('-')[0]}-v") for line in lines)
    assert cli.main(["environments", "CliffWalking-v1"]) == 0
    text = capsys.readouterr().out
    expected = ("Observations: Discrete(n=48)", "Actions: Discrete(n=4)", "Defaults: success_rate")
    assert all(word in text for word in (*expected, "is_slippery"))
    assert cli.main(["environments", "Pendulum-v2"]) == 2
    assert "did you mean 'Pendulum-v1'" in capsys.readouterr().err
