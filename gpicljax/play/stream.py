"""A stream of bytes in a terminal: what comes in, what goes out, what it earns."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.play.terminal import read_key
from gpicljax.rollout import HostBatch
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

LEAVE = ("\x03", "\x04", "")
"""Ctrl-C, Ctrl-D and the input's end; every other key is a byte of the stream."""
_SIGNS = {-1: "-", 0: " ", 1: "+"}


def printable(byte: int) -> str:
    """Returns a byte as one character: itself where it can be read, else a full stop in the middle.

    Example:
      >>> printable(65), printable(32), printable(10)
      ('A', ' ', '·')
    """
    character = chr(byte)
    return character if character.isprintable() else "·"


def is_stream(env: Environment) -> bool:
    """Returns whether one agent reads and says bytes, `Discrete(256)` both."""
    members = env.observation_space(), env.action_space()
    bytes_both = all(isinstance(x, spaces.Discrete) and x.n == 256 for x in members)
    return env.num_agents is None and bytes_both


class Stream:
    """An environment of bytes in progress, and what has been exchanged.

    Args:
      env: an environment whose observations and actions are bytes.
      params: the distribution over tasks; the environment's default if None.
      seed: of tasks and episodes.

    Attributes:
      said: characters that came in, one for each step and one that waits for an answer.
      replied: characters that went out.
      paid: a sign for the reward of each: `+`, `-` or a space.
      total: reward so far.
      over: whether the episode has ended.
    """

    def __init__(self, env: Environment, params: ArrayTree = None, seed: int = 0) -> None:
        """Starts the stream; see the class."""
        vec = VectorEnv(env, 1, resets="fresh", params=params)
        self._batch, self._key = HostBatch(vec), jax.random.key(seed)
        self._instance = self._batch.start(self._key)[0]
        self.said, self.replied, self.paid = "", "", ""
        self.total, self.over = 0.0, False
        self._hear()

    def compile(self) -> None:
        """Compiles what a reply takes, which would keep the first one waiting."""
        self._batch.compile(self._key, np.int32(0))

    def _hear(self) -> None:
        self.said += printable(int(self._instance.request.timestep.observation))

    def reply(self, byte: int) -> None:
        """Says a byte, 0 .. 255; nothing happens once the stream is over."""
        if self.over:
            return
        timestep = self._instance.step(np.int32(byte))
        reward = float(timestep.reward)
        self.total += reward
        self.replied += printable(byte)
        self.paid += _SIGNS.get(int(reward), "?")
        self.over = bool(timestep.last)
        self._hear()


def screen(stream: Stream, columns: int) -> str:
    """Returns the stream's last columns, as the challenge's document prints them."""
    room = max(8, columns - 10)
    end = len(stream.said)
    start = max(0, end - room)
    rows = {"Input": stream.said, "Output": stream.replied, "Reward": stream.paid}
    lines = [f"{name:<7}: {row[start:end]}" for name, row in rows.items()]
    state = "The stream is over." if stream.over else "Type a byte; space is silence."
    about = f"step {len(stream.replied)}   so far {stream.total:+g}   {state}   Ctrl-C: quit"
    return "\x1b[H" + "\r\n".join(line + "\x1b[K" for line in [*lines, "", about]) + "\x1b[J"


def play_stream(
    stream: Stream,
    read: Callable[[], str],
    write: Callable[[str], Any],
    size: Callable[[], tuple[int, int]] = shutil.get_terminal_size,
) -> None:
    """Shows the stream and takes bytes until Ctrl-C or the input's end.

    Args:
      stream: the stream.
      read: returns the next character, empty at the end; what is beyond 255 is passed over, and so
        are arrows and other keys that terminals send as sequences.
      write: shows text.
      size: columns and lines of the terminal.
    """
    while True:
        write(screen(stream, size()[0]))
        key = read_key(read)
        if key in LEAVE:
            return
        # The name of a key, such as an arrow, is no byte.
        if len(key) == 1 and ord(key) < 256:
            stream.reply(ord(key))
