"""Answers in replies of language models.

An answer stands in square brackets behind a word: `[SELECT: 2]`, or for several numbers
`[SELECT: 0.5, -1.0]`. Strictly, it stands there once and exactly like this; leniently, capitals and
blanks are as they come and the last one counts, which allows for reasoning before the answer. So
are brackets and emphasis around numbers, typographic minus signs and full-width characters, and an
integer may be written with zeros behind its point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from gpicljax import spaces
from gpicljax.checks import check, check_choice

Parsing = Literal["strict", "lenient"]
WORD = "SELECT"
# Minus signs and hyphens; full-width characters; brackets escaped for Markdown or LaTeX.
_PLAIN = str.maketrans(
    dict.fromkeys("\N{MINUS SIGN}\u2010\u2011\u2012\u2013\ufe63", "-")
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {"\u3010": "[", "\u3011": "]", "\u3000": " ", "\\": ""}
)
_PAIRS = ("[]", "()", "<>", "{}")
_AROUND = " \t\r\n*`'\"$_"
_WHOLE = r"\+?[0-9]{1,9}(?:\.0*)?"
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"


def plain_text(text: str) -> str:
    """Returns a text with plain minus signs and brackets, and without backslashes."""
    return text.translate(_PLAIN)


def bracketed_answer(text: str, parsing: Parsing = "strict", word: str = WORD) -> str | None:
    """Returns the content of the answer's brackets; None without any, or strictly with more than
    one.
    """
    check_choice("parsing", parsing, get_args(Parsing))
    if parsing == "strict":
        matches = re.findall(rf"\[{re.escape(word)}: ([^\[\]]*)\]", text)
        return matches[0] if len(matches) == 1 else None
    # Vectors may have brackets of their own, and matrices those of their rows.
    row = r"\[[^\[\]:]*\]"
    inside = rf"(?:[^\[\]]|\[(?:[^\[\]:]|{row})*\])*"
    marks = rf"\[\s*{re.escape(word)}\s*:({inside})\]"
    matches = re.findall(marks, plain_text(text), re.IGNORECASE)
    return _unwrap(matches[-1]) if matches else None


def _unwrap(text: str) -> str:
    """Without brackets, quotation marks or emphasis around the whole."""
    text = text.strip(_AROUND)
    while len(text) > 1 and text[0] + text[-1] in _PAIRS and text[0] not in text[1:-1]:
        text = text[1:-1].strip(_AROUND)
    return text


def _number_in(text: str, parsing: Parsing) -> int | None:
    """Returns the number of a choice; strictly, brackets without a number in them do not count."""
    check_choice("parsing", parsing, get_args(Parsing))
    if parsing == "strict":
        numbers = re.findall(rf"\[{WORD}: ([0-9]+)\]", text)
        return int(numbers[0]) if len(numbers) == 1 and len(numbers[0]) < 10 else None
    inside = bracketed_answer(text, parsing) or ""
    match = re.fullmatch(rf"(?:action\s*)?({_WHOLE})", inside, re.IGNORECASE)
    return None if match is None else int(float(match[1]))


def chosen_name(text: str, names: Sequence[str], parsing: Parsing = "strict") -> np.ndarray | None:
    """Returns the number of the name that a reply chooses; None if it chooses none of them.

    Leniently, capitals do not matter, nor does a word that precedes or follows.

    Returns:
      `int32[]`.
    """
    inside = bracketed_answer(text, parsing)
    if inside is None:
        return None
    if parsing == "strict":
        matches = [n for n, name in enumerate(names) if name == inside]
    else:
        words = re.findall(r"\w+", inside.lower())
        matches = [n for n, name in enumerate(names) if name.lower() in words]
    return np.asarray(matches[0], np.int32) if len(matches) == 1 else None


def chosen(text: str, space: spaces.Space, parsing: Parsing = "strict") -> np.ndarray | None:
    """Returns the action that a reply chooses; None if it names none, or one that does not exist.

    Args:
      text: a reply.
      space: of actions: Discrete, MultiDiscrete, or a Box of floats.
      parsing: see the module.

    Returns:
      `int32[]`, or an array of the space's shape.
    """
    kinds = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    check(isinstance(space, kinds), "space", space, "Discrete, MultiDiscrete or Box")
    if isinstance(space, spaces.Discrete):
        number = _number_in(text, parsing)
        return None if number is None or number >= space.n else np.asarray(number, np.int32)
    inside = bracketed_answer(text, parsing)
    if inside is None:
        return None
    assert isinstance(space, spaces.MultiDiscrete | spaces.Box)
    strict = parsing == "strict"
    parts = re.split(r", ", inside.strip()) if strict else re.findall(r"[^,;\s\[\]()]+", inside)
    whole = isinstance(space, spaces.MultiDiscrete)
    pattern = (r"\d{1,9}" if strict else _WHOLE) if whole else _NUMBER
    if len(parts) != math.prod(space.shape) or not all(re.fullmatch(pattern, p) for p in parts):
        return None
    values = np.asarray([float(part) for part in parts]).reshape(space.shape)
    if whole:
        fits = (values < np.asarray(space.nvec)).all()
        return values.astype(np.int32) if fits else None
    assert isinstance(space, spaces.Box)
    inside_bounds = np.isfinite(values).all() and (values >= space.low).all()
    return (
        values.astype(space.jax_dtype) if inside_bounds and (values <= space.high).all() else None
    )
