"""The Meta-Language experiment as a user runs it, at toy sizes; and what it refuses."""

import dataclasses
import json
import re
import shutil
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.evaluation.icl import log_bins
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.runs import load_language_model
from gpicljax.systems.meta_language.data.faulty_text import WORDS
from gpicljax.systems.meta_language.measures import curves as curves_measure
from gpicljax.systems.meta_language.measures import demonstrations as demonstration_measure
from gpicljax.systems.meta_language.measures import nulls as measures
from gpicljax.systems.meta_language.measures.curves import read_curves
from gpicljax.systems.meta_language.studies.meta_language import program as meta_language
from gpicljax.systems.meta_language.studies.meta_language import report as meta_language_report
from gpicljax.systems.meta_language.studies.meta_language_compare import (
    program as meta_language_compare,
)

TINY = [
    "--model.layers=2",
    "--model.width=16",
    "--model.heads=2",
    "--context=32",
    "--agent.batch-size=4",
    "--observations=768",
    "--log-lines=3",
    "--checkpoint-every=1",
    "--evaluation-orders=2",
    "3",
    "--evaluation-context=288",
    "--evaluation-sequences=4",
    "--text-windows=3",
    "--demonstrations=2",
    "--no-progress",
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("It was a dark and stormy night; the rain fell. " * 40)
    return folder


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("runs")
    results = meta_language.main([*TINY, f"--runs-dir={folder}", f"--text-dir={texts}"])
    return folder, results


def test_writes_everything(quick_run):
    folder, results = quick_run
    run = folder / "meta_language" / "quick"
    for name in ("training", "by_order", "beside_counting", "text"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    summary = json.loads((run / "summary.json").read_text())["results"]
    assert {"n = 2", "n = 3", "parameters"} <= set(summary)
    text = (run / "summary.md").read_text()
    assert "adaptive n-gram" in text and "| natural text |" in text
    assert len(results.history) == 3 and results.parameters == summary["parameters"]
    model = load_language_model(run / "agents" / "seed_0")
    assert model.info["parameters"] == results.parameters and model.info["config"]["length"] == 32
    by_language = meta_language_report.curves_by_language(results)[0]
    curves = by_language["n = 3"]
    assert curves.model.shape == curves.floor.shape == (4, 288)
    # Whoever made the language predicts it best; counting comes nearer with time.
    assert curves.floor.mean() < curves.ngram[:, 200:].mean() < curves.unigram[:, 200:].mean()
    assert curves.floor.mean() < curves.model.mean()
    assert by_language["natural text"].model.shape == (3, 288)
    page = (run / "figures" / "episode.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["last"] == 288 and "of 288 tokens drawn" in data["words"][0]
    # Nobody predicts a language better than itself, in the end.
    assert sum(map(float, data["readings"][1][1:])) > sum(data["reward"])
    assert results.measured.continued["2 words after 48"].shape == (1, 2, 192)
    assert "2 words after 96" in results.measured.continued


def test_saved_models_are_measured_as_they_are(quick_run, tmp_path, capsys):
    folder, results = quick_run
    run = folder / "meta_language" / "quick"
    measured = [*TINY, "--no-train", f"--start-from={run}", f"--runs-dir={tmp_path}"]
    measured += ["--evaluation-orders=2", "2", "--demonstrations=0"]
    repeated = meta_language.main(measured)
    assert repeated.history == [] and not (tmp_path / "meta_language" / "quick" / "agents").exists()
    nats = [r.measured.languages["n = 2"].nats for r in (repeated, results)]
    np.testing.assert_array_equal(*nats)
    assert "per second" not in capsys.readouterr().out
    # Two saved seeds are two models on the same sequences.
    agents = tmp_path / "two" / "agents"
    for seed in ("seed_0", "seed_1"):
        shutil.copytree(run / "agents" / "seed_0", agents / seed)
    config = dataclasses.replace(meta_language.PRESETS["quick"], start_from=agents.parent)
    config = dataclasses.replace(config, model=LanguageModelSettings(layers=2, width=16, heads=2))
    assert list(meta_language.models_to_start_from(config, 288)) == ["seed_0", "seed_1"]


def test_differences_are_paired_and_widen_with_seeds():
    null = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])
    mean, low, high = curves_measure.difference([null + 0.5], null, slice(1, None))
    assert (mean, low, high) == (0.5, 0.5, 0.5)
    two = [null + 0.25, null + 0.75]
    mean, low, high = curves_measure.difference(two, null, slice(1, None))
    # Student's quantile for two seeds is 12.706, and their standard error 0.25.
    assert (mean, high - mean, mean - low) == pytest.approx((0.5, 3.1765, 3.1765), rel=1e-3)


def test_every_model_meets_the_same_nulls_which_others_have_chosen():
    tokens = np.random.default_rng(0).integers(4, size=(6, 33))
    model = np.zeros((6, 32))
    first, second = curves_measure.Curves.of_models([model, model + 1], tokens, 4)
    baselines = measures.nulls(tokens, 4)
    order = measures.chosen_elsewhere(baselines.ngrams, slice(30, 32))
    np.testing.assert_array_equal(first.ngram, baselines.ngrams[order, np.arange(6)])
    assert first.orders == sorted(set(order.tolist()))
    np.testing.assert_array_equal(first.mixture, baselines.mixture)
    assert second.mixture is first.mixture
    table = meta_language_report.differences([{"n": first}, {"n": second}], "n")
    assert table["mixture, end"][0] == pytest.approx(0.5 - baselines.mixture[:, 30:].mean())
    assert table["mixture, start"][0] == pytest.approx(0.5 - baselines.mixture[:, :4].mean())


def test_words_are_shown_often_enough_to_be_learnt():
    long, _ = demonstration_measure.demonstrations(16, 320, 32)[1::2]
    text = long.maps[0].decode(long.prompts[0])
    assert long.kind == "6 words" and long.prompts.shape[1] == 320
    counts = Counter(item for item in text.split(";")[:-1] if item in WORDS)
    assert len(counts) == 6 and sum(counts.values()) >= 30
    judged, orders = demonstration_measure.ngram_errors(long, 96, 32)
    assert judged.shape == (16, 2)
    assert demonstration_measure.wrong_share(judged).mean() < 20 and min(orders) >= 2


@pytest.mark.slow
def test_compares_runs(quick_run, tmp_path, capsys):
    runs = quick_run[0]
    options = ["--model.kind=linear", "--tasks=3", "--name=other", "--demonstrations=0"]
    results = meta_language.main([*TINY, *options, f"--runs-dir={runs}"])
    assert {"seen languages", "unseen languages"} <= set(results.measured.languages)
    text = meta_language_compare.main(["quick", "other", f"--runs-dir={runs}", f"--out={tmp_path}"])
    end = results.measured.languages["n = 3"].nats[0]
    row = next(line for line in text.splitlines() if line.startswith("| other"))
    assert f"{results.parameters:,}" in row
    last = end[:, log_bins(end.shape[1])[-1] :].mean()
    assert f" {last:.3f} " in row
    for file in ("n_2.png", "n_3.png", "training.png", "table.md"):
        assert (tmp_path / file).stat().st_size > 100
    # The sequences are the same, so that one floor serves both runs.
    kept = [read_curves(runs / "meta_language" / n) for n in ("quick", "other")]
    assert meta_language_compare.floors_agree(kept, "n = 3")
    assert not meta_language_compare.floors_agree([kept[0], {"n = 3": kept[1]["n = 2"]}], "n = 3")
    for arguments, word in (["quick"], "two or more"), (["quick", "nobody"], "nobody"):
        with pytest.raises(SystemExit):
            meta_language_compare.main([*arguments, f"--runs-dir={runs}"])
        assert word in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "lstm"])
