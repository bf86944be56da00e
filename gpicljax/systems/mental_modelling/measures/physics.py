"""Rules that know the form of a task's laws, and fit their numbers to the history.

Where an acceleration is linear in a few known functions of position and action, the history gives
the numbers, and the law the rest: the next state, the last, and the action that must have been
taken. For controllers, the linear feedback of linear-quadratic control is fitted in the coordinates
in which it is linear: angles, where a state has their cosines and sines.

Source: the tasks' equations of motion, as in their documentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gpicljax.checks import check
from gpicljax.registration import id_without_version
from gpicljax.spaces import Discrete
from gpicljax.systems.mental_modelling.measures.baselines import (
    baseline_answers,
    ridge,
    vote_answers,
)
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    change_class,
    round_numbers,
    to_bins,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers

_PENALTY = 1e-6


class Law(NamedTuple):
    """The law of a task's motion; states float `[..., D]`.

    Attributes:
      velocity: the element of a state whose change the history explains.
      terms: states to float `[..., F]`, on which that change depends linearly, beside the action.
      forward: `(state, velocity) -> state`, the next one, whose velocity that is.
      back: states to the one before, with the velocity of the given one.
      scale: a typical change of velocity, by which errors are measured.
    """

    velocity: int
    terms: Callable[[np.ndarray], np.ndarray]
    forward: Callable[[np.ndarray, np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]
    scale: float


def _car_forward(state: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    return np.stack([state[..., 0] + velocity, velocity], -1)


def _car_back(state: np.ndarray) -> np.ndarray:
    return np.stack([state[..., 0] - state[..., 1], state[..., 1]], -1)


_STEP = 0.05


def _turn(state: np.ndarray, velocity: np.ndarray, seconds: float) -> np.ndarray:
    angle = np.arctan2(state[..., 1], state[..., 0]) + seconds * velocity
    return np.stack([np.cos(angle), np.sin(angle), velocity], -1)


LAWS: Mapping[str, Law] = {
    "MountainCar": Law(
        velocity=1,
        terms=lambda state: np.cos(3 * state[..., :1]),
        forward=_car_forward,
        back=_car_back,
        scale=1e-3,
    ),
    "Pendulum": Law(
        velocity=2,
        terms=lambda state: state[..., 1:2],
        forward=lambda state, velocity: _turn(state, velocity, _STEP),
        back=lambda state: _turn(state, state[..., 2], -_STEP),
        scale=0.1,
    ),
}
"""Laws by the first part of an environment's id."""


def _angles(state: np.ndarray) -> np.ndarray:
    return np.stack([np.arctan2(state[..., 1], state[..., 0]), state[..., 2]], -1)


def _two_angles(state: np.ndarray) -> np.ndarray:
    """Returns the cart, two angles from sines (1, 2) and cosines (3, 4), and the velocities."""
    angles = np.arctan2(state[..., 1:3], state[..., 3:5])
    return np.concatenate([state[..., :1], angles, state[..., 5:8]], -1)


COORDINATES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Pendulum": _angles,
    "InvertedDoublePendulum": _two_angles,
}
"""Coordinates in which linear feedback is linear."""


def is_lawful(queries: Queries) -> bool:
    """Returns whether `physics_answers` has a law for a task and question."""
    name = id_without_version(queries.environment)
    return name in (COORDINATES if queries.question in ("next_action", "argue") else LAWS)


def answers_of_rules(queries: Queries) -> dict[str, Answers]:
    """Returns the answers of every rule that goes with the question, with physics where it applies.

    With less history than a law needs, physics says what regression does.
    """
    rules = baseline_answers(queries)
    if is_lawful(queries):
        rules["physics"] = physics_answers(queries) or rules["ridge regression"]
    return rules


