"""The transformer that reads agents: what its tokens hide, what it learns, and rows on disk."""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest

from gpicljax.spaces import Discrete
from gpicljax.storage import SavedError
from gpicljax.systems.mental_modelling.data.episodes import (
    episode_from_actions,
    episodes_from_arrays,
    join_episodes,
    take_episodes,
)
from gpicljax.systems.mental_modelling.measures import published, reader, tokens
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers, copy_last
from gpicljax.systems.mental_modelling.measures.questions import build_queries
from gpicljax.systems.mental_modelling.measures.reader import (
    ReaderSettings,
    reader_answers,
    train_reader,
)
from gpicljax.systems.mental_modelling.measures.results import (
    answers_of_chosen,
    choose_rules,
    compare,
    count_leads,
    load_rows,
    pool_readers,
    result_row,
    right_by_history,
    save_rows,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers


def test_tokens_hide_what_is_asked_for():
    count, at = 9, 6
    rng = np.random.default_rng(0)

    @jax.jit
    def program(number, x):
        return tokens.make_tokens(number, x, tokens.is_asked_at(number, count, at))

    def tokens_of(number, states, done, paid):
        x = {"seen": states, "done": done, "paid": paid, "goal": np.zeros((count, 0))}
        x |= {"moved": tokens.differences(states), "jumped": tokens.differences(states, 2)}
        return np.asarray(program(np.int32(number), x))

    states, done, paid = rng.normal(size=(count + 1, 2)), rng.normal(size=(count, 1)), np.ones(9)
    # What a question about step 6 hides: of states, from where on, and of actions and rewards.
    hidden = {0: (7, 6), 1: (8, 6), 2: (7, 7), 3: (None, 7)}
    for number, (first, act) in hidden.items():
        other_states, other_done, other_paid = states.copy(), done.copy(), paid.copy()
        other_states[slice(first, None) if first else at] += 3
        other_done[act:] += 3
        other_paid[at if number != 2 else 7 :] += 3
        own, changed = (
            tokens_of(number, states, done, paid),
            tokens_of(number, other_states, other_done, other_paid),
        )
        assert np.array_equal(own[: at + 1], changed[: at + 1]), number
        # And nothing else is hidden.
        last = (states.copy(), done.copy(), paid)
        last[0][at - 1] += 3
        assert not np.array_equal(own[at], tokens_of(number, *last)[at])


def test_goals_are_read():
    """A reader reads goals where nothing else determines an agent's direction."""
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], 64)
    steps = 6
    walk = episodes_from_arrays(
        [np.zeros((steps, 1))] * 64,
        [np.full(steps, int(x > 0)) for x in side],
        [np.zeros(steps)] * 64,
        environment="Walk",
        action_space=Discrete(2),
        agent="goer",
        achieved_goals=[np.zeros((steps, 1))] * 64,
        desired_goals=[np.full((steps, 1), x) for x in side],
    )
    step_queries = build_queries(walk, "next_action", history=0)
    np.testing.assert_array_equal(step_queries.goal[:, 0], side[step_queries.episode])
    sizes = ReaderSettings(layers=1, width=8, heads=1, updates=40, batch_size=32, windows=400)
    trained_reader = train_reader(jax.random.key(0), walk, sizes)
    assert score_answers(step_queries, reader_answers(trained_reader, step_queries)).accuracy > 0.95
    with pytest.raises(ValueError, match="queries: got 'Walk'"):
        reader_answers(trained_reader, dataclasses.replace(step_queries, goal=None))
    two = reader.answers_of_readers(
        [trained_reader, trained_reader], step_queries, np.arange(len(step_queries.step)) % 2
    )
    np.testing.assert_array_equal(two.values, reader_answers(trained_reader, step_queries).values)
    with pytest.raises(
        ValueError, match="reader_numbers: got .*; accepted: .* integers from 0 to 0"
    ):
        reader.answers_of_readers(
            [trained_reader], step_queries, np.arange(len(step_queries.step)) % 2
        )


def walks(count, steps, habit, seed):
    """Walkers on a ring of 5 squares who go on in one direction, each in its own, with slips."""
    rng = np.random.default_rng(seed)
    states, actions = [], []
    for _ in range(count):
        way = rng.integers(0, 2)
        slip = rng.random(steps) < habit
        done = np.where(slip, 1 - way, way)
        place = np.concatenate([[0], np.cumsum(2 * done - 1)])[:-1] % 5
        states.append(place)
        actions.append(done)
    ring = {"environment": "Ring", "action_space": Discrete(2), "num_states": 5, "agent": "w"}
    return episodes_from_arrays(states, actions, [np.ones(steps)] * count, **ring)


