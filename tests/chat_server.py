"""A model behind a small server with OpenAI's chat interface, for other programs on this machine.

Clients are tested against it. It listens on this machine alone, and answers only requests for the
names of this machine, so that no page in a browser can ask it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from gpicljax.checks import check, refusal
from gpicljax.llm.chat import ChatModel, Message, ModelError, Role, part_texts, sound_text

_LOCAL = ("127.0.0.1", "localhost", "::1")
_MOST_BYTES = 16_000_000
_SECONDS = 60.0  # without a byte of a request, after which its connection is closed
_LINGER = 0.5  # seconds in which the rest of a refused request may come
_DEFAULT_TOKENS = 512
_STATUS = {
    "context": (400, "context_length_exceeded"),
    "transient": (503, "transient"),
    "useless": (500, "useless"),
    "refused": (403, "refused"),
    "unknown": (400, "unknown"),
    "broken": (502, "broken"),
}
_PASSED_OVER: Mapping[str, tuple[Any, ...]] = {
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (),
    "top_logprobs": (0,),
    "logit_bias": ({},),
}
"""Entries of requests that are not honoured, with the values that ask for nothing."""
_Answer = tuple[int, dict[str, Any]]


def answer_to(model: ChatModel, body: Mapping[str, Any], honours: Sequence[str] = ()) -> _Answer:
    """Status and body of the answer to a request for a chat completion.

    Contents in parts are joined, and a reply ends before the first of the texts in `stop`. What
    cannot be done is refused: another model with status 404; with 400 other roles, contents without
    text, streaming, several choices; schemas, tools and log-probabilities, unless `honours` has the
    entry.
    """
    if body.get("model", model.name) != model.name:
        return _error(404, refusal("model", body["model"], model.name), "model_not_found")
    try:
        for name, accepted_values in _PASSED_OVER.items():
            value = body.get(name)
            is_accepted = name in honours or value in (None, False, *accepted_values)
            check(is_accepted, name, value, "none: it would have no effect")
        stops = _stops(body.get("stop"))
        messages = _messages(body.get("messages"))
        check(not body.get("stream"), "stream", body.get("stream"), "false: answers come whole")
        check(body.get("n") in (None, 1), "n", body.get("n"), "1")
        # The newer name counts where both are given.
        limit = _integer(body, "max_completion_tokens", _integer(body, "max_tokens", None))
        seed = _integer(body, "seed", 0)
        limit = _DEFAULT_TOKENS if limit is None else limit
        check(limit >= 1, "max_tokens", limit, "an integer >= 1")
    except (ValueError, RecursionError) as error:
        return _error(400, str(error), "invalid_request_error")
    try:
        reply = model(messages, max_tokens=limit, seed=(seed or 0) % 2**31)
    except ModelError as error:
        status, code = _STATUS[error.fault]
        return _error(status, str(error), code)
    except Exception as error:  # one request's, whatever it is
        return _error(500, f"the model failed: {type(error).__name__}: {error}", "server_error")
    read, wrote, _ = reply.usage
    ends = [place for stop in stops if (place := reply.text.find(stop)) >= 0]
    text, finish = (reply.text[: min(ends)], "stop") if ends else (reply.text, reply.finish)
    message = {"role": "assistant", "content": text}
    return 200, {
        "object": "chat.completion",
        "model": model.name,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
    }


def _stops(stop: Any) -> list[str]:
    """The texts before which a reply ends."""
    stops = [stop] if isinstance(stop, str) else [] if stop is None else stop
    are_texts = isinstance(stops, list) and all(isinstance(x, str) and x for x in stops)
    check(are_texts, "stop", stop, "a text, or a list of texts")
    return stops


def _error(status: int, words: str, code: str) -> _Answer:
    return status, {"error": {"message": words, "code": code}}


def _messages(entries: Any) -> list[Message]:
    is_list = isinstance(entries, list) and entries and all(isinstance(x, dict) for x in entries)
    check(is_list, "messages", entries, "a list of objects with role and content, one or more")
    messages = []
    for number, entry in enumerate(entries):
        place, role, content = f"messages[{number}]", entry.get("role"), entry.get("content")
        roles = get_args(Role)
        check(isinstance(role, str) and role in roles, f"{place}.role", role, ", ".join(roles))
        texts = part_texts(content)
        strings = [text for text in texts if isinstance(text, str)]
        is_text = len(strings) == len(texts)
        check(is_text, f"{place}.content", content, "text, or a list of parts that have a text")
        messages.append(Message(cast(Role, role), sound_text("".join(strings))))
    return messages


def _integer(body: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = body.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool)
    check(value is None or whole, name, value, "an integer")
    return default if value is None else value


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    timeout = _SECONDS
    model: ChatModel
    hosts: tuple[str, ...]
    honours: tuple[str, ...]

    def do_GET(self) -> None:
        listed = {"object": "list", "data": [{"id": self.model.name, "object": "model"}]}
        self._send(*(self._refusal_for("/v1/models") or (200, listed)))

    def do_POST(self) -> None:
        # Also read where it is refused: a connection that is closed on it would lose the answer.
        try:
            content = self._content()
        except ValueError as error:
            self._send(*_error(400, str(error), "invalid_request_error"))
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.settimeout(_LINGER)
                while self.rfile.read1():
                    pass
            return
        self._send(*(self._refusal_for("/v1/chat/completions") or self._answer(content)))

    def _content(self) -> bytes:
        """The body of a request; a ValueError says what is wrong with it."""
        coding, size = self.headers.get("Transfer-Encoding"), self.headers.get("Content-Length", "")
        if coding is None:
            whole = size.isascii() and size.isdigit() and len(size) < 10
            accepted_values = f"the number of bytes of the body, at most {_MOST_BYTES}"
            check(whole and int(size) <= _MOST_BYTES, "Content-Length", size, accepted_values)
            return self.rfile.read(int(size))
        check(coding.strip().lower() == "chunked", "Transfer-Encoding", coding, "chunked")
        content = bytearray()
        while size := int(self.rfile.readline(64).partition(b";")[0], 16):
            fits = 0 < size <= _MOST_BYTES - len(content)
            check(fits, "chunk", size, f"at most {_MOST_BYTES} bytes in all")
            content += self.rfile.read(size)
            self.rfile.readline(64)
        while self.rfile.readline(1024).strip():  # what may follow the last chunk
            pass
        return bytes(content)

    def _answer(self, content: bytes) -> _Answer:
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return _error(400, "a JSON object is needed", "invalid_request_error")
        return answer_to(self.model, body, self.honours)

    def _refusal_for(self, path: str) -> _Answer | None:
        """The answer to a request from elsewhere, or for another path; None for others."""
        # A page's requests have its Origin, or reach this machine by another name.
        hosts = [("Host", f"http://{host}") for host in self.headers.get_all("Host") or [""]]
        for name, address in [*hosts, *(("Origin", x) for x in self.headers.get_all("Origin", []))]:
            try:
                is_allowed = urlsplit(address).hostname in self.hosts and "@" not in address
            except ValueError:
                is_allowed = False
            if not is_allowed:
                words = refusal(name, address, f"names of this machine: {', '.join(self.hosts)}")
                return _error(403, words, "forbidden")
        if self.path.partition("?")[0].rstrip("/") == path:
            return None
        return _error(404, f"{refusal('path', self.path, path)}", "not_found")

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are on their asker's record."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # more conversations than by default may begin at the same time

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that goes away is no concern of the others."""


@contextmanager
def serve_chat_model(
    model: ChatModel, port: int = 0, hosts: Sequence[str] = (), honours: Sequence[str] = ()
) -> Iterator[str]:
    """Serves a model until the block is left.

    Args:
      model: the model; it is asked from several threads.
      port: on this machine; any free one by default.
      hosts: names by which clients may reach the server, or web pages which may ask it, beside
        those of this machine (`localhost`, `127.0.0.1`, `::1`). Requests for others are refused.
      honours: entries of requests, such as `response_format`, that the model keeps to by itself.

    Yields:
      The endpoint's address, up to `/v1`.

    Raises:
      ValueError: for a port that is none.
    """
    check(0 <= port < 2**16, "port", port, "0 .. 65535")
    check(not isinstance(hosts, str), "hosts", hosts, "a sequence of names")
    all_hosts = (*_LOCAL, *(host.lower() for host in hosts))
    settings = {"model": model, "hosts": all_hosts, "honours": tuple(honours)}
    server = _Server(("127.0.0.1", port), type("_", (_Handler,), settings))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
