"""Questions about agents: what is given and true by hand, scores in closed form, rules that know.

Ten thousand queries are built, answered and scored in seconds.
"""

import dataclasses
import time

import numpy as np
import pytest

from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.data.episodes import episodes_from_arrays
from gpicljax.systems.mental_modelling.measures.baselines import (
    BASELINES,
    baseline_answers,
    copy_last,
    majority,
    nearest_neighbour,
    ridge,
    same_change,
)
from gpicljax.systems.mental_modelling.measures.questions import build_queries, to_bins
from gpicljax.systems.mental_modelling.measures.scoring import (
    Answers,
    accuracy_interval,
    answers_of,
    score_answers,
)

CAR = {"environment": "MountainCar-v0", "action_space": Discrete(3), "agent": "DQN"}
PENDULUM = {"environment": "Pendulum-v1", "action_space": Box(-2.0, 2.0, (1,)), "agent": "DDPG"}
LAKE = {"environment": "FrozenLake-v1", "action_space": Discrete(4), "agent": "DQN"}
QUESTIONS = ("next_action", "last_action", "next_state", "last_state")


def car():
    """Two episodes; element 0 rises, falls and stays as it is shown, element 1 falls always."""
    first = np.array([[0.1, 5], [0.2, 4], [0.20001, 3], [0.1, 2], [0.3, 1]])
    second = np.array([[1.0, 3], [0.5, 2], [0.75, 1], [0.75, 0]])
    actions = [np.array([0, 2, 2, 1, 2]), np.array([1, 1, 0, 1])]
    return episodes_from_arrays([first, second], actions, [-np.ones(5), -np.ones(4)], **CAR)


def pendulum(actions, states=None):
    actions = np.array(actions, np.float32)[:, None]
    states = np.zeros((len(actions), 1)) if states is None else np.array(states)
    return episodes_from_arrays([states], [actions], [np.zeros(len(actions))], **PENDULUM)


def test_every_question_gives_and_asks_for_what_it_says():
    queries = {name: build_queries(car(), name, history=2) for name in QUESTIONS}
    # The last step of an episode has a next action, but no next state.
    assert queries["next_action"].episode.tolist() == [0, 0, 0, 1, 1]
    assert queries["next_action"].step.tolist() == [2, 3, 4, 2, 3]
    assert queries["next_action"].truth[:, 0].tolist() == [2, 1, 2, 0, 1]
    for name in QUESTIONS[1:]:
        assert queries[name].step.tolist() == [2, 3, 2] and queries[name].history == 2
    assert queries["last_action"].truth[:, 0].tolist() == [2, 1, 0]
    # To four decimals 0.20001 is 0.2; from it to 0.1 is a fall, from 0.1 to 0.3 a rise.
    changes = [[0, 0], [1, 0], [2, 0]]
    assert queries["next_state"].truth.tolist() == queries["last_state"].truth.tolist() == changes
    premises = {
        name: [f for f in ("state", "action", "reward", "next_state") if getattr(q, f) is not None]
        for name, q in queries.items()
    }
    assert premises == {
        "next_action": ["state"],
        "last_action": ["state", "next_state"],
        "next_state": ["state", "action", "reward"],
        "last_state": ["action", "next_state"],
    }
    query = queries["last_action"]
    assert query.past_states[0].tolist() == [[0.1, 5], [0.2, 4]]
    assert query.past_actions[0].tolist() == [0, 2] and (query.past_rewards == -1).all()
    assert query.state[0].tolist() == [0.2, 3] and query.next_state[0].tolist() == [0.1, 2]
    # All sizes of history can be asked the same queries.
    for history in (0, 1, 2):
        sized_queries = build_queries(car(), "next_state", history=history, first=2, decimals=5)
        assert sized_queries.step.tolist() == [2, 3, 2] and sized_queries.past_states.shape == (
            3,
            history,
            2,
        )
        # To five decimals it is no more 0.2, but nothing that follows is another change.
        assert sized_queries.truth.tolist() == changes and sized_queries.state[0, 0] == 0.20001


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="history: got 3; accepted: .* 0 to 2: episode 1 has 4"):
        build_queries(car(), "next_state", history=3)
    assert len(build_queries(car(), "next_action", history=3).truth) == 3
    with pytest.raises(ValueError, match="first: got 4; accepted: .* episode 1 has 4 steps"):
        build_queries(car(), "next_action", history=2, first=4)
    with pytest.raises(ValueError, match="first: got 1; accepted: an integer >= 2"):
        build_queries(car(), "next_action", history=2, first=1)
    with pytest.raises(ValueError, match="history: got 41; accepted: integers from 0 to 40"):
        build_queries(car(), "next_action", history=41)
    with pytest.raises(ValueError, match=r"question: got 'next_acton' \(did you mean"):
        build_queries(car(), "next_acton")
    with pytest.raises(ValueError, match="form: got 'bins'; accepted: discrete, for next_action"):
        build_queries(car(), "next_action", form="bins")
    with pytest.raises(ValueError, match="form: got 'discrete'; accepted: bins or absolute, for"):
        build_queries(pendulum([0, 1]), "next_action", form="discrete", history=1)


