"""Small tasks in the spaces of large ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.checks import Count, check
from gpicljax.environment import Params, State, Task, Transition
from gpicljax.spaces import Space
from gpicljax.wrappers.wrapper import Wrapper


@dataclasses.dataclass(frozen=True)
class PaddedSpaces(Wrapper[Params, Task, State]):
    """The spaces of a larger environment, with a mask of the actions that exist.

    So one agent acts in several environments of different sizes. Observations are discrete, or a
    dictionary: then every discrete entry is padded. One that is not a dictionary becomes the entry
    `state`. `action_mask: bool[actions]` says which actions exist; one that does not stands for the
    last that does.

    Attributes:
      observations: of the larger space of observations.
      actions: of the larger space of actions.

    Example:
      >>> import gpicljax
      >>> bandit = gpicljax.make("BanditTwoArmedHighLowFixed-v0")
      >>> env = PaddedSpaces(bandit, observations=48, actions=10)
      >>> env.action_space(), env.observation_space()["state"]
      (Discrete(n=10), Discrete(n=48))
    """

    observations: Count
    actions: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        actions = self.env.action_space()
        fits = isinstance(actions, spaces.Discrete) and actions.n <= self.actions
        check(fits, "actions", self.actions, f"as many as {self.env.name} has, {actions}, or more")
        for entry in self._entries.values():
            if isinstance(entry, spaces.Discrete):
                accepted_values = f"as many as {self.env.name} has, {entry}, or more"
                check(
                    entry.n <= self.observations, "observations", self.observations, accepted_values
                )

    @property
    def _entries(self) -> dict[str, Space]:
        space = self.env.observation_space()
        return space.spaces if isinstance(space, spaces.Dict) else {"state": space}

    def observe(self, state: State, task: Task) -> dict[str, Any]:
        """Returns the wrapped environment's observation, with the mask."""
        observation = self.env.observe(self.inner(state), task)
        observation = observation if isinstance(observation, dict) else {"state": observation}
        count = self.env.action_space().n  # type: ignore[attr-defined]
        mask = jnp.arange(self.actions) < count
        if "action_mask" in observation:
            inner = jnp.pad(
                observation["action_mask"], (0, self.actions - observation["action_mask"].shape[0])
            )
            mask = mask & inner
        return observation | {"action_mask": mask}

    def move(self, state: State, action: jax.Array, noise: Any, task: Task) -> Transition:
        """Returns the wrapped environment's step."""
        count = self.env.action_space().n  # type: ignore[attr-defined]
        return super().move(state, jnp.minimum(action, count - 1), noise, task)

    def action_space(self, task: Task | None = None) -> Space:
        """Returns the larger one."""
        del task
        return spaces.Discrete(self.actions)

    def observation_space(self, task: Task | None = None) -> Space:
        """Returns the larger one."""
        del task
        wide = spaces.Discrete(self.observations)
        entries = {
            name: wide if isinstance(entry, spaces.Discrete) else entry
            for name, entry in self._entries.items()
        }
        return spaces.Dict.of(entries | {"action_mask": spaces.Box(0, 1, (self.actions,), "bool")})

    def observation_bounds(self, params: Params) -> None:
        """None: those of a dictionary are not told."""
        del params
