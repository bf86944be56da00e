"""The rules of a referential game that can be chosen, and those of `MetaRG-v1` and `-v2`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from gpicljax.checks import Share, check, check_fields


@dataclasses.dataclass(frozen=True)
class GameRules:
    """Rules that the paper's text and its reference code leave open, or decide differently.

    Attributes:
      permutation: of tokens: `"shared"` (one for all positions), `"position"` (one each) or
        `"none"`.
      query_targets: `"tss"`, `"all"` or `"iid"`; see `targets.sample_skeleton`.
      nonmatch: `"reference"`, `"balanced"` or `"dataset"`; see `targets.sample_skeleton`.
      fixed_length: messages have exactly L tokens.
      same_view: whether a matching stimulus may be the speaker's very sample (see `game`).
      observability: whether the speaker sees the distractors (`"full"`) or not (`"partial"`).
      masks: for reference actions, `"paper"` (only decisions when deciding, else no-operation) or
        `"reference"` (everything but no-operation when deciding).
      query_penalty: reward of a wrong decision in the query phase.
      samples: how the samples of a continuous value lie in its section: `"gaussian"` (about a mean
        that tells values apart) or `"uniform"` (anywhere, so that only sections tell them apart).
      withheld: whether the support phase lacks one value of each dimension, drawn anew in every
        episode. Query games are about combinations with such values: the number and the order of
        the others tell where they lie. Needs V_min >= 3.
      positions: which position of a message names which dimension: `"fixed"` (the first the first,
        and so on) or `"episode"` (an order drawn anew with every channel).
      query_feedback: whether the query phase has feedback steps and tells results. Its rewards are
        paid in any case.
      minimal_pairs: share of the query games in which target and non-match are one value apart in
        one dimension; with `query_targets="iid"`.

    Example:
      >>> GameRules().permutation, SHORTCUT_FREE.permutation
      ('shared', 'position')
    """

    permutation: Literal["shared", "position", "none"] = "shared"
    query_targets: Literal["tss", "all", "iid"] = "tss"
    nonmatch: Literal["reference", "balanced", "dataset"] = "reference"
    fixed_length: bool = False
    same_view: bool = True
    observability: Literal["full", "partial"] = "full"
    masks: Literal["paper", "reference"] = "paper"
    query_penalty: float = -2.0
    samples: Literal["gaussian", "uniform"] = "gaussian"
    withheld: bool = False
    positions: Literal["fixed", "episode"] = "fixed"
    query_feedback: bool = True
    minimal_pairs: Share = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        drawn = self.query_targets == "iid"
        check(drawn or not self.withheld, "withheld", True, 'False; True with query_targets="iid"')
        accepted_values = '0; others with query_targets="iid"'
        check(drawn or not self.minimal_pairs, "minimal_pairs", self.minimal_pairs, accepted_values)


SHORTCUT_FREE = GameRules(
    permutation="position",
    query_targets="iid",
    nonmatch="balanced",
    fixed_length=True,
    same_view=False,
)
"""The rules of `MetaRG-v1`: in the query phase, a match cannot be told from a non-match by its kind
or by having been seen; tokens of different positions share nothing; the length of a message tells
nothing."""

SECTIONS = dataclasses.replace(
    SHORTCUT_FREE,
    samples="uniform",
    withheld=True,
    positions="episode",
    query_feedback=False,
    minimal_pairs=0.5,
)
"""The rules of `MetaRG-v2`: a listener has to place values that were never named, by the number and
the order of the others."""
