"""Our own chat server: requests as clients write them, and requests that it refuses in words."""

import json
import socket

import pytest
from chat_server import answer_to, serve_chat_model

from gpicljax.llm.chat import FakeModel, ModelError

httpx = pytest.importorskip("httpx")
USER = {"role": "user", "content": "Which arm?"}


def echo(heard):
    def answer(messages, seed):
        heard.append([tuple(message) for message in messages])
        return "one two three four five six"

    return FakeModel(answer, name="echo")


@pytest.mark.parametrize(
    "content, text",
    [
        ("Which arm?", "Which arm?"),
        ([{"type": "text", "text": "Which "}, {"type": "text", "text": "arm?"}], "Which arm?"),
        (["Which ", {"text": "arm?"}], "Which arm?"),
        ({"type": "input_text", "text": "Which arm?"}, "Which arm?"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_contents_are_text_or_parts(content, text):
    heard = []
    status, _ = answer_to(echo(heard), {"messages": [{"role": "user", "content": content}]})
    assert status == 200 and heard == [[("user", text)]]


@pytest.mark.parametrize(
    "body, words",
    [
        ({}, "messages: got None"),
        ({"messages": []}, "messages: got"),
        ({"messages": "Which?"}, "messages: got 'Which?'"),
        ({"messages": [None]}, "messages: got"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content: got None"),
        ({"messages": [USER, {"role": "user", "content": 7}]}, "messages[1].content: got 7"),
        ({"messages": [{"role": "user", "content": {"text": None}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "parts that have"),
        ({"messages": [USER | {"role": "developer"}]}, "system, user, assistant"),
        ({"messages": [USER | {"role": ["user"]}]}, "messages[0].role"),
        ({"messages": [{"content": "?"}]}, "messages[0].role: got None"),
        ({"messages": [USER], "stream": True}, "stream: got True"),
        ({"messages": [USER], "n": 2}, "n: got 2"),
        ({"messages": [USER], "max_tokens": "9"}, "max_tokens: got '9'"),
        ({"messages": [USER], "max_completion_tokens": -1}, "got -1"),
        ({"messages": [USER], "max_tokens": True}, "max_tokens: got True"),
        ({"messages": [USER], "seed": float("nan")}, "seed: got nan"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(body, words):
    heard = []
    status, answer = answer_to(echo(heard), body)
    assert status == 400 and words in answer["error"]["message"] and not heard


def test_limits_and_seeds():
    for limits, tokens in (
        ({"max_completion_tokens": 1}, 1),
        ({"max_tokens": 2}, 2),
        ({"max_tokens": 5, "max_completion_tokens": 3}, 3),
        ({"max_tokens": None}, 7),
    ):
        status, answer = answer_to(echo([]), {"messages": [USER], "seed": 2**70, **limits})
        assert status == 200 and answer["usage"]["completion_tokens"] == tokens


def test_faults_of_a_model_are_answers():
    for fault, status in (("context", 400), ("transient", 503), ("unknown", 400)):
        model = FakeModel("?", faults={0: ModelError("no", fault)})
        assert answer_to(model, {"messages": [USER]})[0] == status
    status, answer = answer_to(FakeModel("?", faults={0: KeyError("x")}), {"messages": [USER]})
    assert status == 500 and "the model failed: KeyError" in answer["error"]["message"]


def raw(endpoint, text):
    """The answer to bytes that are sent as they are."""
    port = int(endpoint.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_requests_of_pages_and_strangers_are_refused(capfd):
    heard = []
    with serve_chat_model(echo(heard), hosts=["gpu.lab"]) as endpoint:
        for headers, status in (
            ({}, 200),
            ({"Host": "localhost:99"}, 200),
            ({"Host": "[::1]:8080"}, 200),
            ({"Host": "GPU.lab"}, 200),
            ({"Origin": "http://localhost:3000"}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Host": "localhost.evil.example"}, 403),
            ({"Host": "evil@localhost"}, 403),
            ({"Host": "[::1"}, 403),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
        ):
            heard.clear()
            body = {"messages": [USER]}
            answer = httpx.post(f"{endpoint}/chat/completions", json=body, headers=headers)
            assert answer.status_code == status, headers
            assert len(heard) == (status == 200)
            listed = httpx.get(f"{endpoint}/models", headers=headers)
            assert listed.status_code == status, headers
            if status == 403:
                assert "accepted: names of this machine" in answer.json()["error"]["message"]
        assert b" 403 " in raw(endpoint, b"GET /v1/models HTTP/1.0\r\n\r\n")
    with (
        pytest.raises(ValueError, match="hosts: got 'gpu.lab'"),
        serve_chat_model(FakeModel("?"), 0, "gpu.lab"),
    ):
        pass
    assert "Traceback" not in capfd.readouterr().err


def test_bodies_in_chunks_are_read_and_bad_ones_refused(capfd):
    body = json.dumps({"messages": [USER], "max_tokens": 1}).encode()
    with serve_chat_model(echo([])) as endpoint:
        path = f"{endpoint}/chat/completions"
        assert httpx.post(path, content=iter([body[:9], body[9:]])).status_code == 200
        for content in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
            answer = httpx.post(path, content=content)
            assert answer.status_code == 400
            assert answer.json()["error"]["message"] == "a JSON object is needed"
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        for rest in (
            b"\r\n{}",
            b"Content-Length: -1\r\n\r\n{}",
            b"Content-Length: x\r\n\r\n{}",
            b"Content-Length: 99999999999\r\n\r\n{}",
            b"Transfer-Encoding: gzip\r\n\r\n{}",
            b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n{}",
        ):
            answer = raw(endpoint, head + rest)
            assert answer.startswith(b"HTTP/1.0 400 ") and b'"message": ' in answer, rest
        raw(endpoint, head + b"Content-Length: 50\r\n\r\n{")
        assert httpx.post(f"{endpoint}/embeddings", json={}).status_code == 404
        assert httpx.get(f"{endpoint}/models?limit=1").json()["data"][0]["id"] == "echo"
    assert "Traceback" not in capfd.readouterr().err
