"""The in-context RL experiment as a user runs it, at a toy size; and what it holds out."""

import json
import re

import jax
import numpy as np
import pytest
from small_studies import small_flags

from gpicljax import registration
from gpicljax.llm.chat import Message
from gpicljax.runs import load_agent, shipped_model
from gpicljax.systems.in_context_rl.env import (
    CUSTOM,
    TESTS,
    corridor_number,
    family_tasks,
    lake_number,
    own_tests,
)
from gpicljax.systems.in_context_rl.figures.trials import draw_curves
from gpicljax.systems.in_context_rl.measures.playing import agent_tester, play_rules
from gpicljax.systems.in_context_rl.measures.results import agent_results
from gpicljax.systems.in_context_rl.measures.trials import TrialRecords, regrets, trial_values
from gpicljax.systems.in_context_rl.prompts.language_rows import win_stay_lose_shift
from gpicljax.systems.in_context_rl.studies.in_context_rl import program as in_context_rl
from gpicljax.systems.in_context_rl.studies.in_context_rl_train import (
    program as in_context_rl_train,
)

TINY = small_flags("in_context_rl_train")


def train(folder, family, learner, *more):
    arguments = [*TINY, f"--runs-dir={folder}", "--family", family, "--learner", learner, *more]
    return in_context_rl_train.main(arguments)


def test_trials_too_short_for_bins_or_for_anything_to_be_gained_are_reported(tmp_path):
    # No lake is crossed in two actions: the oracle earns as little as random play.
    tests = {"4x4": play_rules(TESTS["4x4"], 2, 1, seed=0, with_learners=False)}
    profiles = draw_curves(tmp_path, tests, {"4x4": "random"})
    assert profiles["4x4"].startswith("zero-shot 0; asymptote 0")
    assert all(np.isnan(result.score.mean) for result in agent_results(tests))


