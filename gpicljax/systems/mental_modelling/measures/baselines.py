"""Rules that answer from the history alone: what a language model has to beat.

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
    rounded,
    to_bins,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers

Rule = Callable[[Queries], Answers]


class _Examples(NamedTuple):
    """What the history teaches about Q queries, with n examples each, oldest first.

    Attributes:
      inputs: float `[Q, n, F]`, what was given.
      given: float `[Q, F]`, what is given now.
      targets: `[Q, n, E]`, what was right: numbers of actions or states, actions, or by how much
        the state's elements changed.
      answers: `[Q, n, E]`, the same in the form of the answers.
    """

    inputs: np.ndarray
    given: np.ndarray
    targets: np.ndarray
    answers: np.ndarray


def _one_hot(values: np.ndarray, count: int) -> np.ndarray:
    return (values[..., None] == np.arange(count)).astype(float)


def _vectors(queries: Queries, values: np.ndarray | None, kind: str) -> np.ndarray:
    """States or actions as vectors: numbered ones by a one in their place."""
    assert values is not None
    if kind == "states":
        count = queries.num_states
    else:
        space = queries.action_space
        count = space.n if isinstance(space, Discrete) else None
    return values if count is None else _one_hot(values, count)


def _in_form(queries: Queries, targets: np.ndarray) -> np.ndarray:
    """What is right, in the form of the answers."""
    if queries.form == "change":
        return change_class(np.zeros(1), targets)
    if queries.form == "bins":
        return to_bins(targets, *_bounds(queries), queries.decimals)
    return targets


def _bounds(queries: Queries) -> tuple[float, float]:
    space = queries.action_space
    assert isinstance(space, Box)
    return space.low, space.high


def _examples(queries: Queries) -> _Examples:
    accepted = "another question; `votes` answers it with a rule of the next action"
    check(queries.question != "argue", "queries.question", "argue", accepted)
    states, actions = queries.past_states, queries.past_actions
    if queries.state is not None:
        states = np.concatenate([states, queries.state[:, None]], axis=1)
    count = max(min(queries.history, states.shape[1] - 1), 0)
    before, after, done = states[:, :count], states[:, 1 : count + 1], actions[:, :count]
    asks_action = queries.question in ACTION_QUESTIONS
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    if queries.state is not None:
        pair = _vectors(queries, before, "states"), _vectors(queries, queries.state, "states")
        parts.append(pair)
    if queries.action is not None:
        pair = _vectors(queries, done, "actions"), _vectors(queries, queries.action, "actions")
        parts.append(pair)
    if queries.reward is not None:
        parts.append((queries.past_rewards[:, :count, None], queries.reward[:, None]))
    if queries.next_state is not None:
        pair = _vectors(queries, after, "states"), _vectors(queries, queries.next_state, "states")
        parts.append(pair)
    if asks_action:
        targets = done
    elif queries.form == "change":
        # Rounded again: a difference of rounded numbers is not quite one.
        targets = rounded(after - before, queries.decimals)
    else:
        targets = after if queries.question == "next_state" else before
    if targets.ndim == 2:
        targets = targets[..., None]
    return _Examples(
        inputs=np.concatenate([past for past, _ in parts], axis=-1),
        given=np.concatenate([now for _, now in parts], axis=-1),
        targets=targets,
        answers=_in_form(queries, targets),
    )


def _blind(queries: Queries) -> Answers:
    """What is answered with nothing to go by: the first, the middle, no change."""
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
    """The most frequent answer in the history, for each element; the latest of several.

    Where numbers are asked for, the middle of the most frequent part of the range.
    """
    examples = _examples(queries)
    if examples.answers.shape[1] == 0:
        return _blind(queries)
    codes = examples.answers
    if queries.form == "absolute":
        codes = to_bins(codes, *_bounds(queries), queries.decimals)
    count = codes.shape[1]
    met = codes[..., None] == np.arange(int(codes.max()) + 1)
    latest = (met * np.arange(1, count + 1)[:, None, None]).max(1)
    values = (met.sum(1) * (count + 1) + latest).argmax(-1)
    if queries.form == "absolute":
        values = from_bins(values, *_bounds(queries), queries.decimals)
    return _all_parsed(values)


def copy_last(queries: Queries) -> Answers:
    """The action before, or the state that is given: nothing changes.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=3)
      >>> copy_last(asked).values.tolist()
      [[1], [0]]
    """
    if queries.form == "change":
        return _blind(queries)
    if queries.question in ("next_state", "last_state"):
        near = queries.state if queries.next_state is None else queries.next_state
        assert near is not None
        return _all_parsed(near[:, None])
    if queries.history == 0:
        return _blind(queries)
    last = queries.past_actions[:, -1].reshape(len(queries.truth), -1)
    return _all_parsed(_in_form(queries, last))


def same_change(queries: Queries) -> Answers:
    """The last known change once more: of a state's elements, or of an action that is a number.

    Raises:
      ValueError: where neither is asked for.
    """
    accepted = "change, bins or absolute"
    check(queries.form != "discrete", "queries.form", queries.form, accepted)
    if queries.form == "change":
        changes = _examples(queries).answers
        return _all_parsed(changes[:, -1]) if changes.shape[1] else _blind(queries)
    if queries.history < 2:
        return copy_last(queries)
    before, last = queries.past_actions[:, -2], queries.past_actions[:, -1]
    values = np.clip(rounded(2 * last - before, queries.decimals), *_bounds(queries))
    return _all_parsed(_in_form(queries, values))


def _standardised(examples: _Examples) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in standard deviations from the mean of each query's own examples."""
    inputs = examples.inputs
    mean = inputs.mean(1, keepdims=True)
    flat = inputs.max(1, keepdims=True) == inputs.min(1, keepdims=True)
    scale = np.where(flat, 1, inputs.std(1, keepdims=True))
    return (inputs - mean) / scale, (examples.given - mean[:, 0]) / scale[:, 0]


