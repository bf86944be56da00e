"""Episodes of agents whose minds are to be read: recorded, stored, or brought along."""

from gpicljax.systems.mental_modelling.data.episodes import (
    Episodes,
    episode_from_actions,
    episodes_from_arrays,
    join,
    take,
)
from gpicljax.systems.mental_modelling.data.recording import record_episodes, recorder
from gpicljax.systems.mental_modelling.data.stored import load_episodes, read_npz, save_episodes

__all__ = [
    "Episodes",
    "episodes_from_arrays",
    "join",
    "load_episodes",
    "episode_from_actions",
    "read_npz",
    "record_episodes",
    "recorder",
    "save_episodes",
    "take",
]
