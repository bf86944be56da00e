"""Episodes of an agent in one environment, as arrays.

Step i has the state before the action, the action and the reward that followed. What is asked about
them is in `systems.mental_modelling.measures`.

Source: section 4 and Table 3 of Lu et al. (2024), "Mental modelling of reinforcement learning
agents by language models".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpicljax import spaces
from gpicljax.checks import check, check_array, check_at_least
from gpicljax.typing import ArrayTree

# A bound in single precision may lie this much, relatively, beyond the same in double precision.
_SLACK = 1e-6
PER_STEP = ("states", "actions", "rewards", "achieved_goals", "desired_goals")


@dataclasses.dataclass(frozen=True, eq=False)
class Episodes:
    """N episodes of up to T steps in one environment; NumPy arrays, zeros beyond an episode's end.

    Attributes:
      environment: its id.
      action_space: a `Discrete` or a real `Box`.
      states: float `[N, T, D]`, before the action; `int[N, T]` where states are numbered.
      actions: `int[N, T]`, or float `[N, T, A]`.
      rewards: float `[N, T]`, after it.
      length: `int[N]`, steps, at least 1.
      returns: float `[N]`, what the episode paid, as far as it was seen: more than the sum of
        the rewards where a file says so.
      agents: N names.
      checkpoints: N hashes of the agents' weights and settings; empty where not known.
      achieved_goals: float `[N, T, G]`, where the environment sets goals.
      desired_goals: goals of the same shape that are to be achieved.
      num_states: number of states, where they are numbered.

    Raises:
      ValueError: for arrays that do not belong together, values that are not finite, actions
        outside the space or unknown states; it names episode and step.

    Example:
      >>> walk = Episodes(
      ...     environment="Walk",
      ...     action_space=spaces.Discrete(2),
      ...     states=np.zeros((1, 3, 2)),
      ...     actions=np.array([[0, 1, 4]]),
      ...     rewards=np.zeros((1, 3)),
      ...     length=np.array([3]),
      ...     returns=np.zeros(1),
      ...     agents=("walker",),
      ...     checkpoints=("",),
      ... )
      Traceback (most recent call last):
      ValueError: actions, episode 0, step 2: got 4; accepted: integers from 0 to 1
    """

    environment: str
    action_space: spaces.Discrete | spaces.Box
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    length: np.ndarray
    returns: np.ndarray
    agents: tuple[str, ...]
    checkpoints: tuple[str, ...]
    achieved_goals: np.ndarray | None = None
    desired_goals: np.ndarray | None = None
    num_states: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, num_states=self.num_states)
        batch = np.shape(self.rewards)
        check_array(len(batch) == 2 and min(batch) > 0, "rewards", self.rewards, "float[N, T]")
        numbered = self.num_states is not None
        depth = 2 if numbered else 3
        words = "int[N, T], as num_states is given" if numbered else "float[N, T, D]"
        kinds = "iu" if numbered else "fiu"
        fits = self.states.shape[:2] == batch and self.states.ndim == depth
        check_array(fits and self.states.dtype.kind in kinds, "states", self.states, words)
        check_action_space(self.action_space)
        discrete = isinstance(self.action_space, spaces.Discrete)
        inner = self.action_space.shape
        fits = self.actions.shape == (*batch, *inner)
        words = f"{'integers' if discrete else 'numbers'} of shape {[*batch, *inner]}"
        kinds = "iu" if discrete else "fiu"
        check_array(fits and self.actions.dtype.kind in kinds, "actions", self.actions, words)
        for name in ("achieved_goals", "desired_goals"):
            goals = getattr(self, name)
            if goals is not None:
                check_array(goals.shape[:2] == batch and goals.ndim == 3, name, goals, "[N, T, G]")
        for name in ("length", "returns", "agents", "checkpoints"):
            shape = np.shape(getattr(self, name))
            check(shape == batch[:1], name, shape, f"{batch[:1]}, one for each episode")
        check_array(np.asarray(self.length).dtype.kind in "iu", "length", self.length, "int[N]")
        within = bool(np.all((self.length >= 1) & (self.length <= batch[1])))
        check(within, "length", self.length, f"integers from 1 to {batch[1]}")
        check(np.isfinite(self.returns).all(), "returns", self.returns, "finite numbers")
        for name in PER_STEP:
            values = getattr(self, name)
            if values is not None:
                self._check_steps(name, np.isfinite(values), "finite numbers")
        if self.num_states is not None:
            inside = (self.states >= 0) & (self.states < self.num_states)
            self._check_steps("states", inside, f"integers from 0 to {self.num_states - 1}")
        if isinstance(self.action_space, spaces.Discrete):
            count = self.action_space.n
            inside = (self.actions >= 0) & (self.actions < count)
            self._check_steps("actions", inside, f"integers from 0 to {count - 1}")
        else:
            low, high = self.action_space.low, self.action_space.high
            slack = _SLACK * max(abs(low), abs(high))
            inside = (self.actions >= low - slack) & (self.actions <= high + slack)
            self._check_steps("actions", inside, f"numbers within [{low}, {high}]")

    @property
    def is_step(self) -> np.ndarray:
        """Returns `bool[N, T]`, whether each step belongs to its episode."""
        return np.arange(self.rewards.shape[1]) < self.length[:, None]

    def _check_steps(self, name: str, is_right: np.ndarray, expected: str) -> None:
        is_right = is_right.reshape(*self.rewards.shape, -1).all(-1) | ~self.is_step
        if not is_right.all():
            n, t = np.argwhere(~is_right)[0]
            value = getattr(self, name)[n, t]
            check(False, f"{name}, episode {n}, step {t}", np.asarray(value), expected)


def check_action_space(space: Any) -> spaces.Discrete | spaces.Box:
    """Returns the space, if its actions can be asked about; refuses others."""
    real = isinstance(space, spaces.Box) and len(space.shape) <= 1
    real = real and np.isfinite([space.low, space.high]).all() and space.low < space.high
    expected = "a Discrete, or a Box with finite bounds whose members are numbers or vectors"
    check(isinstance(space, spaces.Discrete) or real, "action_space", space, expected)
    return space


def episodes_from_arrays(
    states: Sequence[Any],
    actions: Sequence[Any],
    rewards: Sequence[Any],
    *,
    environment: str,
    action_space: spaces.Discrete | spaces.Box,
    agent: str,
    checkpoint: str = "",
    num_states: int | None = None,
    returns: Sequence[float] | None = None,
    achieved_goals: Sequence[Any] | None = None,
    desired_goals: Sequence[Any] | None = None,
) -> Episodes:
    """Returns episodes of a user's own arrays, such as rollouts of Gymnasium, one per episode.

    An axis of length 1 after that of time (a vector environment of one) is left out. States and
    goals may have one entry more than there are actions, for what was seen last; it is not kept.

    Args:
      states: N arrays `[t, D]` or, numbered, `[t]`.
      actions: N arrays `[t]` or `[t, A]`.
      rewards: N arrays `[t]`.
      environment: the environment's id.
      action_space: space of the actions.
      agent: a name.
      checkpoint: a hash of its weights, if there is one.
      num_states: see `Episodes`.
      returns: N numbers; the sums of the rewards if None.
      achieved_goals: N arrays `[t, G]`.
      desired_goals: goals of the same shape that are to be achieved.

    Raises:
      ValueError: for arrays that do not belong together; and see `Episodes`.

    Example:
      >>> states = [np.zeros((6, 2)), np.ones((4, 1, 2))]
      >>> actions, rewards = [np.zeros(5, int), np.ones((4, 1), int)], [np.ones(5), np.ones(4)]
      >>> two = episodes_from_arrays(
      ...     states,
      ...     actions,
      ...     rewards,
      ...     environment="MountainCar-v0",
      ...     action_space=spaces.Discrete(3),
      ...     agent="mine",
      ... )
      >>> two.states.shape, two.length.tolist(), two.returns.tolist()
      ((2, 5, 2), [5, 4], [5.0, 4.0])
    """
    check_action_space(action_space)
    count = len(rewards)
    check_at_least(1, episodes=count)
    episode_rewards = [_column("rewards", n, x) for n, x in enumerate(rewards)]
    length = np.array([len(x) for x in episode_rewards], np.int32)

    def rows(name: str, values: Sequence[Any], shape: tuple[int, ...] | None) -> list[np.ndarray]:
        check(len(values) == count, name, len(values), f"{count} arrays, one for each episode")
        return [
            _rows(name, n, x, int(t), shape)
            for n, (x, t) in enumerate(zip(values, length, strict=True))
        ]

    arrays = {
        "states": rows("states", states, None if num_states is None else ()),
        "actions": rows("actions", actions, action_space.shape),
        "rewards": episode_rewards,
    }
    goals = {"achieved_goals": achieved_goals, "desired_goals": desired_goals}
    arrays |= {name: rows(name, x, None) for name, x in goals.items() if x is not None}
    for name, values in arrays.items():
        shapes = {x.shape[1:] for x in values}
        check(len(shapes) == 1, name, sorted(shapes), "steps of one shape in all episodes")
    return Episodes(
        environment=environment,
        action_space=action_space,
        length=length,
        returns=np.array([x.sum() for x in episode_rewards] if returns is None else returns, float),
        agents=(agent,) * count,
        checkpoints=(checkpoint,) * count,
        num_states=num_states,
        **{name: _pad_and_stack(values) for name, values in arrays.items()},
    )


def episode_from_actions(
    actions: ArrayTree,
    states: ArrayTree = None,
    *,
    environment: str = "Walk",
    action_space: spaces.Discrete | spaces.Box | None = None,
    num_states: int | None = None,
) -> Episodes:
    """Returns one episode of a list of actions, for examples and tests; its rewards are 0.

    Args:
      actions: of t steps.
      states: the same number; zeros if None. Numbers are states of one element.
      environment: an id.
      action_space: by default as many actions as there are, or, of fractions, those from -1 to 1.
      num_states: number of states, where they are numbered.

    Raises:
      ValueError: see `Episodes`.

    Example:
      >>> discrete, continuous = map(episode_from_actions, ([0, 1, 1], [0.5, -0.5]))
      >>> discrete.action_space, continuous.states.shape
      (Discrete(n=2), (1, 2, 1))
    """
    all_actions = np.asarray(actions)
    if action_space is None:
        whole = all_actions.dtype.kind in "iu"
        action_space = (
            spaces.Discrete(int(all_actions.max()) + 1) if whole else spaces.Box(-1.0, 1.0)
        )
    all_states = np.zeros(len(all_actions)) if states is None else np.asarray(states)
    return episodes_from_arrays(
        [all_states],
        [all_actions],
        [np.zeros(len(all_actions))],
        environment=environment,
        action_space=action_space,
        agent="made up",
        num_states=num_states,
    )


def _numbers(name: str, n: int, values: ArrayTree) -> np.ndarray:
    values = np.asarray(values)
    check_array(values.dtype.kind in "fiu", f"{name}, episode {n}", values, "numbers")
    return values


def _column(name: str, n: int, values: ArrayTree) -> np.ndarray:
    values = _numbers(name, n, values)
    fits = values.ndim > 0 and len(values) == values.size > 0
    check_array(fits, f"{name}, episode {n}", values, "a number for each of 1 or more steps")
    return values.reshape(-1).astype(float)


def _rows(
    name: str, n: int, values: ArrayTree, steps: int, shape: tuple[int, ...] | None
) -> np.ndarray:
    """Returns the first `steps` rows of an episode's array, in `shape`; vectors if None."""
    values = _numbers(name, n, values)
    extra = 0 if name == "actions" else 1
    fits = values.ndim > 0 and 0 <= len(values) - steps <= extra
    inner = values.shape[1:]
    if len(inner) > 1 and inner[0] == 1:
        inner = inner[1:]
    step_shape = (inner or (1,)) if shape is None else shape
    fits = fits and (shape is not None or len(step_shape) == 1)
    fits = fits and inner in {
        step_shape,
        (*step_shape, 1),
        (1, *step_shape),
        () if step_shape == (1,) else step_shape,
    }
    expected = f"{steps} steps, as there are rewards, of shape {[*step_shape]}"
    check_array(fits, f"{name}, episode {n}", values, expected)
    return values.reshape(len(values), *step_shape)[:steps]


