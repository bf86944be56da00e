"""Trials with a real language model (of random weights) behind a real local server."""

import json

import jax
import pytest

import gpicljax
from gpicljax.llm import weights
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.prompts import PromptSettings, action_schema, schema_request
from gpicljax.rollout import HostBatch
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial

xllamacpp = pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")
pytest.importorskip("httpx")

from random_gguf import write_random_llama  # noqa: E402

from gpicljax.llm.client import OpenAICompatible  # noqa: E402

KEY = "local-secret"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("llama") / "random.gguf"
    write_random_llama(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"random"}
    params.api_keys = [KEY]
    params.offline = True
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.n_predict = 64
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture(scope="module")
def bandits():
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 4)
    return HostBatch(gpicljax.VectorEnv(env, 2, resets="fresh"))


def test_a_real_model_plays_under_a_grammar(endpoint, bandits, monkeypatch, tmp_path):
    monkeypatch.setenv("LLAMA_TEST_KEY", KEY)
    grammar = json.dumps({"grammar": 'root ::= "[SELECT: " [01] "]"'})
    model = OpenAICompatible(
        endpoint, "random", key_variable="LLAMA_TEST_KEY", options=grammar, temperature=1.0
    )
    settings = PromptSettings(history="summary")
    result = play_trials(
        jax.random.key(0), bandits, model, tmp_path, settings, max_tokens=32, at_once=1
    )
    assert result.is_complete and {report.status for report in result.reports} == {"finished"}
    assert (result.trials.length == 4).all() and result.trials.invalid.sum() == 0
    assert result.usage.requests == 8 and result.usage.completion >= 8 * 11
    monkeypatch.setenv("LLAMA_TEST_KEY", "wrong")
    refused = play_trials(
        jax.random.key(1), bandits, model, tmp_path / "no", settings, check_model=False
    )
    assert "answers 401" in refused.in_words() and KEY not in refused.in_words()


def test_a_real_model_without_one_ends_by_the_rule(endpoint, bandits, monkeypatch, tmp_path):
    monkeypatch.setenv("LLAMA_TEST_KEY", KEY)
    model = OpenAICompatible(endpoint, "random", key_variable="LLAMA_TEST_KEY", temperature=1.0)
    result = play_trials(jax.random.key(0), bandits, model, tmp_path, max_tokens=8, at_once=1)
    assert {report.status for report in result.reports} <= {"cut off", "invalid answers"}
    assert (result.trials.invalid == 4).all() and (result.trials.length == 0).all()


def test_weights_in_a_package_are_served_and_held_to_the_action_space(
    bandits, monkeypatch, tmp_path
):
    """The real package has a hundred megabytes; this one has the same form."""
    package = tmp_path / "tiny_weights"
    package.mkdir()
    (package / "__init__.py").write_text("")
    write_random_llama(package / "tiny.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(weights.WEIGHTS, "smollm2", ("tiny-weights", "tiny_weights"))
    weights.serve_weights.cache_clear()
    schema = schema_request(action_schema(bandits.vec.env.action_space()))
    options = LanguageModelOptions(local="smollm2", structured=True, temperature=1.0)
    options.check(schema)
    settings = PromptSettings(history="summary", reasons=False)
    result = play_trials(
        jax.random.key(0),
        bandits,
        options.client(schema),
        tmp_path / "played",
        settings,
        **options.asking(options.ledger()),
    )
    weights.serve_weights.cache_clear()
    assert {report.status for report in result.reports} == {"finished"}
    assert result.trials.invalid.sum() == 0 and (result.trials.length == 4).all()
