"""Learners in any language, at the other end of sockets, as one agent on the host.

This is the remote interface of the General AI Challenge's first round, so that a learner written
for it runs as it is. Each learner has a ZeroMQ PAIR socket of its own; this side binds, the
learner's connects and says `hello`. Every step then is two messages from here, the reward of the
action before as decimal digits and one character, and one back, a character. Characters stand for
the bytes 0 to 255 by their number and travel in UTF-8. The first reward is 0. After a stream's last
step come its reward and, in a character's place, `end: ` and why.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.environment import Environment
from gpicljax.play.game import is_stream
from gpicljax.rollout import GIVE_UP, ActionRequest
from gpicljax.runtime.signals import StopRequest

PORT = 5556
HELLO, END = "hello", "end: "
LONGEST = 1024
"""Bytes of a message, at most; a peer that sends more is disconnected."""
_SLICE = 200  # milliseconds between two looks at whether a learner is still there
_EVERY = 1.0  # seconds between two looks at connections while learners are quick
_SILENT = 10.0  # seconds after which a connection without a greeting is told
_LINGER = 500  # milliseconds that the last messages have to arrive
_CLOSED = "the connection was closed"
_LOG = logging.getLogger(__name__)


def check_bytes(env: Environment) -> None:
    """Refuses an environment in which not every observation and every action is a byte."""
    if not is_stream(env):
        observations, actions = env.observation_space(), env.action_space()
        received = f"{env.name} with observations {observations} and actions {actions}"
        raise ValueError(f"env: got {received}; accepted: bytes, Discrete(256), as both")


class _LeftError(Exception):
    """A learner is of no further use."""


class _Peers:
    """The connections of one socket, and which of them is the learner's: the one that greeted.

    Others come and go, port probes and second learners among them, and change nothing.
    """

    def __init__(self, socket: Any) -> None:
        """Listens for the socket's events; it is not bound yet."""
        from zmq import Event

        self._kinds, self.port = Event, 0
        events = Event.ACCEPTED | Event.DISCONNECTED | Event.HANDSHAKE_SUCCEEDED
        self._monitor = socket.get_monitor_socket(events)
        self._open: set[int] = set()
        self._learner: int | None = None
        self._left = False

    def note_greeting(self, connection: int) -> None:
        """Notes the connection that is the learner's."""
        self.look()
        self._learner, self._left = connection, connection not in self._open

    def is_learner(self, connection: int) -> bool:
        """Whether the learner has this connection; any one where none was asked to greet."""
        return self._learner is None or connection == self._learner

    def has_left(self) -> bool:
        """Returns whether the learner's connection was closed."""
        self.look()
        return self._left

    def is_connected(self) -> bool:
        """Returns whether anyone is connected."""
        self.look()
        return bool(self._open)

    def look(self) -> None:
        """Takes in what has happened."""
        from zmq.utils.monitor import recv_monitor_message

        while self._monitor.poll(0):
            event: Any = recv_monitor_message(self._monitor)
            if event["event"] == self._kinds.ACCEPTED:
                self._open.add(event["value"])
            elif event["event"] == self._kinds.DISCONNECTED:
                self._open.discard(event["value"])
                self._left |= event["value"] == self._learner
            elif self._learner is not None and not self._left:
                _LOG.warning("port %d: turned another learner away; it has one", self.port)

    def close(self) -> None:
        """Stops listening."""
        self._monitor.close()


