"""Tasks that are solved as they are drawn, for teachers and oracles."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.checks import Count, Share, check
from gpicljax.environment import Params, State, action_values
from gpicljax.typing import ArrayTree
from gpicljax.wrappers._own_tasks import OwnTasks


@struct.dataclass
class SolvedTask:
    """A task of `WithOptimalActions`.

    Attributes:
      inner: the wrapped environment's task.
      optimal: `bool[S, width]`, the actions that are best in every situation.
    """

    inner: Any
    optimal: jax.Array


@dataclasses.dataclass(frozen=True)
class WithOptimalActions(OwnTasks[Params, SolvedTask, State]):
    """Tasks that are solved as they are drawn: what is privileged says which actions are best.

    `privileged` is a dictionary with `optimal: bool[width]`, the best actions here, which an oracle
    takes and a student may be taught; see `agents.acting.optimal_agent`. Best is the greatest
    discounted return of the episode, by value iteration over `Environment.transition_model`.

    Attributes:
      width: of `optimal`, where it is to be padded; as many as there are actions if None.
      discount: see `environment.action_values`.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted_values = "an environment that tells the outcomes of all actions"
        check(self.env.has_transition_model, "env", self.env.name, accepted_values)

    def _solve(self, task: ArrayTree) -> SolvedTask:
        values = action_values(self.env.transition_model(task), self.discount)
        maximum = values.max(-1, keepdims=True)
        # Actions that are as good as each other may differ by what rounding leaves of their values.
        tolerance = jnp.maximum(1e-5, 4 * jnp.finfo(values.dtype).eps * jnp.abs(maximum))
        best = values >= maximum - tolerance
        padding = max((self.width or 0) - best.shape[1], 0)
        return SolvedTask(task, jnp.pad(best, ((0, 0), (0, padding))))

    def inner_task(self, task: SolvedTask) -> Any:
        """Returns the task that was solved."""
        return task.inner

    def sample_task(self, key: jax.Array, params: Params) -> SolvedTask:
        """Draws a task of the wrapped environment, and solves it."""
        return self._solve(self.env.sample_task(key, params))

    def privileged(self, state: State, task: SolvedTask) -> dict[str, jax.Array]:
        """`optimal`: `bool[width]`, the best actions here."""
        return {"optimal": task.optimal[self.situation(state, task)]}
