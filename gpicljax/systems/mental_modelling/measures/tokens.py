"""The inputs and targets of readers: windows of episodes, and queries, as tokens.

A step is one token, which holds the step before as a whole, and of this step what the question
gives. What a question hides is in no token that an answer can look at. `last_state` is asked at
every second position only, for the step before would show what is asked for as its next state.
Beside the tokens stands what each rule answers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.data.episodes import PER_STEP, Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import BASELINES
from gpicljax.systems.mental_modelling.measures.physics import answers_of_rules
from gpicljax.systems.mental_modelling.measures.questions import (
    ACTION_QUESTIONS,
    BINS,
    Queries,
    build_queries,
    round_numbers,
    to_bins,
)

READER_QUESTIONS = ("next_action", "last_action", "next_state", "last_state")
RULES = (*BASELINES, "physics")
"""Rules whose answers a reader knows beside the history."""
WINDOW_LENGTH = 41
"""Steps of a sequence."""


class TaskScales(NamedTuple):
    """Sizes and scales of a task's episodes; static but for the arrays."""

    action_space: Discrete | Box
    num_states: int | None
    dims: int
    decimals: int
    mean: np.ndarray
    scale: np.ndarray
    step: np.ndarray
    reward: float
    goals: tuple[np.ndarray, np.ndarray] | None

    @property
    def action_answers(self) -> tuple[int, int]:
        """Returns the entries of an action, and the choices for each."""
        if isinstance(self.action_space, Discrete):
            return 1, self.action_space.n
        return int(np.prod(self.action_space.shape, dtype=int)), BINS

    @property
    def state_answers(self) -> tuple[int, int]:
        """Returns the elements of a state, and the choices for each."""
        return (self.dims, 3) if self.num_states is None else (1, self.num_states)


def rule_codes(task: TaskScales, queries: Queries) -> np.ndarray:
    """Returns the answers of rules as inputs, float `[Q, R E]`: choices, -1 for none."""
    if queries.form == "absolute":
        queries = dataclasses.replace(queries, form="bins")
    answers = answers_of_rules(queries)
    actions, states = task.action_answers[0], task.state_answers[0]
    is_action = queries.question in ACTION_QUESTIONS
    entries = slice(0, actions) if is_action else slice(actions, actions + states)
    codes = np.full((len(queries.truth), len(RULES), actions + states), -1, np.float32)
    for number, name in enumerate(RULES):
        if name in answers:
            codes[:, number, entries] = answers[name].values
    return codes.reshape(len(codes), -1)


