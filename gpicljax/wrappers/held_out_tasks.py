"""A part of the tasks: those to train on, or those that are held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from gpicljax.checks import Count
from gpicljax.environment import TransitionModel
from gpicljax.wrappers._own_tasks import OwnTasks


@dataclasses.dataclass(frozen=True)
class HeldOutTasks(OwnTasks):
    """A part of the tasks: those to train on, or those that are held out.

    Tasks are drawn again until one is in the part. Which are held out is decided by a number that
    the task itself gives, so that no task is ever in both, however often it is drawn.

    Attributes:
      number: `task -> uint32[]` (or int32), the same for what counts as the same task; one in
        `parts` is held out, and so is every task whose number is 0.
      held_out: whether this is the part that is held out.
      parts: see `number`.

    Example:
      >>> import gpicljax
      >>> lakes = gpicljax.make("FrozenLake-v1", size=4)
      >>> def holes(task):
      ...     return (task.cells == 2).sum()
      >>> few = HeldOutTasks(lakes, holes, held_out=True, parts=3)
      >>> keys = jax.random.split(jax.random.key(0), 20)
      >>> tasks = jax.jit(jax.vmap(few.sample_task, (0, None)))(keys, few.default_params)
      >>> set((jax.vmap(holes)(tasks) % 3).tolist())
      {0}
    """

    number: Callable[[Any], jax.Array]
    held_out: bool = False
    parts: Count = 8

    def sample_task(self, key: jax.Array, params: Any) -> Any:
        """As the other's, if it is in this part."""

        def fits(task: Any) -> jax.Array:
            number = self.number(task)
            return (number % self.parts == 0) == self.held_out

        def again(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            key, draw_key = jax.random.split(loop[0])
            return key, self.env.sample_task(draw_key, params)

        first = again((key, None))
        return jax.lax.while_loop(lambda loop: ~fits(loop[1]), again, first)[1]

    @property
    def has_transition_model(self) -> bool:
        """As the other's."""
        return self.env.has_transition_model

    def transition_model(self, task: Any) -> TransitionModel:
        """As the other's."""
        return self.env.transition_model(task)
