"""Questions about an agent's episodes, as arrays, with their premises and their true answers.

| question | given beside the history | asked for |
|---|---|---|
| `next_action` | state i | action i |
| `last_action` | states i and i + 1 | action i |
| `next_state` | state, action and reward i | state i + 1 |
| `last_state` | action i, state i + 1 | state i |
| `argue` | state i, an action | whether it is action i |

A history of H has the H whole steps (state, action, reward) right before step i: none for H = 0.
Where the environment sets goals, that of step i is given too.
Truth and history are rounded alike, once, so that nothing is asked about that cannot be seen. Half
of the actions that are argued about are the agent's; the others are drawn from all that differ, and
of continuous ones from those that lie in another of the ten parts of the range.

Source: sections 3.1 and 3.2 and appendix C of Lu et al. (2024), "Mental modelling of reinforcement
learning agents by language models".
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import numpy as np

from gpicljax.checks import check, check_at_least, check_choice
from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.data.episodes import Episodes
from gpicljax.typing import ArrayTree

Question = Literal["next_action", "last_action", "next_state", "last_state", "argue"]
Form = Literal["discrete", "bins", "absolute", "change", "vote"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
"""All questions."""
ACTION_QUESTIONS = ("next_action", "last_action")
"""Questions whose answer is an action; the others but `argue` are answered by a state."""
HISTORY_SIZES = (0, 1, 2, 3, 5, 10, 20, 40)
"""Default sizes of history; the paper has its sizes only on the axes of its figures."""
DECREASE, INCREASE, UNCHANGED = 0, 1, 2
"""The classes of change, numbered as in appendix C."""
BINS = 10
_MOST_HISTORY = 40


@dataclasses.dataclass(frozen=True, eq=False)
class Queries:
    """Q queries of one question; NumPy arrays, all numbers rounded to `decimals`.

    A state is float `[D]`, or an integer where states are numbered. An action is float `[A]`, or an
    integer. Parts that the question does not give are None.

    Attributes:
      environment: the environment's id.
      question: see the module.
      form: form of the answers. `discrete`: the number of an action or state; `bins`: one of the
        range's ten equal parts, for each entry of an action; `absolute`: numbers; `change`: a class
        for each element of the state, from state i to state i + 1; `vote`: 1 for the agent's
        action, 0 for another.
      history: H.
      decimals: number of decimals to which everything is rounded.
      action_space: the space of actions.
      num_states: number of states, where states are numbered.
      past_states: `[Q, H, ...]`.
      past_actions: `[Q, H, ...]`.
      past_rewards: float `[Q, H]`.
      state: `[Q, ...]` or None.
      action: `[Q, ...]` or None.
      reward: float `[Q]` or None.
      next_state: `[Q, ...]` or None.
      truth: `int[Q, E]`; float where the form is `absolute`.
      episode: `int[Q]`, the episode that the query is from.
      step: `int[Q]`, i.
      goal: float `[Q, G]`, the goal at step i; None where the environment sets no goals.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0]), "next_action", history=1)
      >>> asked.past_actions.tolist(), asked.truth.tolist()
      ([[0], [1], [1]], [[1], [1], [0]])
    """

    environment: str
    question: Question
    form: Form
    history: int
    decimals: int
    action_space: Discrete | Box
    num_states: int | None
    past_states: np.ndarray
    past_actions: np.ndarray
    past_rewards: np.ndarray
    state: np.ndarray | None
    action: np.ndarray | None
    reward: np.ndarray | None
    next_state: np.ndarray | None
    truth: np.ndarray
    episode: np.ndarray
    step: np.ndarray
    goal: np.ndarray | None = None


def round_numbers(values: ArrayTree, decimals: int) -> np.ndarray:
    """Rounds numbers as they are shown, without a negative zero."""
    scale = 10.0**decimals
    return np.rint(np.asarray(values, float) * scale) / scale + 0.0


def to_bins(values: ArrayTree, low: float, high: float, decimals: int = 4, bins: int = BINS) -> Any:
    """Returns the equal part of a range in which each number lies.

    A part has its lower edge and lacks its upper one, but for the last, which has both. What lies
    beyond the range counts to the nearest part; what is no number is in none, -1. Computed in whole
    units of the last decimal, so that edges do not depend on how a float rounds.

    Returns:
      `int[...]`, from 0 to `bins` - 1; or -1.

    Raises:
      ValueError: if the range has fewer units than parts.
    """
    check_at_least(1, bins=bins)
    values = np.asarray(values, float)
    start, end = (int(x) for x in np.rint(np.array([low, high]) * 10.0**decimals))
    check(end - start >= bins, "high", high, f"at least {bins} units of the last decimal above low")
    inside = np.clip(np.nan_to_num(values, nan=low), low, high)
    units = np.rint(inside * 10.0**decimals).astype(np.int64)
    bin_numbers = np.minimum((units - start) * bins // (end - start), bins - 1)
    return np.where(np.isnan(values), -1, bin_numbers)


def from_bins(parts: Any, low: float, high: float, decimals: int = 4) -> np.ndarray:
    """Returns the middles of parts of a range, rounded; see `to_bins`."""
    return round_numbers(low + (np.asarray(parts) + 0.5) * (high - low) / BINS, decimals)


def change_class(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Returns whether each element of rounded numbers increased, decreased or stayed."""
    return np.where(after > before, INCREASE, np.where(after < before, DECREASE, UNCHANGED))