def _pad_and_stack(values: Sequence[np.ndarray]) -> np.ndarray:
    """Stacks arrays of different lengths, zeros behind them."""
    longest = max(map(len, values))
    tables = [np.zeros((longest, *x.shape[1:]), x.dtype) for x in values]
    for table, x in zip(tables, values, strict=True):
        table[: len(x)] = x
    return np.stack(tables)


def join_episodes(*parts: Episodes) -> Episodes:
    """Joins the episodes of several agents in one environment.

    Raises:
      ValueError: if there are none, or their environments or spaces differ.

    Example:
      >>> about = {"environment": "Walk", "action_space": spaces.Discrete(2)}
      >>> def of(agent, n):
      ...     arrays = [np.zeros((n, 2))], [np.zeros(n, int)], [np.ones(n)]
      ...     return episodes_from_arrays(*arrays, agent=agent, **about)
      >>> a, b = of("a", 5), of("b", 3)
      >>> join_episodes(a, b).agents, join_episodes(a, b).length.tolist()
      (('a', 'b'), [5, 3])
    """
    check(len(parts) > 0, "parts", parts, "one or more sets of episodes")
    fields: dict[str, Any] = {}
    for name in ("environment", "action_space", "num_states"):
        parts_values = [getattr(part, name) for part in parts]
        check(
            parts_values.count(parts_values[0]) == len(parts_values),
            name,
            parts_values,
            "the same in all parts",
        )
        fields[name] = parts_values[0]
    for name in PER_STEP:
        parts_values = [getattr(part, name) for part in parts]
        values = [x for x in parts_values if x is not None]
        check(len(values) in (0, len(parts)), name, len(values), "in all parts or in none")
        if not values:
            continue
        shapes = {x.shape[2:] for x in values}
        check(len(shapes) == 1, name, sorted(shapes), "steps of one shape in all parts")
        fields[name] = _pad_and_stack([episode for x in values for episode in x])
    for name in ("length", "returns"):
        fields[name] = np.concatenate([getattr(part, name) for part in parts])
    for name in ("agents", "checkpoints"):
        fields[name] = tuple(x for part in parts for x in getattr(part, name))
    return Episodes(**fields)


