"""Language models in Meta-Referential Games: what they are told, what they say, how they fare."""

from gpicljax.systems.meta_rg.prompts.games import play_listener, play_speaker
from gpicljax.systems.meta_rg.prompts.sessions import ListenerSettings

__all__ = [
    "ListenerSettings",
    "play_listener",
    "play_speaker",
]
