"""Rules that answer from the history alone: the nulls of language models.

Every rule is a function of the queries, and its answers are scored like all others. What is known
for learning are the earlier steps of the same history, asked the same question: example j has what
a query about step j would be given, and its answer. A state that a question hides is in no example.

The paper has no such rules beside its figures; without them an accuracy says little, for actions
and changes often stay what they were.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gpicljax.checks import Range, check
from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.measures.questions import (
    ACTION_QUESTIONS,
    UNCHANGED,
    Queries,
    change_class,
    from_bins,
    round_numbers,
    to_bins,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers

Rule = Callable[[Queries], Answers]


class _Examples(NamedTuple):
    """The examples in the histories of Q queries, n for each, oldest first.

    Attributes:
      inputs: float `[Q, n, F]`, the examples' premises.
      query_inputs: float `[Q, F]`, the queries' premises.
      targets: `[Q, n, E]`, right answers: numbers of actions or states, actions, or by how much
        the state's elements changed.
      answers: `[Q, n, E]`, right answers in the form of the answers.
    """

    inputs: np.ndarray
    query_inputs: np.ndarray
    targets: np.ndarray
    answers: np.ndarray


def _one_hot(values: np.ndarray, count: int) -> np.ndarray:
    return (values[..., None] == np.arange(count)).astype(float)


def _vectors(queries: Queries, values: np.ndarray | None, kind: str) -> np.ndarray:
    """Returns states or actions as vectors; numbered ones are one-hot."""
    assert values is not None
    if kind == "states":
        count = queries.num_states
    else:
        space = queries.action_space
        count = space.n if isinstance(space, Discrete) else None
    return values if count is None else _one_hot(values, count)


def _in_form(queries: Queries, targets: np.ndarray) -> np.ndarray:
    """Returns right answers in the form of the answers."""
    if queries.form == "change":
        return change_class(np.zeros(1), targets)
    if queries.form == "bins":
        return to_bins(targets, *_bounds(queries), queries.decimals)
    return targets


def _bounds(queries: Queries) -> tuple[float, float]:
    space = queries.action_space
    assert isinstance(space, Box)
    return space.low, space.high


def _collect_examples(queries: Queries) -> _Examples:
    expected = "another question; `votes` answers it with a rule of the next action"
    check(queries.question != "argue", "queries.question", "argue", expected)
    states, actions = queries.past_states, queries.past_actions
    if queries.state is not None:
        states = np.concatenate([states, queries.state[:, None]], axis=1)
    count = max(min(queries.history, states.shape[1] - 1), 0)
    before, after, past_actions = states[:, :count], states[:, 1 : count + 1], actions[:, :count]
    asks_action = queries.question in ACTION_QUESTIONS
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    if queries.state is not None:
        pair = _vectors(queries, before, "states"), _vectors(queries, queries.state, "states")
        parts.append(pair)
    if queries.action is not None:
        pair = (
            _vectors(queries, past_actions, "actions"),
            _vectors(queries, queries.action, "actions"),
        )
        parts.append(pair)
    if queries.reward is not None:
        parts.append((queries.past_rewards[:, :count, None], queries.reward[:, None]))
    if queries.next_state is not None:
        pair = _vectors(queries, after, "states"), _vectors(queries, queries.next_state, "states")
        parts.append(pair)
    if asks_action:
        targets = past_actions
    elif queries.form == "change":
        # Rounded again: a difference of rounded numbers is not quite one.
        targets = round_numbers(after - before, queries.decimals)
    else:
        targets = after if queries.question == "next_state" else before
    if targets.ndim == 2:
        targets = targets[..., None]
    return _Examples(
        inputs=np.concatenate([past for past, _ in parts], axis=-1),
        query_inputs=np.concatenate([query_part for _, query_part in parts], axis=-1),
        targets=targets,
        answers=_in_form(queries, targets),
    )


def _default_answers(queries: Queries) -> Answers:
    """Returns the answers without any history: the first, the middle, no change."""
    if queries.form == "change":
        value = UNCHANGED
    elif queries.form == "discrete":
        value = 0
    else:
        middle = sum(_bounds(queries)) / 2
        value = _in_form(queries, np.array(middle))
    return _all_parsed(np.broadcast_to(value, queries.truth.shape))


def _all_parsed(values: np.ndarray) -> Answers:
    return Answers(values, np.ones(len(values), bool))


def majority(queries: Queries) -> Answers:
    """Answers with the most frequent answer in the history, by element; the latest of several.

    Where numbers are asked for, the middle of the most frequent part of the range.
    """
    examples = _collect_examples(queries)
    if examples.answers.shape[1] == 0:
        return _default_answers(queries)
    codes = examples.answers
    if queries.form == "absolute":
        codes = to_bins(codes, *_bounds(queries), queries.decimals)
    count = codes.shape[1]
    is_code = codes[..., None] == np.arange(int(codes.max()) + 1)
    latest = (is_code * np.arange(1, count + 1)[:, None, None]).max(1)
    values = (is_code.sum(1) * (count + 1) + latest).argmax(-1)
    if queries.form == "absolute":
        values = from_bins(values, *_bounds(queries), queries.decimals)
    return _all_parsed(values)


def copy_last(queries: Queries) -> Answers:
    """Answers with the action before, or with the state that is given: nothing changes.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=3)
      >>> copy_last(asked).values.tolist()
      [[1], [0]]
    """
    if queries.form == "change":
        return _default_answers(queries)
    if queries.question in ("next_state", "last_state"):
        copied_state = queries.state if queries.next_state is None else queries.next_state
        assert copied_state is not None
        return _all_parsed(copied_state[:, None])
    if queries.history == 0:
        return _default_answers(queries)
    last = queries.past_actions[:, -1].reshape(len(queries.truth), -1)
    return _all_parsed(_in_form(queries, last))


def same_change(queries: Queries) -> Answers:
    """Repeats the last change: of a state's elements, or of an action that is a number.

    Raises:
      ValueError: where neither is asked for.
    """
    expected = "change, bins or absolute"
    check(queries.form != "discrete", "queries.form", queries.form, expected)
    if queries.form == "change":
        changes = _collect_examples(queries).answers
        return _all_parsed(changes[:, -1]) if changes.shape[1] else _default_answers(queries)
    if queries.history < 2:
        return copy_last(queries)
    before, last = queries.past_actions[:, -2], queries.past_actions[:, -1]
    values = np.clip(round_numbers(2 * last - before, queries.decimals), *_bounds(queries))
    return _all_parsed(_in_form(queries, values))


def _standardise(examples: _Examples) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs in standard deviations from the mean of each query's own examples."""
    inputs = examples.inputs
    mean = inputs.mean(1, keepdims=True)
    flat = inputs.max(1, keepdims=True) == inputs.min(1, keepdims=True)
    scale = np.where(flat, 1, inputs.std(1, keepdims=True))
    return (inputs - mean) / scale, (examples.query_inputs - mean[:, 0]) / scale[:, 0]


