"""Language models in trials: what they are told, what is read, and when it ends."""

import dataclasses
import time
import tomllib
from pathlib import Path
from string import Template

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax import spaces
from gpicljax.agents.bandits import ucb1
from gpicljax.data.transcripts import read_transcript
from gpicljax.interface import TimeStep
from gpicljax.llm.budget import Budget
from gpicljax.llm.chat import FakeModel, ModelError
from gpicljax.llm.parsing import chosen
from gpicljax.llm.prompts import PromptSettings, action_schema
from gpicljax.llm.scenarios import arm_names
from gpicljax.rollout import HostBatch, host_play
from gpicljax.storage import SavedError
from gpicljax.storage.lock import LockedError, exclusive
from gpicljax.systems.in_context_rl.measures import keep_trial_step, measure_trials, trial_records
from gpicljax.systems.in_context_rl.prompts import wording
from gpicljax.systems.in_context_rl.prompts.demonstrations import expert_decisions
from gpicljax.systems.in_context_rl.prompts.session import TrialSession, ucb1_parts
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions

LAKE = Trial(gpicljax.make("FrozenLake-v1", is_slippery=True), 12)


@pytest.fixture(scope="module")
def lakes():
    return HostBatch(gpicljax.VectorEnv(LAKE, 3, resets="fresh"))


def walker(messages, seed):
    """Moves by the number of its messages, and now and then says nothing useful."""
    turn = len(messages)
    return "I am not sure." if turn % 7 == 3 else f"Thus [SELECT: {turn * 5 % 4}]"


CHOICES = [
    # reply, strictly, leniently
    ("[SELECT: 2]", 2, 2),
    ("First [SELECT: 1], then [SELECT: 2]", None, 2),
    ("[SELECT: 2] [SELECT: 2]", None, 2),
    ("[select:3]", None, 3),
    ("[SELECT:  1]", None, 1),
    ("[SELECT: action 1]", None, 1),
    ("[SELECT: 4]", None, None),
    ("[SELECT: -1]", None, None),
    ("[SELECT: 1.0]", None, 1),
    ("[SELECT: 2.]", None, 2),
    ("[SELECT: +3]", None, 3),
    ("[SELECT: 1.5]", None, None),
    ("[SELECT: -1.0]", None, None),
    ("[SELECT: [2]]", None, 2),
    ("[SELECT: <2>]", None, 2),
    ("[SELECT: **2**]", None, 2),
    (r"\[SELECT: 2\]", None, 2),
    ("【SELECT：２】", None, 2),
    ("[SELECT: [SELECT: 2]]", 2, 2),
    # As in the reference, brackets without a number are no choice.
    ("In the format [SELECT: x]: [SELECT: 2]", 2, 2),
    ("[SELECT: [1], [2]]", None, None),
    ("[SELECT: 1 2]", None, None),
    ("SELECT: 1", None, None),
    ("", None, None),
    ("[SELECT: " + "9" * 5000 + "]", None, None),
    ("[SELECT: ٣]", None, None),
]


@pytest.mark.parametrize("text, strict, lenient", CHOICES)
def test_choices_are_read_strictly_and_leniently(text, strict, lenient):
    four = spaces.Discrete(4)
    for parsing, choice in (("strict", strict), ("lenient", lenient)):
        assert chosen(text, four, parsing) == choice


def test_numbers_are_read_within_their_bounds():
    box = spaces.Box(-2.0, 2.0, (2,))
    assert chosen("[SELECT: 0.5, -1e-1]", box).tolist() == pytest.approx([0.5, -0.1])
    for text_with in (
        "0.5 -2",
        "0.5, −2.0",
        "[0.5, -2]",
        "(0.5; –2)",
        "[[0.5], [-2]]",
        "**.5, －2**",
    ):
        text = f"[SELECT: {text_with}]"
        assert chosen(text, box, "lenient").tolist() == [0.5, -2] and chosen(text, box) is None
    rows = spaces.Box(-2.0, 2.0, (2, 2))
    text_of_session = chosen("Thus [SELECT: [[0, 1], [−1, 2]]]", rows, "lenient")
    assert text_of_session.tolist() == [[0, 1], [-1, 2]]
    assert chosen("[SELECT: [2.0, 3]]", spaces.MultiDiscrete((3, 5)), "lenient").tolist() == [2, 3]
    for text in ("[SELECT: " * 9999, "[SELECT:" + "[" * 9999, "[SELECT: [" + "[1]" * 9999):
        assert chosen(text, box, "lenient") is None
    for text in ("[SELECT: 0.5]", "[SELECT: 0.5, 2.1]", "[SELECT: nan, 0]", "[SELECT: 1e999, 0]"):
        assert chosen(text, box) is None and chosen(text, box, "lenient") is None
    assert chosen("[SELECT: 1, 4]", spaces.MultiDiscrete((3, 5))).tolist() == [1, 4]
    assert chosen("[SELECT: 3, 4]", spaces.MultiDiscrete((3, 5))) is None
    with pytest.raises(ValueError, match="parsing: got 'loose'"):
        chosen("", box, "loose")


