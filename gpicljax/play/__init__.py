"""Playing an environment by hand, `gpicljax play ID`, and replaying what was played."""

from gpicljax.play.game import PlaySession
from gpicljax.play.replay import write_replay
from gpicljax.play.stream import printable
from gpicljax.play.terminal import play_in_terminal

__all__ = [
    "PlaySession",
    "play_in_terminal",
    "printable",
    "write_replay",
]
