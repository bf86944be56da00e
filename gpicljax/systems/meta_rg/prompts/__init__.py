"""Language models in Meta-Referential Games: what they are told, what they say, how they fare."""

from gpicljax.systems.meta_rg.prompts.games import (
    Played,
    nearest_listener,
    play_listener,
    play_speaker,
)
from gpicljax.systems.meta_rg.prompts.sessions import (
    ListenerSession,
    ListenerSettings,
    SpeakerSession,
    answer_schema,
    decision_in,
    message_in,
)

__all__ = [
    "ListenerSession",
    "ListenerSettings",
    "Played",
    "SpeakerSession",
    "answer_schema",
    "decision_in",
    "message_in",
    "nearest_listener",
    "play_listener",
    "play_speaker",
]
