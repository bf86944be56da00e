"""Questions about agents in words: what is told and hidden, what is read, what is kept."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gpicljax.data.transcripts import read_transcript
from gpicljax.llm.budget import Budget
from gpicljax.llm.chat import FakeModel, ModelError
from gpicljax.llm.local import ByteModel
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.spaces import Box
from gpicljax.storage import SavedError
from gpicljax.systems.mental_modelling.data.episodes import (
    episode_from_actions,
    episodes_from_arrays,
    join_episodes,
)
from gpicljax.systems.mental_modelling.measures.questions import (
    QUESTIONS,
    build_queries,
    pick_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import score_answers
from gpicljax.systems.mental_modelling.prompts import paper
from gpicljax.systems.mental_modelling.prompts.questions import (
    QuestionSettings,
    answer_in,
    answer_schema,
    is_echo,
    question_messages,
    question_text,
    system_text,
)
from gpicljax.systems.mental_modelling.prompts.session import ask_questions
from gpicljax.systems.mental_modelling.prompts.tasks import TASKS

RAW = QuestionSettings(instructions=False)


def car():
    states = [[-0.5123, 0.01], [-0.4987, 0.02], [-0.4711, 0.03], [-0.4377, 0.0444]]
    return episode_from_actions([2, 0, 1, 2], states, environment="MountainCar-v0")


def test_what_is_asked_is_told_and_what_is_true_is_not():
    hidden = {
        "next_action": "action 1",
        "last_action": "action 1",
        "next_state": "-0.4377",
        "last_state": "-0.4711",
    }
    for question in QUESTIONS:
        text = question_text(build_queries(car(), question, history=2), 0)
        assert "step 0: state [-0.5123, 0.0100], action 2, reward 0" in text, question
        assert "[-0.4987, 0.0200]" in text
        assert ("[-0.4711, 0.0300]" in text) == (question != "last_state")
        assert ("[-0.4377, 0.0444]" in text) == (question in ("last_action", "last_state"))
        assert hidden.get(question, "never") not in text
    listed = question_text(
        build_queries(car(), "next_action", history=2), 0, QuestionSettings(indexed=False)
    )
    assert "actions: 2, 0\n" in listed and "step 0:" not in listed
    blind = question_text(build_queries(car(), "next_action", history=0), 0)
    assert "happened" not in blind


def test_conditions_take_away_what_they_say():
    queries = build_queries(car(), "next_action", history=1)
    whole = system_text(queries)
    plain = system_text(queries, QuestionSettings(dynamics=False))
    assert "cos(3 * position)" in whole and "cos(" not in plain and "valley" in plain
    assert "valley" not in system_text(queries, RAW)
    thinks, answers = (
        question_text(queries, 0, QuestionSettings(reasons=reasons)) for reasons in (True, False)
    )
    assert "Think step by step" in thinks and "Think" not in answers
    assert (
        QuestionSettings(False, False, True, False).in_words == "lists, no dynamics, no reasoning"
    )
    for text in TASKS.values():
        assert all((text.task, text.states, text.actions, text.rewards, text.start, text.end))
    walk = build_queries(episode_from_actions([0, 1]), "next_action", history=0)
    with pytest.raises(ValueError, match="queries.environment: got 'Walk'; accepted"):
        question_messages(walk, 0)


def test_goals_are_shown():
    """Fetch's, whose instructions speak of them; queries about by the element and by the part."""
    rng = np.random.default_rng(0)
    steps = 4
    arm = episodes_from_arrays(
        [rng.normal(size=(steps, 25))],
        [rng.uniform(-1, 1, (steps, 4))],
        [-np.ones(steps)],
        environment="FetchPush-v4",
        action_space=Box(-1.0, 1.0, (4,)),
        agent="arm",
        achieved_goals=[rng.normal(size=(steps, 3))],
        desired_goals=[np.full((steps, 3), [1.25, 0.5, 0.4249])],
    )
    for question in QUESTIONS:
        queries = build_queries(arm, question, history=2)
        _, system = question_messages(queries, 0)
        assert system.content.startswith("The goal is [1.2500, 0.5000, 0.4249]."), question
        assert "The goal is a position" in system_text(queries)
        assert queries.truth.shape[1] == {"action": 4, "state": 25}.get(question[5:], 1)
    assert answer_in("[ANSWER: 0, 9, 5, 5]", build_queries(arm, "next_action")) == [0, 9, 5, 5]
    grips = {name: TASKS[name].actions for name in TASKS if name.startswith("Fetch")}
    assert ["open" in words for words in grips.values()].count(True) == 1
    assert "open" in grips["FetchPickAndPlace"]


