"""Settings of a network with a memory, for a policy and its value."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from gpicljax import spaces
from gpicljax.checks import Natural, Size, check, check_fields, refusal
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.continuation import Continuation
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.experience import ExperienceSettings, experience_network
from gpicljax.networks.memories import MemoryKind, MemorySettings, memory, width_of_head
from gpicljax.networks.online_memory import OnlineMemorySettings
from gpicljax.networks.online_policy import OnlinePolicy
from gpicljax.networks.planning import PlanningSettings, planning_network
from gpicljax.networks.pointer import Pointer
from gpicljax.networks.transformer import Transformer

OwnNetwork = Literal["continuations", "pointers", "online", "tables", "planning"]
"""Memories that are networks of their own."""
_SYMBOLIC = ("continuations", "pointers", "online")
"""Those for symbols in and symbols out."""


@dataclasses.dataclass(frozen=True)
class RecurrentSettings(MemorySettings):
    """A network with a memory, for a policy and its value.

    Attributes:
      memory: kind of the memory, see `MemorySettings`. Five more kinds are networks of their own.
        Three are for symbols in and symbols out: `"continuations"` (`networks.continuation`), whose
        `core` is the size of their projections, all heads together; `"pointers"`
        (`networks.pointer`), a transformer of the sizes `core` with heads that point at symbols in
        its `window`; and `"online"` (`networks.online_policy`), which has sizes of its own.
        `"tables"` (`networks.experience`) and `"planning"` (`networks.planning`) are for whole
        trials of discrete tasks.
      sizes: hidden sizes before the memory; for continuations, those of the layers that read them.
      context: n, the number of events by which continuations are found.
      following: m, the number of events in a continuation.
      silence: the symbol whose steps are no events for continuations; None if all steps are events.
      vectors: width of the learnt vectors by which continuations are told the last events; 0 for
        bits.
      tables: sizes of the network with tables.
      planning: sizes of the network that plans.
      online: sizes of the online memory.

    Example:
      >>> import jax
      >>> settings = RecurrentSettings("gru", core=(32,))
      >>> network = settings.network(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(2))
      >>> jax.tree.leaves(network.initial_carry(8))[0].shape
      (8, 32)
    """

    memory: MemoryKind | OwnNetwork = "lstm"  # pyright: ignore[reportIncompatibleVariableOverride]
    sizes: tuple[Size, ...] = (128,)
    context: Size = 4
    following: Size = 8
    silence: Natural | None = None
    vectors: Natural = 0
    tables: ExperienceSettings = ExperienceSettings()
    planning: PlanningSettings = PlanningSettings()
    online: OnlineMemorySettings = OnlineMemorySettings()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.memory in ("tables", "planning"):
            return
        if self.memory not in _SYMBOLIC:
            return super().__post_init__()
        if self.memory == "pointers":
            _ = self._transformer
        if self.memory == "continuations":
            width_of_head(self.core, self.heads, "the projections")

    @property
    def _transformer(self) -> Transformer:
        """The transformer that points; raises a ValueError for sizes that it cannot have."""
        return memory("transformer", self.core, self.heads, self.window, self.slots).core

    def network(self, observations: spaces.Space, actions: spaces.Space) -> Network:
        """Returns the network, for members of these spaces."""
        if self.memory == "tables":
            return experience_network(observations, actions, self.tables)
        if self.memory == "planning":
            return planning_network(observations, actions, self.planning)
        if self.memory not in _SYMBOLIC:
            core = self.make(observations, actions)
            return as_network(RecurrentActorCritic(observations, actions, self.sizes, *core))
        space_pair = observations, actions
        if not all(isinstance(space, spaces.Discrete) for space in space_pair):
            case = f"{self.memory}, for {observations} and {actions}"
            raise ValueError(refusal("memory", case, "Discrete for both"))
        symbols, choices = (space.n for space in space_pair if isinstance(space, spaces.Discrete))
        if self.memory == "online":
            return as_network(OnlinePolicy(symbols, choices, self.online, self.sizes))
        if self.memory == "pointers":
            case = f"{symbols} symbols and {choices} actions"
            check(symbols == choices, "memory", f"pointers, for {case}", "as many of both")
            return as_network(Pointer(symbols, self._transformer))
        is_symbol = self.silence is None or 0 <= self.silence < symbols
        check(is_symbol, "silence", self.silence, f"None, or a symbol below {symbols}")
        sizes: dict[str, Any] = {
            "context": self.context,
            "following": self.following,
            "vectors": self.vectors,
            "silence": self.silence,
            "slots": self.slots,
            "heads": self.heads,
            "width": width_of_head(self.core, self.heads, "the projections"),
            "hidden": self.sizes,
        }
        return as_network(Continuation(symbols, choices, **sizes))
