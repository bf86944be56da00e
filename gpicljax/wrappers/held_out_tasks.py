"""A part of the tasks: those to train on, or those that are held out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from gpicljax.checks import Count
from gpicljax.environment import Params, State, Task, TransitionModel
from gpicljax.typing import ArrayTree
from gpicljax.wrappers._own_tasks import OwnTasks

_DRAWS = 10_000


@dataclasses.dataclass(frozen=True)
class HeldOutTasks(OwnTasks[Params, Task, State]):
    """A part of the tasks: those to train on, or those that are held out.

    Tasks are drawn again until one is in the part, up to 10,000 times. Which are held out is
    decided by a number that the task itself gives, so that no task is ever in both, however often
    it is drawn.

    Attributes:
      number: `task -> uint32[]` (or int32), the same for what counts as the same task; one in
        `parts` is held out, and so is every task whose number is 0. One whose number is negative
        is in neither part.
      held_out: whether this is the part that is held out.
      parts: see `number`.

    Raises:
      ValueError: from `validate`, if no task of 10,000 is in the part, so that a batch of it cannot
        be built; and from `sample_task`, outside of compiled programs. Inside, where the parameters
        of the distribution are traced, the last task is given although it is not in the part.

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

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a task of the wrapped environment that is in this part."""
        task, is_in_part = self._search(key, params)
        self._check(is_in_part)
        return task

    def validate(self, params: Params) -> None:
        """Refuses what the wrapped environment refuses, and params without a task in this part."""
        super().validate(params)
        if not any(isinstance(x, Tracer) for x in jax.tree.leaves(params)):
            self._check(_has_task_in_part(self, jax.random.key(0), params))

    def _search(self, key: jax.Array, params: Params) -> tuple[Task, jax.Array]:
        """Returns the first task in the part or else the last one drawn, and whether it is in it,
        `bool[]`.
        """

        def fits(task: Task) -> jax.Array:
            number = self.number(task)
            return ((number % self.parts == 0) == self.held_out) & (number >= 0)

        def draw(loop: tuple[jax.Array, ArrayTree, jax.Array]) -> tuple[Any, Any, jax.Array]:
            key, draw_key = jax.random.split(loop[0])
            return key, self.env.sample_task(draw_key, params), loop[2] + 1

        def needs_another(loop: tuple[jax.Array, Task, jax.Array]) -> jax.Array:
            return ~fits(loop[1]) & (loop[2] < _DRAWS)

        _, task, _ = jax.lax.while_loop(
            needs_another, draw, draw((key, None, jnp.zeros((), jnp.int32)))
        )
        return task, fits(task)

    def _check(self, is_in_part: jax.Array) -> None:
        if isinstance(is_in_part, Tracer):
            return
        condition = "a multiple of parts" if self.held_out else "no multiple of parts"
        name = getattr(self.number, "__qualname__", repr(self.number))
        accepted_values = f"parts and number such that number(task) is {condition} for some task"
        received = f"{self.parts} and number = {name}, with none of {_DRAWS:,} tasks in the part"
        if not is_in_part:
            raise ValueError(f"parts: got {received}; accepted: {accepted_values}")

    @property
    def has_transition_model(self) -> bool:
        """Whether the wrapped environment has one."""
        return self.env.has_transition_model

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the wrapped environment's transition model."""
        return self.env.transition_model(task)

    def start_chances(self, task: Task, situations: int) -> jax.Array:
        """Returns the wrapped environment's."""
        return self.env.start_chances(task, situations)


@functools.partial(jax.jit, static_argnums=0)
def _has_task_in_part(env: HeldOutTasks, key: jax.Array, params: ArrayTree) -> jax.Array:
    return env._search(key, params)[1]
