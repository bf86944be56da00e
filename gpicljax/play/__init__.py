"""Playing an environment by hand, `gpicljax play ID`, and replaying what was played."""

from gpicljax.play.drawing import draw_episode, write_replay
from gpicljax.play.game import PlaySession
from gpicljax.play.terminal import play_in_terminal

__all__ = [
    "PlaySession",
    "draw_episode",
    "play_in_terminal",
    "write_replay",
]
