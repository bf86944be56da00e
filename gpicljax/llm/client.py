"""A client for servers with OpenAI's chat interface: hosted ones, llama.cpp, vLLM and others.

Needs `httpx`: `pip install "gpicljax[llm]"`.

The key is read from the environment when it is needed and is sent to the server alone: it stands in
no attribute, and whatever a server says is cleaned of it before it is shown or kept.

Servers differ in what they accept. A refused request is sent again in another form (the system's
message within the user's first, `max_completion_tokens` in place of `max_tokens`); the form that is
accepted is kept for all further requests.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import ipaddress
import json
import os
import re
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

from gpicljax.checks import Count, Range, check, check_fields, missing, refusal, unknown_choice
from gpicljax.llm.chat import (
    Message,
    ModelError,
    Reply,
    Usage,
    believed_usage,
    sound_text,
    usage_of,
)
from gpicljax.llm.faults import error_report, fault_kind, parse_json, seconds_to_wait
from gpicljax.typing import JsonObject

try:
    import httpx
except ModuleNotFoundError as error:
    raise missing("httpx", "llm") from error


_QUOTED = 300  # characters of a server's words that a message repeats
_LIMITS = ("max_tokens", "max_completion_tokens")
_FINISHES = ("stop", "length", "refusal", "content_filter", "tool_calls", "function_call")
_PROBE_TOKENS = 16
_PASTED = r"(?:/+(?:chat/+)?completions|/+models|/+responses)?/*$"  # behind an address up to /v1
_FORM_HINTS = {
    "limit": re.compile("|".join(_LIMITS)),
    "folded": re.compile(r"\bsystem[ _](?:role|message|prompt)|\broles?\b", re.I),
}
"""Words of a refusal for the form of a request, by what is to be changed in `_RequestForm`."""

_FAILURES = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, UnicodeError)

Result = TypeVar("Result")


class _RequestForm(NamedTuple):
    """The form in which requests are written.

    Attributes:
      folded: whether the system's message is within the user's first.
      limit: the name of the longest reply's length.
    """

    folded: bool = False
    limit: str = _LIMITS[0]


@dataclasses.dataclass
class _ServerState:
    """The properties of a server that its answers have shown, for all threads.

    Attributes:
      form: of the requests that it accepts.
      longest: tokens of the longest prompt that it answered; 0 before the first.
      probed: whether all forms were tried in vain.
    """

    form: _RequestForm = _RequestForm()
    longest: int = 0
    probed: bool = False


@dataclasses.dataclass(frozen=True)
class OpenAICompatible:
    """A model behind an endpoint with OpenAI's `chat/completions`.

    Attributes:
      endpoint: its address up to `/v1`, such as `http://127.0.0.1:8080/v1`; what is often pasted
        behind it (`/chat/completions`, a slash) is left out.
      model: the model's name there.
      key_variable: of the environment, which has the key; None where none is needed.
      timeout: seconds after which a request whose answer is not whole is given up.
      temperature: of its choices; None for the server's own.
      send_seed: whether to send seeds; some servers refuse them.
      options: what else a request has, such as a grammar; JSON as text. Entries that are null are
        left out. It may set the length of replies, but not the model, the messages or streaming.
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
    _known: _ServerState = dataclasses.field(
        default_factory=_ServerState, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.endpoint)
            secret = bool(parts.username or parts.password or parts.query)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            secret = whole = False
        # Not shown: there may be a key in it.
        hidden = f"an address with a name, a password or a query, of {len(self.endpoint)} letters"
        accepted_values = "an address such as http://127.0.0.1:8080/v1, without any of these"
        check(not secret, "endpoint", hidden, accepted_values)
        check(whole, "endpoint", self.endpoint, "an address such as http://127.0.0.1:8080/v1")
        check_fields(self)
        object.__setattr__(self, "endpoint", re.sub(_PASTED, "", self.endpoint))
        options = parse_json(self.options)
        check(isinstance(options, dict), "options", self.options, "a JSON object, as text")
        reserved = sorted(options.keys() & {"model", "messages", "stream"})
        check(
            not reserved, "options", self.options, "entries other than model, messages and stream"
        )

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Temperature and options. The address is left out: a server may be started elsewhere."""
        return {"temperature": self.temperature, "options": self.options}

    # Before anything is spent ------------------------------------------------------------------

    def check(self) -> None:
        """Refuses a missing key, an endpoint out of reach, a key or a model that it refuses.

        It asks for the list of models, which costs nothing; where there is none, an empty request
        shows whether chats are answered at this address. A model that is not in the list may be
        known by another name: a request of a few tokens shows whether the server accepts it.

        Warns:
          UserWarning: if the name is not in the list, and the server is too busy to say.

        Raises:
          ValueError: names the argument, what was given and what is accepted.
        """
        self._key()
        timeout = min(self.timeout, 10.0)
        try:
            answer = self._exchange("GET", "models", None, timeout)
            names = _model_names(answer)
            if not names and answer.status_code not in (401, 403):
                answer = self._exchange("POST", "chat/completions", {}, timeout)
                self._check_place(answer, timeout)
        except _FAILURES as error:
            address = f"{self.endpoint} ({self._failure(error, timeout)})"
            check(False, "endpoint", address, "a server that can be reached")
            return
        if answer.status_code in (401, 403):
            address = f"a key that the server refuses ({answer.status_code})"
            check(False, str(self.key_variable), address, "one that it accepts")
        if names and self.model not in names:
            self._probe(names)

    def _check_place(self, answer: httpx.Response, timeout: float) -> None:
        """Refuses an address that answers no chats; names the one that does, if it is near."""
        if 300 <= answer.status_code < 400:
            location = answer.headers.get("location", "")
            leads = urljoin(f"{self.endpoint}/", location) if location else ""
            place = sound_text(self._clean(re.sub(_PASTED, "", leads)))[:_QUOTED]
            address = f"{self.endpoint}, from where the server leads on ({answer.status_code})"
            check(False, "endpoint", address, repr(place) if place else "where it leads")
        if answer.status_code in (404, 405, 501):
            address = f"{self.endpoint}, where no chats are answered ({answer.status_code})"
            models = _model_names(self._exchange("GET", "v1/models", None, timeout))
            check(False, "endpoint", address, f"{self.endpoint}/v1" if models else "one up to /v1")

    def _probe(self, names: Sequence[str]) -> None:
        """Asks whether a model is served that is not in the list."""
        try:
            self([Message("user", "Hello")], max_tokens=_PROBE_TOKENS, seed=0)
        except ModelError as error:
            refused = error.fault in ("refused", "unknown")
            # A server without an answer to such requests is asked by the list alone.
            silent = re.match(r"the server answers (?:405|501)\b", str(error))
            bases = {name.partition(":")[0] for name in names}
            if refused and not (silent and self.model.partition(":")[0] in bases):
                words = f"{unknown_choice('model', self.model, names)}; {error}"
                raise ValueError(sound_text(self._clean(words))) from None
            warnings.warn(
                f"model {self.model!r} is not in the server's list, and a first request did not "
                f"show whether it is served: {error}",
                stacklevel=3,
            )

    def _key(self) -> str:
        """Returns the key, or nothing where none is needed."""
        if self.key_variable is None:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        accepted_values = (
            f"a key in the environment variable {self.key_variable}, or none where none is needed"
        )
        check(key, "key_variable", f"no {self.key_variable} in the environment", accepted_values)
        sound = key.isascii() and key.isprintable()
        bad_key = f"a key in {self.key_variable} with characters that no header can have"
        check(sound, "key_variable", bad_key, "a key of printable ASCII characters")
        return key

    @property
    def _local(self) -> bool:
        """Whether the server is on this machine, where no proxy leads to."""
        return is_local(self.endpoint)

    def _clean(self, text: str) -> str:
        """Without the key."""
        key = os.environ.get(self.key_variable or "", "").strip()
        return text.replace(key, "***") if key else text

    # Asking ------------------------------------------------------------------------------------

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """Returns a reply, to a request in a form that the server accepts if there is one."""
        form, tried, untried = self._known.form, list[_RequestForm](), list[_RequestForm]()
        while True:
            tried.append(form)
            measured = usage_of(messages, "")._replace(requests=len(tried))
            try:
                body = self._body(messages, max_tokens, seed, form)
                answer = self._exchange("POST", "chat/completions", body, self.timeout)
            except ValueError as error:
                raise ModelError(str(error), "refused", usage=Usage(0, 0, 0)) from None
            except _FAILURES as error:
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                cost = measured._replace(prompt=0) if unsent else measured
                why = self._failure(error, self.timeout)
                raise ModelError(why, "transient", usage=cost) from None
            fault = self._fault(answer, measured, max_tokens)
            if fault is None:
                self._known.form = form
                reply = self._reply(answer, measured, max_tokens)
                self._known.longest = max(self._known.longest, measured.prompt)
                return reply
            untried = [*self._other_forms(form, answer, fault, messages), *untried]
            untried = [candidate for candidate in untried if candidate not in tried]
            if not untried:
                self._known.probed = self._known.probed or fault.fault == "unknown"
                raise fault
            form = untried.pop(0)

    def _other_forms(
        self,
        form: _RequestForm,
        answer: httpx.Response,
        fault: ModelError,
        messages: Sequence[Message],
    ) -> list[_RequestForm]:
        """Forms in which a refused request may be accepted.

        The first is the one that another thread may have found meanwhile. Before anything was
        accepted, all are tried once, whatever the server says. Later, its words have to name what
        they differ in: a wrong guess costs no more than a request.
        """
        words = error_report(answer.content).words
        changes: dict[str, Any] = {}
        if not parse_json(self.options).keys() & set(_LIMITS):
            changes["limit"] = _LIMITS[form.limit == _LIMITS[0]]
        if any(message.role == "system" for message in messages):
            changes["folded"] = not form.folded
        named = {name: x for name, x in changes.items() if _FORM_HINTS[name].search(words)}
        if fault.fault != "unknown" and not (answer.status_code == 500 and "folded" in named):
            return []
        tries_all = not (named or self._known.longest or self._known.probed)
        single = changes if tries_all else named
        forms = [form._replace(**{name: value}) for name, value in single.items()]
        return [self._known.form, *forms] + [form._replace(**changes)] * tries_all

    def _body(
        self, messages: Sequence[Message], max_tokens: int, seed: int, form: _RequestForm
    ) -> dict[str, Any]:
        sent = _fold_system_message(messages) if form.folded else messages
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": role, "content": sound_text(content)} for role, content in sent],
        }
        options = parse_json(self.options)
        if not options.keys() & set(_LIMITS):
            body[form.limit] = max_tokens
        if self.send_seed:
            body["seed"] = seed
        if self.temperature is not None:
            body["temperature"] = self.temperature
        return body | {name: value for name, value in options.items() if value is not None}

    def _exchange(
        self, method: str, path: str, body: JsonObject | None, timeout: float
    ) -> httpx.Response:
        """Returns an answer, cut where it is too long; `timeout` is for the whole of it."""
        key = self._key()
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        sent = None if body is None else json.dumps(body).encode()

        async def exchange() -> httpx.Response:
            async with (
                asyncio.timeout(timeout),
                self._http_client(timeout) as client,
                client.stream(
                    method, f"{self.endpoint}/{path}", content=sent, headers=headers
                ) as answer,
            ):
                content = bytearray()
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > self.most_bytes:
                        break
                names = answer.headers.keys() & {"retry-after", "location"}
                headers_read = {name: answer.headers[name] for name in names}
                return httpx.Response(
                    answer.status_code, headers=headers_read, content=bytes(content)
                )

        return _run_coroutine(exchange)

    def _http_client(self, timeout: float) -> httpx.AsyncClient:
        # Reading the certificates that are known takes a while.
        secure = self.endpoint.startswith("https")
        try:
            return httpx.AsyncClient(timeout=timeout, verify=secure, trust_env=not self._local)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            proxy = f"one that cannot be used ({type(error).__name__})"
            accepted_values = (
                "an address such as http://127.0.0.1:3128; pip install 'httpx[socks]' for SOCKS; "
                "or NO_PROXY for this server"
            )
            raise ValueError(refusal("proxy of the environment", proxy, accepted_values)) from None

    def _failure(self, error: Exception, timeout: float) -> str:
        """Why there is no answer. An error's own words may name headers: only its kind is told."""
        why = type(error).__name__
        if isinstance(error, TimeoutError):
            why = f"ReadTimeout: it was not whole after {timeout:g} seconds"
        proxy = ", through a proxy of the environment" if getproxies() and not self._local else ""
        return f"no answer ({why}{proxy})"

    def _quote(self, answer: httpx.Response) -> str:
        """Returns the beginning of an answer, without the key."""
        return self._clean(answer.content[:4000].decode(errors="replace")).strip()[:_QUOTED]

    def _fault(self, answer: httpx.Response, measured: Usage, max_tokens: int) -> ModelError | None:
        """Returns the fault that an answer reports; None if it is no refusal."""
        report = error_report(answer.content)
        status = answer.status_code
        if answer.is_success:
            if not report.error:
                return None
            status = report.status
        words = f"the server answers {answer.status_code}: {self._quote(answer)}"
        if location := answer.headers.get("location"):
            words += f" (it leads on to {self._clean(location)[:_QUOTED]!r})"
        fault = fault_kind(status, report, measured.prompt, max_tokens, self._known.longest)
        wait = seconds_to_wait(answer.headers.get("retry-after"))
        return ModelError(words, fault, wait, Usage(0, 0, measured.requests))

    def _reply(self, answer: httpx.Response, measured: Usage, max_tokens: int) -> Reply:
        if len(answer.content) > self.most_bytes:
            words = f"an answer of more than {self.most_bytes} bytes"
            cost = measured._replace(completion=max_tokens)
            raise ModelError(words, "useless", usage=cost)
        body = parse_json(answer.content)
        try:
            choice = body["choices"][0]
            content, refusal = (choice["message"].get(name) for name in ("content", "refusal"))
            finish, counts = choice.get("finish_reason"), body.get("usage")
            if not isinstance(content, str | list | None):
                raise TypeError("no text")
        except (LookupError, TypeError, AttributeError):
            words = f"an answer that is cut off or malformed: {self._quote(answer)}"
            raise ModelError(words, "broken", usage=measured) from None
        parts = content if isinstance(content, list) else [content]
        content_text = "".join(map(_part_text, parts))
        refusals = [refusal, *(part.get("refusal") for part in parts if isinstance(part, dict))]
        refused = "".join(words for words in refusals if isinstance(words, str))
        text = sound_text(self._clean(content_text or refused))
        measured = measured._replace(completion=usage_of([], text).completion)
        if isinstance(counts, dict):
            pair = counts.get("prompt_tokens"), counts.get("completion_tokens")
            measured = believed_usage(pair, measured, max_tokens)
        if not (isinstance(finish, str) and finish in _FINISHES):
            shown = sound_text(finish[:40]) if isinstance(finish, str) else type(finish).__name__
            finish = f"other: {shown}" if finish else "stop"
        if refused and not content_text:
            finish = "refusal"
        return Reply(text, measured, finish)


def is_local(endpoint: str) -> bool:
    """Returns whether an address is one of this machine."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def _run_coroutine(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """The result of a coroutine, also where this thread has a running loop, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


def _fold_system_message(messages: Sequence[Message]) -> list[Message]:
    """Messages without a system's: the first one of the user begins with it."""
    parts = [message.content for message in messages if message.role == "system"]
    conversation = [message for message in messages if message.role != "system"]
    if conversation and conversation[0].role == "user":
        parts.append(conversation.pop(0).content)
    return [Message("user", "\n\n".join(parts)), *conversation] if parts else conversation


def _part_text(part: Any) -> str:
    """Returns the text of a part of a content; empty for reasoning, and what is for programs."""
    if isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
        part = part.get("text")
    return part if isinstance(part, str) else ""


def _model_names(answer: httpx.Response) -> list[str]:
    """Returns the names in a list of models; empty where there is none."""
    try:
        names = [entry["id"] for entry in parse_json(answer.content)["data"]]
    except (LookupError, TypeError):
        return []
    return [name for name in names if isinstance(name, str)] if answer.status_code == 200 else []