def test_the_last_answer_counts_and_nothing_else_is_one():
    actions = build_queries(car(), "next_action", history=1)
    states = build_queries(car(), "next_state", history=1)
    votes = build_queries(car(), "argue", history=1)
    for text, right in (
        ("[ANSWER: 2]", [2]),
        ("Say [ANSWER: 1]. No, [answer: 0].", [0]),
        ("[ANSWER: 3]", None),
        ("[ANSWER: -1]", None),
        ("[ANSWER: 1, 2]", None),
        ("[ANSWER: 1.0]", [1.0]),
        ("[ANSWER: [2.]]", [2.0]),
        ("[ANSWER: 1.5]", None),
        ("2", None),
        ("", None),
        ("[ANSWER: " + "9" * 4000 + "]", None),
    ):
        assert answer_in(text, actions) == right, text
    assert answer_in("[ANSWER: 'Increase', unchanged]", states) == [1, 2]
    assert answer_in("[ANSWER: increase]", states) is None
    assert answer_in("[ANSWER: Yes]", votes) == [1] and answer_in("[ANSWER: 1]", votes) is None
    swing = episode_from_actions([0.5, -0.5, 0.1], action_space=Box(-2.0, 2.0))
    bins = build_queries(swing, "next_action", history=1)
    numbers = build_queries(swing, "next_action", history=1, form="absolute")
    assert answer_in("[ANSWER: 9]", bins) == [9] and answer_in("[ANSWER: 10]", bins) is None
    for text in ("[ANSWER: -1.25e0]", "[ANSWER: −1.25]", "[ANSWER: (-1.25)]"):
        assert answer_in(text, numbers) == [-1.25]
    for text in ("[ANSWER: 2.1]", "[ANSWER: nan]", "[ANSWER: 1e999]"):
        assert answer_in(text, numbers) is None
    # What is read is what the part of the range is called in the question.
    assert "4: -0.4 <= action < 0" in question_text(bins, 0)
    lake = episode_from_actions([0, 1, 0], [3, 2, 1], num_states=16, environment="FrozenLake-v1")
    squares = build_queries(lake, "next_state", history=1)
    assert answer_in("[ANSWER: 15]", squares) == [15] and answer_in("[ANSWER: 16]", squares) is None


def test_schemas_hold_to_the_forms_that_are_read():
    lake = episode_from_actions([0, 1, 0], [3, 2, 1], num_states=16, environment="FrozenLake-v1")
    swing = episode_from_actions([0.5, -0.5, 0.1], action_space=Box(-2.0, 2.0))
    for queries, right, wrong in (
        (build_queries(car(), "next_action", history=1), "[ANSWER: 2]", "[ANSWER: 3]"),
        (build_queries(car(), "next_state", history=1), "[ANSWER: increase, decrease]", "increase"),
        (build_queries(car(), "argue", history=1), "[ANSWER: yes]", "[ANSWER: 1]"),
        (build_queries(lake, "next_state", history=1), "[ANSWER: 15]", "[ANSWER: 16]"),
        (build_queries(swing, "next_action", history=1), "[ANSWER: 9]", "[ANSWER: 10]"),
        (
            build_queries(swing, "next_action", history=1, form="absolute"),
            "[ANSWER: -1.25]",
            "[ANSWER: number]",
        ),
    ):
        request = json.loads(answer_schema(queries, RAW))
        form = request["response_format"]["json_schema"]["schema"]["properties"]
        assert list(form) == ["reasons", "answer"]
        assert re.match(form["answer"]["pattern"], right)
        assert not re.match(form["answer"]["pattern"], wrong)
        assert answer_in(json.dumps({"reasons": "It is so.", "answer": right}), queries) is not None


def test_the_form_of_an_answer_is_no_answer(tmp_path):
    """A model that repeats what it is shown is not right by it."""
    for question in QUESTIONS:
        queries = build_queries(car(), question, history=2)
        shown = question_text(queries, 0)
        form = shown[shown.rindex("[ANSWER:") :]
        assert not any(letter.isdigit() for letter in form)
        assert answer_in(form, queries) is None and is_echo(form, queries)
        assert not is_echo("[ANSWER: 1]", queries) and not is_echo("none", queries)
    walks = two_walks()
    queries = build_queries(walks, "next_action", history=1)
    language_answers = ask_questions(queries, FakeModel("[ANSWER: number]"), tmp_path, RAW)
    assert (
        language_answers.echoes == len(queries.truth) and not language_answers.answers.parsed.any()
    )
    assert f"{language_answers.echoes} repeat the placeholder" in language_answers.in_words()


PAPER = QuestionSettings(wording="paper")
FIELDS = {
    "Task description": "task_description",
    "Observation space": "observation_space",
    "Action space": "action_space",
    "Reward space": "reward_space",
    "Transition dynamics": "transition_dynamics",
    "Initial state": "init_state",
    "Termination": "termination",
}


