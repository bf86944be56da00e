"""The measures of trials against plain Python, both accountings, and scores."""

import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.in_context_rl.measures.playing import Contender, PlayedTrials
from gpicljax.systems.in_context_rl.measures.results import agent_results, sum_by_task
from gpicljax.systems.in_context_rl.measures.trials import (
    TrialRecords,
    measure_trials,
    normalised_score,
    summarise_measures,
)


def plain(rewards, ends, accounting):
    """Episode rewards of one trial, in the words of the issue."""
    episodes, reward_so_far, begun = [], 0.0, False
    for reward, end in zip(rewards, ends, strict=True):
        reward_so_far, begun = reward_so_far + reward, True
        if end:
            episodes.append(reward_so_far)
            reward_so_far, begun = 0.0, False
    if begun and (accounting == "fixed" or not episodes):
        episodes.append(reward_so_far)
    return episodes


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(0)
    length = np.array([30, 30, 12, 30, 0, 30])
    ends = rng.random((6, 30)) < 0.2
    ends[3] = False
    ends[5] = True
    rewards = rng.normal(size=(6, 30))
    actions = rng.integers(0, 3, (6, 30))
    actions[1, 15:] = 1
    actions[5] = 0
    replies, invalid = length + 4, np.full(6, 4)
    return TrialRecords(actions, rewards, ends, length, replies, invalid)


@pytest.mark.parametrize("accounting", ["fixed", "reference"])
def test_measures_equal_plain_python(trials, accounting):
    best = np.array([2, 1, 0, 0, 0, 2])
    measures = measure_trials(trials, num_actions=3, best=best, accounting=accounting)
    for row, length in enumerate(trials.length):
        cut = slice(0, length)
        actions = trials.actions[row, cut]
        episodes = plain(trials.rewards[row, cut], trials.ends[row, cut], accounting)
        assert measures.episodes[row] == len(episodes)
        shown = measures.episode_rewards[row]
        np.testing.assert_allclose(shown[: len(episodes)], episodes, atol=1e-5)
        assert np.isnan(shown[len(episodes) :]).all()
        total = trials.rewards[row, cut].sum()
        np.testing.assert_allclose(measures.total_return[row], total, atol=1e-5)
        assert measures.total_steps[row] == length
        paid = trials.ends[row, cut] & (trials.rewards[row, cut] > 0)
        assert measures.ended[row] == trials.ends[row, cut].sum()
        assert measures.goals[row] == paid.sum() and measures.success[row] == paid.any()
        if length == 0:
            for value in (measures.average_episode_reward, measures.reward_per_step):
                assert np.isnan(value[row])
            assert np.isnan(measures.suffix_failure[row])
            assert measures.invalid_response_rate[row] == 1
            continue
        np.testing.assert_allclose(
            measures.average_episode_reward[row], np.mean(episodes), atol=1e-5
        )
        for n in (5, 10, 20, 50):
            np.testing.assert_allclose(
                measures.last[str(n)][row], np.mean(episodes[-n:]), atol=1e-5
            )
        np.testing.assert_allclose(measures.invalid_response_rate[row], 4 / (length + 4), rtol=1e-6)
        never = best[row] not in actions[length // 2 :]
        assert measures.suffix_failure[row] == never
        counts = np.bincount(actions, minlength=3)
        np.testing.assert_allclose(
            measures.minimum_action_fraction[row], 3 * counts.min() / length, rtol=1e-6
        )
    # The trial in which nothing ends is one episode in both.
    assert measures.episodes[3] == 1
    every = summarise_measures(measures)
    assert every["total_steps"].mean == pytest.approx(22) and every["total_steps"].count == 6
    assert every["reward_per_step"].count == 5


def test_continuous_actions_have_no_counts(trials):
    moved = trials._replace(actions=np.zeros((6, 30, 2)))
    measures = measure_trials(moved)
    assert np.isnan(measures.minimum_action_fraction).all()
    assert set(summarise_measures(measures)) >= {"total_return", "last_5"}
    assert "suffix_failure" not in summarise_measures(measures)


def test_scores_and_refusals(trials):
    rng = np.random.default_rng(1)
    random, oracle = rng.normal(0, 0.1, 400), rng.normal(1, 0.1, 400)
    score = normalised_score(0.7 * oracle + 0.3 * random, random, oracle)
    assert score.mean == pytest.approx(0.7) and score.low == pytest.approx(0.7)
    noisy = normalised_score(0.7 * oracle + 0.3 * random + rng.normal(0, 1, 400), random, oracle)
    assert noisy.low < noisy.mean < noisy.high and 0.1 < noisy.high - noisy.low < 0.3
    gaps = np.where(np.arange(400) < 5, np.nan, oracle)
    assert normalised_score(gaps, random, oracle).count == 395
    with pytest.raises(ValueError, match="oracle: got"):
        normalised_score(random, oracle, random)
    with pytest.raises(ValueError, match=r"trials.length: got \(5,\); accepted: \(6,\)"):
        measure_trials(trials._replace(length=np.ones(5)))
    with pytest.raises(ValueError, match="accounting: got 'refrence'.*did you mean"):
        measure_trials(trials, accounting="refrence")
    assert jnp.isfinite(measure_trials(trials).total_return).all()


def test_intervals_are_over_distinct_tasks_or_over_seeds():
    values = np.arange(6.0)
    np.testing.assert_array_equal(sum_by_task(values, np.array([7, 3, 7, 3, 7, 9])), [4, 6, 5])
    for task in (None, np.full(6, 5), np.arange(6)):  # unknown, all the same, all different
        assert sum_by_task(values, task) is values
    trials = TrialRecords(
        actions=np.zeros((4, 2), int),
        rewards=np.ones((4, 2)),
        ends=np.ones((4, 2), bool),
        length=np.full(4, 2),
        replies=np.full(4, 2),
        invalid=np.zeros(4, int),
        regret=np.array([0.0, 10.0, 0.0, 10.0]),
    )
    best = np.ones((4, 1), bool)
    seeds = [PlayedTrials(trials._replace(regret=trials.regret + i), best) for i in (0, 1, 2)]
    fixed = {name: Contender(name, "rule", seeds[:1]) for name in ("random", "oracle")}
    learner = Contender("learner", "learner", seeds)
    regret = agent_results({"task": {**fixed, "learner": learner}})[-1].regret
    assert regret.mean == 6.0 and regret.std == 1.0  # over three seeds, not twelve trials
