"""The task of Inspect AI, with its mock model: the same sessions, the same measures."""

import gc

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from gpicljax.llm.inspect_tasks import incontext_rl


@pytest.mark.filterwarnings("ignore")
def test_a_trial_is_a_sample(tmp_path):
    def answer(input, tools, tool_choice, config):
        text = "What?" if len(input) == 4 else "[SELECT: 0]"
        output = ModelOutput.from_content("mockllm/model", text)
        # Without it the mock counts tokens with a vocabulary from the network.
        output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
        return output

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    task = incontext_rl(actions=4, trials=2, env="BanditTwoArmedHighLowFixed-v0")
    (log,) = eval(task, model=model, display="none", log_dir=str(tmp_path))
    gc.collect()  # its streams are not closed, which is to be noticed here, where it is ignored
    assert log.status == "success" and len(log.samples) == 2
    found = {score.name: score for score in log.results.scores}
    assert set(found) >= {"average_episode_reward", "total_steps", "invalid_response_rate"}
    for sample in log.samples:
        measures = sample.store["measures"]
        assert measures["total_steps"] == 4
        # The session's introduction, then a question and an answer for every reply.
        assert sample.messages[0].role == "system"
        assert len(sample.messages) == 1 + 2 * round(4 / (1 - measures["invalid_response_rate"]))