def nearest_neighbour(queries: Queries) -> Answers:
    """The answer of the example whose inputs are nearest; the latest of several.

    Distances are Euclidean, in standard deviations of each input within the history.
    """
    examples = _examples(queries)
    count = examples.answers.shape[1]
    if count == 0:
        return _blind(queries)
    inputs, given = _standardised(examples)
    distance = ((inputs - given[:, None]) ** 2).sum(-1)
    nearest = count - 1 - distance[:, ::-1].argmin(1)
    return _all_parsed(examples.answers[np.arange(len(nearest)), nearest])


def ridge(queries: Queries, penalty: float = 0.1) -> Answers:
    """Ridge regression on the examples, for each query on its own.

    Inputs are standardised, targets centred. Actions and states that are numbered are regressed as
    a one in their place, and the largest is taken; a change is read off the regressed difference,
    rounded like all else.

    Args:
      queries: what is asked.
      penalty: on the squared weights, above 0; not chosen by any result.

    Raises:
      ValueError: if the penalty is not above 0.
    """
    return _regressed(queries, penalty, lambda inner: inner)


def quadratic(queries: Queries, penalty: float = 0.1) -> Answers:
    """Ridge regression on the inputs and all their products: laws that are not quite linear.

    Args:
      queries: what is asked.
      penalty: see `ridge`.

    Raises:
      ValueError: if the penalty is not above 0.
    """
    return _regressed(queries, penalty, lambda inner: (1 + inner) ** 2)


def _regressed(
    queries: Queries, penalty: float, kernel: Callable[[np.ndarray], np.ndarray]
) -> Answers:
    """Regression with a function of the inputs' inner products."""
    check(Range(above=0).accepts(penalty), "penalty", penalty, "a finite number above 0")
    examples = _examples(queries)
    targets, count = examples.targets, examples.targets.shape[1]
    if count == 0:
        return _blind(queries)
    if queries.form == "discrete":
        space = queries.action_space
        kinds = queries.num_states
        if queries.question in ACTION_QUESTIONS:
            assert isinstance(space, Discrete)
            kinds = space.n
        assert kinds is not None
        targets = _one_hot(targets[..., 0], kinds)
    inputs, given = _standardised(examples)
    mean = targets.mean(1, keepdims=True)
    # The dual form: as many unknowns as examples, of which there are few.
    inner = kernel(inputs @ inputs.swapaxes(1, 2)) + penalty * np.eye(count)
    weights = np.linalg.solve(inner, targets - mean)
    near = kernel(inputs @ given[..., None])
    found = mean[:, 0] + (near * weights).sum(1)
    if queries.form == "discrete":
        return _all_parsed(found.argmax(-1)[:, None])
    found = rounded(found, queries.decimals)
    if queries.form != "change":
        found = np.clip(found, *_bounds(queries))
    return _all_parsed(_in_form(queries, found))


def votes(queries: Queries, rule: Rule) -> Answers:
    """What a rule says to an action that is argued about: the agent's, if it foresees just that.

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
    shown = queries.action.reshape(len(queries.truth), -1)
    foreseen = dataclasses.replace(
        queries,
        question="next_action",
        form="discrete" if discrete else "bins",
        action=None,
        truth=np.zeros(shown.shape, int),
    )
    said = rule(foreseen).values
    same = said == (shown if discrete else _in_form(foreseen, shown))
    return _all_parsed(same.all(1, keepdims=True).astype(int))


def always_agree(queries: Queries) -> Answers:
    """Every action that is argued about is the agent's: what a model does that likes to say yes."""
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
    """What every rule answers that goes with the question.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=3)
      >>> list(baseline_answers(asked))
      ['majority', 'copy last', 'nearest neighbour', 'ridge regression', 'quadratic regression']
    """
    if queries.question == "argue":
        rules = {name: rule for name, rule in BASELINES.items() if rule is not same_change}
        foreseen = {name: votes(queries, rule) for name, rule in rules.items()}
        return {"always agree": always_agree(queries), **foreseen}
    return {
        name: rule(queries)
        for name, rule in BASELINES.items()
        if rule is not same_change or queries.form != "discrete"
    }