def test_the_page_of_a_bandit_draws_a_typical_trial(tmp_path):
    agents = play_rules(TESTS["two-arms"], 20, 8, seed=0, with_learners=False)
    best, means = agents["oracle"].seeds[0].best, agents["oracle"].seeds[0].means
    assert means.shape == (8, 2) and ((means == means.max(-1, keepdims=True)) == best).all()
    draw_curves(tmp_path, {"two-arms": agents}, {"two-arms": "random"})
    page = (tmp_path / "two-arms" / "trial.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    trials = agents["random"].seeds[0].trials
    median = int(np.argsort(trials.regret, kind="stable")[4])
    assert data["arms"]["pulled"] == trials.actions[median].tolist() and data["last"] == 20
    assert data["arms"]["paid"] == trials.rewards[median].tolist()
    assert data["arms"]["means"] == pytest.approx(means[median].tolist(), abs=1e-4)
    # Lakes have no arms.
    lakes = play_rules(TESTS["4x4"], 2, 1, seed=0, with_learners=False)
    assert lakes["oracle"].seeds[0].means is None


def make_records(rewards, ends, length):
    """Trials that took the first of their actions, all of them action 0."""
    shape = np.shape(rewards)
    counts = np.asarray(length, np.int32)
    zeros = np.zeros_like(counts)
    regret = 0.5 * counts
    return TrialRecords(
        np.zeros(shape, int), np.asarray(rewards), ends, counts, counts, zeros, regret
    )


def test_a_score_is_not_made_by_walking_into_a_wall_or_by_ending_early():
    # On a cliff every move costs 1, a fall 100; four moves end an episode.
    wall = make_records(np.full((1, 8), -1.0), np.zeros((1, 8), bool), [8])
    falls = make_records(np.full((1, 8), -100.0), np.zeros((1, 8), bool), [8])
    goals = make_records(np.full((1, 8), -1.0), np.arange(8)[None] % 4 == 3, [8])
    assert [trial_values(t, True, -100.0).tolist() for t in (falls, wall, goals)] == [[0], [0], [2]]
    # Elsewhere what is earned counts, and an action that was not taken pays the worst there is.
    whole, early = (make_records([[1.0, 0, 1, 0]], np.ones((1, 4), bool), [n]) for n in (4, 1))
    assert trial_values(whole, False, 0.0) == 2 and trial_values(early, False, 0.0) == 1
    assert trial_values(whole, False, -1.0) == 2 and trial_values(early, False, -1.0) == -2
    # The best arm pays .8: one pull costs .5, three that were not made .8 each.
    assert regrets(early, np.array([0.8])) == pytest.approx(0.5 + 3 * 0.8)


def test_only_goals_are_worth_anything_on_the_cliff():
    agents = play_rules(TESTS["CliffWalking"], 40, 4, seed=0, with_learners=False)
    assert trial_values(agents["oracle"].seeds[0].trials, True, -100.0).tolist() == [3.0] * 4
    results = agent_results({"CliffWalking": agents})
    means = next(result.means for result in results if result.agent.name == "oracle")
    assert (means["ended"], means["success"], means["total_steps"]) == (3, 1, 40)


def test_dark_rooms_are_scaled_by_the_best_there_is(key):
    env = TESTS["dark-room"].env
    keys = jax.random.split(key, 200)
    goals = {
        held_out: {
            tuple(goal)
            for goal in np.asarray(
                jax.jit(jax.vmap(family_tasks("dark-room", held_out).env.sample_task, (0, None)))(
                    keys, env.default_params
                ).goal
            ).tolist()
        }
        for held_out in (False, True)
    }
    assert not goals[False] & goals[True]
    # A room has 81 cells; one in four is held out, and the start is in neither part.
    assert len(goals[False]) > 45 and 12 <= len(goals[True]) <= 25
    assert (4, 4) not in goals[False] | goals[True]
    agents = play_rules(TESTS["dark-room"], 40, 16, seed=0, with_learners=False)
    random, oracle = (
        trial_values(agents[name].seeds[0].trials, False, 0.0) for name in ("random", "oracle")
    )
    # Two episodes of 20 steps from the centre, each paid from the arrival on.
    distances = {row + column for row, column in np.abs(np.array([*goals[True]]) - 4).tolist()}
    assert set(oracle.tolist()) <= {2.0 * (21 - max(distance, 1)) for distance in distances}
    assert random.mean() < 0.2 * oracle.mean()


@pytest.mark.slow
def test_the_table_has_everybody_on_the_same_tasks(tmp_path):
    train(tmp_path, "two-arms", "dpt")
    arguments = ["--agents", "two-arms:dpt", "--tests", "two-arms", "4x4", "--actions=20"]
    arguments += ["--replicas=64", "--conversations=2", "--reading=2", "--no-progress"]
    outcome = in_context_rl.main([*arguments, f"--runs-dir={tmp_path}"])
    folder = tmp_path / "in_context_rl" / "quick"
    for name in ("rolling", "cumulative", "episodes"):
        assert (folder / "figures" / "two-arms" / f"{name}.png").stat().st_size > 5_000
    results = json.loads((folder / "summary.json").read_text())["results"]
    rows_by_agent = {name.removeprefix("two-arms: "): row for name, row in results.items()}
    assert rows_by_agent["random"]["score"] == 0 and rows_by_agent["oracle"]["score"] == 1
    assert rows_by_agent["oracle"]["regret"] == 0 and rows_by_agent["random"][
        "regret"
    ] == pytest.approx(6, abs=0.6)
    for name in ("Thompson sampling", "UCB1, tuned (0.2)"):
        assert 0.2 < rows_by_agent[name]["score"] < 1
    assert abs(rows_by_agent["Q-learning, reference"]["score"]) < 0.3
    for condition in ("memory wiped", "rewards hidden", "another trial's context"):
        assert f"two-arms:dpt, {condition}" in rows_by_agent
    # All are tested on the same arms; a language model on the first of them.
    agents = outcome.host_measured.tests["two-arms"]
    best = [np.asarray(agent.seeds[0].best) for agent in agents.values()]
    assert all((best_of_agent == best[0][: len(best_of_agent)]).all() for best_of_agent in best)
    (model,) = (name for name in rows_by_agent if "language model" in name)
    # After two updates it does not know how to answer, and that is said.
    assert rows_by_agent[model]["invalid response rate"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "family, learner",
    [
        ("lakes-anywhere", "rl2"),
        ("lakes", "ad"),
        ("ten-arms", "rl2-events"),
        ("ten-arms", "rl2-lstm"),
        ("two-arms", "r2d2-events"),
        ("cliffs", "dpt"),
        ("dark-room", "ad"),
        ("key-to-door", "dpt"),
        ("any-mdp", "rl2"),
        ("mixture", "dpt"),
        ("dark-room", "clone-planning"),
        ("lakes", "rl2-planning"),
        ("mixture", "clone-planning"),
    ],
)
def test_every_learner_runs(family, learner, tmp_path):
    few = ["--r2d2.num-envs=16", "--r2d2.min-replay=16"] if learner == "r2d2-events" else []
    outcome = train(tmp_path, family, learner, *few)
    assert np.isfinite(outcome.curve("return")).all()
    tested = set(outcome.measured)
    assert tested == set(own_tests(family))
    # What is on disk acts in trials of its own family.
    name = f"quick-{family}-{learner}"
    saved = load_agent(tmp_path / "in_context_rl_train" / name / "agents" / "seed_0")
    assert int(saved.env.horizon()) == 20
    choices = {"two-arms": 2, "ten-arms": 10, "mixture": 10}
    choices |= dict.fromkeys(("dark-room", "key-to-door", "any-mdp"), 5)
    assert saved.env.action_space().n == choices.get(family, 4)
    jax.tree.map(
        lambda first_record, seeds: np.testing.assert_array_equal(first_record, seeds[0]),
        saved.params,
        outcome.params,
    )


@pytest.mark.slow
def test_reinforcement_learning_goes_on_from_a_clone(tmp_path, capsys):
    clone = train(tmp_path, "two-arms", "clone-planning")
    agent = tmp_path / "in_context_rl_train" / "quick-two-arms-clone-planning" / "agents" / "seed_0"
    start = f"--start-from={agent}"
    # Without a step to speak of the network is the clone's, and so is what it does.
    still = train(tmp_path, "two-arms", "rl2-planning", start, "--ppo.learning-rate=1e-12")
    before, after = (
        outcome.measured["two-arms"][""].trials.rewards[0] for outcome in (clone, still)
    )
    np.testing.assert_array_equal(before, after)
    for more, message in (
        (["--network.planning.hidden=8"], "an agent whose network is of the kind and size"),
        (["--start-from=nowhere"], "--start-from: got 'nowhere'; accepted: an existing folder"),
    ):
        with pytest.raises((SystemExit, ValueError)) as refusal:
            train(tmp_path, "two-arms", "rl2-planning", start, *more, "--name=other")
        assert message in str(refusal.value) + capsys.readouterr().err


def test_learning_the_next_reward_alone_is_refused_where_actions_lead_elsewhere(tmp_path, capsys):
    with pytest.raises(SystemExit):
        train(tmp_path, "lakes", "r2d2-events")
    assert "--r2d2.bootstrap: got False" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train(tmp_path, "two-arms", "r2d2-events", "--temperature=0.5")
    assert "--temperature: got 0.5" in capsys.readouterr().err


@pytest.mark.slow
def test_a_training_records_its_agent_beside_the_rules_of_the_table(tmp_path):
    train(tmp_path, "two-arms", "rl2-lstm", "--seeds=2")
    arguments = ["--agents", "two-arms:rl2-lstm", "--tests", "two-arms", "--actions=20"]
    arguments += ["--replicas=64", "--conversations=0", "--no-progress"]
    in_context_rl.main([*arguments, f"--runs-dir={tmp_path}"])
    runs = "in_context_rl_train/quick-two-arms-rl2-lstm", "in_context_rl/quick"
    (first_record,), (second_record,) = (
        json.loads((tmp_path / run / "icl.json").read_text()) for run in runs
    )
    # The same agent, nulls and oracle, on the same samples.
    assert (first_record.pop("agent"), second_record.pop("agent")) == (
        "PPO, lstm",
        "two-arms:rl2-lstm",
    )
    assert (
        first_record == second_record
        and first_record["rows"] == "seeds"
        and "memory wiped" in first_record["curves"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lakes", "lakes-anywhere", "two-arms", "ten-arms"])
def test_agents_learn_within_unseen_tasks(family, tmp_path):
    """The quick preset, with fewer updates: minutes of a processor's time each."""
    arguments = ["--family", family, "--observations", str(15 * 201 * 256), "--log-lines=1"]
    in_context_rl_train.main([*arguments, f"--runs-dir={tmp_path}", "--no-progress"])
    summary = tmp_path / "in_context_rl_train" / f"quick-{family}-dpt" / "summary.json"
    results = json.loads(summary.read_text())["results"]
    rows_by_agent = {name.removeprefix(f"{family}: "): row for name, row in results.items()}
    trained, blind = rows_by_agent["dpt"], rows_by_agent["dpt, rewards hidden"]
    # Of the bandits Thompson sampling has regret 2.9 and 17.4 at the least, see the results page.
    if family.endswith("arms"):
        assert trained["regret high"] < {"two-arms": 2.88, "ten-arms": 17.4}[family]
    if family == "lakes":
        # A tuned Q-learner has 0.49.
        assert trained["score"] > 0.75
    if family == "lakes-anywhere":
        assert blind["score"] < 0.05 and rows_by_agent["dpt, memory wiped"]["score"] < 0.05


@pytest.mark.slow
def test_the_shipped_agent_explores_better_than_thompson_sampling():
    best_of_agent = TESTS["ten-arms"]
    loaded = load_agent(shipped_model("in_context_rl_mixture"))
    env, params = best_of_agent.trials(200, padded=True)
    test = jax.jit(agent_tester(loaded.agent, env, 200, seed=0))
    regret = np.asarray(test(loaded.params, params, 0).trials.regret)
    # Thompson sampling's on these tasks is 17.8, random play's 82.
    assert regret.mean() + 2 * regret.std() / 200**0.5 < 16


def test_tasks_that_are_tested_on_are_never_trained_on(key):
    drawn = {}
    for held_out in (False, True):
        env = family_tasks("lakes", held_out).env
        keys = jax.random.split(key, 400)
        rows_by_agent = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, env.default_params)
        drawn[held_out] = {
            tuple(cells.ravel().tolist()) for cells in np.asarray(rows_by_agent.cells)
        }
        numbers = jax.vmap(lake_number)(rows_by_agent)
        assert ((numbers % 8 == 0) == held_out).all()
    assert len(drawn[False]) > 150 and not drawn[False] & drawn[True]
    for name in ("4x4", "custom"):
        task = TESTS[name].env.sample_task(key, TESTS[name].env.default_params)
        assert lake_number(task) == 0, name
    assert TESTS["custom"].env.description == CUSTOM
    corridor = TESTS["CliffWalking"].env
    task = corridor.env.sample_task(key, corridor.default_params)
    assert corridor_number(task) == 0
    assert corridor_number(task.replace(columns=task.columns - 1)) != 0


def test_who_wins_stays_and_who_loses_shifts():
    rule = win_stay_lose_shift(3)

    def read_numbers(text):
        return rule([Message("user", text)], max_tokens=9, seed=7).text

    data = "Action 2 led to observation 0 and paid {}. That was the end of the episode."
    assert (
        read_numbers(data.format(1)) == "[SELECT: 2]"
        and read_numbers(data.format(0)) == "[SELECT: 0]"
    )
    assert read_numbers("The game begins. You observe 0.") == "[SELECT: 1]"


def test_an_environment_of_one_s_own_is_tested_on(tmp_path, monkeypatch, capsys):
    module = "import gpicljax\nfrom gpicljax.envs.cliff_walking import CliffWalking\n"
    module += "gpicljax.register('Chain-v0', lambda: CliffWalking(max_rows=2, max_columns=4))\n"
    (tmp_path / "own_chain.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    flags = ["--env=own_chain:Chain-v0", "--agents", "--actions=20", "--replicas=16"]
    outcome = in_context_rl.main([*flags, "--no-progress", f"--runs-dir={tmp_path}"])
    (tested,) = outcome.host_measured.tests.values()
    assert {"random", "oracle", "Q-learning, tuned"} <= set(tested)
    assert outcome.run.path.name == "quick-own_chain-Chain-v0"
    with pytest.raises(SystemExit):
        in_context_rl.main(["--env=MountainCar-v0", f"--runs-dir={tmp_path}"])
    assert "--env: got 'MountainCar'" in capsys.readouterr().err
