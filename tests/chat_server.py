"""Servers that clients are tested against: of any answers, or of a model as OpenAI serves it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from gpicljax.llm.chat import ChatModel, Message, ModelError

_STATUS = {"context": (400, "context_length_exceeded"), "transient": (503, "transient")}
_STATUS |= {"refused": (403, "refused"), "broken": (502, "broken")}


class Request(NamedTuple):
    """A request; its body is parsed, None without one."""

    path: str
    body: Any
    headers: Mapping[str, str]


class Sent(NamedTuple):
    """An answer; content that is neither text nor bytes is sent as JSON."""

    status: int
    content: Any
    headers: Mapping[str, str] = {}
    length: int | None = None

    @property
    def encoded(self) -> bytes:
        """Returns the content as bytes."""
        text = self.content if isinstance(self.content, str | bytes) else json.dumps(self.content)
        return text.encode() if isinstance(text, str) else text


@contextmanager
def serve(answer: Callable[[Request], Sent | None]) -> Iterator[str]:
    """Answers all requests until the block is left, or hangs up; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = answer(Request(self.path, json.loads(content or b"null"), self.headers))
            if sent is None:
                return
            self.send_response(sent.status)
            for name, value in sent.headers.items():
                self.send_header(name, value)
            length = len(sent.encoded) if sent.length is None else sent.length
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(sent.encoded)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        # More conversations than by default may begin at the same time.
        daemon_threads, request_queue_size = True, 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Nothing: a client that goes away is no concern of the others."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat_answer(model: ChatModel, body: Any, honours: Sequence[str] = ()) -> Sent:
    """Returns a model's answer to a request for a chat; `honours` has its other entries."""
    if body.get("model") != model.name:
        return Sent(404, {"error": {"message": "no such model", "code": "model_not_found"}})
    if "response_format" in body and "response_format" not in honours:
        return Sent(400, {"error": {"message": "response_format: it would have no effect"}})
    messages = [Message(entry["role"], entry["content"]) for entry in body["messages"]]
    try:
        reply = model(messages, max_tokens=body["max_tokens"], seed=body["seed"] % 2**31)
    except ModelError as error:
        status, code = _STATUS[error.fault]
        return Sent(status, {"error": {"message": str(error), "code": code}})
    choice = {"message": {"role": "assistant", "content": reply.text}}
    counts = {"prompt_tokens": reply.usage.prompt, "completion_tokens": reply.usage.completion}
    return Sent(200, {"choices": [choice | {"finish_reason": reply.finish}], "usage": counts})


@contextmanager
def serve_chat_model(model: ChatModel, honours: Sequence[str] = ()) -> Iterator[str]:
    """Serves a model until the block is left; yields the endpoint's address, up to `/v1`."""

    def answer(request: Request) -> Sent:
        if request.path == "/v1/models":
            return Sent(200, {"data": [{"id": model.name}]})
        return chat_answer(model, request.body, honours)

    with serve(answer) as address:
        yield f"{address}/v1"
