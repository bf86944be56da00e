"""The driver: seeds on devices that do not divide them, seeds that break, keys, dry runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_training

from gpicljax import cli
from gpicljax.runs import read_metrics
from gpicljax.runtime import named_key, run_experiment
from gpicljax.runtime.dry_run import TooLargeError, free_bytes, within_memory

CHUNK = 5 * tiny_training.EACH


@pytest.fixture(scope="module")
def on_devices(child_environment):
    """Runs the tiny training on so many devices."""

    def run(folder, devices, *arguments):
        script = Path(__file__).with_name("tiny_training.py")
        subprocess.run(
            [sys.executable, str(script), str(folder), "--seeds=3", *arguments],
            env=child_environment | {"JAX_NUM_CPU_DEVICES": str(devices)},
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        return result(folder)

    return run


def result(folder):
    run = folder / "tiny" / "quick"
    with np.load(run / "final.npz") as file:
        arrays = [file[name] for name in file.files]
    return arrays, read_metrics(run / "metrics.jsonl")


@pytest.fixture(scope="module")
def three_on_two(on_devices, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return folder, on_devices(folder, 2, "--chunks=6")


def test_padding_is_in_no_count_and_no_record(three_on_two):
    folder, (arrays, records) = three_on_two
    assert {len(array) for array in arrays} == {3}
    assert [r["observations"] for r in records] == [3 * CHUNK * (i + 1) for i in range(6)]
    for record in records:
        assert len(record["loss"]) == len(record["probe"]) == 3
    for record in records[1:]:
        time = record["time"]
        if "compile_s" not in time:
            assert time["observations_per_s"] * time["chunk_s"] == pytest.approx(3 * CHUNK)
    summary = json.loads((folder / "tiny" / "quick" / "summary.json").read_text())
    assert len(summary["results"]["once"]) == 3
    assert np.shape(summary["results"]["twice"]["error"]) == (3, 2)
    manifest = next((folder / "tiny" / "quick" / "checkpoints" / "30").glob("*.json")).read_text()
    assert {leaf["shape"][0] for leaf in json.loads(manifest)["leaves"]} == {3}


@pytest.mark.slow
def test_a_run_goes_on_with_any_number_of_devices(three_on_two, on_devices, tmp_path):
    """The saved state comes back bit for bit; what follows agrees within rounding."""
    folder, (arrays, _) = three_on_two
    finished = []
    for devices in (1, 3, 4):
        subprocess.run(["cp", "-r", folder, tmp_path / str(devices)], check=True)
        if devices == 1:
            tiny_training.main([str(tmp_path / "1"), "--seeds=3", "--resume", "--chunks=6"])
            same = result(tmp_path / "1")[0]
            assert all(a.tobytes() == b.tobytes() for a, b in zip(same, arrays, strict=True))
            tiny_training.main([str(tmp_path / "1"), "--seeds=3", "--resume"])
            finished.append(result(tmp_path / "1"))
        else:
            finished.append(on_devices(tmp_path / str(devices), devices, "--resume"))
    for rest in finished[1:]:
        for actual, expected in zip(rest[0], finished[0][0], strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert [r["observations"] for r in rest[1]] == [3 * CHUNK * i for i in range(1, 13)]
        for actual, expected in zip(rest[1], finished[0][1], strict=True):
            np.testing.assert_allclose(actual["probe"], expected["probe"], rtol=1e-4)


def test_what_does_not_train_compiles_no_update(tmp_path, capsys):
    def build(config):
        return tiny_training.build(config)._replace(observations=0)

    presets = {"quick": tiny_training.Config(seeds=1)}
    run_experiment("tiny", presets, build, tiny_training.report, [f"--runs-dir={tmp_path}"])
    printed = capsys.readouterr().out
    assert "evaluating" in printed and "an update takes" not in printed


def test_a_seed_that_breaks_is_named_everywhere(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path), "--seeds=2", "--break-seed=1"])
    assert stop.value.code == 3
    captured = capsys.readouterr()
    warning = "Loss or parameters are not finite: seed 1 (from chunk 3 on)."
    assert captured.out.count(f"warning: {warning}") == 1 and captured.err == f"error: {warning}\n"
    lines = re.findall(r"^\d+/12 .*$", captured.out, flags=re.M)
    assert ["NOT FINITE: SEED 1" in line for line in lines] == [False] * 2 + [True] * 10
    run = tmp_path / "tiny" / "quick"
    records = read_metrics(run / "metrics.jsonl")
    assert [r.get("not_finite") for r in records] == [None] * 2 + [["seed 1"]] * 10
    summary = json.loads((run / "summary.json").read_text())
    assert summary["not_finite"] == {"seed 1": 3} and summary["results"]["once"][1] is None
    assert summary["results"]["once"][0] > 0
    assert (run / "summary.md").read_text().startswith(f"**{warning}**")
    assert cli.main(["runs", "show", "quick", f"--runs-dir={tmp_path}"]) == 0
    assert "not finite: tiny/quick: seed 1 from chunk 3 on" in capsys.readouterr().out
    # It is known after a resume, too.
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path), "--seeds=2", "--break-seed=1", "--resume"])
    assert stop.value.code == 3


def test_training_ends_when_no_seed_is_left(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path), "--seeds=1", "--break-seed=0"])
    assert stop.value.code == 3 and "stopped: Loss" in capsys.readouterr().out
    assert len(read_metrics(tmp_path / "tiny" / "quick" / "metrics.jsonl")) == 3


def test_seeds_have_the_same_keys_in_all_cells(tmp_path):
    outcome = tiny_training.main([str(tmp_path), "--seeds=2", "--cells", "1", "1", "3"])
    assert outcome.curve("loss").shape == (6, 12) and outcome.parameters == 40
    for metric in ("loss", "probe"):
        first, same, third = outcome.curve(metric).reshape(3, 2, 12)
        assert np.array_equal(first, same) and (first != third).all()
        assert (first[0] != first[1]).all()
    assert outcome.steps.tolist() == [CHUNK * i for i in range(1, 13)]
    errors = outcome.measured["once"]["error"]
    whose, error = outcome._replace(sound=np.arange(6) > 2).first_sound(errors)
    assert whose == "cell 1, seed 1" and error == errors[3]


def test_cells_that_go_together_are_cells_as_others_and_go_on(tmp_path):
    flags = ["--seeds=2", "--cells", "1", "2", "3"]
    apart = tiny_training.main([str(tmp_path / "apart"), *flags])
    flags += ["--together"]
    tiny_training.main([str(tmp_path / "together"), *flags, "--chunks=6"])
    together = tiny_training.main([str(tmp_path / "together"), *flags, "--resume"])
    for metric in ("loss", "probe"):
        np.testing.assert_allclose(together.curve(metric), apart.curve(metric), rtol=1e-4)
    for actual, expected in zip(
        *map(jax.tree.leaves, (together.params, apart.params)), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
    names = [f"cell {i}, seed {j}" for i in range(3) for j in range(2)]
    assert together.first_sound(np.arange(6))[0] == names[0] and len(together.sound) == 6


def test_streams_are_what_they_are_called():
    assert named_key(7, "train") == jax.random.fold_in(jax.random.key(7), np.uint32(0x5C66E4A3))
    keys = {np.asarray(jax.random.key_data(named_key(s, n))).tobytes()
            for s in (0, 7) for n in ("train", "evaluate", "probe")}  # fmt: skip
    assert len(keys) == 6


def test_a_dry_run_leaves_no_trace(tmp_path, capsys):
    assert tiny_training.main([str(tmp_path), "--seeds=2", "--dry-run"]) is None
    output = capsys.readouterr().out
    assert "parameters per agent: 40" in output and "projected training" in output
    assert "compiling one update" in output
    assert not os.listdir(tmp_path)


def test_what_does_not_fit_in_memory_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path)])
    words = "the start of the training needs 0.00 GiB of the 0.00 GiB free"
    assert stop.value.code == 1 and f"error: {words}" in capsys.readouterr().err
    tiny_training.main([str(tmp_path), "--dry-run"])  # says so, and is no failure
    output = capsys.readouterr().out
    assert f"not taken: {words}" in output and "projected training" not in output


def test_a_function_that_does_not_fit_is_refused_before_its_call(monkeypatch):
    traced = []

    @jax.jit
    def double(x, scale):
        traced.append(x.shape)
        return scale * x

    fitting = within_memory(double, "doubling")
    for size in (3, 3, 4):
        assert fitting(np.ones(size), np.float32(3)).tolist() == [3.0] * size
    assert traced == [(3,), (4,)]
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    assert fitting(np.ones(3), np.float32(3)).tolist() == [3.0] * 3
    with pytest.raises(TooLargeError, match="doubling needs 0.00 GiB of the 0.00 GiB free"):
        fitting(np.ones(5), np.float32(3))
    assert free_bytes(np.ones(1)) > 0


def test_a_container_s_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("gpicljax.runtime.dry_run.CONTROL_GROUP", tmp_path)
    whole = free_bytes(jnp.zeros(1)) * len(jax.devices("cpu"))
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert free_bytes(jnp.zeros(1)) == 2_000_000 < whole
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(jnp.zeros(1)) > 2_000_000
