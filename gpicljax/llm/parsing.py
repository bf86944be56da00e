"""What a reply chooses.

An answer stands in square brackets behind a word: `[SELECT: 2]`, or for several numbers
`[SELECT: 0.5, -1.0]`. Strictly, it stands there once and exactly like this; leniently, capitals and
blanks are as they come and the last one counts, which allows for reasoning before the answer.
"""

from __future__ import annotations

import math
import re
from typing import Literal, get_args

import numpy as np

from gpicljax import spaces
from gpicljax.checks import check, check_choice

Parsing = Literal["strict", "lenient"]
WORD = "SELECT"
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"


def marked(text: str, parsing: Parsing = "strict", word: str = WORD) -> str | None:
    """What stands in the brackets; None if nothing does, or strictly more than one.

    Args:
      text: a reply.
      parsing: see the module.
      word: before the colon.
    """
    check_choice("parsing", parsing, get_args(Parsing))
    if parsing == "strict":
        found = re.findall(rf"\[{re.escape(word)}: ([^\[\]]*)\]", text)
        return found[0] if len(found) == 1 else None
    found = re.findall(rf"\[\s*{re.escape(word)}\s*:\s*([^\[\]]*?)\s*\]", text, re.IGNORECASE)
    return found[-1] if found else None


def chosen(
    text: str, space: spaces.Space, parsing: Parsing = "strict", word: str = WORD
) -> np.ndarray | None:
    """The action that a reply chooses; None if it names none, or one that does not exist.

    Args:
      text: a reply.
      space: of actions: Discrete, MultiDiscrete, or a Box of floats.
      parsing: see the module.
      word: before the colon.

    Returns:
      `int32[]`, or an array of the space's shape.

    Raises:
      ValueError: for another space.
    """
    kinds = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    check(isinstance(space, kinds), "space", space, "Discrete, MultiDiscrete or Box")
    inside = marked(text, parsing, word)
    if inside is None:
        return None
    if isinstance(space, spaces.Discrete):
        pattern = r"[0-9]{1,9}" if parsing == "strict" else r"\s*(?:action\s*)?[0-9]{1,9}\s*"
        if not re.fullmatch(pattern, inside, re.IGNORECASE):
            return None
        number = int(re.sub(r"\D", "", inside))
        return np.asarray(number, np.int32) if number < space.n else None
    assert isinstance(space, spaces.MultiDiscrete | spaces.Box)
    parts = re.split(r", " if parsing == "strict" else r"[,;\s]+", inside.strip())
    whole = isinstance(space, spaces.MultiDiscrete)
    pattern = r"\d{1,9}" if whole else _NUMBER
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