def draw_windows(episodes: Episodes, count: int) -> Episodes:
    """Returns pieces of episodes, of 42 steps or less; each agent is drawn as often."""
    rng = np.random.default_rng(0)
    names, agents = np.unique(episodes.agents, return_inverse=True)
    steps = np.bincount(agents, episodes.length, len(names))
    shares = episodes.length / steps[agents] / len(names)
    numbers = rng.choice(len(shares), count, p=shares)
    length = episodes.length[numbers]
    start = np.maximum(rng.integers(-WINDOW_LENGTH // 2, length), 0)
    last = episodes.rewards.shape[1] - 1
    at = numbers[:, None], np.minimum(start[:, None] + np.arange(WINDOW_LENGTH + 1), last)
    arrays = {name: getattr(episodes, name) for name in PER_STEP}
    return dataclasses.replace(
        episodes,
        **{name: x if x is None else x[at] for name, x in arrays.items()},
        length=np.minimum(length - start, WINDOW_LENGTH + 1),
        returns=episodes.returns[numbers],
        agents=tuple(episodes.agents[n] for n in numbers),
        checkpoints=tuple(episodes.checkpoints[n] for n in numbers),
    )


def prepare_windows(
    episodes: Episodes, decimals: int, count: int
) -> tuple[TaskScales, dict[str, jax.Array]]:
    """Returns sizes and scales, and windows of episodes with a question for each."""
    task = _measure_scales(episodes, decimals)
    windows = draw_windows(episodes, count)
    numbers = np.arange(count) % len(READER_QUESTIONS)
    last = np.arange(count) // len(READER_QUESTIONS) % 2
    shape = count, WINDOW_LENGTH
    entries = [task.action_answers[0], task.state_answers[0]]
    rules = np.full((*shape, len(RULES) * sum(entries)), -1, np.float32)
    targets = [np.full((*shape, size), -1, np.int32) for size in entries]
    for number, question in enumerate(READER_QUESTIONS):
        is_state_question = question not in ACTION_QUESTIONS
        for history in range(WINDOW_LENGTH):
            # The query at this position alone, of windows that are long enough for it.
            steps = history + 1 + (number != 0)
            is_asked = is_asked_at(number, history + 1, last[:, None])[:, -1]
            chosen = np.flatnonzero((numbers == number) & (windows.length >= steps) & is_asked)
            if not chosen.size:
                continue
            cut = take_episodes(windows, chosen)
            cut = dataclasses.replace(cut, length=np.full(len(chosen), steps))
            queries = build_queries(cut, question, history=history, decimals=decimals)
            rules[chosen, history] = rule_codes(task, queries)
            targets[is_state_question][chosen, history] = queries.truth
    states = windows.states if task.num_states else round_numbers(windows.states, decimals)
    actions, goals = windows.actions, windows.desired_goals
    if isinstance(task.action_space, Box):
        actions = round_numbers(actions, decimals)
    goals = None if goals is None else round_numbers(goals, decimals)
    arrays = {
        **_scale_inputs(task, states, actions, round_numbers(windows.rewards, decimals)),
        "goal": _scale_goals(task, goals, states.shape[:2]),
        "number": numbers,
        "last": last,
        "rules": rules,
        "actions": targets[0],
        "states": targets[1],
    }
    for name in ("done", "paid", "goal"):
        arrays[name] = arrays[name][:, :WINDOW_LENGTH]
    return task, {name: jnp.asarray(x) for name, x in arrays.items()}


def _measure_scales(episodes: Episodes, decimals: int) -> TaskScales:
    """Returns sizes and scales of a task."""
    is_step, goals = episodes.is_step, episodes.desired_goals
    dims, mean, scale, step = 1, np.zeros(1), np.ones(1), np.ones(1)
    if episodes.num_states is None:
        states = round_numbers(episodes.states, decimals)
        flat, moved = states[is_step], np.diff(states, axis=1)[is_step[:, 1:]]
        dims, mean, scale = states.shape[-1], flat.mean(0), np.maximum(flat.std(0), 1e-6)
        # Most changes are of this size; few may be huge.
        step = np.maximum(np.abs(moved).mean(0) if len(moved) else scale, 10.0**-decimals)
    if goals is not None:
        goals = round_numbers(goals, decimals)[is_step]
    return TaskScales(
        episodes.action_space,
        episodes.num_states,
        dims,
        decimals,
        mean,
        scale,
        step,
        float(max(np.abs(episodes.rewards[is_step]).mean(), 1e-6)),
        None if goals is None else (goals.mean(0), np.maximum(goals.std(0), 1e-6)),
    )


def _scale_inputs(
    task: TaskScales, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns inputs of the network: states `[..., T, D]`, their differences and actions."""
    if task.num_states is not None:
        scaled_states = (states[..., None] == np.arange(task.num_states)).astype(float)
        fine = scaled_states
    else:
        scaled_states, fine = (states - task.mean) / task.scale, states / task.step
    space = task.action_space
    if isinstance(space, Discrete):
        scaled_actions = (actions[..., None] == np.arange(space.n)).astype(float)
    else:
        middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
        entries = actions.reshape(*rewards.shape, -1)
        # An action is given as a number, and as the part of the range in which it lies.
        parts = to_bins(entries, space.low, space.high, task.decimals)[..., None]
        places = (parts == np.arange(BINS)).reshape(*rewards.shape, -1)
        scaled_actions = np.concatenate([(entries - middle) / half, places], -1)
    inputs = {
        "seen": np.clip(scaled_states, -8, 8),
        "done": scaled_actions,
        "paid": np.clip(rewards / task.reward, -8, 8),
    }
    # Differences are taken in double precision, before anything is lost.
    inputs |= {"moved": differences(fine), "jumped": differences(fine, 2)}
    return {name: x.astype(np.float32) for name, x in inputs.items()}


def _scale_goals(task: TaskScales, goals: np.ndarray | None, batch: tuple[int, ...]) -> np.ndarray:
    """Returns scaled goals, `[..., G]`; `[..., 0]` where none is set."""
    if task.goals is None or goals is None:
        return np.zeros((*batch, 0), np.float32)
    mean, scale = task.goals
    return np.clip((goals - mean) / scale, -8, 8).astype(np.float32)


def differences(fine: np.ndarray, steps: int = 1) -> np.ndarray:
    """Returns how much states have changed since so many steps ago; zeros at first."""
    differences = np.zeros_like(fine)
    differences[..., steps:, :] = fine[..., steps:, :] - fine[..., :-steps, :]
    return differences


def _change_features(moved: jax.Array) -> jax.Array:
    """Returns a difference in units of a typical one, and its sign, however small."""
    return jnp.concatenate([jnp.clip(moved, -5, 5), jnp.sign(moved)], -1)


def make_tokens(number: jax.Array, x: dict[str, jax.Array], is_asked: jax.Array) -> jax.Array:
    """Returns tokens float `[T, F]` of one sequence.

    Args:
      number: `int32[]`, the question.
      x: states of T + 1 steps (`states`, `changes`, `jumped`), actions, rewards and goals of T.
      is_asked: `bool[T]`.
    """
    count = is_asked.shape[0]
    kind = jax.nn.one_hot(number, len(READER_QUESTIONS))
    gives = is_asked[:, None] * 1.0

    def before(values: jax.Array, steps: int) -> jax.Array:
        return jnp.pad(values, ((steps, 0), (0, 0)))[:count]

    def only(*names: str) -> jax.Array:
        return sum((kind[READER_QUESTIONS.index(name)] for name in names), jnp.zeros(())) * gives

    states, changes = x["seen"], _change_features(x["moved"])
    next_features = states[1:], changes[1:], _change_features(x["jumped"])[1:]
    gives_state = only("next_action", "last_action", "next_state")
    rest = jnp.arange(count)[:, None]
    parts = [
        jnp.broadcast_to(kind, (count, len(READER_QUESTIONS))),
        gives,
        (rest > 0) * 1.0,
        # The step before, as a whole.
        before(states, 1),
        before(x["done"], 1),
        before(x["paid"][:, None], 1),
        before(changes, 1) * (rest > 1),
        # The parts of this step that the question gives.
        gives_state * states[:count],
        gives_state * changes[:count] * (rest > 0),
        only("last_action") * next_features[1],
        only("last_action", "last_state") * next_features[0],
        only("last_state") * next_features[2] * (rest > 0),
        only("next_state", "last_state") * x["done"],
        only("next_state") * x["paid"][:, None],
        x["goal"],
    ]
    return jnp.concatenate(parts, -1)


def is_asked_at(number: Any, count: int, last: Any) -> Any:
    """Returns where a question is asked: `last_state` at every second position from `last`."""
    return (number != READER_QUESTIONS.index("last_state")) | ((np.arange(count) - last) % 2 == 0)


def window_inputs(task: TaskScales, queries: Queries, length: int) -> dict[str, np.ndarray]:
    """Returns the arrays of tokens; the query is at position H, zeros stand behind it."""
    count, history = len(queries.truth), queries.history
    zero = np.zeros((count, 1, *queries.past_states.shape[2:]), queries.past_states.dtype)
    state_part = zero if queries.state is None else queries.state[:, None]
    next_part = zero if queries.next_state is None else queries.next_state[:, None]
    states = np.concatenate([queries.past_states, state_part, next_part], 1)
    past = queries.past_actions
    blank = np.zeros((count, 1, *past.shape[2:]), past.dtype)
    action_part = blank if queries.action is None else queries.action[:, None]
    actions = np.concatenate([past, action_part], 1)
    reward_part = np.zeros((count, 1)) if queries.reward is None else queries.reward[:, None]
    rewards = np.concatenate([queries.past_rewards, reward_part], 1)
    x = _scale_inputs(task, states, actions, rewards)
    spare = length - history - 1
    window = {
        name: np.pad(x[name], [(0, 0), (0, spare), *[(0, 0)] * (x[name].ndim - 2)]) for name in x
    }
    # One goal for all of an episode.
    goal = _scale_goals(task, queries.goal, (count,))
    window["goal"] = np.repeat(goal[:, None], length, 1)
    window["last"] = np.full(count, history, np.int32)
    return window