def test_bins_have_one_convention_in_history_truth_and_answers():
    edges = np.round(np.arange(-20, 21) / 10, 1)
    # Every part has its lower edge: by integers, whatever a float makes of a tenth.
    assert to_bins(edges, -2.0, 2.0).tolist() == [min(k // 4, 9) for k in range(41)]
    # What rounds to an edge is shown as the edge, and counts as it.
    assert to_bins([-0.00004, -0.00006, np.inf], -2.0, 2.0).tolist() == [5, 4, 9]
    with pytest.raises(ValueError, match="high: got 0.0005; accepted: at least 10 units"):
        to_bins(0.0, 0.0, 0.0005)
    episodes = pendulum([-0.00004, 0.0, 2.0, -1.6, 1.0])
    bins = build_queries(episodes, "next_action", history=0)
    numbers = build_queries(episodes, "next_action", form="absolute", history=0)
    assert bins.truth[:, 0].tolist() == [5, 5, 9, 1, 7]
    assert numbers.truth[0, 0] == 0 and not np.signbit(numbers.truth[0, 0])
    answers = answers_of(numbers, [[0.39], [-0.01], [1.6], [-1.2001], None])
    done = score_answers(numbers, answers)
    assert done.right.tolist() == [True, False, True, True, False]
    # What is infinite is in no part; a right number in a reply that was not usable is not right.
    endless = np.full((5, 1), np.inf)
    assert not score_answers(numbers, Answers(endless, np.ones(5, bool))).right.any()
    assert not score_answers(numbers, Answers(numbers.truth, np.zeros(5, bool))).right.any()
    assert done.absolute_error[0] == pytest.approx((0.39 + 0.01 + 0.4 + 0.3999) / 4)


def test_every_query_counts_and_the_parsed_stand_beside():
    queries = build_queries(car(), "next_state", history=0)
    assert queries.truth.tolist() == [[1, 0], [2, 0], [0, 0], [1, 0], [0, 0], [1, 0], [2, 0]]
    answers = [[1, 0], None, [0, 1], [1, 0], "what?", [1], [2, 2]]
    done = score_answers(queries, answers_of(queries, answers))
    assert (done.queries, done.parsed) == (7, 4) and done.right.nonzero()[0].tolist() == [0, 3]
    assert done.accuracy == 2 / 7 and done.accuracy_of_parsed == 2 / 4
    assert done.element_accuracy == 6 / 14 and done.element_accuracy_of_parsed == 6 / 8
    assert done.elements.tolist() == [4 / 7, 2 / 7]
    assert done.elements_of_parsed.tolist() == [1, 0.5] and np.isnan(done.absolute_error).all()
    silent = score_answers(queries, answers_of(queries, [None] * 7))
    assert silent.accuracy == 0 and np.isnan(silent.accuracy_of_parsed)
    # A right value in a reply that was not usable is worth nothing.
    assert score_answers(queries, Answers(queries.truth, np.zeros(7, bool))).element_accuracy == 0
    assert score_answers(queries, Answers(queries.truth, np.ones(7, bool))).accuracy == 1
    # Five queries are of one episode, two of the other: of one kind each, 0 is the worst draw.
    interval = accuracy_interval(queries, done)
    assert interval.count == 2 and interval.mean == 2 / 7
    assert interval.low == 0 and 0.4 < interval.high <= 0.5
    with pytest.raises(ValueError, match="values: got 6; accepted: 7 entries"):
        answers_of(queries, answers[:6])
    with pytest.raises(ValueError, match="answers.values: got"):
        score_answers(queries, Answers(queries.truth[:6], np.ones(6, bool)))


def values(rule, episodes, question, **settings):
    return rule(build_queries(episodes, question, **settings)).values.tolist()


def test_rules_answer_as_by_hand():
    # Histories 0 2, 2 2, 2 1; 1 1, 1 0: of as many the latest.
    assert values(majority, car(), "next_action", history=2) == [[2], [2], [1], [1], [0]]
    assert values(copy_last, car(), "next_action", history=2) == [[2], [2], [1], [1], [0]]
    assert values(majority, car(), "next_action", history=3) == [[2], [2], [1]]
    # Next state: the last known change is that into the given state; last state: the one before.
    assert values(same_change, car(), "next_state", history=2) == [[2, 0], [0, 0], [1, 0]]
    assert values(same_change, car(), "last_state", history=2) == [[1, 0], [2, 0], [0, 0]]
    assert values(copy_last, car(), "next_state", history=2) == [[2, 2]] * 3
    # Continuous actions: 0.5, 1.0 goes on to 1.5; 1.0, 1.8 to the end of the range.
    swing = pendulum([0.5, 1.0, 1.8, -2.0])
    assert values(same_change, swing, "next_action", form="absolute", history=2) == [[1.5], [2.0]]
    assert values(same_change, swing, "next_action", history=2) == [[8], [9]]
    assert values(copy_last, swing, "next_action", history=2) == [[7], [9]]
    assert values(majority, swing, "next_action", form="absolute", history=3) == [[1.8]]
    # All states are alike: of several that are as near, the latest.
    nearest = values(nearest_neighbour, swing, "next_action", form="absolute", history=2)
    assert nearest == [[1.0], [1.8]]
    # With nothing to go by: the first, the middle, no change.
    for name, rule in BASELINES.items():
        if name != "same change":
            assert values(rule, car(), "next_action", history=0) == [[0]] * 9
        assert values(rule, swing, "next_action", form="absolute", history=0) == [[0]] * 4
        assert values(rule, swing, "next_action", history=0) == [[5]] * 4
        assert values(rule, car(), "last_state", history=0) == [[2, 2]] * 7
    with pytest.raises(ValueError, match="queries.form: got 'discrete'"):
        values(same_change, car(), "next_action")


def test_numbered_states_are_asked_for_by_number():
    states = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    lake = episodes_from_arrays([states], [np.arange(8) % 3], [np.zeros(8)], num_states=16, **LAKE)
    for question in ("next_state", "last_state"):
        queries = build_queries(lake, question, history=5)
        truths = [[0], [1]] if question == "next_state" else [[2], [0]]
        assert queries.truth.tolist() == truths and queries.form == "discrete"
        # A circle: what came of the same before comes again.
        assert nearest_neighbour(queries).values.tolist() == truths
        assert ridge(queries).values.tolist() == truths
    assert values(copy_last, lake, "next_state", history=5) == [[2], [0]]
    assert values(copy_last, lake, "last_state", history=5) == [[0], [1]]


def test_ridge_regression_is_that_of_the_closed_form_and_finds_a_linear_law():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(9, 2))
    actions = np.clip(0.3 * states[:, 0] - 0.2 * states[:, 1] + 0.1, -2, 2)
    queries = build_queries(pendulum(actions, states), "next_action", form="absolute", history=6)
    close = ridge(queries, penalty=1e-6)
    assert np.abs(close.values - queries.truth).max() < 2e-4 and len(queries.truth) == 3
    # The same by the other form: as many unknowns as inputs.
    x, y = queries.past_states[0], queries.past_actions[0, :, 0]
    mean, scale = x.mean(0), x.std(0)
    z = (x - mean) / scale
    weights = np.linalg.solve(z.T @ z + 0.7 * np.eye(2), z.T @ (y - y.mean()))
    expected = y.mean() + (queries.state[0] - mean) / scale @ weights
    assert ridge(queries, penalty=0.7).values[0, 0] == pytest.approx(expected, abs=6e-5)
    with pytest.raises(ValueError, match="penalty: got 0"):
        ridge(queries, penalty=0)


def test_no_rule_sees_what_is_asked_for():
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=(30, 3)), rng.uniform(-2, 2, 30)
    # What a query about step 20 does not give, and all that comes after it.
    hidden = {
        "next_action": (slice(21, None), slice(20, None)),
        "last_action": (slice(22, None), slice(20, None)),
        "next_state": (slice(21, None), slice(21, None)),
        "last_state": (20, slice(21, None)),
    }
    for question in QUESTIONS:
        other_states, other_actions = states.copy(), actions.copy()
        other_states[hidden[question][0]] += 5
        other_actions[hidden[question][1]] *= -1
        queries = build_queries(pendulum(actions, states), question, history=5, first=20)
        other_queries = build_queries(
            pendulum(other_actions, other_states), question, history=5, first=20
        )
        assert not np.array_equal(queries.truth[0], other_queries.truth[0])
        # Nor is the truth read off the queries.
        blank = dataclasses.replace(other_queries, truth=np.zeros_like(other_queries.truth))
        answers, blank_answers = baseline_answers(queries), baseline_answers(blank)
        for name in BASELINES:
            same = np.array_equal(answers[name].values[0], blank_answers[name].values[0])
            assert same, (question, name)


def test_ten_thousand_queries_take_seconds():
    rng = np.random.default_rng(2)
    states = np.cumsum(rng.normal(size=(40, 274, 8)), axis=1)
    actions = rng.integers(0, 4, (40, 274))
    lander = {"environment": "LunarLander-v3", "action_space": Discrete(4), "agent": "PPO"}
    episodes = episodes_from_arrays([*states], [*actions], [*np.ones((40, 274))], **lander)
    start = time.process_time()
    queries = build_queries(episodes, "next_state", history=20)
    built = time.process_time() - start
    scores = {
        name: score_answers(queries, answers) for name, answers in baseline_answers(queries).items()
    }
    total = time.process_time() - start
    assert len(queries.truth) > 10_000 and len(scores) == len(BASELINES)
    # A random walk: no better than one in two for each element, never unchanged.
    assert abs(scores["same change"].element_accuracy - 0.5) < 0.01
    assert scores["copy last"].element_accuracy < 0.01
    assert built < 10 and total < 100  # CPU-seconds: loops over queries would take hours