def nearest_neighbour(queries: Queries) -> Answers:
    """Answers with the answer of the example whose inputs are nearest; the latest of several.

    Distances are Euclidean, in standard deviations of each input within the history.
    """
    examples = _collect_examples(queries)
    count = examples.answers.shape[1]
    if count == 0:
        return _default_answers(queries)
    inputs, query_inputs = _standardise(examples)
    distance = ((inputs - query_inputs[:, None]) ** 2).sum(-1)
    nearest = count - 1 - distance[:, ::-1].argmin(1)
    return _all_parsed(examples.answers[np.arange(len(nearest)), nearest])


def ridge(queries: Queries, penalty: float = 0.1) -> Answers:
    """Answers with ridge regression on the examples, for each query on its own.

    Inputs are standardised, targets centred. Actions and states that are numbered are regressed as
    a one in their place, and the largest is taken; a change is read off the regressed difference,
    rounded like all else.

    Args:
      queries: the queries.
      penalty: on the squared weights, above 0; not chosen by any result.

    Raises:
      ValueError: if the penalty is not above 0.
    """
    return _kernel_regression(queries, penalty, lambda inner: inner)


def quadratic(queries: Queries, penalty: float = 0.1) -> Answers:
    """Ridge regression on the inputs and all their products: laws that are not quite linear.

    Args:
      queries: the queries.
      penalty: see `ridge`.

    Raises:
      ValueError: if the penalty is not above 0.
    """
    return _kernel_regression(queries, penalty, lambda inner: (1 + inner) ** 2)


