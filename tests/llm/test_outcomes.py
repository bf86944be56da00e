"""Replies that answer nothing are told apart, and the ways of servers that are met."""

import datetime
import email.utils
import os
import subprocess
import sys
from contextlib import contextmanager

import jax
import pytest
from chat_server import Sent, serve

import gpicljax
from gpicljax.llm import client as client_module
from gpicljax.llm.budget import Budget, Ledger
from gpicljax.llm.chat import FakeModel, Message, ModelError
from gpicljax.llm.client import OpenAICompatible
from gpicljax.llm.outcomes import WARN_AFTER, ReplyTally, outcome_of
from gpicljax.rollout import HostBatch
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.systems.mental_modelling.data import episode_from_actions
from gpicljax.systems.mental_modelling.measures import build_queries
from gpicljax.systems.mental_modelling.prompts.questions import QuestionSettings
from gpicljax.systems.mental_modelling.prompts.session import ask_questions
from gpicljax.systems.meta_rg.prompts.games import play_listener
from gpicljax.vector import VectorEnv
from gpicljax.wrappers.trial import Trial

WORDS = "I can't help with that."
LISTED = {"data": [{"id": "m"}]}


@contextmanager
def server(answers, **headers):
    """Answers by path, `{path: (status, content)}`, and 404 to all others; yields its address."""

    missing = 404, {"detail": "Not Found"}
    with serve(lambda request: Sent(*answers.get(request.path, missing), headers)) as address:
        yield address


def chat(message, finish="stop"):
    """An endpoint with one answer to every chat."""
    body = {"choices": [{"message": message, "finish_reason": finish}]}
    return {"/v1/models": (200, LISTED), "/v1/chat/completions": (200, body)}


def ask_model(base, **options):
    model = OpenAICompatible(f"{base}/v1", "m", key_variable=None, timeout=60.0, **options)
    return model([Message("user", "Hello")], max_tokens=8, seed=0)


@pytest.fixture(scope="module")
def bandits():
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 6)
    return HostBatch(gpicljax.VectorEnv(env, 2, resets="fresh"))


@pytest.mark.parametrize(
    ("finish", "is_readable", "outcome"),
    [
        ("stop", True, "answered"),
        ("length", True, "answered"),
        ("stop", False, "unreadable"),
        ("tool_calls", False, "unreadable"),
        ("length", False, "cut off"),
        ("max_tokens", False, "cut off"),
        ("refusal", False, "refused"),
        ("content_filter", False, "refused"),
    ],
)
def test_outcomes(finish, is_readable, outcome):
    assert outcome_of(finish, is_readable) == outcome


def test_a_run_without_any_answer_warns_once_and_early():
    messages = []
    ledger = Ledger(Budget(), warn=messages.append)
    for number in range(3 * WARN_AFTER):
        ledger.judge("unreadable", str(number), "[SELECT: number]")
        assert len(messages) == (number + 1 >= WARN_AFTER)
    assert "first unreadable answer: '0'; asked for [SELECT: number]" in messages[0]
    ledger = Ledger(Budget(), warn=messages.append)
    for outcome in ("answered", *["unreadable"] * 3 * WARN_AFTER):
        ledger.judge(outcome, "", "")
    assert len(messages) == 1


def test_tallies_add_up_and_say_what_to_do():
    first, second = ReplyTally(), ReplyTally()
    assert first.cells() == ["-"] * 4 and not first.is_silent
    for outcome in ("refused", "cut off", "unreadable"):
        first.add(outcome, "x" * 100, "a number")
    second.add("answered", "1", "a number")
    assert first.is_silent and not (first + second).is_silent
    assert (first + second).cells() == ["25"] * 4
    text = (first + second).in_words()
    assert text.startswith("4 replies: 1 answered, 1 unreadable, 1 refused, 1 cut off")
    assert "max_tokens" in text and text.endswith("...; asked for a number")


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": WORDS},
        {"content": "", "refusal": WORDS},
        {"content": [{"type": "refusal", "refusal": WORDS}]},
    ],
)
def test_a_refusal_in_a_field_of_its_own_is_one(message, bandits, tmp_path):
    with server(chat(message)) as base:
        reply = ask_model(base)
        assert (reply.text, reply.finish) == (WORDS, "refusal")
        model = OpenAICompatible(f"{base}/v1", "m", key_variable=None)
        result = play_trials(jax.random.key(0), bandits, model, tmp_path)
    assert result.tally.counts == {"refused": 8}
    assert "2 ended by refusals" in result.in_words() and "8 refused" in result.in_words()


