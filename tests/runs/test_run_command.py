"""The command `gpicljax`: its tables, its figure, and what it makes of damaged runs."""

import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from gpicljax.cli import main
from gpicljax.evaluation.aggregates import aggregate, interquartile_mean
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.runs.progress import Progress
from gpicljax.runs.run_directory import open_run, write_summary
from gpicljax.runs.stored_runs import UnknownRunError, by_method, find_runs, read_run
from gpicljax.runtime import RunConfig, make_mesh
from gpicljax.runtime.loop import run_chunks
from gpicljax.runtime.replicas import Replicas


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Learns at a rate."""

    seeds: int = 3
    rate: float = 1.0
    widths: tuple[int, ...] = (8, 8)


RATES = ((0.1, 11), (0.5, 7))  # of the runs below, with their last step


def train(runs_dir, name, rate, chunks, experiment="mazes", replicas=3, summary=True, **more):
    @jax.jit
    def chunk(state):
        reward = jnp.tanh(rate * state) + 0.1 * jnp.arange(replicas)
        broken = jnp.where(jnp.arange(replicas) == 1, jnp.nan, state)
        return state + 1, {"loss": 1 / (1 + state), "reward": reward, "net": {"norm": broken}}

    config = Config(runs_dir=runs_dir, name=name, rate=rate, **more)
    with open_run(experiment, config) as run:
        run_chunks(
            chunk,
            jnp.float32(0),
            num_chunks=chunks,
            run=run,
            checkpoint_every=5,
            progress=Progress(chunks, key_metric="reward"),
            observations_per_chunk=100 * replicas,
        )
        (run.figures / "learning.png").touch()
        if summary:
            write_summary(run, {"reward": 1.0}, "# Mazes\n\nAll is [well].")


@pytest.fixture(scope="module")
def training_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(folder, "slow", 0.1, 12)
    train(folder, "fast", 0.5, 8)
    train(folder, "other", 0.5, 6, experiment="bandits", replicas=4, summary=False)
    return folder


@pytest.fixture
def runs(training_runs, tmp_path):
    return shutil.copytree(training_runs, tmp_path / "runs")


@pytest.fixture
def ask(runs, capsys, monkeypatch):
    """Runs the command; returns its exit code, its output by line and its errors."""
    monkeypatch.chdir(runs.parent)

    def ask(*arguments):
        capsys.readouterr()
        code = main(["runs", *arguments])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return ask


def line(lines, start):
    (match,) = [line for line in lines if line.startswith(start)]
    return match


def test_list(ask, runs):
    code, lines, _ = ask("list")
    assert code == 0 and len(lines) == 4
    names = "run status chunks observed training metric date commit"
    assert lines[0].split() == names.split()
    fast = line(lines, "mazes/fast")
    reward = np.tanh(0.5 * 7) + 0.1
    for part in ("finished", "8/8", "2.4k", f"reward {reward:.4g}"):
        assert part in fast
    other_line = line(lines, "bandits/other")
    assert "no summary" in other_line and f"reward {np.tanh(2.5) + 0.15:.4g}" in other_line
    commit = json.loads((runs / "mazes" / "fast" / "run.json").read_text())["git"]
    assert commit is None or commit["commit"][:8] in fast


def test_status_of_runs_that_have_not_finished(ask, runs):
    for name in ("slow", "fast"):
        (runs / "mazes" / name / "summary.json").unlink()
        plan = json.loads((runs / "mazes" / name / "run.json").read_text())
        (runs / "mazes" / name / "run.json").write_text(json.dumps(plan | {"num_chunks": 99}))
    with open_run("mazes", Config(runs_dir=runs, name="slow", rate=0.1, resume=True)):
        _, lines, _ = ask("list")
    assert "running" in line(lines, "mazes/slow") and "12/99" in line(lines, "mazes/slow")
    assert "stopped" in line(lines, "mazes/fast")
    _, lines, _ = ask("list")
    assert "stopped" in line(lines, "mazes/slow")


def test_no_runs(ask):
    assert ask("list", "--runs-dir", "elsewhere") == (0, ["no runs in elsewhere"], "")
    code, _, error = ask("show", "x", "--runs-dir", "elsewhere")
    assert code == 2 and "there are none in elsewhere" in error


@pytest.mark.parametrize("name", ["mazes/slow", "slow", "runs/mazes/slow", "runs/mazes/slow/"])
def test_show(ask, runs, name):
    victim = next((runs / "mazes" / "slow" / "checkpoints" / "10").rglob("manifest.json"))
    victim.write_text("{}")
    (runs / "mazes" / "slow" / "checkpoints" / "99").mkdir()
    code, lines, _ = ask("show", name)
    text = "\n".join(lines)
    assert code == 0 and lines[0].startswith("mazes/slow  finished")
    assert line(lines, "rate").split() == ["rate", "0.1"]
    assert line(lines, "widths").split() == ["widths", "[8,", "8]"]
    seeds = np.tanh(np.float32(1.1)) + 0.1 * np.arange(3)
    half = mean_interval(seeds).high - mean_interval(seeds).mean
    reward = line(lines, "reward")
    assert f"{seeds.mean():.4g}" in reward and f"± {half:.2g} (3)" in reward
    assert all(f"{x:.4g}" in reward for x in seeds)
    assert "(2 of 3)" in line(lines, "net/norm")
    assert line(lines, "loss").split() == ["loss", f"{1 / 12:.4g}"]
    assert "manifest.json is unreadable" in line(lines, "10 ")
    assert "intact" in line(lines, "12 ") and "unfinished" in line(lines, "99 ")
    assert "learning.png" in line(lines, "figure: ") and "All is [well]." in text


def test_compare(ask, runs):
    code, lines, _ = ask("compare", "slow", "mazes/fast", "--out", "figures/c.png")
    assert code == 0
    assert line(lines, "rate").split() == ["rate", "0.1", "0.5"]
    assert not [line for line in lines if line.startswith(("seeds", "name", "widths"))]
    assert line(lines, "chunks").split() == ["chunks", "12/12", "8/8"]
    seeds = np.tanh(np.float32(3.5)) + 0.1 * np.arange(3)
    assert f"{seeds.mean():.4g} ± 0.25 (3)" in line(lines, "reward")
    assert line(lines, "figure: ") == "figure: figures/c.png"
    assert imread(runs.parent / "figures" / "c.png").std() > 0.01


def test_a_comparison_pools_runs_by_method_and_writes_values(ask, runs):
    code, lines, _ = ask("compare", "slow", "fast", "--by", "rate", "--csv", "tables/values.csv")
    assert code == 0
    seeds = {rate: np.tanh(np.float32(rate * t)) + 0.1 * np.arange(3) for rate, t in RATES}
    middle = {rate: aggregate(interquartile_mean, [x]) for rate, x in seeds.items()}
    shown = line(lines, "0.1").split()
    assert shown[:3] == ["0.1", "1", "3"] and float(shown[3]) == pytest.approx(middle[0.1][0], 1e-3)
    # Of nine pairs, the seeds of the fast learner win or lose by what they end at.
    share = np.mean(seeds[0.5][:, None] > seeds[0.1])
    assert f"{share:.0%}" in line(lines, "0.5")
    with (runs.parent / "tables" / "values.csv").open() as file:
        rows = list(csv.DictReader(file))
    # A loss, three rewards and three norms a chunk; the summary of each run has one result.
    assert len(rows) == (12 + 8) * (1 + 3 + 3) + 2
    last = [r for r in rows if (r["run"], r["chunk"], r["metric"]) == ("mazes/fast", "8", "reward")]
    np.testing.assert_allclose([float(r["value"]) for r in last], seeds[0.5], rtol=1e-6)
    assert [r["seed"] for r in last] == ["0", "1", "2"] and last[0]["observations"] == "2400"


def test_methods_without_all_tasks_are_refused(tmp_path):
    train(tmp_path, "a", 0.1, 2)
    train(tmp_path, "b", 0.5, 2)
    train(tmp_path, "c", 0.5, 2, widths=(4,))
    read = [read_run(tmp_path / "mazes" / name) for name in "abc"]
    assert [len(x) for x in by_method(read[1:], "widths", "reward").values()] == [1, 1]
    with pytest.raises(UnknownRunError, match="0.1 has none"):
        by_method(read, "rate", "reward")
    with pytest.raises(UnknownRunError, match="--by: got 'seeds'"):
        by_method(read, "seeds", "reward")


def test_what_a_comparison_draws(ask, monkeypatch):
    drawn = []

    def spy(steps, values, **labels):
        from gpicljax.viz.curves import learning_curves

        drawn.append((steps, values, labels))
        return learning_curves(steps, values, **labels)

    monkeypatch.setattr("gpicljax.runs.command.learning_curves", spy)
    assert ask("compare", "slow", "other")[0] == 0
    steps, values, labels = drawn[0]
    assert list(steps) == ["mazes/slow", "bandits/other"]
    # 300 observations a chunk for 3 seeds, 400 for 4: 100 each, either way.
    np.testing.assert_allclose(steps["mazes/slow"], 100 * np.arange(1, 13))
    np.testing.assert_allclose(steps["bandits/other"], 100 * np.arange(1, 7))
    assert values["mazes/slow"].shape == (3, 12) and values["bandits/other"].shape == (4, 6)
    np.testing.assert_allclose(
        values["bandits/other"][2], np.tanh(0.5 * np.arange(6)) + 0.2, rtol=1e-6
    )
    assert (labels["xlabel"], labels["ylabel"]) == ("observations per seed", "reward")
    assert ask("compare", "slow", "other", "--metric", "loss")[0] == 0
    steps, values, labels = drawn[1]
    assert labels["xlabel"] == "observations" and values["mazes/slow"].shape == (1, 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "mazes/fats"], "got 'mazes/fats' (did you mean 'mazes/fast'?); accepted: "),
        (["show", "fats"], "(did you mean 'fast'?)"),
        (["show", "zzz"], "accepted: other, fast, slow"),
        (["compare", "slow", "fsat"], "did you mean 'fast'?"),
        (["compare", "slow"], "accepted: two or more different runs"),
        (["compare", "slow", "mazes/slow"], "accepted: two or more different runs"),
        (
            ["compare", "slow", "fast", "--metric", "rewad"],
            "--metric: got 'rewad' (did you mean 'reward'?)",
        ),
        (["compare", "slow", "fast", "--out", "x.xyz"], "accepted: a path that ends in"),
    ],
)
def test_wrong_arguments_exit_with_2(ask, arguments, message):
    code, _, error = ask(*arguments)
    assert code == 2 and error.startswith("error: ") and message in error


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "config.json is unreadable"),
        ("config.json", "[1]", "config.json holds no JSON object"),
        ("config.json", None, "config.json is missing"),
        ("metrics.jsonl", '{"step": 1, "reward": 2}\n{"st', "ends in a torn line"),
        ("metrics.jsonl", '{"st\n{"step": 1}\n', "line 1 of 2 is damaged"),
        ("summary.json", "\x00", "summary.json is unreadable"),
        ("run.json", "nonsense", "run.json is unreadable"),
        ("metrics.jsonl", None, None),
        ("summary.json", None, None),
        ("run.json", None, None),
        ("run.json", '{"num_chunks": "many", "git": 3, "date": 1, "hardware": []}', None),
        ("metrics.jsonl", '{"step": 1, "time": 3, "reward": "x", "observations": []}\n', None),
        ("metrics.jsonl", '{"step": 1}\n{"step": 2, "reward": [[1, null], [3]]}\n', None),
        ("config.json", '{"seeds": "many", "rate": {}}', None),
    ],
)
def test_damaged_runs_are_shown_as_such(ask, runs, file, content, message):
    path = runs / "mazes" / "fast" / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    for arguments in (["list"], ["show", "fast"], ["compare", "fast", "slow"]):
        code, lines, _ = ask(*arguments)
        assert code == 0 and any("fast" in line for line in lines)
        damage = [line for line in lines if line.startswith("damaged: mazes/fast: ")]
        assert [message in line for line in damage] == ([True] if message else [])


def test_a_run_without_any_file_is_none(runs):
    (runs / "mazes" / "notes").mkdir()
    (runs / "mazes" / "README").touch()
    assert [path.name for path in find_runs(runs)] == ["other", "fast", "slow"]
    assert read_run(runs / "mazes" / "notes").status == "damaged"


def test_an_unknown_word_is_no_command():
    with pytest.raises(SystemExit) as caught:
        main(["runs", "lst"])
    assert caught.value.code == 2


def test_the_command_touches_no_device(runs, child_environment):
    done = subprocess.run(
        [sys.executable, "-m", "gpicljax", "runs", "compare", "slow", "fast"],
        env=child_environment | {"JAX_PLATFORMS": "no_such_platform"},
        cwd=runs.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (runs.parent / "comparison.png").exists()


@pytest.fixture
def sweep(runs):
    """A run of two cells with two seeds each, as `--sweep` makes it."""
    config = Config(runs_dir=runs, name="sweep")
    names = tuple(f"rate={rate}, seed {seed}" for rate in (0.1, 0.5) for seed in (0, 1))
    values = jnp.array([0.1, 0.2, 1.0, 1.2])
    with open_run("mazes", config) as run:
        run_chunks(
            lambda state: (state + 1, {"reward": values * state}),
            jnp.ones(4),
            num_chunks=2,
            run=run,
            replicas=Replicas(names, make_mesh(1)),
            key_metric="reward",
            observations_per_chunk=400,
        )
        write_summary(run, {"return": {"seeds": [3.0, 4.0], "mean": 3.5}}, "# A sweep")


def test_the_cells_of_a_sweep_are_runs_of_their_own(ask, sweep):
    _, lines, _ = ask("list")
    assert "reward 0.3" in line(lines, "mazes/sweep [rate=0.1]")
    assert "reward 2.2" in line(lines, "mazes/sweep [rate=0.5]")
    _, lines, _ = ask("show", "mazes/sweep")
    cells = [words.split()[:3] for words in lines if words.startswith("rate=")]
    assert cells == [["rate=0.1", "reward", "0.3"], ["rate=0.5", "reward", "2.2"]]
    code, lines, _ = ask("compare", "sweep", "--by", "cell.rate", "--csv", "values.csv")
    assert code == 0
    assert line(lines, "0.1").split()[1:4] == ["1", "2", "0.3"]
    assert line(lines, "0.5").split()[1:4] == ["1", "2", "2.2"]
    table = list(csv.DictReader(Path("values.csv").read_text().splitlines()))
    last = [row for row in table if row["chunk"] == "2"]
    assert [(row["cell"], row["seed"]) for row in last] == [
        ("rate=0.1", "0"), ("rate=0.1", "1"), ("rate=0.5", "0"), ("rate=0.5", "1"),
    ]  # fmt: skip
    assert {row["observations"] for row in last} == {"400"}
    final = [(row["metric"], row["seed"], row["value"]) for row in table if row["chunk"] == "final"]
    assert ("return/seeds", "1", "4.0") in final and ("return/mean", "", "3.5") in final


def test_what_by_refuses_loses_nothing_else(ask, sweep, runs):
    flags = ["--by", "nonsense", "--csv", "values.csv", "--out", "drawn.png"]
    code, _, error = ask("compare", "slow", "fast", *flags)
    assert code == 2 and "--by: got 'nonsense'" in error
    assert Path("values.csv").stat().st_size > 0 and Path("drawn.png").stat().st_size > 5_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_one_run_hides_no_other_and_commands_no_terminal(tmp_path, capsys):
    train(tmp_path, "good", 0.1, 2)
    for name in ("config", "deep", "pipe", "log"):
        (tmp_path / "mazes" / name).mkdir()
        (tmp_path / "mazes" / name / "config.json").write_text("{}")
    nested = "{" + '"a": {' * 900 + "}" * 901
    (tmp_path / "mazes" / "config" / "config.json").write_text("[" * 100_000)
    (tmp_path / "mazes" / "deep" / "metrics.jsonl").write_text(f'{{"step": 1, "x": {nested}}}\n')
    (tmp_path / "mazes" / "pipe" / "config.json").unlink()
    os.mkfifo(tmp_path / "mazes" / "pipe" / "config.json")
    (tmp_path / "mazes" / "log" / "summary.md").write_text("a \x1b]0;title\x07 b \x9b31m")
    assert main(["runs", "list", "--runs-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    for name in ("good", "config", "deep", "pipe", "log"):
        assert f"mazes/{name}" in output
    assert "nested too deeply" in output and "not a regular file" in output
    assert main(["runs", "show", "log", "--runs-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "title" in output and not {"\x1b", "\x07", "\x9b"} & set(output)
