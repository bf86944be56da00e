"""Mental modelling from episodes to a table, figures and replies; and agents that are collected."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from chat_server import serve_chat_model

from gpicljax.llm.chat import FakeModel
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.systems.mental_modelling.data import episode_from_actions
from gpicljax.systems.mental_modelling.data.stored import load_episodes
from gpicljax.systems.mental_modelling.measures.other_kinds import draw_agents
from gpicljax.systems.mental_modelling.measures.questions import build_queries
from gpicljax.systems.mental_modelling.measures.results import load_rows
from gpicljax.systems.mental_modelling.studies.mental_modelling import program as experiment
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import Config
from gpicljax.systems.mental_modelling.studies.mental_modelling.language_answers import (
    language_model_answers,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling_data.config import (
    TASKS,
    CollectConfig,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling_data.program import tenth_of_updates

SMALL_READER = [
    f"--reader.{x}" for x in ("updates=2", "windows=40", "layers=1", "width=8", "heads=1")
]


def episode(path, seed, steps=14):
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 3, steps)
    states = np.cumsum(rng.normal(size=(steps, 1, 2)), axis=0)
    np.savez(path, states=states, actions=actions[:, None], rewards=-np.ones((steps, 1)))
    return str(path)


def test_a_users_own_episodes_are_read_and_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--env", "MountainCar-v0", "--out", "data"]
    for n, agent in enumerate(("mine 0", "mine 1", "yours 1")):
        files = [episode(tmp_path / f"{n}{k}.npz", 10 * n + k) for k in range(2)]
        experiment.main(["load", *files, "--agent", agent, *flags])
    assert load_episodes("data/MountainCar-v0/mine_1").agents == ("mine 1",) * 2
    small = [*SMALL_READER, "--histories", "0", "2", "5", "40", "--no-progress"]
    # A model that is not there is refused before a reader is trained.
    with pytest.raises(SystemExit) as error:
        experiment.main(["--data", "data", "--llm.endpoint=http://127.0.0.1:9/v1"])
    output = capsys.readouterr().err
    assert error.value.code == 2 and output.startswith("error: --llm.endpoint: got 'http://127")
    # A language model is asked some of the same, and its replies are kept.
    model = FakeModel("[ANSWER: 1]")
    small += ["--asked", "3", "--other-kinds", "--seeds", "2"]
    with serve_chat_model(model) as endpoint:
        model_flags = [f"--llm.endpoint={endpoint}", "--llm.model=fake"]
        assert experiment.main(["--data", "data", *small, *model_flags, "--dry-run"]) is None
        assert "fake: 45 requests, about" in capsys.readouterr().out and model.requests == 0
        outcome = experiment.main(["--data", "data", *small, *model_flags])
    output = capsys.readouterr().out
    assert "fake: 45 requests" in output and "stopped" not in output
    assert "| MountainCar-v0 | next action |" in output and "87.1 (Llama3-70b)" in output
    rows, compared, about = load_rows(outcome.run.path / "results.json")
    # A history of 40 is longer than the episodes, and is left out.
    assert {row.history for row in rows} == {0, 2, 5}
    assert {"copy last", "reader", "reader of other kinds"} < {row.answerer for row in rows}
    assert (
        "points behind the reader" in output and "other kinds - reader | over readers |" in output
    )
    model_rows = [row for row in rows if row.answerer == "fake"]
    assert len(model_rows) == 5 * 3 and model.requests == 3 * len(model_rows)
    assert {row.parsed for row in model_rows if row.question.endswith("action")} == {1.0}
    assert {row.parsed for row in model_rows if row.question.endswith("state")} == {0.0}
    assert len([*(outcome.run.path / "replies" / "indexed").iterdir()]) == len(model_rows)
    assert about["tasks"]["MountainCar-v0"]["agents"] == 1
    model_comparisons = [comparison for comparison in compared if comparison.answerer == "fake"]
    assert {comparison.prompt for comparison in model_comparisons} == {
        row.prompt for row in model_rows
    }
    # Three queries in each of two sizes of history, as those that the null answers beside it.
    assert {(comparison.queries, comparison.echoes) for comparison in model_comparisons} == {(6, 0)}
    nulls = {comparison.null for comparison in compared if comparison.question == "next_action"}
    assert nulls == {model_comparisons[0].null, "reader"}
    # Both readers answer the same queries, and rules answer each once.
    trained = [x for x in compared if "reader" in x.answerer]
    assert {len(x.leads) for x in trained} == {2} and len(trained) == 5 * 3
    assert {x.leads for x in compared if x not in trained} == {()}
    assert {row.queries for row in rows if row.question == "next_action"} == {3, 18}
    figures = {path.name for path in (outcome.run.path / "figures").iterdir()}
    assert {"MountainCar_history.png", "MountainCar_elements.png", "tasks.png"} <= figures
    replies_are_reviewed(outcome.run.path, capsys)


def replies_are_reviewed(run, capsys):
    """A sheet from the replies of a run, filled by two reviewers, and scored."""
    sheet = ["review", "--run", str(run), "--question", "next_action", "--history"]
    page = experiment.main([*sheet, "2"]).read_text()
    output = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert output["model"] == "fake" and len(output["items"]) == 3
    assert "At step" in output["items"][0]["question"] and output["items"][0]["about"]
    (row,) = [
        row
        for row in load_rows(run / "results.json")[0]
        if (row.answerer, row.question, row.history) == ("fake", "next_action", 2)
    ]
    automatic = [item["automatic"] for item in output["items"]]
    assert np.mean(automatic) == row.accuracy and {i["reply"] for i in output["items"]} == {
        "[ANSWER: 1]"
    }
    fewer = json.loads(
        re.search(
            r'id="data">(.*?)</script>',
            experiment.main([*sheet, "2", "--replies", "2"]).read_text(),
        )[1]
    )
    assert len(fewer["items"]) == 2 and fewer["sheet"] != output["sheet"]
    files = []
    for judge, verdicts in {"anna": (True, False, True), "bert": (True, True, None)}.items():
        items = [
            {"automatic": item["automatic"], "right": right, "errors": ["logic"] if right else []}
            for item, right in zip(output["items"], verdicts, strict=True)
        ]
        filled = {name: output[name] for name in ("format", "sheet", "model")}
        files.append(run / f"{judge}.json")
        files[-1].write_text(json.dumps(filled | {"judge": judge, "items": items}))
    scored = ["review", "--out", str(run / "scored"), "--scored", *map(str, files)]
    text = experiment.main(scored).read_text()
    assert "| logic | 2 | 2 | 5 | 19 | 4 |" in text
    assert "| fake | anna | 3 | 67 |" in text and "| fake | bert | 2 | 100 |" in text
    assert "| fake | anna, bert | 2 | 50 | 0.00 |" in text
    assert "| Llama3-8b | paper | 50 | 40 | 52 |" in text
    assert (run / "scored" / "errors.png").exists() and (run / "scored" / "agreement.png").exists()
    capsys.readouterr()
    (run / "damaged.json").write_text("{")
    for arguments, message in (
        (["review"], "run: got None"),
        ([*sheet, "4"], "history: got 4; accepted: 0, 2, 5"),
        ([*sheet, "2", "--prompt", "rude"], "prompt: got 'rude'; accepted: indexed"),
        (["review", "--run", str(run / "none")], "config.json cannot be read"),
        (["review", "--scored", str(run / "damaged.json")], "damaged.json is damaged"),
        ([*scored, str(files[0])], "reviews: got 'two of anna'"),
    ):
        with pytest.raises(SystemExit) as error:
            experiment.main(arguments)
        assert error.value.code == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line


def test_a_budget_leaves_out_what_was_not_asked(tmp_path):
    queries = build_queries(episode_from_actions([0, 1, 1, 0, 1] * 4), "next_action", history=2)
    model = FakeModel('{"answer": "[ANSWER: 1]"}', name="fake")
    with serve_chat_model(model, honours=["response_format"]) as endpoint:
        options = LanguageModelOptions(
            endpoint,
            model="fake",
            prompts=("no-instructions", "indexed-no-reasoning"),
            structured=True,
            max_queries=5,
        )
        config = Config(llm=options, runs_dir=tmp_path, asked=9)
        ledger = options.ledger()
        ((prompt, answered, output),) = language_model_answers(config, queries, ledger)
    assert prompt == "no-instructions" and model.requests == 5
    assert len(answered.truth) == len(output.answers.parsed) == 5 and output.answers.parsed.all()
    assert "Asking stopped at --llm.max-queries 5" in options.summarise_spending(ledger)


def test_every_task_has_agents_of_two_kinds():
    """So that each can be asked about with a reader of other kinds."""
    assert {len(TASKS[name].kinds) > 1 for name in CollectConfig().tasks} == {True}
    assert len(CollectConfig().tasks) == 7
    assert [tenth_of_updates(updates) for updates in (1, 10, 15, 24, 1_200)] == [1, 1, 2, 3, 120]


def test_agents_that_are_read_are_spread_over_kinds():
    names = [f"{kind} {level} 1" for kind in ("ppo", "dqn", "sac") for level in "abcd"]
    read = draw_agents(names * 2, kinds=2, count=4, seed=0)
    counts = Counter(name.partition(" ")[0] for name in read)
    assert len({*read}) == 4 and [*counts.values()] == [2, 2]
    assert len(draw_agents(names, kinds=1, count=4, seed=1)) == 4
    for kinds, count in ((1, 8), (4, 8), (2, 1)):
        assert draw_agents(names, kinds, count, seed=0) == []


def test_damaged_episodes_are_refused(tmp_path, capsys):
    path = tmp_path / "a.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(SystemExit) as error:
        experiment.main(
            ["load", str(path), "--env", "MountainCar-v0", "--agent", "a", "--out", str(tmp_path)]
        )
    assert error.value.code == 1 and "a.npz is damaged" in capsys.readouterr().err


@pytest.mark.slow
def test_agents_of_all_skills_are_collected_once(tmp_path, capsys):
    collect = ["collect", "--tasks", "FrozenLake-v1", "--kinds", "q-learning", "--seeds", "2"]
    collect += ["--share", "0.05", "--episodes", "3", "--out", str(tmp_path / "data")]
    experiment.main(collect)
    episodes = load_episodes(tmp_path / "data" / "FrozenLake-v1" / "q-learning")
    assert len(episodes.length) == 2 * 3 * 3 and len(set(episodes.checkpoints)) == 6
    assert (
        episodes.agents[0] == "q-learning beginner 0"
        and episodes.agents[-1] == "q-learning expert 1"
    )
    capsys.readouterr()
    experiment.main(collect)
    assert "18 episodes are there already" in capsys.readouterr().out
    agents = sorted((tmp_path / "data" / "agents" / "FrozenLake-v1").iterdir())
    experiment.main(["collect", "--agents", str(agents[0]), "--out", str(tmp_path / "more")])
    (folder,) = (tmp_path / "more" / "FrozenLake-v1").iterdir()
    first = episodes.agents.index(agents[0].name.replace("_", " "))
    assert load_episodes(folder).checkpoints[0] == episodes.checkpoints[first]
    with pytest.raises(SystemExit) as error:
        experiment.main([*collect, "--seed", "1"])
    assert error.value.code == 1 and "choose another --out" in capsys.readouterr().err


@pytest.mark.slow
def test_fetch_is_collected_and_measured(tmp_path, capsys, monkeypatch):
    """Rules of three skills, an agent that learns from hindsight, and questions with goals."""
    monkeypatch.chdir(tmp_path)
    collect = ["collect", "--tasks", "FetchPush-v4", "--seeds", "1", "--episodes", "2"]
    experiment.main([*collect, "--share", "0.0034", "--out", "data"])
    rules = load_episodes("data/FetchPush-v4/script")
    assert rules.agents[::2] == tuple(f"script {x} 0" for x in ("beginner", "advanced", "expert"))
    assert rules.states.shape == (6, 50, 25) and rules.actions.shape == (6, 50, 4)
    np.testing.assert_array_equal(rules.achieved_goals, rules.states[..., 3:6])
    assert rules.returns[-1] > -40 and len(set(rules.checkpoints)) == 3
    learnt = load_episodes("data/FetchPush-v4/ddpg")
    assert len(learnt.length) == 6 and len(set(learnt.checkpoints)) == 3
    folder = str(tmp_path / "data" / "agents" / "FetchPush-v4" / "script_expert_0")
    experiment.main(["collect", "--agents", folder, "--episodes", "1", "--out", "more"])
    small = ["--data", "data", "--unseen", "expert 0", "--histories", "3", "--no-progress"]
    small += SMALL_READER
    outcome = experiment.main([*small, "--other-kinds"])
    assert "| FetchPush-v4 | next action (absolute) |" in capsys.readouterr().out
    figures = {path.name for path in (outcome.run.path / "figures").iterdir()}
    assert "FetchPush_bins.png" in figures
