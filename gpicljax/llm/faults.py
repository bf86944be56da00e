"""Faults in the answers of servers with OpenAI's chat interface, by status, names and words.

Servers agree on few statuses and on no words. The tables of this module have the statuses, and the
parts of names and words, that tell a limit to the rate and a full context from other refusals.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpicljax.llm.chat import Fault

STATUS_FAULTS: Mapping[int, Fault] = {
    **dict.fromkeys((401, 402, 403, 404, 405, 501), "refused"),
    **dict.fromkeys((408, 409, 425, 429), "transient"),
}
"""Faults of statuses whatever the server says."""
RATE_WORDINGS = (
    r"\bper[\s_-]*(?:sec|min|hour|day)",
    r"/\s*(?:s|sec|min|minute|h|hour|day)\b",
    r"\brate[\s_-]?limit",
    r"\b[rt]p[smd]\b",
    r"quota",
)
"""Words for limits to the rate, which have a unit of time. They pass, a full context does not."""
CONTEXT_NAMES = ("context", "too_?large", "too_?long", "max_?length", "length_?exceeded")
"""Parts of the names of errors, which are for programs, that say that a context is full."""
_RATE, _CONTEXT = (re.compile("|".join(x), re.I) for x in (RATE_WORDINGS, CONTEXT_NAMES))
_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?![\w-]|\.\d)")
_WORDS = ("error", "errors", "message", "msg", "detail", "param", "loc", "metadata", "raw")


class ErrorReport(NamedTuple):
    """The error in an answer.

    Attributes:
      error: whether it is one.
      codes: names of the error, for programs.
      status: of HTTP within it; 0 if there is none.
      words: for people.
    """

    error: bool
    codes: tuple[str, ...]
    status: int
    words: str


def parse_json(text: str | bytes) -> Any:
    """Returns JSON; None for what is not, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def error_report(content: bytes) -> ErrorReport:
    """Returns the error in an answer, in the forms that servers have for it."""
    whole = parse_json(content)
    whole = whole[0] if isinstance(whole, list) and whole else whole
    if not isinstance(whole, dict):
        return ErrorReport(False, (), 0, content[:4000].decode(errors="replace"))
    fault = whole.get("error")
    choices = whole.get("choices")
    if not fault and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        fault = choices[0].get("error")
    error = bool(fault) or "error" in (whole.get("object"), whole.get("type"))
    entries = [part for part in (fault, whole) if isinstance(part, dict)]
    names = [
        entry[key]
        for entry in entries
        for key in ("code", "type", "error_type", "status")
        if isinstance(entry.get(key), str | int)
    ]
    numbers = [int(x) for x in names if re.fullmatch(r"[45]\d\d", str(x))]
    codes = tuple(x for x in names if isinstance(x, str))
    words = " ".join(_strings({"error": fault, **whole}, 6))
    return ErrorReport(error, codes, numbers[0] if numbers else 0, words)


def _strings(value: object, depth: int) -> list[str]:
    """Returns an error's words. What it repeats of the request is left out."""
    if isinstance(value, str):
        return [value]
    if depth == 0:
        return []
    if isinstance(value, list):
        return [text for item in value for text in _strings(item, depth - 1)]
    if not isinstance(value, dict):
        return []
    return [text for key in _WORDS for text in _strings(value.get(key), depth - 1)]


def fault_kind(
    status: int, report: ErrorReport, prompt: int, max_tokens: int, longest: int
) -> Fault:
    """Returns the kind of a refusal, by its status, its codes, and the length of the request.

    Args:
      status: of HTTP; 0 if there is none.
      report: what the answer says.
      prompt: tokens that were sent, estimated.
      max_tokens: the longest reply.
      longest: tokens of the longest prompt that was answered before; 0 if none was.
    """
    if 100 <= status < 400:
        return "refused"
    if status in STATUS_FAULTS:
        return STATUS_FAULTS[status]
    if _RATE.search(" ".join((*report.codes, report.words))):
        return "transient"
    if status == 413 or any(_CONTEXT.search(code) for code in report.codes):
        return "context"
    if status >= 500:
        return "broken" if status == 500 else "transient"
    # Windows are stated in tokens. An estimate may be wrong by a factor of two.
    stated = [int(text.replace(",", "")) for text in _NUMBER.findall(report.words[:4000])]
    windows = [n for n in stated if max(max_tokens, 255) < n <= 10_000_000 and n != status]
    most = 2 * prompt + max_tokens
    exceeded = any(n <= most for n in windows) or (windows and prompt > longest > 0)
    return "context" if status in (0, 400, 422) and exceeded else "unknown"


def seconds_to_wait(header: str | None) -> float | None:
    """Returns the seconds in `Retry-After`, a number or a date; None if it is neither."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(header or "")
            seconds = max(date.timestamp() - time.time(), 0.0)
        except (ValueError, OverflowError, OSError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
