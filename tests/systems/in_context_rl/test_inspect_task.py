"""The tasks of Inspect AI, with its mock model: the same sessions, the same measures."""

import gc
import json

import numpy as np
import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from gpicljax.systems.in_context_rl.measures import normalised_score
from gpicljax.systems.in_context_rl.prompts.inspect_tasks import in_context_rl
from gpicljax.systems.mental_modelling.data.episodes import episode_from_actions
from gpicljax.systems.mental_modelling.data.stored import save_episodes
from gpicljax.systems.mental_modelling.prompts.inspect_tasks import mental_modelling
from gpicljax.systems.meta_rg.prompts.inspect_tasks import referential_listener, referential_speaker

pytestmark = pytest.mark.filterwarnings("ignore")


def run(task, answer, folder):
    """The log of a task whose model answers `answer(messages)`."""

    def reply(input, tools, tool_choice, config):
        output = ModelOutput.from_content("mockllm/model", answer(input))
        # Without it the mock counts tokens with a vocabulary from the network.
        output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
        return output

    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = eval(task, model=model, display="none", log_dir=str(folder))
    gc.collect()  # its streams are not closed, which is to be noticed here, where it is ignored
    assert log.status == "success", log.error
    return log


def metrics(log):
    return {
        score.name: {name: metric.value for name, metric in score.metrics.items()}
        for score in log.results.scores
    }


def test_a_trial_is_a_sample(tmp_path):
    task = in_context_rl(actions=4, trials=2, env="BanditTwoArmedHighLowFixed-v0")
    log = run(
        task, lambda answer_text: "What?" if len(answer_text) == 4 else "[SELECT: 0]", tmp_path
    )
    assert len(log.samples) == 2
    scores = {score.name: score for score in log.results.scores}
    assert set(scores) >= {"average_episode_reward", "total_steps", "invalid_response_rate"}
    for sample in log.samples:
        measures = sample.store["measures"]
        assert measures["total_steps"] == 4
        # The session's introduction, then a question and an answer for every reply.
        assert sample.messages[0].role == "system"
        assert len(sample.messages) == 1 + 2 * round(4 / (1 - measures["invalid_response_rate"]))
    # The score is the one of the study's table, on the same tasks with the same luck.
    group = "grouped_BanditTwoArmedHighLowFixed-v0"
    by_sample = [sample.store["measures"] for sample in log.samples]
    model, low, high = (
        np.array([x[name] for x in by_sample]) for name in ("earned", "random", "oracle")
    )
    assert np.isclose(metrics(log)["score"][group[8:]], normalised_score(model, low, high).mean)
    assert {"regret", "last_5", "last_20"} <= set(scores)
    assert metrics(log)["regret"][group] == pytest.approx(np.mean([x["regret"] for x in by_sample]))
    assert all(x["earned"] == x["total_return"] for x in by_sample)


def test_a_perfect_player_scores_one_and_what_does_nothing_scores_none(tmp_path):
    """On the reference's lake, whose way is known; in the published wording."""
    way = [1, 1, 2, 1, 2, 2]  # down, down, right, down, right, right

    def best(answer_text):
        moves = sum(message.role == "assistant" for message in answer_text)
        return f"I go. [SELECT: {way[moves % len(way)]}]"

    task = in_context_rl(actions=12, env="FrozenLake-v1", wording="paper", explanations=False)
    log = run(task, best, tmp_path)
    assert "You are playing a game." in log.samples[0].messages[0].text
    group = "grouped_FrozenLake-v1"
    assert metrics(log)["score"]["FrozenLake-v1"] == 1 and metrics(log)["last_5"][group] == 1
    assert "regret" not in log.samples[0].store["measures"]
    idle = in_context_rl(actions=12, env="CliffWalking-v1", explanations=False)
    log = run(idle, lambda answer_text: "[SELECT: 0]", tmp_path)
    measures = log.samples[0].store["measures"]
    assert measures["earned"] == 0 and measures["total_return"] == -12
    with pytest.raises(ValueError, match="wording: got 'rude'"):
        in_context_rl(wording="rude")


def test_a_question_about_an_agent_is_a_sample(tmp_path):
    actions = [2, 2, 0, 0, 2, 2, 0, 0, 2, 2]
    states = np.cumsum(np.full((10, 2), 0.01), 0)
    car = episode_from_actions(actions, states, environment="MountainCar-v0")
    save_episodes(tmp_path / "data" / "MountainCar-v0" / "mine", car)
    data = str(tmp_path / "data")
    task = mental_modelling(data=data, question="next_action", history=2, queries=6)
    log = run(
        task,
        lambda answer_text: "[ANSWER: 0]" if "step 5" in answer_text[-1].text else "?",
        tmp_path,
    )
    first = log.samples[0]
    assert len(log.samples) == 6 and [m.role for m in first.input] == ["system", "user"]
    assert "Which action does the agent take at step" in first.input[1].text
    scores = metrics(log)
    state_group = "grouped_MountainCar-v0, next_action"
    shares = {name: values[state_group] for name, values in scores.items()}
    has_step = ["step 5" in sample.input[1].text for sample in log.samples]
    assert shares["parsed"] == pytest.approx(np.mean(has_step)) and shares["accuracy"] <= 0.5
    # Inspect puts the package's name before it where it finds the package's entry point.
    error = state_group.replace("grouped", "grouped_error")
    assert next(x for name, x in scores["parsed"].items() if name.split("/")[-1] == error) > 0
    taken = [sample.metadata["step"] for sample in log.samples]
    right = np.mean([actions[i] == actions[i - 1] for i in taken])
    assert shares["copying"] == pytest.approx(right)
    task = mental_modelling(data=data, question="next_action", queries=6, wording="paper")
    log = run(task, lambda answer_text: ">>Final action choice: [2]", tmp_path)
    shares = {name: values[state_group] for name, values in metrics(log).items()}
    assert shares["parsed"] == 1 and "Task description:" in log.samples[0].input[0].text
    with pytest.raises(ValueError, match="question: got 'why'; accepted: next_action"):
        mental_modelling(data=data, question="why")
    with pytest.raises(ValueError, match="env: got 'Chess-v0'; accepted: MountainCar-v0"):
        mental_modelling(data=data, env="Chess-v0")
    with pytest.raises(ValueError, match="history: got 20; accepted: up to 7"):
        mental_modelling(data=data, history=20)


@pytest.mark.parametrize("role", ["listener", "speaker"])
def test_an_episode_of_games_is_a_sample(role, tmp_path):
    task = {"listener": referential_listener, "speaker": referential_speaker}[role]
    reply = {"listener": json.dumps({"meaning": "same"}), "speaker": "[MESSAGE: 1, 2]"}[role]
    log = run(task(max_values=2, episodes=2, env="MetaRG-v1"), lambda answer_text: reply, tmp_path)
    assert len(log.samples) == 2 and log.samples[0].messages[-1].text == reply
    names = {name for values in metrics(log).values() for name in values}
    assert {"mean", "stderr", "balanced_accuracy", "says_same", "always_same"} <= names
    tables = np.array([sample.scores["decisions"].metadata["decisions"] for sample in log.samples])
    assert tables.sum() > 0
    values = {name: x for by_name in metrics(log).values() for name, x in by_name.items()}
    if role == "listener":
        assert values["says_same"] == 1 and values["balanced_accuracy"] == 0.5
        assert values["always_same"] == tables[:, 0].sum() / tables.sum()
    else:
        assert tables[..., 2].sum() == 0