def build_queries(
    episodes: Episodes,
    question: Question,
    *,
    form: Form | None = None,
    history: int = 3,
    first: int | None = None,
    decimals: int = 4,
    seed: int = 0,
) -> Queries:
    """Returns one query for every step that has so much history before it.

    Args:
      episodes: the agent's, or several agents'.
      question: see the module.
      form: see `Queries`; by default `discrete` where actions (or states) are numbered, else `bins`
        (or `change`).
      history: H, from 0 to 40.
      first: the first step that is asked about; `history` by default. The same number for all sizes
        of history asks the same queries of all.
      decimals: to which states, actions and rewards are rounded.
      seed: of the actions that are argued about.

    Raises:
      ValueError: for an unknown question, a form that does not go with it, or a history that leaves
        an episode without a query; `take_episodes` of the data leaves out the short ones.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episodes_from_arrays
      >>> walk = episodes_from_arrays(
      ...     [np.array([[0.0], [0.1], [0.1], [0.3]])],
      ...     [np.array([1, 0, 1, 1])],
      ...     [np.zeros(4)],
      ...     environment="Walk",
      ...     action_space=Discrete(2),
      ...     agent="walker",
      ... )
      >>> asked = build_queries(walk, "next_state", history=1)
      >>> asked.truth.tolist(), asked.past_states.tolist(), asked.state.tolist()
      ([[2], [1]], [[[0.0]], [[0.1]]], [[0.1], [0.1]])
      >>> build_queries(walk, "next_state", history=5)
      Traceback (most recent call last):
      ValueError: history: got 5; accepted: integers from 0 to 2: episode 0 has 4 steps
    """
    check_choice("question", question, QUESTIONS)
    check_at_least(0, history=history, decimals=decimals)
    check(history <= _MOST_HISTORY, "history", history, f"integers from 0 to {_MOST_HISTORY}")
    check(decimals <= 8, "decimals", decimals, "integers from 0 to 8")
    form = _check_form(episodes, question, form)
    asks_action = question in ACTION_QUESTIONS
    # Where the next state is needed, the last step has none.
    end = episodes.length - (question not in ("next_action", "argue"))
    n = int(end.argmin())
    expected = f"integers from 0 to {end[n] - 1}: episode {n} has {episodes.length[n]} steps"
    check(history < end[n], "history", history, expected)
    start = history if first is None else first
    check_at_least(history, first=start)
    check(start < end[n], "first", start, expected)

    steps = np.arange(episodes.rewards.shape[1])
    episode, step = np.nonzero((steps >= start) & (steps < end[:, None]))
    states = episodes.states
    if episodes.num_states is None:
        states = round_numbers(states, decimals)
    actions, rewards = episodes.actions, round_numbers(episodes.rewards, decimals)
    if isinstance(episodes.action_space, Box):
        actions = round_numbers(actions, decimals).reshape(*rewards.shape, -1)
    at_past = episode[:, None], step[:, None] + np.arange(-history, 0)
    at_step = episode, step
    at_next = episode, np.minimum(step + 1, rewards.shape[1] - 1)

    actions_in_question = actions[at_step]
    if question == "argue":
        actions_in_question, truth = _draw_proposals(
            actions_in_question, episodes.action_space, decimals, seed
        )
    elif form == "change":
        truth = change_class(states[at_step], states[at_next])
    elif asks_action:
        truth = actions[at_step]
        if form == "bins":
            truth = to_bins(truth, *_bounds(episodes.action_space), decimals)
    else:
        truth = states[at_next if question == "next_state" else at_step]
    return Queries(
        environment=episodes.environment,
        question=question,
        form=form,
        history=history,
        decimals=decimals,
        action_space=episodes.action_space,
        num_states=episodes.num_states,
        past_states=states[at_past],
        past_actions=actions[at_past],
        past_rewards=rewards[at_past],
        state=None if question == "last_state" else states[at_step],
        action=None if asks_action else actions_in_question,
        reward=rewards[at_step] if question == "next_state" else None,
        next_state=states[at_next] if question in ("last_action", "last_state") else None,
        truth=truth.reshape(len(episode), -1),
        episode=episode,
        step=step,
        goal=None
        if episodes.desired_goals is None
        else round_numbers(episodes.desired_goals[at_step], decimals),
    )