class RemoteLearners:
    """A learner at the other end of a socket for each instance; see the module.

    As an agent it is given to `host_play`. Where a learner is gone, is silent for too long or sends
    what is no character, its instance is given up, and `left` says why; the others go on.

    Args:
      count: learners, on ports that follow one another.
      port: the first learner's; 0 takes free ones, see `ports`.
      address: interface that the sockets are bound to, IPv4 or IPv6.
      patience: seconds to wait for a learner's next message.

    Attributes:
      ports: where each learner is to connect.
      steps: how many actions each has sent.
      left: why some were given up, by number.
      stop: the request to stop that waiting heeds, as `runtime.signals.catch_stop` yields it.

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
        whole = isinstance(port, int) and not isinstance(port, bool)
        check(
            whole and 0 <= port <= 65536 - count, "port", port, f"a number in 0 .. {65536 - count}"
        )
        check(patience > 0, "patience", patience, "a number of seconds above 0")
        self.patience = patience
        self.ports: list[int] = []
        self.steps = [0] * count
        self.left: dict[int, str] = {}
        self.stop = StopRequest()
        self._looked = time.monotonic()
        self._zmq = zmq
        self._context = zmq.Context()
        self._sockets: list[Any] = []
        self._peers: list[_Peers] = []
        self._asked = [False] * count
        self._ended: set[int] = set()
        try:
            for i in range(count):
                self._bind(address, port + i if port else 0)
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(
                f"port: got {port + len(self.ports)} at {address}: {error}; accepted: a free one"
            ) from None

    def _bind(self, address: str, port: int) -> None:
        socket = self._context.socket(self._zmq.PAIR)
        self._sockets.append(socket)
        socket.linger, socket.maxmsgsize = 0, LONGEST
        socket.ipv6 = ":" in address
        host = address.strip("[]")
        endpoint = f"tcp://[{host}]" if socket.ipv6 else f"tcp://{host}"
        self._peers.append(_Peers(socket))
        if port:
            socket.bind(f"{endpoint}:{port}")
        else:
            port = socket.bind_to_random_port(endpoint)
        self.ports.append(port)
        self._peers[-1].port = port

    def close(self) -> None:
        """Closes the sockets."""
        for i, socket in enumerate(self._sockets):
            socket.disable_monitor()
            socket.close(_LINGER if i in self._ended else 0)
        for peers in self._peers:
            peers.close()
        self._sockets, self._peers = [], []
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
                message, connection = self._message(i, patience)
            except _LeftError as error:
                raise ConnectionError(f"learner {i}: {error}") from None
            if message != HELLO:
                raise ConnectionError(f"learner {i}: said {message[:40]!r}; accepted: {HELLO!r}")
            self._peers[i].note_greeting(connection)

    def __call__(self, requests: Mapping[int, ActionRequest]) -> dict[int, Any]:
        """Sends pending observations to the learners; returns the actions received."""
        for i, request in requests.items():
            if not self._asked[i]:
                timestep = request.timestep
                self._send(i, str(int(np.asarray(timestep.reward))))
                self._send(i, chr(int(np.asarray(timestep.observation))))
                self._asked[i] = True
        if time.monotonic() - self._looked > _EVERY:
            # Events that nothing reads would block the sockets in the end.
            self._looked = time.monotonic()
            for peers in self._peers:
                peers.look()
        # Asking a poller costs as much as a message: one learner alone is just waited for.
        ready = self._ready(list(requests)) if len(requests) > 1 else requests
        return {i: self._answer(i) for i in ready}

    def end(self, i: int, reward: Any, why: str) -> None:
        """Tells a learner that nothing follows, in the two messages that it waits for.

        Args:
          i: its number.
          reward: of its last action, where it was not told yet.
          why: in words; what follows the 100th character is left out.
        """
        self._send(i, str(0 if self._asked[i] else int(np.asarray(reward))))
        self._send(i, END + why[:100])
        self._ended.add(i)

    def _send(self, i: int, text: str) -> None:
        # A lost peer is noticed when its answer is waited for.
        with contextlib.suppress(self._zmq.Again):
            self._sockets[i].send_string(text, self._zmq.NOBLOCK)

    def _answer(self, i: int) -> Any:
        try:
            message, connection = self._message(i, self.patience)
            if not self._peers[i].is_learner(connection):
                raise _LeftError(_CLOSED)
            if len(message) != 1 or ord(message) > 255:
                raise _LeftError(
                    f"sent {message[:40]!r}; accepted: one character with a number in 0 .. 255"
                )
        except _LeftError as error:
            self.left[i] = f"step {self.steps[i]}: {error}"
            return GIVE_UP
        self.steps[i] += 1
        self._asked[i] = False
        return np.int32(ord(message))

    def _ready(self, indices: list[int]) -> list[int]:
        """Returns the learners that have sent something, or will not; waits for one at least."""
        poller = self._zmq.Poller()
        for i in indices:
            poller.register(self._sockets[i], self._zmq.POLLIN)
        until = time.monotonic() + self.patience
        while not (heard := dict(poller.poll(_SLICE))):
            if gone := [i for i in indices if self._peers[i].has_left()]:
                return gone
            if time.monotonic() > until or self.stop.signal:
                return indices[:1]
        return [i for i in indices if self._sockets[i] in heard]

    def _message(self, i: int, patience: float | None) -> tuple[str, int]:
        """Returns the next message, and the number of the connection that it came by."""
        began, warns = time.monotonic(), patience is None
        until = None if patience is None else began + patience
        socket = self._sockets[i]
        while not socket.poll(_SLICE, self._zmq.POLLIN):
            if self.stop.signal:
                raise _LeftError(f"stopped by {self.stop.signal.name}")
            if self._peers[i].has_left():
                raise _LeftError(_CLOSED)
            if until is not None and time.monotonic() > until:
                raise _LeftError(f"no message for {patience:g} seconds")
            is_late = warns and time.monotonic() - began > _SILENT
            if is_late and self._peers[i].is_connected():
                _LOG.warning("port %d: someone is connected and does not say hello", self.ports[i])
                warns = False
        first, *further_parts = socket.recv_multipart(copy=False)
        if further_parts:
            raise _LeftError(
                f"sent a message of {1 + len(further_parts)} parts; accepted: one part"
            )
        try:
            return first.bytes.decode(), first.get(self._zmq.SRCFD)
        except UnicodeDecodeError:
            raise _LeftError(f"sent {first.bytes[:40]!r}; accepted: UTF-8") from None
