"""Episodes of agents whose minds are to be read: recorded, stored, or brought along."""

from gpicljax.systems.mental_modelling.data.episodes import (
    Episodes,
    episodes_of,
    join,
    made_up,
    take,
)
from gpicljax.systems.mental_modelling.data.recording import record_episodes, recorder
from gpicljax.systems.mental_modelling.data.stored import load_episodes, read_npz, save_episodes

__all__ = [
    "Episodes",
    "episodes_of",
    "join",
    "load_episodes",
    "made_up",
    "read_npz",
    "record_episodes",
    "recorder",
    "save_episodes",
    "take",
]
