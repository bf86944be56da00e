"""Players of signalling games, trained on whole episodes."""

from gpicljax.systems.meta_rg.learners.signalling import (
    SignallingConfig,
    SignallingData,
    players_agent,
    signalling_trainer,
)
from gpicljax.systems.meta_rg.learners.signalling_games import game_sequences, signalling_game

__all__ = [
    "SignallingConfig",
    "SignallingData",
    "game_sequences",
    "players_agent",
    "signalling_game",
    "signalling_trainer",
]