def physics_answers(queries: Queries) -> Answers | None:
    """Returns answers by the law and the history; None without a law or a history.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries, score_answers
      >>> states, push = [np.array([-0.5, 0.0])], [2, 0, 1, 2, 2, 1, 0, 2]
      >>> for action in push[:-1]:
      ...     x, v = states[-1]
      ...     v += 0.001 * (action - 1) - 0.0025 * np.cos(3 * x)
      ...     states.append(np.array([x + v, v]))
      >>> car = episode_from_actions(push, states, environment="MountainCar-v0")
      >>> asked = build_queries(car, "next_state", history=5, decimals=6)
      >>> score_answers(asked, physics_answers(asked)).accuracy
      1.0
    """
    name = id_without_version(queries.environment)
    if not is_lawful(queries):
        return None
    if queries.question == "argue":
        return vote_answers(queries, lambda asked: _feedback_answers(asked, COORDINATES[name]))
    if queries.question == "next_action":
        return _feedback_answers(queries, COORDINATES[name])
    law = LAWS[name]
    states, actions = queries.past_states, queries.past_actions
    if queries.state is not None:
        states = np.concatenate([states, queries.state[:, None]], 1)
    count = states.shape[1] - 1
    if count < 1:
        return None
    # The history: pairs of consecutive states, and the actions between them.
    before, after = states[:, :-1], states[:, 1:]
    past_actions = _numbers(actions[:, :count])
    velocity_changes = (after - before)[..., law.velocity] / law.scale
    if queries.question == "last_action":
        assert queries.state is not None and queries.next_state is not None
        query_change = (queries.next_state - queries.state)[:, law.velocity] / law.scale
        inputs = np.concatenate([law.terms(before), velocity_changes[..., None]], -1)
        query_inputs = np.concatenate([law.terms(queries.state), query_change[:, None]], -1)
        return _action_answers(queries, _fit(inputs, past_actions, query_inputs))
    assert queries.action is not None
    inputs = np.concatenate([law.terms(before), past_actions[..., None]], -1)
    # The state before has the position that the law gives; its velocity is asked for.
    query_state = queries.state if queries.next_state is None else law.back(queries.next_state)
    assert query_state is not None
    query_inputs = np.concatenate([law.terms(query_state), _numbers(queries.action)[:, None]], -1)
    change = law.scale * _fit(inputs, velocity_changes, query_inputs)
    if queries.next_state is None:
        predicted_change = (
            law.forward(query_state, query_state[:, law.velocity] + change) - query_state
        )
    else:
        before = query_state.copy()
        before[:, law.velocity] -= change
        predicted_change = queries.next_state - before
    classes = change_class(np.zeros(1), round_numbers(predicted_change, queries.decimals))
    return Answers(classes, np.ones(len(classes), bool))


def _numbers(actions: np.ndarray) -> np.ndarray:
    """Returns actions `[Q, ...]` or `[Q, ..., 1]` as numbers."""
    values = actions.astype(float)
    return values[..., 0] if actions.dtype.kind == "f" else values


def _fit(inputs: np.ndarray, targets: np.ndarray, query_inputs: np.ndarray) -> np.ndarray:
    """Returns least squares with a constant, float `[Q]`: of n `[Q, n, F]`, at `[Q, F]`."""
    inputs = np.concatenate([inputs, np.ones_like(inputs[..., :1])], -1)
    query_inputs = np.concatenate([query_inputs, np.ones_like(query_inputs[:, :1])], -1)
    size = np.maximum(np.abs(inputs).max(1, keepdims=True), 1e-9)
    inputs, query_inputs = inputs / size, query_inputs / size[:, 0]
    square = inputs.swapaxes(1, 2) @ inputs + _PENALTY * np.eye(inputs.shape[-1])
    weights = np.linalg.solve(square, inputs.swapaxes(1, 2) @ targets[..., None])
    return (query_inputs[:, None] @ weights)[:, 0, 0]


def _action_answers(queries: Queries, predictions: np.ndarray) -> Answers:
    space = queries.action_space
    if isinstance(space, Discrete):
        values = np.clip(np.rint(predictions), 0, space.n - 1).astype(int)
    else:
        values = np.clip(round_numbers(predictions, queries.decimals), space.low, space.high)
        if queries.form == "bins":
            values = to_bins(values, space.low, space.high, queries.decimals)
    return Answers(values[:, None], np.ones(len(values), bool))


def _feedback_answers(queries: Queries, coordinates: Callable[[np.ndarray], np.ndarray]) -> Answers:
    """Answers with linear feedback in the right coordinates."""
    assert queries.state is not None
    check(queries.num_states is None, "queries.num_states", queries.num_states, "None")
    in_coordinates = dataclasses.replace(
        queries, past_states=coordinates(queries.past_states), state=coordinates(queries.state)
    )
    return ridge(in_coordinates, penalty=1e-3)