PAPER = PromptSettings(wording="paper", parsing="strict", permute_arms=False)


def paper_text(name):
    """A text of the reference, from the file that has them."""
    path = Path(wording.__file__).with_name("paper.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))[name]


def test_the_published_wording_is_the_reference_s():
    path = Path(wording.__file__).with_name("paper.toml").read_text(encoding="utf-8")
    assert "MIT License" in path and "Copyright (c) 2023 OpenAI" in path
    session = TrialSession(
        PAPER, spaces.Discrete(16), spaces.Discrete(4), 3, "On a lake.", name="Trial(FrozenLake)"
    )
    session.begin(np.int32(0))
    system, first = session.messages()
    filled = Template(paper_text("task")).substitute(
        explanations="You are playing a game.",
        action_space=4,
        actions="['0', '1', '2', '3']",
        observation_space=16,
        observations=[f"Observation {n}" for n in range(16)],
    )
    assert system.content == filled and system.role == "system"
    reset = Template(paper_text("reset")).substitute(observation="Observation 0")
    so_far = "\n\nTotal actions taken so far: {}\nTotal reward so far: {}"
    assert first.content == reset + so_far.format(0, 0)
    assert session.read_reply("I take [SELECT: 1] or [SELECT: 2]") is None
    assert session.messages()[-1].content == paper_text("invalid")
    assert session.read_reply("[SELECT: 2]") == 2
    session.record_outcome(np.int32(1), np.int32(1), 0.0, False)
    text_of_session = {"action": 2, "next_observation": "Observation 1", "reward": "0.0"}
    step = Template(paper_text("result")).substitute(text_of_session)
    assert session.messages()[-1].content == step + so_far.format(1, "0.0")
    session.read_reply("[SELECT: 2]")
    session.record_outcome(np.int32(15), np.int32(0), 1.0, True)
    text_of_session |= {"next_observation": "Observation 15", "reward": "1.0"}
    over = Template(paper_text("result_reset")).substitute(text_of_session)
    assert session.messages()[-1].content == f"{over}\n\n{reset}" + so_far.format(2, "1.0")
    assert [message.role for message in session.messages()][:6] == [
        *("system", "user", "assistant", "user", "assistant", "user"),
    ]
    assert (
        "On a lake."
        in TrialSession(
            dataclasses.replace(PAPER, explanations=True),
            spaces.Discrete(16),
            spaces.Discrete(4),
            3,
            "On a lake.",
        )
        .messages()[0]
        .content.split("\n")[0]
    )
    # Rewards that are integers in the reference are written as such; their sum is not.
    cliff = TrialSession(
        PAPER, spaces.Discrete(48), spaces.Discrete(4), 3, name="Trial(CliffWalking)"
    )
    cliff.begin(np.int32(36))
    cliff.read_reply("[SELECT: 0]")
    cliff.record_outcome(np.int32(24), np.int32(24), -1.0, False)
    assert "provided reward: -1. " in cliff.messages()[-1].content
    assert cliff.messages()[-1].content.endswith("so far: -1.0")


def test_the_published_wording_is_refused_where_it_does_not_fit():
    with pytest.raises(ValueError, match="wording: got 'paper'"):
        PromptSettings(wording="paper", history="summary")
    with pytest.raises(ValueError, match="observations: got Box"):
        TrialSession(PAPER, spaces.Box(0.0, 1.0, (2,)), spaces.Discrete(4), 3)


def test_four_invalid_answers_in_a_row_end_a_trial():
    session = TrialSession(
        PromptSettings(parsing="strict"), spaces.Discrete(2), spaces.Discrete(2), 9
    )
    session.begin(0)
    for text in ("a", "b", "c"):
        assert session.read_reply(text) is None and session.status == "playing"
    # What was said and the correction stay in the conversation.
    assert [message.role for message in session.messages()[-3:]] == ["user", "assistant", "user"]
    assert session.read_reply("[SELECT: 1]").item() == 1
    session.record_outcome(1, 0, 0.25, True)
    assert "paid 0.25" in session.messages()[-1].content
    for text in ("[select: 1]", "b", "c", "d"):
        assert session.status == "playing"
        session.read_reply(text)
    assert session.status == "invalid answers"
    assert (session.replies, session.invalid, session.invalid_strict) == (8, 7, 7)


def test_a_bandit_s_arms_are_numbered_anew_in_every_trial():
    def arm(seed, **settings):
        spaces_of = spaces.Discrete(1), spaces.Discrete(3), 5
        session = TrialSession(PromptSettings(**settings), *spaces_of, seed=seed)
        session.begin(np.int32(0))
        pull_arms = session.read_reply("[SELECT: 0]")
        session.record_outcome(np.int32(0), np.int32(0), 1.0, True)
        assert "Action 0 led" in session.messages()[-1].content
        return int(pull_arms)

    assert {arm(seed) for seed in range(20)} == {0, 1, 2}
    assert arm(3) == arm(3)
    assert {arm(seed, permute_arms=False) for seed in range(20)} == {0}
    # What actions mean elsewhere is not touched.
    lake = TrialSession(PromptSettings(), spaces.Discrete(16), spaces.Discrete(4), 5, seed=1)
    lake.begin(np.int32(0))
    assert [int(lake.read_reply(f"[SELECT: {n}]")) for n in range(4)] == [0, 1, 2, 3]


def test_what_is_told():
    def text_with(**settings):
        session = TrialSession(
            PromptSettings(**settings), spaces.Discrete(16), spaces.Discrete(4), 50, "On ice."
        )
        session.begin(0)
        for action, situation, reward, ended in (
            (1, 4, 0.0, False),
            (2, 5, 0.0, True),
            (1, 4, 0.0, False),
        ):
            session.read_reply(f"[SELECT: {action}]")
            session.record_outcome(situation, 0 if ended else situation, reward, ended)
        return session.messages()

    full, summed = text_with(), text_with(history="summary", explanations=True, tell_limit=False)
    # One message for each time step, its reply, and the introduction.
    assert [m.role for m in full] == ["system", *["user", "assistant"] * 3, "user"]
    assert "On ice" not in full[0].content and "50" in full[0].content
    assert "3 of 50 actions taken; rewards so far add up to 0." in full[-1].content
    assert (
        "That was the end of the episode.\nThe next episode begins. You observe 0."
        in full[-3].content
    )
    assert [m.role for m in summed] == ["system", "user"]
    assert "On ice" in summed[0].content and "50" not in summed[0].content + summed[1].content
    assert "- at 4, action 2 (once): paid 0 on average; to 5 (end) x1" in summed[1].content
    assert "- at 0, action 1 (2 times): paid 0 on average; to 4 x2" in summed[1].content
    numbers = TrialSession(
        PromptSettings(decimals=2), spaces.Box(-9, 9, (2,)), spaces.Discrete(3), 5
    )
    numbers.begin(np.array([0.123456, -0.001], np.float32))
    assert "You observe [0.12, 0.00]." in numbers.messages()[-1].content


ARMS = spaces.Discrete(1), spaces.Discrete(3), 9


def pull_arms(session, *steps):
    """The session after pulls of arms, as they are called, that paid so much."""
    session.begin(np.int32(0))
    for called, paid in steps:
        assert session.read_reply(f"[SELECT: {called}]") is not None
        session.record_outcome(np.int32(0), np.int32(0), paid, True)
    return session


def test_a_bandit_is_told_as_a_scenario_whose_arms_have_names():
    session = TrialSession(PromptSettings(scenario="buttons"), *ARMS, seed=3)
    assert session.read_reply("the one to the left") is None
    assert "You can choose red, blue, green." in session.messages()[-1].content
    plain = TrialSession(PromptSettings(), *ARMS, seed=3)
    for number, name in enumerate(("red", "Blue", "the green button")):
        # Under a name is the arm that has its number in a trial without names.
        assert session.read_reply(f"[SELECT: {name}]") == plain.read_reply(f"[SELECT: {number}]")
    assert (
        session.read_reply("[SELECT: 0]") is None
        and session.read_reply("[SELECT: red, blue]") is None
    )
    text_with = pull_arms(
        TrialSession(PromptSettings(scenario="cafes"), *ARMS), ("Anchor", 0.5)
    ).messages()
    assert (
        "Anchor, Bluebell, Copper" in text_with[0].content and "episode" not in text_with[0].content
    )
    assert text_with[-1].content.startswith("You chose Anchor. It paid 0.5.")
    settings = PromptSettings(scenario="buttons", history="summary")
    text_of_session = (
        pull_arms(TrialSession(settings, *ARMS), ("red", 1.0), ("red", 0.0)).messages()[-1].content
    )
    assert (
        "- red (2 times): paid 0.5 on average\n- blue (never)\n- green (never)" in text_of_session
    )
    assert "- red paid 1\n- red paid 0" in text_of_session
    schema = action_schema(spaces.Discrete(2), names=arm_names("buttons", 2))
    assert schema["enum"] == ["[SELECT: red]", "[SELECT: blue]"]
    strict = TrialSession(PromptSettings(scenario="buttons", parsing="strict"), *ARMS)
    assert (
        strict.read_reply("[SELECT: Red]") is None
        and strict.read_reply("[SELECT: red]") is not None
    )
    with pytest.raises(ValueError, match="arms: got 40; accepted: up to 16"):
        TrialSession(PromptSettings(scenario="buttons"), spaces.Discrete(1), spaces.Discrete(40), 9)


def test_guidance_is_what_ucb1_makes_of_the_arms():
    settings = PromptSettings(history="summary", guidance=True)
    session = pull_arms(TrialSession(settings, *ARMS), (0, 1.0), (1, 0.0), (0, 0.0), (0, 1.0))
    text_of_session = session.messages()[-1].content
    assert (
        "- action 0 (3 times): exploitation value 0.67, exploration bonus 0.96" in text_of_session
    )
    assert "- action 1 (once): exploitation value 0, exploration bonus 1.67" in text_of_session
    assert (
        "- action 2 (never): exploitation value 0, exploration bonus without limit"
        in text_of_session
    )
    # The sum of both is the index of the rule.
    counts, sums = np.array([3, 1, 5]), np.array([2.0, 0.0, 2.5])
    agent = ucb1(spaces.Discrete(3))
    carry = dataclasses.replace(
        agent.initial_carry(1),
        counts=jax.numpy.asarray(counts[None]),
        sums=jax.numpy.asarray(sums[None]),
    )
    false = jax.numpy.zeros(1, bool)
    zero = jax.numpy.zeros(1)
    situation = TimeStep(zero, zero, false, false, false, false, {}, ())
    _, aux, _ = agent.act(jax.random.split(jax.random.key(0), 1), (), carry, situation)
    indices = [sum(ucb1_parts(int(n), x, 9)) for n, x in zip(counts, sums, strict=True)]
    np.testing.assert_allclose(aux["scores"][0], indices, rtol=1e-6)
    with pytest.raises(ValueError, match="guidance: got True"):
        PromptSettings(guidance=True)
    for decision in (settings, PromptSettings(scenario="buttons")):
        with pytest.raises(ValueError, match="bandits: one situation"):
            TrialSession(decision, spaces.Discrete(16), spaces.Discrete(4), 9)
    for field in ({"scenario": "buttons"}, {"demonstrations": 3}):
        with pytest.raises(ValueError, match="wording: got 'paper'"):
            PromptSettings(wording="paper", **field)


def test_an_expert_s_decisions_are_shown_before_the_trial(lakes, key, tmp_path):
    lake = WithOptimalActions(gpicljax.make("FrozenLake-v1", is_slippery=False))
    env = Trial(lake, 7)
    (shown,) = expert_decisions(key, env, env.default_params, 1)
    assert [decision.reward for decision in shown] == [0.0] * 5 + [1.0, 0.0]
    assert [decision.ended for decision in shown] == [False] * 5 + [True, False]
    assert all(a.after == b.observation for a, b in zip(shown, shown[1:], strict=False))
    text_with = TrialSession(
        PromptSettings(demonstrations=6),
        spaces.Discrete(16),
        spaces.Discrete(4),
        9,
        demonstration=shown,
    ).messages()[0]
    lines = [line for line in text_with.content.split("\n") if line.startswith("- You observe")]
    assert len(lines) == 6 and "[SELECT: " in lines[0]
    assert lines[-1].endswith("and paid 1. That was the end of the episode.")
    # UCB1 shows bandits; its arms are numbered apart from those of the trial.
    bandit = Trial(WithOptimalActions(gpicljax.make("BanditTwoArmedHighLowFixed-v0")), 40)
    (pulls,) = expert_decisions(key, bandit, bandit.default_params, 1)
    assert {int(decision.action) for decision in pulls} == {0, 1}
    assert np.mean([int(decision.action) == 0 for decision in pulls]) > 0.5
    words = PromptSettings(demonstrations=2, scenario="buttons")
    firsts = {
        TrialSession(words, spaces.Discrete(1), spaces.Discrete(2), 9, seed=n, demonstration=pulls)
        .messages()[0]
        .content.partition("- [SELECT: ")[2][:3]
        for n in range(12)
    }
    assert firsts == {"red", "blu"}
    settings = PromptSettings(demonstrations=2)
    with pytest.raises(ValueError, match="demonstrations: got"):
        play_trials(key, lakes, FakeModel(walker), tmp_path / "none", settings)
    result = play_trials(
        key, lakes, FakeModel(walker), tmp_path / "run", settings, demonstrations=[shown] * 3
    )
    assert result.is_complete


def test_a_language_model_plays_what_others_play(lakes, key, tmp_path):
    """The same actions lead through the same trials, whoever takes them; and a run resumes."""
    model = FakeModel(walker)
    result = play_trials(key, lakes, model, tmp_path / "run")
    assert result.is_complete and {r.status for r in result.reports} == {"finished"}
    trials = result.trials
    assert (trials.length == 12).all() and (trials.replies == 12 + trials.invalid).all()
    assert (trials.invalid > 0).all() and result.usage.requests == trials.replies.sum()
    taken = [0] * 3

    def follow(moments):
        actions = {i: trials.actions[i, taken[i]] for i in moments}
        for i in moments:
            taken[i] += 1
        return actions

    replayed = trial_records(host_play(key, lakes, follow, max_steps=12, keep=keep_trial_step))
    np.testing.assert_array_equal(replayed.rewards, trials.rewards)
    np.testing.assert_array_equal(replayed.ends, trials.ends)
    rate = measure_trials(trials, num_actions=4).invalid_response_rate
    np.testing.assert_allclose(rate, trials.invalid / trials.replies, rtol=1e-6)
    # All turns are on disk; the same call asks for nothing.
    turns = [read_transcript(tmp_path / f"run/trial_000{i}.jsonl")[1] for i in range(3)]
    assert [len(t) for t in turns] == trials.replies.tolist()
    silent = FakeModel("never asked")
    recalled = play_trials(key, lakes, silent, tmp_path / "run")
    assert silent.requests == 0
    jax.tree.map(np.testing.assert_array_equal, recalled.trials, trials)
    assert recalled.usage == result.usage
    # Half of a trial is gone on with.
    path = tmp_path / "run/trial_0001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    model = FakeModel(walker)
    resumed = play_trials(key, lakes, model, tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, resumed.trials, trials)
    assert model.requests == trials.replies[1] - 5 and resumed.reports[1].recalled == 5
    # Another run's transcripts, or a folder in use, are refused.
    with pytest.raises(SavedError, match="key is"):
        play_trials(jax.random.key(9), lakes, model, tmp_path / "run")
    held = exclusive(tmp_path / "run")
    with pytest.raises(LockedError):
        play_trials(key, lakes, model, tmp_path / "run")
    held.close()


def test_how_trials_end_early(lakes, key, tmp_path):
    """Contexts that are full and answers that are no use end them; budgets interrupt the run."""
    small = FakeModel("[SELECT: 1]", context_tokens=600)
    full = play_trials(key, lakes, small, tmp_path / "a")
    assert full.is_complete and {r.status for r in full.reports} == {"context full"}
    assert (full.trials.length > 0).all() and (full.trials.length < 12).all()
    same = play_trials(key, lakes, small, tmp_path / "a")
    jax.tree.map(np.testing.assert_array_equal, same.trials, full.trials)
    limited = play_trials(
        key, lakes, FakeModel("[SELECT: 1]"), tmp_path / "b", max_tokens=50, context_tokens=600
    )
    assert {r.status for r in limited.reports} == {"context full"}
    useless = play_trials(key, lakes, FakeModel("What?"), tmp_path / "c")
    assert {r.status for r in useless.reports} == {"invalid answers"}
    assert (useless.trials.length == 0).all() and (useless.trials.invalid == 4).all()
    poor = play_trials(
        key, lakes, FakeModel("[SELECT: 1]"), tmp_path / "d", budget=Budget(requests=20)
    )
    assert not poor.is_complete and poor.usage.requests == 20
    assert "budget spent" in poor.in_words() and "goes on where it was left" in poor.in_words()
    rich = play_trials(key, lakes, FakeModel("[SELECT: 1]"), tmp_path / "d")
    assert rich.is_complete and rich.usage.requests == 36
    broken = ModelError("the key is refused (401)", "refused")
    stopped = play_trials(
        key, lakes, FakeModel("[SELECT: 1]", faults={7: broken}), tmp_path / "e", at_once=1
    )
    assert sorted(r.status for r in stopped.reports) == ["finished", "finished", "interrupted"]
    assert "1 faults, the last: turn 2, attempt 1: the key is refused (401)" in stopped.in_words()


def test_numbers_are_seen_and_chosen(key, tmp_path):
    """The tasks with continuous observations, and with continuous actions."""
    for name, reply, excerpt in (
        ("MountainCar-v0", "[SELECT: 2]", "You observe [-0."),
        ("Pendulum-v1", "[SELECT: -1.5]", "An action is a number from -2 to 2."),
    ):
        vec = gpicljax.VectorEnv(Trial(gpicljax.make(name), 3), 1, resets="fresh")
        text_of_session = PromptSettings(explanations=True, decimals=2)
        result = play_trials(key, vec, FakeModel(reply), tmp_path / name, text_of_session)
        assert result.is_complete and result.trials.length.tolist() == [3]
        assert float(result.trials.actions.reshape(-1)[0]) == float(reply[9:-1])
        assert excerpt in (tmp_path / name / "trial_0000.jsonl").read_text()


def test_a_run_that_is_broken_off_does_not_wait(lakes, key, tmp_path):
    """An error in one trial ends the run at once, though another waits to try again."""
    faults = {0: ModelError("busy", "transient", wait=60.0), 1: RuntimeError("a bug")}
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="a bug"):
        play_trials(key, lakes, FakeModel("[SELECT: 1]", faults=faults), tmp_path)
    assert time.monotonic() - begun < 50


