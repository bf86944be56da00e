"""Episodes of agents whose minds are to be read: recorded, stored, or brought along."""

from gpicljax.data.mental_modelling.episodes import (
    Episodes,
    episodes_of,
    join,
    record_episodes,
    take,
)
from gpicljax.data.mental_modelling.stored import load_episodes, read_npz, save_episodes

__all__ = [
    "Episodes",
    "episodes_of",
    "join",
    "load_episodes",
    "read_npz",
    "record_episodes",
    "save_episodes",
    "take",
]