def test_other_models_and_finite_tasks(kind, tmp_path, capsys):
    results = meta_language.main(
        [
            *TINY,
            f"--runs-dir={tmp_path}",
            f"--model.kind={kind}",
            "--tasks=3",
            "--seeds=2",
            "--demonstrations=0",
        ]
    )
    assert {"seen languages", "unseen languages"} <= set(results.measured.languages)
    assert results.measured.languages["seen languages"].nats.shape[0] == 2
    assert "288 tokens of context, trained on 32" in capsys.readouterr().out


def test_a_number_of_tasks_is_a_number_of_languages():
    """A warm-up on other orders would draw further languages from the same keys."""
    sizes = {"model": LanguageModelSettings(layers=1, width=16, heads=2), "context": 8}
    for tasks, warm in (10, False), (0, True):
        config = dataclasses.replace(meta_language.PRESETS["quick"], tasks=tasks, **sizes)
        program = meta_language.build(config)
        state = program.init(jax.random.key(0), ())
        following = program.between(dataclasses.replace(state, updates=jnp.int32(10**6))).data
        assert (int(state.data.max_order), int(following.max_order)) == (3 if warm else 4, 4)


def test_only_the_standard_size_is_warmed_up_in_the_paper():
    shares = {n: c.warmup_share for n, c in meta_language.PRESETS.items() if n.startswith("paper")}
    assert shares == {"paper-tiny": 0, "paper-small": 0, "paper-standard": 0.1}


@pytest.mark.slow
def test_dry_run_of_the_paper(tmp_path, capsys):
    small = ["--model.layers=1", "--model.width=16", "--model.heads=2", "--context=64"]
    meta_language.main(
        ["--preset=paper-small", *small, "--dry-run", f"--runs-dir={tmp_path}", "--seeds=1"]
    )
    output = capsys.readouterr().out
    assert (
        "projected training" in output and "parameters" in output and not list(tmp_path.iterdir())
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--orders", "0", "3"], "orders"),
        (["--orders", "4", "3"], "orders"),
        (["--evaluation-orders", "2", "9"], "evaluation-orders"),
        (["--context", "0"], "context"),
        (["--slot-weights", "heavy"], "slot-weights"),
        (["--calibration", "maybe"], "calibration"),
        (["--model.width", "15"], "width: got 15"),
        (["--warmup-share", "1"], "warmup-share"),
        (["--text-dir", "nowhere"], "text-dir"),
        (["--text-windows", "1"], "text-windows"),
        (["--agent.batch-size", "0"], "batch_size"),
        (["--no-train"], "train"),
        (["--start-from", "nowhere"], "start-from"),
        (["--demonstrations", "1"], "demonstrations"),
    ],
)
def test_refuses_bad_flags(arguments, word, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        meta_language.main([*TINY, f"--runs-dir={tmp_path}", *arguments])
    assert stop.value.code == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "no text in it"),
        (b"caf\xe9", "not UTF-8"),
        (b"too short", "too few"),
        (None, "no *.txt"),
    ],
)
def test_refuses_bad_texts_before_training(content, word, tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    if content is not None:
        (folder / "a.txt").write_bytes(content)
    with pytest.raises(SystemExit) as stop:
        meta_language.main([*TINY, f"--runs-dir={tmp_path / 'runs'}", f"--text-dir={folder}"])
    assert stop.value.code == 2
    assert word in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
