"""Tasks that are solved as they are drawn, for teachers and oracles."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.checks import Count, Share, check
from gpicljax.environment import Transition, TransitionModel
from gpicljax.typing import ArrayTree
from gpicljax.wrappers._own_tasks import OwnTasks


def action_values(
    outcomes: TransitionModel, discount: float = 0.99, tolerance: float = 1e-6, sweeps: int = 1000
) -> jax.Array:
    """The value of every action in every situation of a known task, by value iteration.

    Args:
      outcomes: what every action leads to.
      discount: of the episode's rewards; nothing follows an episode's end.
      tolerance: largest change of a sweep after which it ends.
      sweeps: the most there are.

    Returns:
      float `[S, A]`.

    Source: Bellman (1957); Sutton & Barto (2018), section 4.4.

    Example:
      >>> one = jnp.ones((1, 2, 1))
      >>> outcomes = TransitionModel(one, 0 * one.astype(int), 2 * one, one.astype(bool))
      >>> jax.jit(action_values)(outcomes).tolist()
      [[2.0, 2.0]]
    """
    expected = (outcomes.chance * outcomes.reward).sum(-1)
    onward = jnp.where(outcomes.over, 0, discount * outcomes.chance)

    def sweep(values: jax.Array) -> jax.Array:
        return expected + (onward * values.max(-1)[outcomes.following]).sum(-1)

    def unfinished(loop: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        before, after, count = loop
        return (jnp.abs(after - before).max() > tolerance) & (count < sweeps)

    loop = jnp.zeros_like(expected), sweep(jnp.zeros_like(expected)), jnp.ones((), jnp.int32)
    return jax.lax.while_loop(
        unfinished, lambda loop: (loop[1], sweep(loop[1]), loop[2] + 1), loop
    )[1]


@struct.dataclass
class SolvedTask:
    """A task of `WithOptimalActions`.

    Attributes:
      inner: the other environment's.
      optimal: `bool[S, width]`, the actions that are best in every situation.
    """

    inner: Any
    optimal: jax.Array


@dataclasses.dataclass(frozen=True)
class WithOptimalActions(OwnTasks):
    """Tasks that are solved as they are drawn: what is privileged says which actions are best.

    `privileged` is a dictionary with `optimal: bool[width]`, the best actions here, which an oracle
    takes and a student may be taught; see `agents.acting.optimal_agent`. Best is the greatest
    discounted return of the episode, by value iteration over `Environment.outcomes`.

    Attributes:
      width: of `optimal`, where it is to be padded; as many as there are actions if None.
      discount: see `action_values`.

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
        accepted = "an environment that tells the outcomes of all actions"
        check(self.env.has_transition_model, "env", self.env.name, accepted)

    def _solved(self, task: ArrayTree) -> SolvedTask:
        values = action_values(self.env.transition_model(task), self.discount)
        best = values >= values.max(-1, keepdims=True) - 1e-5
        more = max((self.width or 0) - best.shape[1], 0)
        return SolvedTask(task, jnp.pad(best, ((0, 0), (0, more))))

    def sample_task(self, key: jax.Array, params: ArrayTree) -> SolvedTask:
        """As the other's, solved."""
        return self._solved(self.env.sample_task(key, params))

    def initial(self, key: jax.Array, task: SolvedTask) -> Any:
        """As the other's."""
        return self.env.initial(key, task.inner)

    def draw_noise(self, key: jax.Array, state: ArrayTree, task: SolvedTask) -> Any:
        """As the other's."""
        return super().draw_noise(key, state, task.inner)

    def move(
        self, state: ArrayTree, action: ArrayTree, noise: ArrayTree, task: SolvedTask
    ) -> Transition:
        """As the other's."""
        return super().move(state, action, noise, task.inner)

    def observe(self, state: ArrayTree, task: SolvedTask) -> Any:
        """As the other's."""
        return self.env.observe(state, task.inner)

    def privileged(self, state: ArrayTree, task: SolvedTask) -> dict[str, jax.Array]:
        """`optimal`: `bool[width]`, the best actions here."""
        return {"optimal": task.optimal[self.env.observe(state, task.inner)]}

    def describe(self, state: ArrayTree, task: SolvedTask) -> str:
        """As the other's."""
        return self.env.describe(state, task.inner)

    def render(self, state: ArrayTree, task: SolvedTask) -> jax.Array:
        """As the other's."""
        return self.env.render(state, task.inner)
