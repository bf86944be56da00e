"""A client for servers with OpenAI's chat interface: hosted ones, llama.cpp, vLLM and others.

Needs `httpx`: `pip install "gpicljax[llm]"`.

The key is read from the environment when it is needed and is sent to the server alone: it stands in
no attribute, and whatever a server says is cleaned of it before it is shown or kept.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from gpicljax.checks import Count, Range, check, check_fields, missing, unknown
from gpicljax.llm.chat import Message, ModelError, Reply, Usage, usage_of

try:
    import httpx
except ModuleNotFoundError as error:
    raise missing("httpx", "llm") from error


_QUOTED = 300  # characters of a server's words that a message repeats
_TOO_LONG = (
    "context_length",
    "context length",
    "context size",
    "maximum context",
    "too many token",
)


@dataclasses.dataclass(frozen=True)
class OpenAICompatible:
    """A model behind an endpoint with OpenAI's `chat/completions`.

    Attributes:
      endpoint: its address up to `/v1`, such as `http://127.0.0.1:8080/v1`.
      model: the model's name there.
      key_variable: of the environment, which has the key; None where none is needed.
      timeout: seconds without a sign of life after which a request is given up.
      temperature: of its choices; None for the server's own.
      send_seed: whether to send seeds; some servers refuse them.
      options: what else a request has, such as a grammar; JSON as text.
      most_bytes: of an answer; longer ones are not read to their end.

    Raises:
      ValueError: for an address that is none, or has a key in it.

    Example:
      >>> model = OpenAICompatible("http://127.0.0.1:8080/v1", "tiny", key_variable=None)
      >>> model.name
      'tiny'
      >>> OpenAICompatible("127.0.0.1:8080", "tiny")
      Traceback (most recent call last):
      ValueError: endpoint: got '127.0.0.1:8080'; accepted: an address such as http://...
    """

    endpoint: str
    model: str
    key_variable: str | None = "OPENAI_API_KEY"
    timeout: Annotated[float, Range(above=0)] = 60.0
    temperature: Annotated[float, Range(0)] | None = None
    send_seed: bool = True
    options: str = "{}"
    most_bytes: Count = 2_000_000

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.endpoint)
            secret = bool(parts.username or parts.password or parts.query)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            secret = whole = False
        # Not shown: there may be a key in it.
        hidden = f"an address with a name, a password or a query, of {len(self.endpoint)} letters"
        accepted = "an address such as http://127.0.0.1:8080/v1, without any of these"
        check(not secret, "endpoint", hidden, accepted)
        check(whole, "endpoint", self.endpoint, "an address such as http://127.0.0.1:8080/v1")
        check_fields(self)
        try:
            options = json.loads(self.options)
        except ValueError:
            options = None
        check(isinstance(options, dict), "options", self.options, "a JSON object, as text")

    @property
    def name(self) -> str:
        """The model's."""
        return self.model

    @property
    def about(self) -> Mapping[str, Any]:
        """How it chooses. Not where it is: a server that is started again may be elsewhere."""
        return {"temperature": self.temperature, "options": self.options}

    # Before anything is spent ------------------------------------------------------------------

    def check(self) -> None:
        """Refuses a missing key, an endpoint out of reach, a key it refuses, an unknown model.

        It asks for the list of models, which costs nothing; a server that has none is believed.

        Raises:
          ValueError: names the argument, what was given and what is accepted.
        """
        self._key()
        try:
            with httpx.Client(timeout=min(self.timeout, 10.0), verify=self._verify) as client:
                answer = client.get(f"{self._base}/models", headers=self._headers())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = type(error).__name__
            check(False, "endpoint", f"{self.endpoint} ({why})", "a server that can be reached")
            return
        if answer.status_code in (401, 403):
            found = f"a key that the server refuses ({answer.status_code})"
            check(False, str(self.key_variable), found, "one that it accepts")
        try:
            names = [str(each["id"]) for each in answer.json()["data"]]
        except (ValueError, KeyError, TypeError):
            return
        if answer.status_code == 200 and names and self.model not in names:
            raise ValueError(self._clean(unknown("model", self.model, names)))

    def _key(self) -> str:
        """The key, or nothing where none is needed."""
        if self.key_variable is None:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        accepted = f"a key in the environment variable {self.key_variable}, or key_variable=None"
        check(key, "key_variable", f"no {self.key_variable} in the environment", accepted)
        return key

    @property
    def _verify(self) -> bool:
        """Whether certificates are looked at; reading those that are known takes a while."""
        return self.endpoint.startswith("https")

    @property
    def _base(self) -> str:
        return self.endpoint.rstrip("/")

    def _headers(self) -> dict[str, str]:
        key = self._key()
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _clean(self, text: str) -> str:
        """Without the key."""
        key = os.environ.get(self.key_variable or "", "").strip()
        return text.replace(key, "***") if key else text

    # Asking ------------------------------------------------------------------------------------

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """See `chat.ChatModel`."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [message._asdict() for message in messages],
            "max_tokens": max_tokens,
        }
        if self.send_seed:
            body["seed"] = seed
        if self.temperature is not None:
            body["temperature"] = self.temperature
        body |= json.loads(self.options)
        try:
            status, headers, content = self._post(body)
        except (httpx.HTTPError, httpx.StreamError) as error:
            # Its own words may name headers: only its kind is told.
            raise ModelError(f"no answer ({type(error).__name__})", "transient") from None
        if status != 200:
            raise self._refusal(status, headers, content)
        return self._reply(messages, content)

    def _post(self, body: Mapping[str, Any]) -> tuple[int, Any, bytes]:
        """Status, headers and content of the answer."""
        with (
            httpx.Client(timeout=self.timeout, verify=self._verify) as client,
            client.stream(
                "POST", f"{self._base}/chat/completions", json=dict(body), headers=self._headers()
            ) as answer,
        ):
            content = bytearray()
            for part in answer.iter_bytes():
                content += part
                if len(content) > self.most_bytes:
                    words = f"an answer of more than {self.most_bytes} bytes"
                    raise ModelError(words, "useless")
            return answer.status_code, answer.headers, bytes(content)

    def _refusal(self, status: int, headers: Any, content: bytes) -> ModelError:
        said = self._clean(content[:4000].decode(errors="replace")).strip()
        words = f"the server answers {status}: {said[:_QUOTED]}"
        if status in (400, 413, 422) and any(hint in said.lower() for hint in _TOO_LONG):
            return ModelError(words, "context")
        if status in (408, 409, 425, 429) or status >= 500:
            return ModelError(words, "transient", _seconds(headers.get("retry-after")))
        return ModelError(words, "refused")

    def _reply(self, messages: Sequence[Message], content: bytes) -> Reply:
        try:
            answer = json.loads(content)
            choice = answer["choices"][0]
            text = choice["message"].get("content") or ""
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ModelError("an answer that is cut off or malformed", "transient") from None
        if not isinstance(text, str):
            raise ModelError("an answer without text", "transient")
        text = self._clean(text)
        usage = usage_of(messages, text)
        told = answer.get("usage")
        if isinstance(told, dict):
            counts = (told.get("prompt_tokens"), told.get("completion_tokens"))
            if all(isinstance(count, int) and count >= 0 for count in counts):
                usage = Usage(*counts)  # type: ignore[arg-type]
        return Reply(text, usage, str(choice.get("finish_reason") or "stop"))


def _seconds(header: str | None) -> float | None:
    """What `Retry-After` asks for, if it is a number."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
