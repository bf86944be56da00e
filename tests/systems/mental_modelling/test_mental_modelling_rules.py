"""Actions that are argued about, and rules that know the form of a task's laws."""

import numpy as np
import pytest

from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.data.episodes import (
    episode_from_actions,
    episodes_from_arrays,
)
from gpicljax.systems.mental_modelling.measures.baselines import (
    BASELINES,
    baseline_answers,
    copy_last,
    quadratic,
    ridge,
    vote_answers,
)
from gpicljax.systems.mental_modelling.measures.physics import answers_of_rules, physics_answers
from gpicljax.systems.mental_modelling.measures.questions import build_queries, to_bins
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers


def test_half_of_what_is_argued_about_is_the_agents():
    rng = np.random.default_rng(0)
    walk = episode_from_actions(rng.integers(0, 4, 301))
    queries = build_queries(walk, "argue", history=1)
    agents = build_queries(walk, "next_action", history=1).truth[:, 0]
    assert queries.form == "vote" and queries.truth[:, 0].mean() == 0.5
    assert np.array_equal(queries.action == agents, queries.truth[:, 0] == 1)
    differences = (queries.action - agents)[queries.truth[:, 0] == 0] % 4
    assert (np.bincount(differences, minlength=4)[1:] > 30).all()
    # The seed, and nothing else, decides which.
    without_history = build_queries(walk, "argue", history=0, first=1)
    assert np.array_equal(queries.action, without_history.action)
    assert not np.array_equal(queries.truth, build_queries(walk, "argue", history=1, seed=1).truth)
    answers = baseline_answers(queries)
    assert [*answers] == ["always agree", *(name for name in BASELINES if name != "same change")]
    assert score_answers(queries, answers["always agree"]).accuracy == 0.5
    with pytest.raises(ValueError, match=r"queries.question: got 'argue'; accepted: another"):
        ridge(queries)
    with pytest.raises(ValueError, match=r"queries.question: got 'next_action'; accepted: argue"):
        vote_answers(build_queries(walk, "next_action"), copy_last)


def test_other_continuous_actions_lie_in_other_parts_of_the_range():
    actions = np.random.default_rng(1).uniform(-2, 2, (200, 2))
    space = {"environment": "Arm", "action_space": Box(-2.0, 2.0, (2,)), "agent": "a"}
    arm = episodes_from_arrays([np.zeros((200, 1))], [actions], [np.zeros(200)], **space)
    queries = build_queries(arm, "argue", history=0)
    shown, true = (to_bins(x, -2.0, 2.0) for x in (queries.action, actions))
    agents = queries.truth[:, 0] == 1
    assert (shown == true)[agents].all() and not (shown == true)[~agents].any()
    assert np.abs(queries.action).max() <= 2
    # Whoever foresees all actions agrees with the agent's and with nothing else.
    voted = vote_answers(queries, lambda queries: Answers(true, np.ones(200, bool)))
    assert score_answers(queries, voted).accuracy == 1


def swing(steps, friction):
    """A pendulum under random torque; its strength is no textbook's."""
    rng = np.random.default_rng(2)
    angle, speed, states = 2.0, 0.5, []
    torque = np.round(rng.uniform(-2, 2, steps), 4)
    for action in torque:
        states.append([np.cos(angle), np.sin(angle), speed])
        speed += 0.4 * np.sin(angle) + 0.11 * action - friction
        angle += 0.05 * speed
    return episode_from_actions(
        torque, states, environment="Pendulum-v1", action_space=Box(-2.0, 2.0)
    )


def test_a_law_fitted_to_the_history_foretells_and_looks_back():
    pendulum = swing(40, friction=0.02)
    for question, least in (("next_state", 0.95), ("last_state", 0.95), ("last_action", 0.99)):
        queries = build_queries(pendulum, question, history=12, decimals=6)
        score = score_answers(queries, physics_answers(queries))
        assert score.accuracy >= least, question
        assert score.accuracy >= score_answers(queries, ridge(queries)).accuracy
    # With nothing to fit, or where no law is known, it says so.
    assert physics_answers(build_queries(pendulum, "last_state", history=1)) is None
    assert (
        physics_answers(build_queries(episode_from_actions([0, 1, 1]), "next_state", history=1))
        is None
    )
    assert (
        physics_answers(build_queries(episode_from_actions([0, 1, 1]), "next_action", history=1))
        is None
    )


def test_feedback_is_linear_in_angles():
    rng = np.random.default_rng(3)
    angle, speed = rng.uniform(-1.5, 1.5, 30), rng.normal(size=30)
    states = np.stack([np.cos(angle), np.sin(angle), speed], -1)
    actions = -0.8 * angle - 0.3 * speed
    episode = episode_from_actions(
        actions, states, environment="Pendulum-v1", action_space=Box(-2.0, 2.0)
    )
    queries = build_queries(episode, "next_action", form="absolute", history=12)
    error = score_answers(queries, physics_answers(queries)).absolute_error[0]
    assert error < 1e-3 < score_answers(queries, ridge(queries)).absolute_error[0]
    argued = build_queries(episode, "argue", history=12)
    assert score_answers(argued, answers_of_rules(argued)["physics"]).accuracy == 1


def test_products_of_inputs_are_found():
    states = np.random.default_rng(4).uniform(-1, 1, (40, 2))
    actions = states[:, 0] * states[:, 1]
    queries = build_queries(
        episode_from_actions(actions, states), "next_action", form="absolute", history=30
    )
    close = score_answers(queries, quadratic(queries, penalty=1e-6)).absolute_error[0]
    assert close < 0.01 < score_answers(queries, ridge(queries)).absolute_error[0]
    assert episode_from_actions([0, 1]).action_space == Discrete(2)
