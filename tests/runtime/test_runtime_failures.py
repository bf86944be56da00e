"""Failures of a run that are no bugs, and terminals that cannot show them."""

import io
import os
import subprocess
import sys

import pytest

from gpicljax.runs.progress import lenient_output
from gpicljax.runtime.failures import failures_reported


def test_ctrl_c_is_a_line_and_an_exit_code(capsys):
    with pytest.raises(SystemExit, match="130"), failures_reported():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "stopped by SIGINT: what has been saved is kept\n"


def test_output_that_cannot_be_shown_is_replaced(monkeypatch):
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    with lenient_output():
        print("0.5 ± 0.1")
        sys.stdout.flush()
    assert shown.getvalue() == b"0.5 ? 0.1\n"


def test_output_that_nothing_reads_is_forgotten(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        for closed in (stream, None):
            monkeypatch.setattr(sys, "stdout", closed)
            with lenient_output():
                print("lost")
                sys.stdout.flush()
            assert sys.stdout is closed


def test_a_backend_that_no_figure_could_be_drawn_with_is_refused_first(tmp_path, child_environment):
    done = subprocess.run(
        [sys.executable, "-m", "gpicljax", "run", "train_agent", "--runs-dir", str(tmp_path)],
        env=child_environment | {"MPLBACKEND": "nonsense"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and not [*tmp_path.iterdir()]
    assert "MPLBACKEND" in done.stderr and "'nonsense' is not a valid value" in done.stderr
    assert done.stderr.count("\n") == 1
