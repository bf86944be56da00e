"""Learners in any language, at the other end of sockets, as one agent on the host.

This is the remote interface of the General AI Challenge's first round, so that a learner written
for it runs as it is. Each learner has a ZeroMQ PAIR socket of its own; this side binds, the
learner's connects and says `hello`. Every step then is two messages from here, the reward of the
action before as decimal digits and one character, and one back, a character. Characters stand for
the bytes 0 to 255 by their number and travel in UTF-8. The first reward is 0.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.environment import Environment
from gpicljax.play.stream import is_stream
from gpicljax.rollout import GIVE_UP, ActionRequest

PORT = 5556
HELLO = "hello"
_SLICE = 200  # milliseconds between two looks at whether a learner is still there


def check_bytes(env: Environment) -> None:
    """Refuses an environment in which not every observation and every action is a byte.

    Example:
      >>> import gpicljax
      >>> check_bytes(gpicljax.make("CliffWalking-v1"))
      Traceback (most recent call last):
      ValueError: env: got CliffWalking with observations Discrete(n=48) and actions
      Discrete(n=4); accepted: bytes, Discrete(256), as both
    """
    if not is_stream(env):
        seen, done = env.observation_space(), env.action_space()
        given = f"{env.name} with observations {seen} and actions {done}"
        raise ValueError(f"env: got {given}; accepted: bytes, Discrete(256), as both")


class _LeftError(Exception):
    """A learner is of no further use."""


class RemoteLearners:
    """A learner at the other end of a socket for each instance; see the module.

    As an agent it is given to `host_play`. Where a learner is gone, is silent for too long or sends
    what is no character, its instance is given up, and `left` says why; the others go on.

    Args:
      count: learners, on ports that follow one another.
      port: the first learner's; 0 takes free ones, see `ports`.
      address: interface that the sockets are bound to.
      patience: seconds to wait for a learner's next message.

    Attributes:
      ports: where each learner is to connect.
      steps: how many actions each has sent.
      left: why some were given up, by number.

    Raises:
      ImportError: if `pyzmq` is not installed (`pip install "gpicljax[serve]"`).
      ValueError: if a socket cannot be bound.

    Example:
      >>> with RemoteLearners(count=2, port=0) as learners:
      ...     len(learners.ports)
      2
    """

    def __init__(
        self,
        count: int = 1,
        port: int = PORT,
        address: str = "127.0.0.1",
        patience: float = 60.0,
    ) -> None:
        """Binds the sockets; see the class."""
        import zmq

        check_at_least(1, count=count)
        check(0 <= port <= 65536 - count, "port", port, f"a number in 0 .. {65536 - count}")
        check(patience > 0, "patience", patience, "a number of seconds above 0")
        self.patience = patience
        self.ports: list[int] = []
        self.steps = [0] * count
        self.left: dict[int, str] = {}
        self._zmq = zmq
        self._context = zmq.Context()
        self._sockets: list[Any] = []
        self._monitors: list[Any] = []
        self._asked = [False] * count
        try:
            for i in range(count):
                self._bind(f"tcp://{address}", port + i if port else 0)
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(
                f"port: got {port + len(self.ports)} at {address}: {error}; accepted: a free one"
            ) from None

    def _bind(self, endpoint: str, port: int) -> None:
        socket = self._context.socket(self._zmq.PAIR)
        self._sockets.append(socket)
        socket.linger = 0
        self._monitors.append(socket.get_monitor_socket(self._zmq.EVENT_DISCONNECTED))
        if port:
            socket.bind(f"{endpoint}:{port}")
        else:
            port = socket.bind_to_random_port(endpoint)
        self.ports.append(port)

    def close(self) -> None:
        """Closes the sockets."""
        for socket in self._sockets:
            socket.disable_monitor()
            socket.close()
        for monitor in self._monitors:
            monitor.close()
        self._sockets, self._monitors = [], []
        self._context.term()

    def __enter__(self) -> RemoteLearners:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def greet(self, patience: float | None = None) -> None:
        """Waits until every learner has said hello.

        Args:
          patience: seconds to wait for each; for any time if None.

        Raises:
          ConnectionError: if one does not come, or says something else.
        """
        for i in range(len(self._sockets)):
            try:
                said = self._message(i, patience)
            except _LeftError as error:
                raise ConnectionError(f"learner {i}: {error}") from None
            if said != HELLO:
                raise ConnectionError(f"learner {i}: said {said[:40]!r}; accepted: {HELLO!r}")

    def __call__(self, moments: Mapping[int, ActionRequest]) -> dict[int, Any]:
        """Sends pending observations to the learners; returns the actions received."""
        for i, moment in moments.items():
            if not self._asked[i]:
                seen = moment.timestep
                self._send(i, str(int(np.asarray(seen.reward))))
                self._send(i, chr(int(np.asarray(seen.observation))))
                self._asked[i] = True
        # Asking a poller costs as much as a message: one learner alone is just waited for.
        ready = self._ready(list(moments)) if len(moments) > 1 else moments
        return {i: self._answer(i) for i in ready}

    def _send(self, i: int, text: str) -> None:
        # A lost peer is noticed when its answer is waited for.
        with contextlib.suppress(self._zmq.Again):
            self._sockets[i].send_string(text, self._zmq.NOBLOCK)

    def _answer(self, i: int) -> Any:
        try:
            said = self._message(i, self.patience)
            if len(said) != 1 or ord(said) > 255:
                raise _LeftError(
                    f"sent {said[:40]!r}; accepted: one character with a number in 0 .. 255"
                )
        except _LeftError as error:
            self.left[i] = f"step {self.steps[i]}: {error}"
            return GIVE_UP
        self.steps[i] += 1
        self._asked[i] = False
        return np.int32(ord(said))

    def _ready(self, some: list[int]) -> list[int]:
        """Those of some learners that have sent something, or will not; waits for one at least."""
        poller = self._zmq.Poller()
        for i in some:
            poller.register(self._sockets[i], self._zmq.POLLIN)
        until = time.monotonic() + self.patience
        while not (heard := dict(poller.poll(_SLICE))):
            if gone := [i for i in some if self._monitors[i].poll(0)]:
                return gone
            if time.monotonic() > until:
                return some[:1]
        return [i for i in some if self._sockets[i] in heard]

    def _message(self, i: int, patience: float | None) -> str:
        until = None if patience is None else time.monotonic() + patience
        socket = self._sockets[i]
        while not socket.poll(_SLICE, self._zmq.POLLIN):
            if self._monitors[i].poll(0):
                raise _LeftError("the connection was closed")
            if until is not None and time.monotonic() > until:
                raise _LeftError(f"no message for {patience:g} seconds")
        message = socket.recv()
        try:
            return message.decode()
        except UnicodeDecodeError:
            raise _LeftError(f"sent {message[:40]!r}; accepted: UTF-8") from None