def published_texts():
    """All texts of the reference, and the file's own words about their source."""
    text = Path(paper.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tomllib.loads(text), text


def test_the_published_wording_is_the_reference_s():
    texts, file = published_texts()
    assert "Copyright 2024-2026 The LLM-X Authors" in file and "Apache License" in file
    assert set(texts["tasks"]) == {
        name for name in TASKS if name not in ("FrozenLake", "CliffWalking")
    }
    parts = texts["tasks"]["MountainCar"]
    whole = 'Below is a description of the "MountainCar-v0" task.\n\n'
    whole += "\n\n".join(f"{name}:\n{parts[key]}" for name, key in FIELDS.items())
    queries = build_queries(car(), "next_action", history=2)
    system, first = question_messages(queries, 0, PAPER)
    assert system.content == whole.strip()
    assert "velocity_t+1" not in system_text(
        queries, QuestionSettings(dynamics=False, wording="paper")
    )
    steps = [("[-0.5123,  0.01  ]", 2), ("[-0.4987,  0.02  ]", 0)]
    history = "\n\n".join(
        f"Step {n}:\n  state: {state}\n  action: {action}\n  reward: 0."
        for n, (state, action) in enumerate(steps)
    )
    question = texts["questions"]["next_action_discrete"].strip()
    question = question.replace("{state}", "[-0.4711,  0.03  ]").replace("{i}", "2")
    assert first.content == texts["user"].format(history=history, question=question)
    for name in QUESTIONS:
        text = question_text(build_queries(car(), name, history=2), 0, PAPER)
        assert "{" not in text and "Step 0:\n  state: [-0.5123" in text, name
        # The step that is queries about is part of the history where the next state is.
        assert ("Step 2:" in text) == (name == "next_state")
        assert ("-0.4377" in text) == (name in ("last_action", "last_state"))
    single = question_text(build_queries(car(), "next_action", history=0), 0, PAPER)
    assert single.startswith("In next step 0 (indexed from 0)")
    lists = QuestionSettings(indexed=False, wording="paper")
    assert "states:\n[[-0.5123,  0.01  ],\n [-0.4987,  0.02  ]]\nactions:\n[2, 0]" in question_text(
        queries, 0, lists
    )


def swing_queries(form, low_high=2.0, environment="Pendulum-v1", entries=1):
    rng = np.random.default_rng(0)
    swing = episodes_from_arrays(
        [rng.normal(size=(3, 3))],
        [rng.uniform(-1, 1, (3, entries))],
        [-np.ones(3)],
        environment=environment,
        action_space=Box(-low_high, low_high, (entries,)),
        agent="swing",
    )
    return build_queries(swing, "next_action", history=1, form=form)


def test_published_answers_are_read_and_the_last_one_counts():
    actions = build_queries(car(), "next_action", history=1)
    states = build_queries(car(), "next_state", history=1)
    votes = build_queries(car(), "argue", history=1)
    bins, numbers = swing_queries("bins"), swing_queries("absolute")
    four = swing_queries("bins", 1.0, "FetchPush-v4", 4)
    for queries, text, right in (
        (actions, "1. [Reasoning]: so\n3. >>Final action choice: [2]", [2]),
        (actions, ">>Final action choice: []\n**Final action choice:** [1]", [1]),
        (actions, "Final action choice: [2], no. final action choice: 0 (left)", [0]),
        (actions, "Final action choice: [3]", None),
        (actions, "Final action choice: [0, 1]", None),
        (actions, "action_choice = [1]", None),
        (
            states,
            'e.g. predictions = ["INC", "DEC", "UNCH"]\npredictions = ["DEC", "UNCH"]',
            [0, 2],
        ),
        (states, "predictions = [\n 'inc',  # up\n 'dec'\n]", [1, 0]),
        (states, 'predictions = ["INC"]', None),
        (votes, "final_vote = [False]\nThus final_vote = [True]", [1]),
        (votes, "Final vote is [False].", [0]),
        (
            votes,
            "Final vote is [True] (i.e., argue for the agent's action) or [False] (i.e., against)",
            None,
        ),
        (bins, "predictions = [1, 8]\n```python\npredictions = [4]\n```", [4]),
        (bins, "predictions = [10]", None),
        (numbers, "predictions = [−1.25]", [-1.25]),
        (four, "predictions = [0, 9, 5, 5]", [0, 9, 5, 5]),
        (four, "", None),
    ):
        assert answer_in(text, queries, PAPER) == right, text
    for queries, form in (
        (actions, "3. >>Final action choice: []"),
        (bins, "predictions = [1, 8]"),
        (states, 'predictions = ["INC", "DEC", "UNCH"]'),
    ):
        assert is_echo(form, queries, PAPER) and answer_in(form, queries, PAPER) is None
        assert not is_echo("none", queries, PAPER)
    for queries, right in (
        (actions, "Final action choice: [2]"),
        (states, "predictions = [INC, DEC]"),
        (votes, "final_vote = [True]"),
        (bins, "predictions = [4]"),
        (numbers, "predictions = [-1.25]"),
    ):
        request = json.loads(answer_schema(queries, PAPER))
        form = request["response_format"]["json_schema"]["schema"]["properties"]["answer"]
        assert right in form["enum"] if "enum" in form else re.match(form["pattern"], right)
        assert answer_in(json.dumps({"answer": right}), queries, PAPER) is not None


def test_the_published_wording_is_refused_where_it_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match="wording: got 'paper'"):
        QuestionSettings(reasons=False, wording="paper")
    lake = episode_from_actions([0, 1, 0], [3, 2, 1], num_states=16, environment="FrozenLake-v1")
    with pytest.raises(ValueError, match="environment: got 'FrozenLake-v1'"):
        question_messages(build_queries(lake, "next_action", history=1), 0, PAPER)
    with pytest.raises(ValueError, match="action_space: got"):
        question_text(swing_queries("bins", 3.0), 0, PAPER)
    queries = build_queries(car(), "next_action", history=1)
    language_answers = ask_questions(
        queries, FakeModel("Final action choice: [2]"), tmp_path, PAPER
    )
    assert language_answers.answers.parsed.all() and language_answers.echoes == 0


