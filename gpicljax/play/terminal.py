"""The game in a terminal: pictures of half blocks, keys as they are pressed."""

from __future__ import annotations

import codecs
import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check_at_least
from gpicljax.play.game import QUIT, Picture, PlaySession

_SEQUENCES = {"A": "ArrowUp", "B": "ArrowDown", "C": "ArrowRight", "D": "ArrowLeft"}
_LEAVE = ("\x03", "\x04", "")
"""Ctrl-C, Ctrl-D and the input's end."""
_PAID = {-1: "-", 0: " ", 1: "+"}
_SIGNS = {"ArrowUp": "↑", "ArrowDown": "↓", "ArrowLeft": "←", "ArrowRight": "→"}


def half_blocks(picture: Picture, columns: int, lines: int, *, true_colour: bool = True) -> str:
    """Returns a picture in characters, each of which shows one pixel above another.

    Args:
      picture: `uint8[H, W, 3]`.
      columns: characters in a line at most.
      lines: lines at most.
      true_colour: use 24-bit colours, else the 216 of the usual palette.

    Returns:
      Lines joined by `\\r\\n`, in the picture's proportions.

    Raises:
      ValueError: if there is no room.
    """
    from PIL import Image

    check_at_least(1, columns=columns, lines=lines)
    height, width = picture.shape[:2]
    scale = min(columns / width, 2 * lines / height)
    size = max(1, round(width * scale)), max(2, 2 * round(height * scale / 2))
    reduced = Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST
    pixels = np.asarray(Image.fromarray(picture).resize(size, reduced)).astype(int)

    def colour(rgb: NDArray[Any], layer: int) -> str:
        red, green, blue = (int(c) for c in rgb)
        if true_colour:
            return f"\x1b[{layer};2;{red};{green};{blue}m"
        return f"\x1b[{layer};5;{16 + 36 * _sixth(red) + 6 * _sixth(green) + _sixth(blue)}m"

    rows = []
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
        cells = [f"{colour(a, 38)}{colour(b, 48)}▀" for a, b in zip(upper, lower, strict=True)]
        rows.append("".join(cells) + "\x1b[0m")
    return "\r\n".join(rows)


def _sixth(level: int) -> int:
    """Returns the nearest of the palette's levels 0, 95, 135, ..., 255."""
    return 0 if level < 48 else min(5, max(1, round((level - 55) / 40)))


def screen(game: PlaySession, columns: int, lines: int, *, true_colour: bool = True) -> str:
    """Returns a screenful: the picture or words, then the numbers and the keys."""
    if game.is_stream:
        return stream_screen(game, columns)
    frames = game.drawing().frames
    keys = {_SIGNS.get(key, key): label for key, label in game.names.items()} | {QUIT: "quit"}
    # Words stay with their keys where lines are wrapped.
    pairs = ["\xa0".join([key, *label.split()]) for key, label in keys.items()]
    words = "   ".join(f"{name} {value}" for name, value in game.facts().items())
    below = [words[:columns], *textwrap.wrap(game.over, columns)]
    below += textwrap.wrap("   ".join(pairs), columns)
    below = [line.replace("\xa0", " ") for line in below[: max(0, lines - 2)]]
    room = max(1, lines - len(below) - 1)
    if frames is None:
        words = [row for line in game.words().splitlines() for row in textwrap.wrap(line, columns)]
        return _whole([*words[:room], *below])
    picture = half_blocks(frames[-1], columns, room, true_colour=true_colour)
    return _whole([*picture.split("\r\n"), *below])


def stream_screen(game: PlaySession, columns: int) -> str:
    """Returns the last columns of a stream of bytes, as the challenge's document prints them."""
    recording, room = game.recording, max(8, columns - 10)
    end = len(recording.seen)
    start = max(0, end - room)
    rows = {
        "Input": "".join(printable(int(byte)) for byte in recording.seen),
        "Output": "".join(printable(int(byte)) for byte in recording.actions),
        "Reward": "".join(_PAID.get(int(reward), "?") for reward in recording.rewards),
    }
    lines = [f"{name:<7}: {row[start:end]}" for name, row in rows.items()]
    state = "The stream is over." if game.over else "Type a byte; space is silence."
    total = f"{sum(recording.rewards):+g}"
    about = f"step {end - 1}   so far {total}   {state}   Ctrl-C: quit"
    return _whole([*lines, "", about])


def printable(byte: int) -> str:
    """Returns a byte as one character: itself where it can be read, else a full stop in the middle.

    Example:
      >>> printable(65), printable(32), printable(10)
      ('A', ' ', '·')
    """
    character = chr(byte)
    return character if character.isprintable() else "·"


def _whole(lines: list[str]) -> str:
    """Lines as a screenful that replaces what was there."""
    return "\x1b[H" + "\r\n".join(line + "\x1b[K" for line in lines) + "\x1b[J"


def play_in_terminal(
    game: PlaySession,
    read: Callable[[], str],
    write: Callable[[str], Any],
    size: Callable[[], tuple[int, int]] = shutil.get_terminal_size,
    *,
    true_colour: bool = True,
) -> None:
    """Shows the game and takes its keys until `q`, Ctrl-C or the input's end.

    Args:
      game: the game.
      read: returns the next character, empty at the end.
      write: shows text.
      size: columns and lines of the terminal.
      true_colour: see `half_blocks`.

    Example:
      >>> import gpicljax
      >>> game, keys, shown = PlaySession(gpicljax.make("CliffWalking-v1")), iter("q"), []
      >>> play_in_terminal(game, lambda: next(keys), shown.append)
      >>> len(shown) > 0
      True
    """
    while True:
        columns, lines = size()
        write(screen(game, columns, lines, true_colour=true_colour))
        key = read_key(read)
        if key in _LEAVE or (key == QUIT and not game.is_stream):
            return
        # The name of a key, such as an arrow, is no byte.
        if not game.is_stream or len(key) == 1:
            game.press(key)


def read_key(read: Callable[[], str]) -> str:
    """Returns the next key: a character, the name of an arrow, `"Escape"` for another key that is
    sent as a sequence, or nothing at the input's end.
    """
    key = read()
    if key == "\x1b" and (key := read()) in ("[", "O"):
        while "" < (key := read()) < "@":  # what stands before a sequence's last character
            pass
        key = _SEQUENCES.get(key, key and "Escape")
    return key


@contextlib.contextmanager
def keys_at_once() -> Iterator[Callable[[], str]]:
    """Reads keys from the terminal as they are pressed; restores it in any case.

    Ctrl-C is a key like all others: an exception in the midst of a computation, or of its
    compilation, would end in a crash now and then.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    characters = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read() -> str:
        while octet := os.read(descriptor, 1):
            if character := characters.decode(octet):
                return character[0]
        return ""

    try:
        tty.setcbreak(descriptor)
        mode = termios.tcgetattr(descriptor)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(descriptor, termios.TCSADRAIN, mode)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
