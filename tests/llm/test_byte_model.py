"""This project's own small models as language models: trained on transcripts, served, scored."""

import pytest

import gpicljax
from gpicljax.data.transcripts import read_transcript
from gpicljax.llm.chat import FakeModel, Message
from gpicljax.llm.local import SMALL, conversation_text, train_byte_model
from gpicljax.llm.prompts import PromptSettings
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial


@pytest.mark.slow
def test_a_model_trained_on_transcripts_plays_like_who_wrote_them(key, tmp_path):
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 20)
    vec = gpicljax.VectorEnv(env, 4, resets="fresh")
    teacher = FakeModel("[SELECT: 0]")
    settings = PromptSettings(reasons=False)
    play_trials(key, vec, teacher, tmp_path / "teacher", settings)
    conversations = []
    for path in sorted((tmp_path / "teacher").glob("*.jsonl")):
        messages = []
        for turn in read_transcript(path)[1]:
            messages += [Message(*m) for m in turn["asked"]]
            messages.append(Message("assistant", turn["reply"]))
        conversations.append(conversation_text(messages, answering=False))
    model = train_byte_model(
        key, conversations, SMALL, length=160, updates=300, memory=192, temperature=0.0
    )
    result = play_trials(key, vec, model, tmp_path / "student", settings, max_tokens=24)
    assert result.trials.length.mean() > 10
    assert (result.trials.actions[:, :5] == 0).mean() > 0.8
