"""A model behind a small server with OpenAI's chat interface, for other programs on this machine.

It is what clients are tested against, and how a small model of our own is put where any harness can
reach it. It is no server for strangers: it has no limits, and listens on this machine alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpicljax.checks import check
from gpicljax.llm.chat import ChatModel, Message, ModelError


def answer_to(model: ChatModel, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to a request for a chat completion."""
    try:
        messages = [Message(m["role"], str(m["content"])) for m in body["messages"]]
        limit, seed = int(body.get("max_tokens") or 512), int(body.get("seed") or 0)
    except (LookupError, TypeError, ValueError):
        return 400, {"error": {"message": "a list of messages with role and content is needed"}}
    try:
        reply = model(messages, max_tokens=limit, seed=seed)
    except ModelError as error:
        status = {"context": 400, "transient": 503, "useless": 500, "refused": 403}[error.fault]
        code = "context_length_exceeded" if error.fault == "context" else error.fault
        return status, {"error": {"message": str(error), "code": code}}
    read, wrote, _ = reply.usage
    message = {"role": "assistant", "content": reply.text}
    return 200, {
        "object": "chat.completion",
        "model": model.name,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
    }


@contextmanager
def serve_chat_model(model: ChatModel, port: int = 0) -> Iterator[str]:
    """Serves a model until the block is left.

    Args:
      model: the model; it is asked from several threads.
      port: on this machine; any free one by default.

    Yields:
      The endpoint's address, up to `/v1`.

    Raises:
      ValueError: for a port that is none.

    Example:
      >>> from gpicljax.llm.chat import FakeModel
      >>> with serve_chat_model(FakeModel("[SELECT: 1]", name="tiny")) as endpoint:
      ...     endpoint.startswith("http://127.0.0.1:")
      True
    """
    check(0 <= port < 2**16, "port", port, "0 .. 65535")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.rstrip("/") == "/v1/models"
            listed = {"object": "list", "data": [{"id": model.name, "object": "model"}]}
            self._send(*((200, listed) if known else (404, {"error": {"message": "not here"}})))

        def do_POST(self) -> None:
            if self.path.rstrip("/") != "/v1/chat/completions":
                self._send(404, {"error": {"message": "not here"}})
                return
            try:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size))
                assert isinstance(body, dict)
            except (ValueError, AssertionError):
                self._send(400, {"error": {"message": "a JSON object is needed"}})
                return
            self._send(*answer_to(model, body))

        def _send(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: requests are on their asker's record."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
