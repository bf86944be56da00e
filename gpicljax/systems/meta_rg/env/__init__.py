"""Meta-Referential Games (S2B): learn a language and the space it speaks about, within an episode.

`MetaRG-v0` follows the paper and, where the paper is silent, its reference environment.
`MetaRG-v1` is the same game without the shortcuts by which a message-free or memoryless rule beats
chance (`shortcut_free`). `MetaRG-v2` asks about values that only the structure of the others can
place (`sections`).
"""

from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.recall import Recall
from gpicljax.systems.meta_rg.env.rules import GameRules
from gpicljax.systems.meta_rg.env.sequences import (
    GameSequence,
    game_observations,
    game_sequence,
    rule_messages,
)
from gpicljax.systems.meta_rg.env.types import CHANNELS

__all__ = [
    "CHANNELS",
    "GameSequence",
    "GameRules",
    "MetaRG",
    "Recall",
    "game_observations",
    "game_sequence",
    "rule_messages",
]
