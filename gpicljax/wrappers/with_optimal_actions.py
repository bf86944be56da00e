"""Tasks that are solved as they are drawn, for teachers and oracles."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.checks import Count, Share, check
from gpicljax.environment import Params, State, TransitionModel, action_values
from gpicljax.typing import ArrayTree
from gpicljax.wrappers._own_tasks import OwnTasks


@struct.dataclass
class SolvedTask:
    """A task of `WithOptimalActions`.

    Attributes:
      inner: the wrapped environment's task.
      optimal: `bool[N, S, width]`, the actions that are best in every situation, with 1 to N
        actions left in the trial; N is 1 where there is no end to it.
    """

    inner: Any
    optimal: jax.Array


@dataclasses.dataclass(frozen=True)
class WithOptimalActions(OwnTasks[Params, SolvedTask, State]):
    """Tasks that are solved as they are drawn: what is privileged says which actions are best.

    `privileged` is a dictionary with `optimal: bool[width]`, the best actions here, which an oracle
    takes and a student may be taught; see `agents.acting.optimal_agent`. Best is the greatest
    discounted return of the episode, by value iteration over `Environment.transition_model`; with
    `actions`, the greatest sum of rewards in what is left of a trial, episode after episode, by
    dynamic programming (`Trial` tells how much is left). That an episode will be cut off is not
    foreseen. Of plans that pay the same, the one that pays earlier is better.

    Attributes:
      width: of `optimal`, where it is to be padded; as many as there are actions if None.
      discount: see `environment.action_values`.
      actions: of a trial; None for single episodes.
      counts_ends: whether ends of episodes are gained in a trial, in place of rewards.

    Raises:
      ValueError: for an environment without a transition model.

    Example:
      >>> import gpicljax
      >>> env = WithOptimalActions(gpicljax.make("FrozenLake-v1", is_slippery=False))
      >>> @jax.jit
      ... def best_at_the_start(key):
      ...     task = env.sample_task(key, env.default_params)
      ...     return env.privileged(env.initial(key, task), task)["optimal"]
      >>> best_at_the_start(jax.random.key(0)).tolist()
      [False, True, True, False]
    """

    width: Count | None = None
    discount: Share = 0.99
    actions: Count | None = None
    counts_ends: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted_values = "an environment that tells the outcomes of all actions"
        check(self.env.has_transition_model, "env", self.env.name, accepted_values)

    def _solve(self, task: ArrayTree) -> SolvedTask:
        model = self.env.transition_model(task)
        if self.actions is None:
            values = action_values(model, self.discount)[None]
        else:
            situations = model.chance.shape[0]
            start = self.env.start_chances(task, situations).astype(model.chance.dtype)
            values = trial_action_values(model, start, self.actions, self.counts_ends)
        maximum = values.max(-1, keepdims=True)
        # Actions that are as good as each other may differ by what rounding leaves of their values.
        tolerance = jnp.maximum(1e-5, 4 * jnp.finfo(values.dtype).eps * jnp.abs(maximum))
        best = values >= maximum - tolerance
        padding = max((self.width or 0) - best.shape[-1], 0)
        return SolvedTask(task, jnp.pad(best, ((0, 0), (0, 0), (0, padding))))

    def inner_task(self, task: SolvedTask) -> Any:
        """Returns the task that was solved."""
        return task.inner

    def sample_task(self, key: jax.Array, params: Params) -> SolvedTask:
        """Draws a task of the wrapped environment, and solves it."""
        return self._solve(self.env.sample_task(key, params))

    def best_actions(
        self, state: State, task: SolvedTask, left: jax.Array | int
    ) -> dict[str, jax.Array]:
        """Returns what `privileged` does, with so many actions left in the trial."""
        rows, situations, _ = task.optimal.shape
        row = jnp.clip(left, 1, rows) - 1
        return {
            "optimal": task.optimal[row, self.situation(state, task)],
            "situations": jnp.asarray(situations, jnp.int32),
        }

    def privileged(self, state: State, task: SolvedTask) -> dict[str, jax.Array]:
        """`optimal`: `bool[width]`, the best actions here; `situations`: `int32[]`, how many there
        are.
        """
        return self.best_actions(state, task, self.actions or 1)


def trial_action_values(
    outcomes: TransitionModel,
    start: jax.Array,
    actions: int,
    counts_ends: bool = False,
    discount: float = 0.9999,
) -> jax.Array:
    """Returns the values of actions with so many left in a trial of episode after episode.

    Args:
      outcomes: what every action leads to; episodes are not cut off.
      start: float `[S]`, the chances of an episode's first situation.
      actions: N, of the trial.
      counts_ends: whether ends of episodes are gained, in place of rewards.
      discount: per action; just below 1 it only decides between plans that pay the same.

    Returns:
      float `[N, S, A]`, with 1 to N actions left.

    Source: backward induction; Puterman (1994), section 4.5.
    """
    gain = outcomes.over.astype(outcomes.reward.dtype) if counts_ends else outcomes.reward
    expected = (outcomes.chance * gain).sum(-1)

    def with_one_more(value: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        onward = jnp.where(outcomes.over, value @ start, value[outcomes.following])
        values = expected + discount * (outcomes.chance * onward).sum(-1)
        return values.max(-1), values

    return jax.lax.scan(with_one_more, jnp.zeros_like(start), None, actions)[1]
