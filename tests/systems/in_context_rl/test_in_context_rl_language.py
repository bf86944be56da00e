"""A language model behind an endpoint as a row of the table of in-context RL."""

import jax
import numpy as np
import pytest
from chat_server import serve_chat_model
from variants import daily

from gpicljax.interface import Agent
from gpicljax.llm.chat import FakeModel
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.runtime import named_key
from gpicljax.systems.in_context_rl.env import TESTS
from gpicljax.systems.in_context_rl.figures.trials import results_markdown
from gpicljax.systems.in_context_rl.measures import playing
from gpicljax.systems.in_context_rl.measures.results import agent_results
from gpicljax.systems.in_context_rl.prompts import language_rows
from gpicljax.systems.in_context_rl.studies.in_context_rl import program

pytest.importorskip("httpx")

ACTIONS = 6
LAKES = {"lakes": TESTS["lakes"]}


def test_a_language_model_plays_the_tasks_that_the_others_play(tmp_path):
    def down(keys, params, carry, timestep):
        return jax.numpy.ones(len(keys), int), {}, carry

    env, params = TESTS["lakes"].trials(ACTIONS)
    agent, key = Agent(lambda batch: (), down), named_key(0, "tasks")
    agent_trials = jax.jit(lambda: playing.play_test_trials(key, env, params, 8, agent, ()))()
    model = FakeModel("[SELECT: 1]", name="down")
    with serve_chat_model(model) as endpoint:
        options = LanguageModelOptions(endpoint, model="down", prompts=("raw", "summary"))
        ledger = options.ledger()

        def rows(ledger):
            best = {"lakes": agent_trials.best}
            return [
                *language_rows.language_rows(options, ledger, tmp_path, LAKES, best, ACTIONS, 3, 0)
            ]

        contenders = rows(ledger)
        assert [(agent.label, note) for _, agent, note in contenders] == [
            ("**down (raw)**", ""),
            ("**down (summary)**", ""),
        ]
        assert model.requests == ledger.spent.requests == 2 * 3 * ACTIONS
        for _, agent, _ in contenders:
            tested = agent.seeds[0]
            for name in ("actions", "rewards", "ends", "length"):
                model_values, agent_values = (
                    getattr(x.trials, name) for x in (tested, agent_trials)
                )
                np.testing.assert_array_equal(model_values, agent_values[:3])
            assert tested.usage.requests == 3 * ACTIONS and tested.best.shape == (3, 4)
        # What is on disk is not asked again.
        rows(options.ledger())
        assert model.requests == 2 * 3 * ACTIONS
        expected = language_rows.expected_usage(LAKES, options.prompts, ACTIONS, 3, 0)
        assert expected.requests == 2 * 3 * ACTIONS
        assert expected.prompt == pytest.approx(ledger.spent.prompt, rel=0.2)
    rules = [
        playing.Contender(name, kind, [agent_trials])
        for name, kind in (("random", "rule"), ("oracle", "oracle"))
    ]
    agents = {agent.full_name: agent for agent in (*rules, contenders[0][1])}
    lines = results_markdown(agent_results({"lakes": agents})).splitlines()
    assert lines[0].endswith("| tokens |") and lines[2].endswith("|  |")
    assert lines[-1].endswith(f"| {contenders[0][1].seeds[0].usage.total:,} |")


def test_a_budget_ends_the_rows_and_that_is_said(tmp_path):
    model = FakeModel("[SELECT: 1]", name="down")
    with serve_chat_model(model) as endpoint:
        options = LanguageModelOptions(
            endpoint, model="down", prompts=("raw", "summary"), max_queries=2 * ACTIONS, at_once=1
        )
        ledger, best = options.ledger(), {"lakes": np.ones((3, 4), bool)}
        (row,) = language_rows.language_rows(options, ledger, tmp_path, LAKES, best, ACTIONS, 3, 0)
    _, agent, note = row
    whole = 0 if agent is None else len(agent.seeds[0].trials.length)
    assert whole < 3 and note == f"lakes, raw: {whole} of 3 trials are whole"
    assert model.requests == 2 * ACTIONS and "--llm.max-queries 12" in options.summarise_spending(
        ledger
    )


