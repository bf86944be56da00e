"""The games of a study: an environment with its options, and its params by cell of a table."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Annotated, Any, Literal

import tyro

import gpicljax
from gpicljax.checks import Count, Range, Share
from gpicljax.runtime import check_config
from gpicljax.systems.meta_rg.env.game import Stimulus
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG


def also(flag: str) -> Any:
    """Lets a field of the command line have a second, shorter flag."""
    return tyro.conf.arg(aliases=(flag,))


@dataclasses.dataclass(frozen=True)
class GameConfig:
    """The games: an environment, its options, and its params by cell of the table.

    Attributes:
      env: MetaRG-v0 (reference rules), MetaRG-v1 (without shortcuts) or MetaRG-v2 (values that only
        structure can place).
      shots: S, one or several; every pair of shots and samples is a cell of the table.
      samples: O, one or several.
      min_values: Smallest number of values per latent dimension.
      max_values: Largest number of values per latent dimension.
      num_dims: N_dim, latent dimensions.
      vocab_size: Tokens besides the end of sentence.
      message_length: Positions of a message.
      num_rounds: N, rounds of messages before the decision.
      num_distractors: K.
      descriptive_ratio: How often the target is present where it may be absent; none: 1 / (K + 2).
      stimulus: Representation of stimuli: continuous (scs), multi-hot (mhe), or names of values:
        categories or pseudowords.
      speaker: Rule of the speaker: names values by position, or bins of each value (digitising).
      actions: Action layout: one action per decision, or the reference's 519.
      listener_speaks: Whether the speaker hears what the listener says.
      query_targets: Targets of the query phase; none: the environment's, as for the next two. The
        paper's text has all of them once (all), other views (no same view) and as a non-match any
        other stimulus (dataset).
      nonmatch: Where stimuli that do not match come from.
      same_view: Whether a match may be the very sample that the speaker sees.
    """

    env: Annotated[Literal["MetaRG-v0", "MetaRG-v1", "MetaRG-v2"], also("--env")] = "MetaRG-v0"
    shots: Annotated[tuple[Count, ...], also("--shots")] = (1,)
    samples: Annotated[tuple[Count, ...], also("--samples")] = (1,)
    min_values: Annotated[Count, also("--vmin")] = 2
    max_values: Annotated[Count, also("--vmax")] = 5
    num_dims: Annotated[Count, also("--num-dims")] = 3
    vocab_size: Annotated[Count, also("--vocab-size")] = 6
    message_length: Annotated[Count, also("--message-length")] = 3
    num_rounds: Annotated[Count, also("--rounds")] = 1
    num_distractors: Annotated[int, Range(0), also("--distractors")] = 0
    descriptive_ratio: Annotated[Share | None, also("--descriptive-ratio")] = None
    stimulus: Annotated[Stimulus, also("--stimulus")] = "scs"
    speaker: Annotated[Literal["posdis", "digitising"], also("--speaker")] = "posdis"
    actions: Annotated[Literal["compact", "reference"], also("--actions")] = "compact"
    listener_speaks: Annotated[bool, also("--replies")] = False
    query_targets: Annotated[Literal["tss", "all", "iid"] | None, also("--query-targets")] = None
    nonmatch: Annotated[Literal["reference", "balanced", "dataset"] | None, also("--nonmatch")] = (
        None
    )
    same_view: Annotated[bool | None, also("--same-view")] = None

    def validate(self) -> None:
        """Refuses empty grids, and what the environment refuses."""
        for name in ("shots", "samples"):
            value = getattr(self, name)
            check_config(bool(value), name, value, "one or more integers >= 1")
        env = self.make()
        for cell in self.cells:
            self.params(env, cell)

    @property
    def cells(self) -> list[tuple[int, int]]:
        """The (S, O) cells of the table."""
        return list(itertools.product(self.shots, self.samples))

    @property
    def values(self) -> str:
        """The numbers of values, in words."""
        return f"V in {self.min_values} .. {self.max_values}"

    @property
    def has_room_for_more_values(self) -> bool:
        """Whether the same agent and speaker can play with one value more per dimension."""
        return self.stimulus == "scs" and self.max_values < self.vocab_size

    @property
    def options(self) -> dict[str, Any]:
        """Static options of the environment."""
        names = [field.name for field in dataclasses.fields(MetaRG) if hasattr(self, field.name)]
        options = {name: getattr(self, name) for name in names}
        options |= {"max_values": max(self.max_values, 2)}
        options |= {"max_shots": max(self.shots), "max_samples": max(self.samples)}
        changed = {name: getattr(self, name) for name in ("query_targets", "nonmatch", "same_view")}
        changed = {name: value for name, value in changed.items() if value is not None}
        if changed:
            rules = gpicljax.make(self.env).rules  # pyright: ignore[reportAttributeAccessIssue]
            options["rules"] = dataclasses.asdict(rules) | changed
        return options

    def make(self, **options: Any) -> MetaRG:
        """Returns the environment, with further static options."""
        env = gpicljax.make(self.env, **self.options | options)
        assert isinstance(env, MetaRG)
        return env

    def params(self, env: MetaRG, cell: tuple[int, int]) -> Any:
        """Returns the distribution over games of a cell (S, O)."""
        shots, samples = cell
        values = {"min_values": self.min_values, "max_values": self.max_values}
        return env.make_params(shots=shots, samples=samples, **values)


WITHHELD = GameConfig("MetaRG-v2", min_values=3, shots=(2,), samples=(16,))
"""Games about values that the support phase lacks."""