def test_bad_input_is_refused_before_anything_is_asked(lakes, key, tmp_path):
    model = FakeModel("[SELECT: 1]")
    cliff = gpicljax.VectorEnv(gpicljax.make("CliffWalking-v1"), 1)
    with pytest.raises(ValueError, match="batch: got .*may go on for ever.*accepted: trials of so"):
        play_trials(key, cliff, model, tmp_path)
    bare = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), 1)
    with pytest.raises(ValueError, match="batch: got 'FrozenLake'"):
        play_trials(key, bare, model, tmp_path)
    maze = gpicljax.VectorEnv(Trial(gpicljax.make("Recall-v0"), 5), 1, resets="fresh")
    with pytest.raises(ValueError, match="observations: got"):
        play_trials(key, maze, model, tmp_path)
    text_of_session = PromptSettings(explanations=True)
    swing = gpicljax.VectorEnv(Trial(gpicljax.make("Acrobot-v1"), 5), 1, resets="fresh")
    with pytest.raises(ValueError, match="explanation: got"):
        play_trials(key, swing, model, tmp_path, text_of_session)
    with pytest.raises(ValueError, match="max_invalid: got 0"):
        PromptSettings(max_invalid=0)
    with pytest.raises(ValueError, match="cost: got 1.0; accepted: None, unless"):
        Budget(cost=1.0)
    assert model.requests == 0