@pytest.mark.slow
def test_a_reader_learns_the_task_in_weights_and_the_agent_in_context():
    settings = ReaderSettings(layers=1, width=32, heads=2, updates=150, batch_size=16, windows=800)
    trained = train_reader(jax.random.key(0), walks(60, 24, 0.1, 0), settings)
    other_states = walks(30, 24, 0.1, 1)
    states = build_queries(other_states, "next_state", history=3)
    assert score_answers(states, reader_answers(trained, states)).accuracy > 0.95
    answer = functools.partial(reader_answers, trained)
    right = right_by_history(answer, other_states, "next_action", length=12)
    assert right.shape == (200, 12)
    # Nobody knows a stranger's direction; after some steps nine of ten actions are foreseen.
    assert right[:, 0].mean() < 0.75 < 0.82 < right[:, 6:].mean()
    step_queries = build_queries(other_states, "next_action", history=6)
    copied = score_answers(step_queries, copy_last(step_queries)).accuracy
    assert (
        score_answers(step_queries, reader_answers(trained, step_queries)).accuracy > copied + 0.03
    )
    votes = build_queries(other_states, "argue", history=6)
    assert score_answers(votes, reader_answers(trained, votes)).accuracy > 0.8
    with pytest.raises(ValueError, match="queries: got 'Walk'; accepted: those of a task with"):
        reader_answers(
            trained, build_queries(episode_from_actions([0, 1, 2]), "next_action", history=1)
        )
    with pytest.raises(ValueError, match="length: got 30; accepted: up to 24"):
        right_by_history(answer, other_states, "next_action", length=30)


def test_leads_are_paired_and_have_intervals_over_episodes():
    rng = np.random.default_rng(1)
    walks = [episode_from_actions(rng.integers(0, 2, 12)) for _ in range(20)]
    step_queries = build_queries(join_episodes(*walks), "next_action", history=1)
    truth = step_queries.truth
    sure = np.ones(len(truth), bool)
    right = Answers(truth, sure)
    # Wrong in every fourth query.
    wrong = Answers(np.where(np.arange(len(truth))[:, None] % 4 == 0, 1 - truth, truth), sure)
    ahead = compare([(step_queries, right, wrong)], "right", "wrong")
    assert ahead.lead == pytest.approx((np.arange(len(truth)) % 4 == 0).mean())
    assert 0 < ahead.lead_low < ahead.lead < ahead.lead_high
    behind = compare([(step_queries, wrong, right)], "wrong", "right", "lists", echoes=11)
    assert behind.lead == -ahead.lead and behind.lead_high < 0
    assert (behind.parsed, behind.echoes) == (1, 11 / len(truth))
    same = compare([(step_queries, wrong, wrong)], "same", "wrong")
    assert (same.lead_low, same.lead_high) == (0, 0)
    assert count_leads([ahead], "right") == (1, 0, 1)
    assert count_leads([behind], "wrong") == (0, 1, 1) and count_leads([same], "same") == (0, 0, 1)
    # Three readers that all lead by as much, and three that do not, on the same queries.
    equal = compare([pool_readers(step_queries, [right] * 3, [wrong])], "r", "wrong", readers=3)
    assert dataclasses.replace(equal, answerer="right", leads=()) == ahead
    assert equal.leads == (ahead.lead,) * 3 and equal.sign == 1 and equal.over_readers.std == 0
    mixed = compare(
        [pool_readers(step_queries, [right, wrong, wrong], [wrong] * 3)], "r", "wrong", readers=3
    )
    assert mixed.queries == len(truth) and mixed.leads == (ahead.lead, 0, 0)
    assert mixed.lead == pytest.approx(ahead.lead / 3) and mixed.lead_low > 0 and mixed.sign == 0
    assert count_leads([equal, mixed, dataclasses.replace(equal, null="reader")], "r") == (1, 0, 2)


