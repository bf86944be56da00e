"""Two learning players in Meta-Referential Games: does a language emerge that can be learnt?

    python experiments/meta_rg_players.py

trains a speaker and a listener on the game without shortcuts, and beside them listeners of
speakers that keep the code they were born with: what they reach needs no speaker that learns.
`--preset vdn` trains both as R2D2 agents on a summed value.
"""

from gpicljax.systems.meta_rg.studies.meta_rg_players.games import game_sequences, signalling_game
from gpicljax.systems.meta_rg.studies.meta_rg_players.trainer import (
    SignallingConfig,
    SignallingData,
    players_agent,
    signalling_trainer,
)

__all__ = [
    "SignallingConfig",
    "SignallingData",
    "game_sequences",
    "players_agent",
    "signalling_game",
    "signalling_trainer",
]