def pick_queries(queries: Queries, count: int, seed: int = 0) -> Queries:
    """Returns so many of the queries, drawn without repetition, in their order: replies cost money.

    Args:
      queries: Q of them.
      count: number of queries; all, if there are no more.
      seed: of the draw.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1] * 50), "next_action", history=2)
      >>> pick_queries(asked, 7).truth.shape
      (7, 1)
    """
    check_at_least(1, count=count)
    total = len(queries.truth)
    if count >= total:
        return queries
    indices = np.sort(np.random.default_rng(seed).permutation(total)[:count])
    return take_queries(queries, indices)


def take_queries(queries: Queries, indices: np.ndarray) -> Queries:
    """Returns some of the queries, by number.

    Args:
      queries: Q of them.
      indices: `int[M]`.
    """
    per_query = (
        "past_states", "past_actions", "past_rewards", "state", "action", "reward", "next_state",
        "truth", "episode", "step", "goal",
    )  # fmt: skip
    fields = {name: getattr(queries, name) for name in per_query}
    fields = {name: None if values is None else values[indices] for name, values in fields.items()}
    return dataclasses.replace(queries, **fields)


def _draw_proposals(
    actions: np.ndarray, space: Discrete | Box, decimals: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns actions to be argued about, and whether they are the agent's: half of them."""
    rng = np.random.default_rng(seed)
    count = len(actions)
    agents = rng.permutation(count) < (count + 1) // 2
    if isinstance(space, Discrete):
        check(space.n > 1, "action_space", space, "two actions or more, where one is argued about")
        other_actions = (actions + rng.integers(1, space.n, count)) % space.n
        return np.where(agents, actions, other_actions), agents.astype(int)
    low, high = space.low, space.high
    # Another part of the range in every entry, somewhere within it.
    parts = (to_bins(actions, low, high, decimals) + rng.integers(1, BINS, actions.shape)) % BINS
    inside = rng.uniform(0.05, 0.95, actions.shape)
    other_actions = round_numbers(low + (parts + inside) * (high - low) / BINS, decimals)
    return np.where(agents[:, None], actions, other_actions), agents.astype(int)


def _bounds(space: Discrete | Box) -> tuple[float, float]:
    assert isinstance(space, Box)
    return space.low, space.high


def _check_form(episodes: Episodes, question: Question, form: Form | None) -> Form:
    forms: tuple[Form, ...]
    if question == "argue":
        forms = ("vote",)
    elif question in ACTION_QUESTIONS:
        discrete = isinstance(episodes.action_space, Discrete)
        forms = ("discrete",) if discrete else ("bins", "absolute")
    else:
        forms = ("change",) if episodes.num_states is None else ("discrete",)
    if form is None:
        return forms[0]
    expected = f"{' or '.join(forms)}, for {question} in {episodes.environment}"
    check(form in forms, "form", form, expected)
    return form