def test_the_null_is_chosen_on_other_episodes_of_the_same_agent():
    """One agent repeats its action, one follows the state, and no episode decides on itself."""
    states = np.random.default_rng(0).integers(0, 2, (7, 24))
    agents = ("stays",) * 3 + ("follows",) * 3 + ("stays",)
    walks = [
        episode_from_actions(np.arange(24) // 12 if agent == "stays" else x, states=x * 1.0)
        for agent, x in zip(agents, states, strict=True)
    ]
    both = dataclasses.replace(join_episodes(*walks), agents=agents)
    queries = [build_queries(both, "next_action", history=n, first=5) for n in (0, 5)]
    answers = [baseline_answers(x) for x in queries]
    rules = choose_rules(queries, answers, both.agents)
    right = {name: score_answers(queries[1], x).right for name, x in answers[1].items()}
    for number, rule in enumerate(rules):
        others = [n for n in range(7) if n != number and agents[n] == agents[number]]
        is_other = np.isin(queries[1].episode, others)
        assert right[rule][is_other].mean() == max(x[is_other].mean() for x in right.values())
    assert rules[0] != rules[3]
    picked = answers_of_chosen(queries[1], answers[1], rules)
    for rule, number in zip(rules, range(7), strict=True):
        mine = queries[1].episode == number
        np.testing.assert_array_equal(picked.values[mine], answers[1][rule].values[mine])


@pytest.mark.parametrize("number", range(4))
def test_training_and_asking_show_the_same(number):
    """At a position of a window a reader sees what it sees of the query there."""
    rng = np.random.default_rng(number)
    walks = [episode_from_actions(rng.uniform(-1, 1, 9), rng.normal(size=(9, 2))) for _ in range(3)]
    task, data = tokens.prepare_windows(join_episodes(*walks), 4, 40)
    windows = tokens.draw_windows(join_episodes(*walks), 40)
    question = tokens.READER_QUESTIONS[number]
    for n in range(number, 40, 4):
        history = int(windows.length[n]) - 1 - (number != 0)
        if history < 0 or not tokens.is_asked_at(number, history + 1, data["last"][n])[history]:
            continue
        cut = take_episodes(windows, [n])
        queries = build_queries(cut, question, history=history, first=history)
        asked = tokens.window_inputs(task, queries, 11)
        x = {name: values[n] for name, values in data.items()}
        trained = tokens.make_tokens(number, x, tokens.is_asked_at(number, 41, x["last"]))
        shown = tokens.make_tokens(
            number,
            {name: values[0] for name, values in asked.items()},
            tokens.is_asked_at(number, 11, history),
        )
        np.testing.assert_allclose(trained[history], shown[history], atol=1e-5)
        np.testing.assert_array_equal(x["rules"][history], tokens.rule_codes(task, queries)[0])


def test_rows_are_kept_and_compared(tmp_path):
    rng = np.random.default_rng(0)
    car = episode_from_actions(
        rng.integers(0, 3, 30), rng.normal(size=(30, 2)), environment="MountainCar-v0"
    )
    rows = [
        result_row(step_queries, name, answers)
        for history in (0, 2, 4)
        for step_queries in [build_queries(car, "next_action", history=history, first=4)]
        for name, answers in baseline_answers(step_queries).items()
    ]
    queries = [build_queries(car, "next_action", history=n, first=4) for n in (0, 2, 4)]
    answers = [baseline_answers(step_queries) for step_queries in queries]
    rules = choose_rules(queries, answers, car.agents)
    (null,) = rules
    pairs = {
        name: [
            (q, answers_by_name[name], answers_of_chosen(q, answers_by_name, rules))
            for q, answers_by_name in zip(queries, answers, strict=True)
        ]
        for name in answers[0]
    }
    compared = [compare(triples, name, null) for name, triples in pairs.items()]
    save_rows(tmp_path / "results.json", rows, compared, note="n")
    loaded_rows, loaded_comparisons, about = load_rows(tmp_path / "results.json")
    assert about == {"note": "n"} and len(loaded_rows) == len(rows) == 15
    assert loaded_rows[3].accuracy == rows[3].accuracy and np.isnan(loaded_rows[3].low)
    # No history is no part of the mean, and one episode has no interval.
    own = next(comparison for comparison in loaded_comparisons if comparison.answerer == "majority")
    expected = np.mean([row.accuracy for row in rows if row.history and row.answerer == "majority"])
    assert own.accuracy == pytest.approx(expected) and np.isnan(own.lead_low)
    first = max(loaded_comparisons, key=lambda comparison: comparison.accuracy)
    assert own.null == null == first.answerer
    assert own.lead == pytest.approx(own.accuracy - first.accuracy) and first.lead == 0
    assert published.best_language_model("MountainCar-v0", "next_action") == ("Llama3-70b", 0.8706)
    assert compare(pairs["majority"][:1], "majority", null) is None
    body = json.loads((tmp_path / "results.json").read_text())
    del body["comparisons"]  # a file of an earlier version
    (tmp_path / "results.json").write_text(json.dumps(body))
    assert load_rows(tmp_path / "results.json")[1] == []
    assert len(published.TABLE_6) == 36
    assert published.TABLE_6["Pendulum", "last_state", "Llama3-8b"] == (0.1054, 0.0827)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(SavedError, match=r"results.json is damaged or has no results"):
        load_rows(tmp_path / "results.json")
    with pytest.raises(SavedError, match=r"none.json cannot be read"):
        load_rows(tmp_path / "none.json")
