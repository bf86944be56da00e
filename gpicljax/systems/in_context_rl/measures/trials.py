"""Measures of reinforcement learning in context, on trials of a number of actions.

One function, `measure_trials`, makes all numbers from recorded arrays, for any player: a
table, a network or a language model. `keep_trial_step` is what `rollout.play` and `host_play` are
to keep of every step of a `wrappers.Trial`, and `trial_records` makes the arrays of it.

Source: the in-context RL evaluation of `openai/evals` (its protocol and metrics, restated); suffix
failures and the least-chosen action from Krishnamurthy et al. (2024), section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least, check_choice
from gpicljax.evaluation.statistics import Interval, mean_interval, ratio_interval
from gpicljax.rollout import PlayedEpisodes, Record
from gpicljax.typing import ArrayTree

Accounting = Literal["fixed", "reference"]
LAST_WINDOWS = (5, 10, 20, 50)
"""Window sizes, in episodes, for the final mean reward."""


class TrialRecords(NamedTuple):
    """N trials of up to T actions.

    Attributes:
      actions: `int32[N, T]`, or float `[N, T, ...]`.
      rewards: float `[N, T]`, 0 beyond a trial's end.
      ends: `bool[N, T]`, the action ended an episode.
      length: `int32[N]`, actions taken.
      replies: `int32[N]`, answers given; one for each action if all are valid.
      invalid: `int32[N]`, answers that named no action.
      regret: float `[N]`, of bandits: what the best arm pays on average, less what each pulled arm
        does, summed over the actions taken; None where it was not recorded.

    Example:
      >>> rewards, three = np.array([[0.0, 1.0, 1.0]]), np.array([3])
      >>> asked = {"replies": three + 1, "invalid": three - 2}
      >>> trials = TrialRecords(rewards.astype(int), rewards, rewards > 0, three, **asked)
      >>> trials.invalid / trials.replies
      array([0.25])
    """

    actions: Any
    rewards: Any
    ends: Any
    length: Any
    replies: Any
    invalid: Any
    regret: Any = None


class TrialMeasures(NamedTuple):
    """The measures of N trials; leaves `[N]` unless stated.

    Attributes:
      average_episode_reward: mean over the episodes, see `measure_trials`.
      total_return: the sum of all rewards.
      total_steps: `int32`, actions taken.
      reward_per_step: their ratio; NaN without a step.
      episodes: `int32`, number of episodes that count.
      ended: `int32`, episodes that ended.
      goals: `int32`, episodes that ended well, see `measure_trials`.
      success: 1 where at least one did, else 0.
      last: mean reward of the last so many episodes, by their number (of all, if there are fewer).
      invalid_response_rate: share of the replies that named no action; 0 without a reply.
      suffix_failure: 1 where the best action is never taken in the second half of the trial, else
        0; NaN where no action is best throughout.
      minimum_action_fraction: how often the least-taken action was, times the number of actions: 1
        is evenly spread, 0 is never taken.
      episode_rewards: float `[N, T]`, of one episode after the other; NaN beyond the last.
    """

    average_episode_reward: jax.Array
    total_return: jax.Array
    total_steps: jax.Array
    reward_per_step: jax.Array
    episodes: jax.Array
    ended: jax.Array
    goals: jax.Array
    success: jax.Array
    last: dict[str, jax.Array]
    invalid_response_rate: jax.Array
    suffix_failure: jax.Array
    minimum_action_fraction: jax.Array
    episode_rewards: jax.Array


def keep_trial_step(record: Record) -> dict[str, Any]:
    """Returns the fields that `play` and `host_play` keep of every step of a `wrappers.Trial`.

    Example:
      >>> from types import SimpleNamespace as Some
      >>> seen = {"terminated": np.array([True]), "truncated": np.array([False])}
      >>> record = Some(action=3, next_timestep=Some(reward=1.0, observation=seen, info={}))
      >>> keep_trial_step(record)["end"].tolist()
      [True]
    """
    after = record.next_timestep
    end = after.observation["terminated"] | after.observation["truncated"]
    regret = after.info.get("regret", after.reward * 0)
    return {"action": record.action, "reward": after.reward, "end": end, "regret": regret}


def trial_records(played: PlayedEpisodes, replies: Any = None, invalid: Any = None) -> TrialRecords:
    """Returns the arrays of trials whose steps were kept by `keep_trial_step`.

    Args:
      played: N trials of one (long) episode.
      replies: `int32[N]`, see `TrialRecords`; as many as actions if None.
      invalid: `int32[N]`; none if None.

    Example:
      >>> step = dict.fromkeys(("action", "reward", "end", "regret"), np.ones((2, 1, 5)))
      >>> no = np.zeros((2, 1), bool)
      >>> lengths = np.array([[5], [3]])
      >>> trials = trial_records(PlayedEpisodes(step, lengths, terminated=no, truncated=~no))
      >>> trials.rewards.shape, trials.replies.tolist()
      ((2, 5), [5, 3])
    """
    steps = jax.tree.map(lambda x: x[:, 0], played.records)
    length = played.length[:, 0]
    return TrialRecords(
        actions=steps["action"],
        rewards=steps["reward"],
        ends=steps["end"],
        length=length,
        replies=length if replies is None else replies,
        invalid=length * 0 if invalid is None else invalid,
        regret=steps["regret"].sum(-1),
    )


def measure_trials(
    trials: TrialRecords,
    num_actions: int | None = None,
    best: Any = None,
    accounting: Accounting = "fixed",
    ends_are_goals: bool = False,
) -> TrialMeasures:
    """Returns all measures of a set of trials: a pure function of the recorded arrays; jittable.

    An episode that has not ended with the trial counts like the others. With
    `accounting="reference"` it is dropped, unless it is the only one: so a trial in which the goal
    is found once, late, scores far above one in which it is never found, on a task that costs by
    the step; and where nothing ends, a longer trial is a worse one.

    Args:
      trials: the recorded trials.
      num_actions: A, those that there are; None where actions are not discrete.
      best: `int32[N]`, or `bool[N, A]`, the best action (or actions) of each trial throughout, such
        as a bandit's best arm; None where it depends on the situation.
      accounting: see above.
      ends_are_goals: whether every episode that ends has reached its goal, as on a cliff that costs
        by the step; else those have whose last action paid.

    Returns:
      The measures.

    Raises:
      ValueError: for arrays that do not belong together, or an unknown accounting.

    Example:
      >>> rewards = jnp.array([[0.0, 1.0, 0.0, 0.0]])
      >>> ends = rewards > 0
      >>> four = jnp.array([4])
      >>> asked = {"replies": four + 1, "invalid": four - 3}
      >>> trials = TrialRecords(ends.astype(int), rewards, ends, four, **asked)
      >>> measure_trials(trials, num_actions=2).average_episode_reward.tolist()
      [0.5]
      >>> measure_trials(trials, accounting="reference").average_episode_reward.tolist()
      [1.0]
    """
    check_choice("accounting", accounting, get_args(Accounting))
    check_at_least(1, num_actions=num_actions)
    shape = np.shape(trials.rewards)
    fits = len(shape) == 2 and np.shape(trials.ends) == shape
    check(fits, "trials.ends", np.shape(trials.ends), f"the shape of rewards, {shape}, [N, T]")
    for name in ("length", "replies", "invalid"):
        shape_of_field = np.shape(getattr(trials, name))
        check(
            shape_of_field == shape[:1],
            f"trials.{name}",
            shape_of_field,
            f"{shape[:1]}, a number for each trial",
        )
    return _measure(trials, num_actions, best, accounting, ends_are_goals)


@functools.partial(jax.jit, static_argnames=("num_actions", "accounting", "ends_are_goals"))
def _measure(
    trials: TrialRecords,
    num_actions: int | None,
    best: Any,
    accounting: Accounting,
    ends_are_goals: bool,
) -> TrialMeasures:
    count, time = jnp.shape(trials.rewards)
    dtype = jnp.result_type(float)
    length = jnp.asarray(trials.length, jnp.int32)
    is_action = jnp.arange(time) < length[:, None]
    rewards = jnp.where(is_action, jnp.asarray(trials.rewards, dtype), 0)
    ends = jnp.asarray(trials.ends, bool) & is_action

    # Episodes: the number of those that have ended before is an action's episode.
    ended = jnp.cumsum(ends, axis=1, dtype=jnp.int32)
    number = ended - ends
    rows = jnp.arange(count)[:, None]
    sums = jnp.zeros((count, time), dtype).at[rows, number].add(rewards)
    finished = ended[:, -1]
    tail = (is_action & (number == finished[:, None])).any(1)
    drop_tail = accounting == "reference"
    episodes = finished + (tail & (finished == 0) if drop_tail else tail)
    is_episode = jnp.arange(time) < episodes[:, None]
    goals = (ends if ends_are_goals else ends & (rewards > 0)).sum(1, dtype=jnp.int32)

    def mean(mask: jax.Array) -> jax.Array:
        means = jnp.where(mask, sums, 0).sum(1) / mask.sum(1)
        return jnp.where(mask.any(1), means, jnp.nan)

    last = {
        str(n): mean(is_episode & (jnp.arange(time) >= episodes[:, None] - n)) for n in LAST_WINDOWS
    }
    total = rewards.sum(1)
    replies = jnp.asarray(trials.replies)
    rate = jnp.asarray(trials.invalid) / jnp.maximum(replies, 1)
    unknown = jnp.full(count, jnp.nan, dtype)
    failure = fraction = unknown
    if num_actions is not None:
        chosen = jnp.asarray(trials.actions)[..., None] == jnp.arange(num_actions)
        chosen = chosen & is_action[..., None]
        fraction = num_actions * chosen.sum(1).min(-1) / jnp.maximum(length, 1)
        fraction = jnp.where(length > 0, fraction, jnp.nan).astype(dtype)
        if best is not None:
            best = jnp.asarray(best)
            if best.ndim == 1:
                best = best[:, None] == jnp.arange(num_actions)
            is_second_half = jnp.arange(time) >= length[:, None] // 2
            is_best = (chosen & best[:, None, :]).any(-1) & is_second_half
            failure = jnp.where(length > 0, ~is_best.any(1), jnp.nan).astype(dtype)
    return TrialMeasures(
        average_episode_reward=mean(is_episode),
        total_return=total,
        total_steps=length,
        reward_per_step=jnp.where(length > 0, total / jnp.maximum(length, 1), jnp.nan),
        episodes=episodes,
        ended=finished,
        goals=goals,
        success=(goals > 0).astype(dtype),
        last=last,
        invalid_response_rate=rate.astype(dtype),
        suffix_failure=failure,
        minimum_action_fraction=fraction,
        episode_rewards=jnp.where(is_episode, sums, jnp.nan),
    )


def normalised_score(values: ArrayTree, random: Any, oracle: Any) -> Interval:
    """Returns a score on the scale on which random play is 0 and an oracle 1, with its interval.

    The ratio of mean gains, not the mean of ratios: a task on which nothing is to be gained does
    not count more than others. Trials are paired: entry n of all three is the same task.

    Args:
      values: float `[N]`, such as `total_return` or `goals`.
      random: values of random play.
      oracle: values of an agent that knows the task.

    Returns:
      The score, with a bootstrap interval over tasks; its `std` is NaN. Trials without a value are
      left out.

    Raises:
      ValueError: if the oracle is nowhere better than random play, or shapes differ.

    Example:
      >>> score = normalised_score([0.5, 0.6], random=[0.0, 0.2], oracle=[1.0, 1.0])
      >>> round(score.mean, 3)
      0.5
    """
    x, low, high = (np.asarray(v, np.float64) for v in (values, random, oracle))
    same = x.ndim == 1 and x.shape == low.shape == high.shape
    check(same, "values", x.shape, f"the shape of random and oracle, {low.shape}, {high.shape}")
    valid = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    gain, most = (x - low)[valid], (high - low)[valid]
    if not valid.any():
        nan = float("nan")
        return Interval(nan, nan, nan, nan, 0)
    better = float(most.mean()) > 0
    check(better, "oracle", float(high[valid].mean()), "better than random play on average")
    score = float(gain.mean() / most.mean())
    nan = float("nan")
    if len(gain) < 2:
        return Interval(score, nan, nan, nan, len(gain))
    _, low_end, high_end = ratio_interval(gain, most)
    return Interval(score, nan, low_end, high_end, len(gain))


def trial_values(trials: TrialRecords, ends_are_goals: bool, worst: float) -> np.ndarray:
    """Returns the values that scores are made of, `float[N]`; actions that are not taken cost.

    Args:
      trials: the recorded trials.
      ends_are_goals: whether goals are counted (see `measure_trials`) in place of rewards.
      worst: the worst reward of an action, or 0: what an action that was not taken pays.
    """
    measured = measure_trials(trials, ends_are_goals=ends_are_goals)
    if ends_are_goals:
        return np.asarray(measured.goals, np.float64)
    missing = np.shape(trials.rewards)[1] - np.asarray(measured.total_steps)
    return np.asarray(measured.total_return, np.float64) + worst * missing


def regrets(trials: TrialRecords, best: np.ndarray) -> np.ndarray:
    """Returns regret by trial, `float[N]`; actions that are not taken count as paying nothing.

    Args:
      trials: of bandits.
      best: float `[N]`, the oracle's reward per action.
    """
    missing = np.shape(trials.rewards)[1] - np.asarray(trials.length)
    return np.asarray(trials.regret) + best[: len(missing)] * missing


def scaled_score(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Interval:
    """Returns the normalised score of the study's table; NaN where the oracle gains nothing."""
    better = np.where(np.isfinite(values), high - low, 0.0).sum() > 0
    nan = float("nan")
    return normalised_score(values, low, high) if better else Interval(nan, nan, nan, nan, 0)


def summarise_measures(measures: TrialMeasures) -> Mapping[str, Interval]:
    """Returns every measure's mean over trials with its t-interval, by name.

    Trials without a value are left out; a measure that none has is not there.
    """
    named: dict[str, Any] = {}
    for name, value in measures._asdict().items():
        if name == "last":
            named |= {f"last_{n}": values for n, values in value.items()}
        elif name != "episode_rewards":
            named[name] = value
    table = {}
    for name, value in named.items():
        x = np.asarray(value, np.float64)
        x = x[np.isfinite(x)]
        if x.size:
            table[name] = mean_interval(x)
    return table