def _kernel_regression(
    queries: Queries, penalty: float, kernel: Callable[[np.ndarray], np.ndarray]
) -> Answers:
    """Answers with regression on a function of the inputs' inner products."""
    check(Range(above=0).accepts(penalty), "penalty", penalty, "a finite number above 0")
    examples = _collect_examples(queries)
    targets, count = examples.targets, examples.targets.shape[1]
    if count == 0:
        return _default_answers(queries)
    if queries.form == "discrete":
        space = queries.action_space
        kinds = queries.num_states
        if queries.question in ACTION_QUESTIONS:
            assert isinstance(space, Discrete)
            kinds = space.n
        assert kinds is not None
        targets = _one_hot(targets[..., 0], kinds)
    inputs, query_inputs = _standardise(examples)
    mean = targets.mean(1, keepdims=True)
    # The dual form: as many unknowns as examples, of which there are few.
    inner = kernel(inputs @ inputs.swapaxes(1, 2)) + penalty * np.eye(count)
    weights = np.linalg.solve(inner, targets - mean)
    similarity = kernel(inputs @ query_inputs[..., None])
    prediction = mean[:, 0] + (similarity * weights).sum(1)
    if queries.form == "discrete":
        return _all_parsed(prediction.argmax(-1)[:, None])
    prediction = round_numbers(prediction, queries.decimals)
    if queries.form != "change":
        prediction = np.clip(prediction, *_bounds(queries))
    return _all_parsed(_in_form(queries, prediction))


def vote_answers(queries: Queries, rule: Rule) -> Answers:
    """Votes for a proposed action if a rule predicts it.

    Continuous actions in the same tenth of the range count as the same.

    Args:
      queries: with the question `argue`.
      rule: of the next action.

    Raises:
      ValueError: for another question.
    """
    check(queries.question == "argue", "queries.question", queries.question, "argue")
    assert queries.action is not None
    discrete = isinstance(queries.action_space, Discrete)
    proposed = queries.action.reshape(len(queries.truth), -1)
    action_queries = dataclasses.replace(
        queries,
        question="next_action",
        form="discrete" if discrete else "bins",
        action=None,
        truth=np.zeros(proposed.shape, int),
    )
    predicted = rule(action_queries).values
    is_same = predicted == (proposed if discrete else _in_form(action_queries, proposed))
    return _all_parsed(is_same.all(1, keepdims=True).astype(int))


def always_agree(queries: Queries) -> Answers:
    """Votes for every proposed action."""
    return _all_parsed(np.ones_like(queries.truth))


BASELINES: Mapping[str, Rule] = {
    "majority": majority,
    "copy last": copy_last,
    "same change": same_change,
    "nearest neighbour": nearest_neighbour,
    "ridge regression": ridge,
    "quadratic regression": quadratic,
}
"""The rules by name."""


def baseline_answers(queries: Queries) -> dict[str, Answers]:
    """Returns the answers of every rule that goes with the question.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=3)
      >>> list(baseline_answers(asked))
      ['majority', 'copy last', 'nearest neighbour', 'ridge regression', 'quadratic regression']
    """
    if queries.question == "argue":
        rules = {name: rule for name, rule in BASELINES.items() if rule is not same_change}
        votes = {name: vote_answers(queries, rule) for name, rule in rules.items()}
        return {"always agree": always_agree(queries), **votes}
    return {
        name: rule(queries)
        for name, rule in BASELINES.items()
        if rule is not same_change or queries.form != "discrete"
    }
