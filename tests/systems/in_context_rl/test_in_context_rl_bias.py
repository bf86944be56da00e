"""Echo and label bias: known biases are found as they are, and nothing where there is none."""

import json
import random
import re

import numpy as np
import pytest
from chat_server import serve_chat_model

from gpicljax.llm.chat import FakeModel
from gpicljax.systems.in_context_rl.studies.in_context_rl_bias import program as experiment

FORM, LIST = re.compile(r"\[SELECT: (\d+)\]\s*$"), re.compile(r"actions: ([\d, ]+)\.")


def run_study(tmp_path, answer, *flags):
    model = FakeModel(answer, name="biased")
    with serve_chat_model(model) as endpoint:
        arguments = [f"--runs-dir={tmp_path}", f"--llm.endpoint={endpoint}", "--llm.model=biased"]
        arguments += ["--tests", "ten-arms", "--llm.prompts", "raw", *flags]
        biases = experiment.main(arguments)
    return biases.get(("ten-arms", "raw")), model, arguments


def test_an_echo_a_label_and_a_place_are_told_apart(tmp_path):
    """A model that echoes in half of its answers, or likes an action, or the first of the list."""

    def half_echoes(messages, seed):
        example = FORM.search(messages[-1].content)
        if example and seed % 2:
            return f"[SELECT: {example[1]}]"
        return f"[SELECT: {random.Random(seed).randrange(10)}]"

    bias, *_ = run_study(tmp_path / "echo", half_echoes, "--repeats=20")
    assert bias.echo.low < 0.5 < bias.echo.high and bias.echo.low > 0.3
    assert bias.label < 1.3 * bias.label_chance and abs(bias.first.mean) < 0.1

    bias, *_ = run_study(tmp_path / "label", "[SELECT: 7]", "--repeats=2")
    assert (bias.echo.mean, bias.label, bias.label_plain) == pytest.approx((0, 0.9, 0.9))
    assert (bias.favourite, bias.favourite_share) == (7, 1.0) and bias.label_chance < 0.4

    def first(messages, seed):
        return f"[SELECT: {LIST.search(messages[0].content)[1].split(', ')[0]}]"

    bias, *_ = run_study(tmp_path / "first", first, "--repeats=2")
    assert (bias.echo.mean, bias.first.mean, bias.label) == pytest.approx((0, 1, 0.8))


def test_invalid_answers_count_and_replies_are_kept(tmp_path):
    bias, model, arguments = run_study(tmp_path, "[SELECT: 99]", "--repeats=2", "--name=kept")
    assert bias.invalid == 1 and np.isnan(bias.echo.mean) and np.isnan(bias.label)
    assert model.requests == 11 * 2 * 2
    summary = tmp_path / "in_context_rl_bias" / "kept" / "summary.md"
    assert "| ten-arms | raw |" in summary.read_text()
    json.loads(summary.with_suffix(".json").read_text())
    with serve_chat_model(model) as endpoint:
        offline_arguments = [x for x in arguments if "endpoint" not in x]
        experiment.main([*offline_arguments, f"--llm.endpoint={endpoint}"])
    assert model.requests == 11 * 2 * 2


def test_what_is_refused_and_what_a_run_costs(tmp_path, capsys):
    for flags, message in (
        (["--tests", "two-arms"], "llm.endpoint"),
        (["--tests", "two-arms", "--llm.prompts", "any", "--dry-run"], "llm.prompts"),
    ):
        with pytest.raises(SystemExit):
            experiment.main(flags)
        assert message in capsys.readouterr().err
    assert experiment.main(["--tests", "two-arms", "--llm.prompts", "raw", "--dry-run"]) == {}
    assert "24 requests" in capsys.readouterr().out
    bias, model, _ = run_study(tmp_path, "[SELECT: 1]", "--llm.max-queries=5", "--repeats=2")
    assert bias is None and model.requests == 5
    assert "the same command goes on" in capsys.readouterr().out
