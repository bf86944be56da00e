"""Episodes of agents whose minds are to be read: recorded, stored, or brought along."""

from gpicljax.systems.mental_modelling.data.episodes import (
    Episodes,
    episode_from_actions,
    episodes_from_arrays,
    join_episodes,
    take_episodes,
)
from gpicljax.systems.mental_modelling.data.recording import recorder
from gpicljax.systems.mental_modelling.data.stored import load_episodes, save_episodes

__all__ = [
    "Episodes",
    "episode_from_actions",
    "episodes_from_arrays",
    "join_episodes",
    "load_episodes",
    "recorder",
    "save_episodes",
    "take_episodes",
]
