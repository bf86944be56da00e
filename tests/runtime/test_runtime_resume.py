"""Kills, stops and resumes whole processes."""

import json
import signal
import time

import numpy as np
import pytest
from resumed import assert_same, result, wait_for_lines
from variants import daily

from gpicljax.runs import read_metrics

PLACES = ["before-manifest:1", "before-manifest:3", "torn-line:5"]


@pytest.mark.parametrize("die", daily(["before-manifest:3"], PLACES))
def test_kill_at_a_given_place_then_resume(tmp_path, train, undisturbed_run, die):
    assert train(tmp_path, "--die", die)[0] == -signal.SIGKILL
    code, output = train(tmp_path, "--resume")
    assert code == 0, output
    if die == "before-manifest:3":
        assert "removed the unfinished checkpoint" in output
        assert "resuming after chunk 6 of 12" in output
    assert_same(result(tmp_path), undisturbed_run)


@pytest.mark.slow
def test_kill_9_from_outside_again_and_again(tmp_path, start, train, undisturbed_run):
    log = tmp_path / "tiny" / "quick" / "metrics.jsonl"
    generator = np.random.default_rng(0)
    flags = []
    for lines in (1, 7):
        process = start(tmp_path, "--pause", 0.05, *flags)
        wait_for_lines(log, lines, process)
        time.sleep(generator.uniform(0, 0.1))
        process.kill()
        process.communicate()
        flags = ["--resume"]
    code, output = train(tmp_path, "--resume")
    assert code == 0, output
    assert_same(result(tmp_path), undisturbed_run)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_a_signal_saves_and_stops_cleanly(tmp_path, start, train, undisturbed_run, number, code):
    process = start(tmp_path, "--pause", 0.2)
    wait_for_lines(tmp_path / "tiny" / "quick" / "metrics.jsonl", 2, process)
    process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == code, output
    assert f"stopped by {number.name}: saved after chunk" in output
    assert "Traceback" not in output
    lines = len(read_metrics(tmp_path / "tiny" / "quick" / "metrics.jsonl"))
    if number == signal.SIGTERM:
        code, output = train(tmp_path, "--resume")
        assert code == 0 and f"resuming after chunk {lines} of 12" in output
        assert_same(result(tmp_path), undisturbed_run)


@pytest.mark.slow
def test_truncated_checkpoint_falls_back_when_resuming(tmp_path, train, undisturbed_run):
    assert train(tmp_path, "--die", "after-save:3")[0] == -signal.SIGKILL
    newest = tmp_path / "tiny" / "quick" / "checkpoints" / "45"
    data = [file for file in newest.rglob("d/*") if file.is_file()]
    victim = max(data, key=lambda file: file.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-7])
    code, output = train(tmp_path, "--resume")
    assert code == 0, output
    assert f"damaged checkpoint {newest}: {victim} has" in output
    assert "going back to step 30" in output and "resuming after chunk 6 of 12" in output
    assert_same(result(tmp_path), undisturbed_run)


def test_a_second_process_and_other_flags_are_refused(tmp_path, start, train):
    process = start(tmp_path, "--pause", 3)
    wait_for_lines(tmp_path / "tiny" / "quick" / "metrics.jsonl", 1, process)
    code, output = train(tmp_path, "--resume")
    assert (
        code == 1 and "is in use by another process" in output and f"number {process.pid}" in output
    )
    process.kill()
    process.wait()  # the lock goes with its owner: from now on it is only an existing run
    code, output = train(tmp_path, "--resume", "--learning-rate", 0.5)
    assert code == 1 and "learning_rate: 0.01 -> 0.5" in output
    stored = json.loads((tmp_path / "tiny" / "quick" / "config.json").read_text())
    assert stored["learning_rate"] == 0.01
