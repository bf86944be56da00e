"""Several processes of two devices each, on this machine, against one."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from resumed import assert_same, result

from gpicljax.runs import read_metrics
from gpicljax.runs.distributed import join_cluster
from gpicljax.runtime import RunConfig

HERE = Path(__file__).parent
# Warnings are errors, but for those that dependencies raise when they are imported.
STRICT = ("-W", "error", "-W", "ignore:jax.core.:DeprecationWarning")
TRAINING = HERE / "tiny_training.py"


def free_port():
    """A free port of those that JAX chooses from under SLURM."""
    for port in np.random.default_rng().permutation(np.arange(2**16 - 2**12, 2**16)):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("localhost", int(port)))
            return int(port)
    raise AssertionError("no free port")


def by_hand(port, processes, i):
    return {
        "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
        "JAX_NUM_PROCESSES": str(processes),
        "JAX_PROCESS_ID": str(i),
    }


def slurm(port, processes, i):
    """Returns `srun`'s variables of a task; JAX makes the port from the job's number."""
    return {
        "SLURM_JOB_ID": str(2**12 + port % 2**12),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": str(processes),
        "SLURM_PROCID": str(i),
        "SLURM_LOCALID": str(i),
    }


@pytest.fixture(scope="module")
def launch(child_environment):
    """Starts a script as one or two processes; what is left of them is killed in the end."""
    start_processes = []

    def launch(script, *arguments, processes=1, devices=1, cluster=by_hand):
        flags = ["--distributed"] if processes > 1 and script.name != "two_processes.py" else []
        port = free_port()
        new = []
        for i in range(processes):
            child_variables = {"JAX_NUM_CPU_DEVICES": str(devices)}
            child_variables |= cluster(port, processes, i) if processes > 1 else {}
            process = subprocess.Popen(
                [sys.executable, *STRICT, str(script), *map(str, arguments), *flags],
                env=child_environment | child_variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            new.append(process)
        start_processes.extend(new)
        return new

    yield launch
    for process in start_processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def finish(processes, timeout=90):
    """Exit codes and outputs."""
    outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    return [process.returncode for process in processes], outputs


@pytest.fixture(scope="module")
def train(launch):
    """Runs the tiny training of 3 seeds to its end; returns the final state and the log."""

    def train(folder, *arguments, **where):
        codes, outputs = finish(launch(TRAINING, folder, "--seeds", 3, *arguments, **where))
        assert set(codes) == {0}, outputs
        return result(folder), outputs

    return train


@pytest.fixture(scope="module")
def two_by_two(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_by_two")
    return folder, *train(folder, "--chunks", 4, processes=2, devices=2)


@pytest.fixture(scope="module")
def one_process(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return folder, *train(folder, "--chunks", 4)


@pytest.fixture(scope="module")
def undisturbed_run(train, tmp_path_factory):
    return train(tmp_path_factory.mktemp("undisturbed"), devices=3)[0]


@pytest.mark.slow
def test_agreement_refusals_and_checkpoints(launch, tmp_path):
    script = HERE / "two_processes.py"
    codes, outputs = finish(launch(script, tmp_path, processes=2, devices=2, cluster=slurm))
    assert codes == [0, 0] and all("all well" in output for output in outputs), outputs


def test_two_processes_train_like_one(two_by_two, one_process):
    """20 updates of 3 seeds on 2 x 2 devices and on 1: equal integers, floats within rounding."""
    _, (arrays, records), (loud, quiet) = two_by_two
    for name, actual in arrays.items():
        expected = one_process[1][0][name]
        if actual.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(actual, expected)
    for actual, expected in zip(records, one_process[1][1], strict=True):
        floats = {name: actual[name] for name in ("loss", "probe")}
        for name, values in floats.items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-5)
        assert actual == expected | floats
    assert "4/12" in loud and "4/12" not in quiet  # one of them shows what happens


@pytest.mark.slow
def test_resume_with_another_number_of_devices(
    two_by_two, one_process, train, undisturbed_run, tmp_path
):
    """The saved state comes back bit for bit; what follows is that of as many devices."""
    for name, source in (("a", two_by_two), ("b", two_by_two), ("c", one_process)):
        shutil.copytree(source[0], tmp_path / name)
    assert_same(train(tmp_path / "a", "--chunks", 4, "--resume")[0], two_by_two[1], 4)
    assert_same(train(tmp_path / "b", "--resume", devices=3)[0], undisturbed_run)
    layout = {"processes": 2, "devices": 2}
    state, outputs = train(tmp_path / "c", "--chunks", 4, "--resume", **layout)
    assert_same(state, one_process[1], 4)
    assert "resuming after chunk 4 of 4" in outputs[0] and "resuming" not in outputs[1]


def start_processes(launch, folder):
    """Two processes in the middle of their training."""
    processes = launch(
        TRAINING, folder, "--seeds", 3, "--pause", 0.1, "--chunks", 200, processes=2, devices=2
    )
    log = folder / "tiny" / "quick" / "metrics.jsonl"
    for _ in range(6000):
        if log.exists() and log.read_bytes().count(b"\n") >= 4:
            return processes
        assert all(process.poll() is None for process in processes), finish(processes)
        time.sleep(0.01)
    raise AssertionError("the run does not get going")


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_chunk(
    launch, train, undisturbed_run, tmp_path
):
    processes = start_processes(launch, tmp_path)
    processes[1].send_signal(signal.SIGTERM)
    codes, outputs = finish(processes)
    assert codes == [143, 143], outputs
    steps = len(read_metrics(tmp_path / "tiny" / "quick" / "metrics.jsonl"))
    assert f"stopped by SIGTERM: saved after chunk {steps}" in outputs[0]
    assert not any("Traceback" in output for output in outputs)
    if steps < 12:  # always, unless the machine is very slow
        state, outputs = train(tmp_path, "--resume", devices=3)
        assert f"resuming after chunk {steps} of 12" in outputs[0]
        assert_same(state, undisturbed_run)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_does_not_leave_the_others_waiting(
    launch, train, undisturbed_run, tmp_path, victim
):
    processes = start_processes(launch, tmp_path)
    processes[victim].kill()
    begun = time.monotonic()
    codes, outputs = finish(processes)
    assert time.monotonic() - begun < 30  # far less than JAX's timeouts of minutes
    assert codes[victim] == -signal.SIGKILL and codes[1 - victim] != 0, outputs
    if victim == 1:
        assert_same(train(tmp_path, "--resume", devices=3)[0], undisturbed_run)


def test_no_cluster(launch, tmp_path, monkeypatch, capsys):
    (code,), (output,) = finish(launch(TRAINING, tmp_path, "--distributed"))
    assert code == 2 and "--distributed" in output and "JAX_NUM_PROCESSES" in output, output
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("JAX_PROCESS_ID", "first")
    with pytest.raises(SystemExit) as stop:
        join_cluster(RunConfig(distributed=True))
    assert stop.value.code == 2 and "JAX_PROCESS_ID: got 'first'" in capsys.readouterr().err
    join_cluster(RunConfig())  # nobody asked
    assert "JAX_COORDINATOR_ADDRESS" not in os.environ


@pytest.mark.slow
def test_the_listener_experiment_in_two_processes(launch, tmp_path):
    """Training agrees within rounding; the games that the trained agents play are the same."""
    script = HERE.parents[1] / "experiments" / "meta_rg.py"
    flags = [
        "--seeds=2",
        "--observations=5120",
        "--log-lines=2",
        "--bank-size=64",
        "--probe-episodes=8",
        "--evaluation-episodes=32",
        "--network.heads=2",
        "--network.predictor=16",
        "--network.head=16",
        "--no-progress",
    ]
    finished = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        launched = launch(script, *flags, f"--runs-dir={folder}", processes=processes)
        codes, outputs = finish(launched, timeout=900)
        assert set(codes) == {0}, outputs
        run = folder / "meta_rg" / "quick-MetaRG-v1"
        summary = json.loads((run / "summary.json").read_text())
        assert summary["hardware"]["processes"] == processes
        assert len(list((run / "figures").glob("*.png"))) == 5
        finished.append((read_metrics(run / "metrics.jsonl"), summary["results"]["S = 1, O = 4"]))
    (first, results), (two, same_results) = finished
    assert len(first) == len(two) == 2
    for actual, expected in zip(two, first, strict=True):
        for name in actual.keys() - {"time"}:
            np.testing.assert_allclose(
                np.asarray(actual[name], float),
                np.asarray(expected[name], float),
                rtol=1e-5,
                atol=1e-6,
            )
    assert results == same_results
    assert "evaluating" in outputs[0] and "evaluating" not in outputs[1]