def test_a_reasoning_model_whose_tokens_are_spent_is_cut_off_not_wrong(bandits, tmp_path):
    message = {"content": "", "reasoning_content": "Let me think ..."}
    with server(chat(message, "length")) as base:
        model = OpenAICompatible(f"{base}/v1", "m", key_variable=None)
        result = play_trials(jax.random.key(0), bandits, model, tmp_path)
        repeated = play_trials(jax.random.key(0), bandits, model, tmp_path)
    assert {report.status for report in result.reports} == {"cut off"}
    assert result.tally.counts == repeated.tally.counts == {"cut off": 8}
    assert "8 cut off before an answer (max_tokens)" in result.in_words()


def test_trials_that_end_by_invalid_answers_are_no_answers(bandits, tmp_path):
    result = play_trials(jax.random.key(0), bandits, FakeModel("0"), tmp_path)
    assert "2 trials: 2 ended by invalid answers" in result.in_words()
    assert "first unreadable answer: '0'; asked for [SELECT: number]" in result.in_words()


def test_questions_and_games_tell_outcomes_apart(tmp_path):
    queries = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=2)
    long = FakeModel("and " * 100)
    settings = QuestionSettings(instructions=False)
    replies = ask_questions(queries, long, tmp_path / "questions", settings, max_tokens=4)
    assert replies.tally.counts == {"cut off": 3} and "3 cut off" in replies.in_words()
    vec = VectorEnv(gpicljax.make("MetaRG-v1", max_values=2), 1, resets="fresh")
    played = play_listener(jax.random.key(0), vec, long, tmp_path / "games", max_tokens=4)
    assert played.tally.counts == {"cut off": long.requests - 3} and played.invalid > 0


# Servers -----------------------------------------------------------------------------------------


def test_addresses_as_people_paste_them():
    with server(chat({"content": "Hi"})) as base:
        for pasted in (
            "/v1",
            "/v1/",
            "/v1/chat/completions",
            "/v1/chat/completions/",
            "/v1/models",
        ):
            model = OpenAICompatible(base + pasted, "m", key_variable=None)
            model.check()
            assert model.endpoint == f"{base}/v1"
        with pytest.raises(ValueError, match=f"endpoint: got '{base}, where .*: {base}/v1$"):
            OpenAICompatible(base, "m", key_variable=None).check()
        with pytest.raises(ValueError, match="where no chats are answered .*one up to /v1"):
            OpenAICompatible(f"{base}/other", "m", key_variable=None).check()
    with server({"/v1/chat/completions": (400, {"error": "no messages"})}) as base:
        OpenAICompatible(f"{base}/v1", "m", key_variable=None).check()  # has no list of models


def test_a_server_that_leads_on_is_told_with_its_place():
    moved = dict.fromkeys(("/v1/models", "/v1/chat/completions"), (308, {}))
    with server(moved, Location="/v2/chat/completions") as base:
        with pytest.raises(ValueError, match=rf"leads on \(308\)'; accepted: '{base}/v2'"):
            OpenAICompatible(f"{base}/v1", "m", key_variable=None).check()
        with pytest.raises(ModelError, match="leads on to '/v2/chat/completions'") as error:
            ask_model(base)
    assert error.value.fault == "refused"


@pytest.mark.parametrize(
    ("later", "least", "most"), [("7", 7, 7), ("date", 100, 3_600), ("soon", None, None)]
)
def test_servers_say_when_to_come_back_in_both_forms(later, least, most):
    date = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    later = email.utils.format_datetime(date, usegmt=True) if later == "date" else later
    busy = {"/v1/chat/completions": (429, {"error": "slow down"})}
    with server(busy, **{"Retry-After": later}) as base, pytest.raises(ModelError) as error:
        ask_model(base)
    wait = error.value.wait
    assert wait is None if least is None else least <= wait <= most


@pytest.mark.parametrize("fault", [ImportError("socksio"), ValueError("Unknown scheme secret@")])
def test_a_proxy_that_cannot_be_used_is_refused_with_its_remedy(fault, monkeypatch):
    def broken(**options):
        raise fault

    monkeypatch.setattr(client_module.httpx, "AsyncClient", broken)
    model = OpenAICompatible("http://llm.example.invalid/v1", "m", key_variable=None)
    with pytest.raises(ValueError, match=r"proxy .*httpx\[socks\]") as error:
        model.check()
    assert "secret" not in str(error.value)
    with pytest.raises(ModelError, match="proxy") as error:
        model([Message("user", "Hello")], max_tokens=8, seed=0)
    assert error.value.fault == "refused"


def test_fakes_need_no_client(tmp_path):
    (tmp_path / "httpx.py").write_text("raise ModuleNotFoundError('httpx')")
    code = "from gpicljax.llm import FakeModel, Budget; print(FakeModel('x').name)"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "fake\n", done.stderr