def take_episodes(episodes: Episodes, indices: Any) -> Episodes:
    """Returns some of the episodes, such as those that are long enough for a long history.

    Args:
      episodes: N of them.
      indices: `int[M]`, their numbers; or `bool[N]`.

    Raises:
      ValueError: if that is none, or one that there is not.

    Example:
      >>> about = {"environment": "Walk", "action_space": spaces.Discrete(2), "agent": "walker"}
      >>> states, steps = [np.zeros((5, 2)), np.zeros((3, 2))], [np.zeros(5, int), np.zeros(3, int)]
      >>> walk = episodes_from_arrays(states, actions=steps, rewards=steps, **about)
      >>> take_episodes(walk, walk.length > 3).length.tolist()
      [5]
    """
    count = len(episodes.length)
    indices = np.asarray(indices)
    fits = indices.ndim == 1 and indices.size > 0
    if indices.dtype == bool:
        fits = fits and indices.shape == (count,) and bool(indices.any())
        numbers = np.flatnonzero(indices)
    else:
        fits = (
            fits and indices.dtype.kind in "iu" and bool(np.all((indices >= 0) & (indices < count)))
        )
        numbers = indices
    check(fits, "indices", indices, f"integers from 0 to {count - 1}, or bool[{count}] with a True")
    same = {name: getattr(episodes, name) for name in (*PER_STEP, "length", "returns")}
    picked: dict[str, Any] = {n: x if x is None else x[numbers] for n, x in same.items()}
    for name in ("agents", "checkpoints"):
        picked[name] = tuple(getattr(episodes, name)[n] for n in numbers)
    return dataclasses.replace(episodes, **picked)
