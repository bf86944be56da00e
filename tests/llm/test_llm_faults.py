"""A client against a server that misbehaves in every way: no turn is lost, no key is told."""

import itertools
import time
from contextlib import contextmanager

import jax
import numpy as np
import pytest
from chat_server import Sent, chat_answer, serve, serve_chat_model

import gpicljax
from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.chat import FakeModel, Message, ModelError
from gpicljax.rollout import HostBatch
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial

pytest.importorskip("httpx")

from gpicljax.llm.client import OpenAICompatible

KEY = "sk-the-secret-of-this-test"
HASTE = RetryPolicy(attempts=4, first=0.0)


@contextmanager
def misbehaving(faults):
    """A server whose request n has `faults[n]`; it answers with arm n modulo 2."""
    numbers, requests = itertools.count(), []

    def respond(request):
        if request.body is None:
            return Sent(200, {"data": [{"id": "tiny"}]})
        if request.body["model"] != "tiny":
            return Sent(404, "no such model")
        fault = faults.get(next(numbers), faults.get("all"))
        key = request.headers["authorization"]
        requests.append(key)
        reply = f"[SELECT: {len(request.body['messages']) // 2 % 2}]"
        sent = chat_answer(FakeModel(reply, name="tiny"), request.body)
        content = sent.encoded
        if fault == "late":
            time.sleep(0.5)
        if fault in ("late", "hang up"):
            return None
        return {
            None: sent,
            "cut": Sent(200, content[: len(content) // 2]),
            "torn": Sent(200, content[:20], length=len(content)),
            "silent": Sent(200, b""),
            "empty": Sent(200, {"choices": [{"message": {"content": None}}]}),
            "huge": Sent(200, b'{"choices": [' + b" " * 100_000),
            429: Sent(429, "slow down", {"Retry-After": "0.01"}),
            "echo": Sent(200, {"choices": [{"message": {"content": f"you sent {key}"}}]}),
        }.get(fault) or Sent(fault, f"no: {key}")

    with serve(respond) as address:
        yield f"{address}/v1", requests


@pytest.fixture(scope="module")
def bandits():
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 6)
    return HostBatch(gpicljax.VectorEnv(env, 3, resets="fresh"))


def client(endpoint, **options):
    options = {"key_variable": "GPICLJAX_TEST_KEY", "timeout": 0.25, "most_bytes": 50_000} | options
    return OpenAICompatible(endpoint, "tiny", **options)


def assert_secret(folder, *texts):
    for text in (*texts, *(path.read_text() for path in folder.rglob("*") if path.is_file())):
        assert KEY not in text


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("GPICLJAX_TEST_KEY", KEY)


@pytest.fixture(scope="module")
def undisturbed_run(bandits, tmp_path_factory):
    with misbehaving({}) as (endpoint, _):
        folder = tmp_path_factory.mktemp("undisturbed")
        return play_trials(jax.random.key(1), bandits, client(endpoint, key_variable=None), folder)


FAULTS = [500, 503, 429, "late", "cut", "torn", "silent", "hang up"]


def test_passing_faults_change_nothing(bandits, undisturbed_run, secret, tmp_path):
    with misbehaving({1 + 2 * n: fault for n, fault in enumerate(FAULTS)}) as (endpoint, requests):
        # One trial may meet them all: who asks when depends on the machine.
        patience = RetryPolicy(attempts=1 + len(FAULTS), first=0.0)
        result = play_trials(
            jax.random.key(1), bandits, client(endpoint), tmp_path, patience=patience
        )
    assert result.is_complete and set(requests) == {f"Bearer {KEY}"}
    jax.tree.map(np.testing.assert_array_equal, result.trials, undisturbed_run.trials)
    faults = [fault for report in result.reports for fault in report.faults]
    assert len(faults) == len(FAULTS)
    for words in ("answers 500", "answers 503", "answers 429", "ReadTimeout", "cut off"):
        assert any(words in fault for fault in faults), words
    assert_secret(tmp_path, result.in_words(), *faults)


def test_a_server_that_dies_loses_no_turn(bandits, undisturbed_run, secret, tmp_path):
    dead = dict.fromkeys(range(7, 1000), "hang up")
    with misbehaving(dead) as (endpoint, _):
        part = play_trials(jax.random.key(1), bandits, client(endpoint), tmp_path, patience=HASTE)
    # Every attempt counts; four for each of three trials found the server dead.
    assert not part.is_complete and part.usage.requests == 7 + 12
    assert {report.status for report in part.reports} == {"interrupted"}
    assert "RemoteProtocolError" in part.in_words()
    # Started again while it is still down: refused at once. Then the same server is back.
    with pytest.raises(ValueError, match="endpoint: got .*ConnectError.*can be reached"):
        play_trials(jax.random.key(1), bandits, client(endpoint), tmp_path)
    with misbehaving({}) as (endpoint, requests):
        whole = play_trials(jax.random.key(1), bandits, client(endpoint), tmp_path)
    assert whole.is_complete and len(requests) == 18 - 7
    jax.tree.map(np.testing.assert_array_equal, whole.trials, undisturbed_run.trials)
    assert len([f for r in whole.reports for f in r.faults]) == 12
    assert_secret(tmp_path)


def test_empty_and_huge_replies_say_nothing_and_keys_are_never_repeated(bandits, secret, tmp_path):
    with misbehaving({0: "empty", 1: "huge", 2: "echo"}) as (endpoint, _):
        result = play_trials(
            jax.random.key(1), bandits, client(endpoint), tmp_path, at_once=1, patience=HASTE
        )
    assert result.is_complete and result.trials.invalid.sum() == 3
    assert (result.trials.length == 6).all()
    assert "you sent Bearer ***" in (tmp_path / "trial_0000.jsonl").read_text()
    for status in (401, 404):
        with misbehaving({"all": status}) as (endpoint, requests):
            stopped = play_trials(
                jax.random.key(2), bandits, client(endpoint), tmp_path / str(status)
            )
        assert len(requests) == 3  # asking again is of no use
        assert f"answers {status}: no: Bearer ***" in stopped.in_words()
        assert_secret(tmp_path, stopped.in_words())
    assert KEY not in repr(client("http://127.0.0.1:1/v1"))


def test_refused_before_any_cost(bandits, monkeypatch, tmp_path):
    with misbehaving({}) as (endpoint, requests):
        for model, words in (
            (client(endpoint), "key_variable: got 'no GPICLJAX_TEST_KEY in the environment'"),
            (client("http://127.0.0.1:9/v1", key_variable=None), "endpoint: got .*ConnectError"),
            (
                OpenAICompatible(endpoint, "tinny", key_variable=None),
                "model: got 'tinny' .did you mean 'tiny'",
            ),
        ):
            with pytest.raises(ValueError, match=words):
                play_trials(jax.random.key(0), bandits, model, tmp_path / "never")
        assert not requests and not (tmp_path / "never").exists()
    with pytest.raises(ValueError, match="endpoint: got 'an address with a name") as error:
        OpenAICompatible(f"http://me:{KEY}@host/v1", "tiny")
    assert KEY not in str(error.value)
    with pytest.raises(ValueError, match="options: got 'grammar'"):
        OpenAICompatible("http://host/v1", "tiny", options="grammar")


def test_our_own_server_answers_our_own_client():
    model = FakeModel("[SELECT: 1]", name="ours", context_tokens=50)
    with serve_chat_model(model) as endpoint:
        ask = OpenAICompatible(endpoint, "ours", key_variable=None, temperature=0.5)
        ask.check()
        reply = ask([Message("user", "Which?")], max_tokens=9, seed=3)
        assert (reply.text, reply.finish, reply.usage.completion) == ("[SELECT: 1]", "stop", 3)
        with pytest.raises(ModelError) as error:
            ask([Message("user", "Which? " * 100)], max_tokens=9, seed=3)
        assert error.value.fault == "context"