def two_walks():
    return join_episodes(episode_from_actions([0, 1, 1, 0, 1]), episode_from_actions([1, 1, 0, 0]))


def test_replies_are_kept_and_asked_for_once(tmp_path):
    queries = build_queries(two_walks(), "next_action", history=2)
    model = FakeModel(
        lambda messages, seed: (
            "who knows" if "At step 3 " in messages[-1].content else "[ANSWER: 1]"
        )
    )
    first = ask_questions(queries, model, tmp_path, RAW, budget=Budget(requests=3), at_once=1)
    assert not first.is_complete and first.replies.count(None) == 2
    assert "Not complete" in first.in_words()
    assert any("requests" in fault for fault in first.faults)
    second = ask_questions(queries, model, tmp_path, RAW)
    assert second.is_complete and model.requests == 5 and second.usage.requests == 5
    done = score_answers(queries, second.answers)
    # Steps 2, 3, 4 of one walk, 2 and 3 of the other: what cannot be read is wrong, not left out.
    assert done.queries == 5 and done.parsed == 3 and done.accuracy == 2 / 5
    about, turns = read_transcript(tmp_path / "episode_0001.jsonl")
    assert about["question"] == "next_action" and [turn["reply"] for turn in turns] == [
        "[ANSWER: 1]",
        "who knows",
    ]
    argue_queries = build_queries(two_walks(), "argue", history=2)
    with pytest.raises(SavedError, match="is about something else"):
        ask_questions(argue_queries, model, tmp_path, RAW)
    with pytest.raises(ValueError, match="max_tokens: got 0"):
        ask_questions(queries, model, tmp_path, RAW, max_tokens=0)


def test_faults_of_the_model_are_no_end(tmp_path):
    queries = build_queries(two_walks(), "next_action", history=2)
    faults = {0: ModelError("busy (503)", "transient"), 2: ModelError("too long", "context")}
    model = FakeModel("[ANSWER: 1]", faults=faults)
    language_answers = ask_questions(queries, model, tmp_path, RAW, at_once=1)
    assert (
        language_answers.is_complete
        and len(language_answers.faults) == 2
        and language_answers.answers.parsed.sum() == 4
    )
    assert score_answers(queries, language_answers.answers).queries == 5


def test_a_model_of_bytes_answers_too(tmp_path):
    import jax
    import jax.numpy as jnp

    network = language_model(LanguageModelSettings("lstm", layers=1, width=8, hidden=8), 259, 64)
    params = network.init(jax.random.key(0), jnp.zeros(1, jnp.int32))
    queries = pick_queries(build_queries(car(), "next_state", history=1), 1)
    language_answers = ask_questions(
        queries, ByteModel(network, params, memory=64), tmp_path, RAW, max_tokens=4
    )
    assert language_answers.is_complete and not language_answers.answers.parsed.any()


def test_some_of_many_queries_are_drawn_once_and_in_order():
    queries = build_queries(episode_from_actions(np.arange(60) % 3), "next_state", history=4)
    picked = pick_queries(queries, 10, seed=1)
    assert len(set(picked.step.tolist())) == 10 and (np.diff(picked.step) > 0).all()
    assert np.array_equal(picked.past_actions[:, -1], (picked.step - 1) % 3)
    assert pick_queries(queries, 1000) is queries and picked.next_state is None
