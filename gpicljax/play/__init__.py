"""Playing an environment by hand, `gpicljax play ID`, and replaying what was played."""

from gpicljax.play.drawing import Drawing, draw_episode, write_replay
from gpicljax.play.game import PlaySession
from gpicljax.play.match import Match, Player, find_match
from gpicljax.play.terminal import play_in_terminal, printable

__all__ = [
    "Drawing",
    "Match",
    "PlaySession",
    "Player",
    "draw_episode",
    "find_match",
    "play_in_terminal",
    "printable",
    "write_replay",
]
