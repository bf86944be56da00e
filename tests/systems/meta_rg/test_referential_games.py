"""Language models in referential games: what each player is told, and how answers are counted."""

import json
import re

import jax
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.llm.chat import FakeModel
from gpicljax.systems.meta_rg.experts.listeners import nearest_rule, rule_listener
from gpicljax.systems.meta_rg.measures.listening import confusion
from gpicljax.systems.meta_rg.measures.published import TABLE_4
from gpicljax.systems.meta_rg.prompts.games import (
    nearest_listener,
    play_listener,
    play_rule,
    play_speaker,
)
from gpicljax.systems.meta_rg.prompts.sessions import (
    ListenerSession,
    ListenerSettings,
    SpeakerSession,
    answer_schema,
    decision_in,
    message_in,
)
from gpicljax.vector import VectorEnv


def game(phase, stimulus, message=(1, 2, 0), result=0):
    observation = {"phase": phase, "stimulus": np.array([stimulus]), "previous_result": result}
    return observation | {"message": np.array(message)}


def test_a_listener_sees_the_past_but_not_the_speakers_stimulus():
    session = ListenerSession(ListenerSettings(), vocab_size=6, length=3)
    system, user = session.question(game(0, 0.25))
    assert "listener" in system.content and "[0.250], and hear [1, 2, 0]" in user.content
    assert session.answer_in("same") is None
    assert session.hear(None) == 1 and session.is_valid == [False]
    session.add_outcome(game(0, -0.75, result=1))
    text = session.question(game(0, 0.5))[1].content
    assert "nothing valid, which was wrong. The speaker saw [-0.750]." in text
    assert session.hear(session.answer_in('{"meaning": "different"}')) == 1
    session.add_outcome(game(0, 0.5, result=2))
    # Games count anew in the second phase.
    text = session.question(game(1, 0.125))[1].content
    assert "Second phase, game 1" in text and "first phase, game 2" in text
    assert "which was right" in text


def test_answers_are_bounded_and_their_order_turns():
    plain, turned = ListenerSettings(), ListenerSettings(different_first=True)
    for settings in (plain, turned):
        schema = json.loads(answer_schema(settings))["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["meaning"]["enum"] == list(settings.order)
        text = ListenerSession(settings, 6, 3).question(game(0, 0.5))[1].content
        first, second = (text.index(f'"{word}"}}') for word in settings.order)
        assert first < second
    assert [decision_in(t) for t in ('{"meaning":"same"}', "[ANSWER: different]")] == [0, 1]
    for text in ("", "yes", '{"meaning": 0}', '{"meaning": "both"}'):
        assert decision_in(text) is None


def test_a_speaker_says_what_can_be_said():
    session = SpeakerSession(vocab_size=6, length=3)
    assert "you see [0.500]" in session.question(game(0, 0.5))[1].content
    assert session.answer_in("[MESSAGE: 7]") is None
    assert session.hear(None) == [0, 0, 0] and session.is_valid == [False]
    session.add_outcome(game(0, 0.5, result=2))
    text = session.question(game(0, 0.75))[1].content
    assert "You said [0, 0, 0]; your partner decided rightly." in text
    for text in ("[MESSAGE: 6 1 2]", "[MESSAGE: [6, 1, 2]]", "[MESSAGE: 6.0, 1., +2]"):
        assert message_in(text, 3, 6) == [6, 1, 2]
    for text in ("[MESSAGE: 1, 2, 3, 4]", "[MESSAGE: a]", "6 1 2", "[MESSAGE: ]"):
        assert message_in(text, 3, 6) is None


def test_confusion_tells_a_bias_from_ignorance():
    answer = np.array([0] * 30 + [1] * 10)
    always = confusion(answer, np.zeros(40, int), np.ones(40, bool))
    assert always.accuracy == always.always_same == 0.75
    assert always.balanced_accuracy == 0.5 and always.says_same == 1
    # What is not valid is wrong, and in neither answer.
    valid = np.arange(40) % 2 == 0
    half = confusion(answer, answer, valid)
    assert half.accuracy == 0.5 and half.same == (15, 0, 15) and half.different == (0, 5, 5)
    assert np.isnan(confusion(answer[:0], answer[:0], valid[:0]).accuracy)
    with pytest.raises(ValueError, match="answer: got"):
        confusion(answer, answer[:3], valid)
    assert len(TABLE_4) == 8 and TABLE_4["GPT-4o-mini", 1, 1].mean == 0.331


@pytest.mark.slow
def test_episodes_are_played_by_models(tmp_path):
    env = gpicljax.make("MetaRG-v0", max_values=2, num_dims=2)
    vec = VectorEnv(env, 4, resets="fresh")
    model = FakeModel(lambda messages, seed: '{"meaning": "same"}' if seed % 3 else "?")
    played = play_listener(jax.random.key(0), vec, model, tmp_path / "listener")
    games = played.support.games + played.query.games
    assert played.episodes == 4 and games == model.requests and played.invalid > 0
    assert played.support.same[1] == played.query.different[1] == 0
    repeated = play_listener(jax.random.key(0), vec, model, tmp_path / "listener")
    assert repeated == played and games == model.requests

    # A listener that learns from what it is shown understands who says the same of the same.
    env = gpicljax.make("MetaRG-v0", view="players", max_values=2, num_dims=2)
    vec, listener = VectorEnv(env, 4, resets="fresh"), nearest_listener(env)
    silent = FakeModel("[MESSAGE: 1, 1]")
    played = play_speaker(jax.random.key(0), vec, silent, tmp_path / "speaker", listener)
    assert played.episodes == 4 and played.invalid == 0
    assert played.query.different[1] == 0  # all is said to be the same
    with pytest.raises(ValueError, match='vec: got .*MetaRG with view="listener"'):
        play_listener(jax.random.key(0), vec, model, tmp_path / "wrong")


NAMES = {
    "categorical": ("a letter for each dimension", "[A-Z]"),
    "pseudoword": ("a word for each dimension", "[a-z]{4}"),
}


@pytest.mark.parametrize("stimulus", daily(["pseudoword"], NAMES))
def test_a_listener_without_numbers_and_the_rule_beside_it(stimulus, tmp_path):
    """Names reach the model as text; the nearest-stimulus rule plays the very same games."""
    looks, name = NAMES[stimulus]
    pattern = rf"you see \[{name}, {name}, {name}\], and hear"
    env = gpicljax.make("MetaRG-v1", stimulus=stimulus, max_values=3)
    vec, requests = VectorEnv(env, 4, resets="fresh"), []

    def answer(messages, seed):
        requests.append(messages)
        return '{"meaning": "same"}'

    played = play_listener(jax.random.key(0), vec, FakeModel(answer), tmp_path)
    assert all(looks in system.content for system, _ in requests)
    assert all(re.search(pattern, user.content) for _, user in requests)
    rule = play_rule(jax.random.key(0), vec, rule_listener(env, nearest_rule(env)))
    assert rule.episodes == played.episodes == 4
    assert [sum(x) for x in rule.query] == [sum(x) for x in played.query]
    # A name of a value that was shown is known again: the rule errs where one was not shown alone.
    assert rule.query.accuracy > 0.9 > played.query.accuracy