def test_named_arms_guidance_and_demonstrations_are_rows(tmp_path):
    """Prompts with names, guidance and demonstrations fit all requests."""
    arms = {"two-arms": TESTS["two-arms"]}
    names = ("scenario", "guided", "demonstrated")
    assert language_rows.first_unexplained(arms, names) is None
    assert language_rows.first_unexplained(LAKES, names) == "lakes"
    assert (
        language_rows.first_unexplained(LAKES, ("demonstrated", "paper", "paper-explained")) is None
    )
    assert "[SELECT: blue]" in language_rows.schema_of(arms["two-arms"], "scenario")

    def first(messages, seed):
        return "[SELECT: red]" if "buttons" in messages[0].content else "[SELECT: 0]"

    model = FakeModel(first, name="first")
    with serve_chat_model(model) as endpoint:
        options = LanguageModelOptions(endpoint, model="first", prompts=names)
        best = {"two-arms": np.ones((3, 2), bool)}
        contenders = [
            *language_rows.language_rows(
                options, options.ledger(), tmp_path, arms, best, ACTIONS, 3, 0
            )
        ]
    assert [agent.label for _, agent, _ in contenders] == [
        f"**first ({prompt})**" for prompt in names
    ]
    agents_trials = [agent.seeds[0].trials for _, agent, _ in contenders]
    assert all(
        (trials.length == ACTIONS).all() and not trials.invalid.any() for trials in agents_trials
    )
    # The same arms under the same labels, and the same luck.
    for trials in agents_trials[1:]:
        np.testing.assert_array_equal(trials.rewards, agents_trials[0].rewards)
    expected = language_rows.expected_usage(arms, names, ACTIONS, 3, 0)
    assert expected.requests == model.requests == 3 * 3 * ACTIONS


FAMILIES = ["two-arms", "ten-arms", "lakes", "4x4", "CliffWalking", "dark-room"]


@pytest.mark.parametrize("test_name", daily(["two-arms", "4x4"], FAMILIES))
def test_demonstrations_are_of_other_tasks_of_the_family(test_name):
    settings = language_rows.PROMPTS["demonstrated"]
    shown = language_rows.demonstrations(test_name, TESTS[test_name], settings, 2, 0)
    assert [len(decisions) for decisions in shown] == [settings.demonstrations] * 2
    assert not language_rows.demonstrations(
        test_name, TESTS[test_name], language_rows.PROMPTS["raw"], 2, 0
    )


@pytest.mark.slow
def test_the_table_has_the_model_and_the_dry_run_its_price(tmp_path, capsys):
    model = FakeModel('{"answer": "[SELECT: 1]"}', name="one")
    small = ["--agents", "--tests", "two-arms", "4x4", "--actions=10", "--replicas=8"]
    small += ["--conversations=2", "--reading=0", "--no-progress", f"--runs-dir={tmp_path}"]
    with serve_chat_model(model, honours=["response_format"]) as endpoint:
        flags = [*small, f"--llm.endpoint={endpoint}", "--llm.model=one", "--llm.structured"]
        assert program.main([*flags, "--dry-run"]) is None
        assert "one: 40 requests, about" in capsys.readouterr().out and model.requests == 0
        program.main([*flags, "--llm.max-queries=20"])
        output = capsys.readouterr().out
        assert "| two-arms | **one (explained)** |" in output and "4x4 | **one" not in output
        assert "Asking stopped at --llm.max-queries 20" in output
        # With more to spend, the same run goes on where it was left.
        program.main([*flags, "--resume"])
        output = capsys.readouterr().out
        assert "| 4x4 | **one (explained)** |" in output and "one: 40 requests" in output
        assert model.requests == 40 + 4  # and two in each run that try whether schemas are known
