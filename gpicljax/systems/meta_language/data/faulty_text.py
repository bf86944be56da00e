"""Two little languages with mistakes in them: words to spell, and sums to get right.

A model that copies the context repeats its mistakes; one that has learnt the language makes fewer.

Source: appendix A.4 and Figure 16 of the GPICL benchmarks paper. The words are our own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.systems.meta_language.data.text import LETTERS

WORDS = tuple(
    """
    apple bread chair cloud dance eagle field flower garden green house island jacket kitchen
    lemon light market meadow morning mountain music night ocean orange paper people planet
    queen rabbit river school silver stone summer table teacher tiger water window yellow
    """.split()  # noqa: SIM905
)
"""Forty words."""

SUM_SYMBOLS = "0123456789+-=;"
END = ";"


class Judgement(NamedTuple):
    """The items of a text from its first to its last `;`, and the number of wrong ones."""

    items: int
    wrong: int


def words(seed: int, count: int = 400, wrong: float = 0.15, different: int = len(WORDS)) -> str:
    """Returns `WORDS` in random order, each followed by `;`; some with one letter replaced.

    Args:
      seed: of the draws.
      count: words.
      wrong: share of them with a mistake, in [0, 1].
      different: how many of `WORDS` are used; which, is drawn.
    """
    _check(count, wrong)
    fits = 1 <= different <= len(WORDS)
    check(fits, "different", different, f"an integer from 1 to {len(WORDS)}")
    draw = np.random.default_rng(seed)
    used = draw.permutation(len(WORDS))[:different]
    items = [WORDS[i] for i in draw.choice(used, size=count)]
    for i in np.flatnonzero(draw.random(count) < wrong):
        place = int(draw.integers(len(items[i])))
        letter = str(draw.choice([c for c in LETTERS if c != items[i][place]]))
        items[i] = items[i][:place] + letter + items[i][place + 1 :]
    return "".join(item + END for item in items)


def sums(seed: int, count: int = 400, wrong: float = 0.15) -> str:
    """Sums and differences of small numbers (a <= 5, b <= 4, nothing negative), some of them wrong.

    Args:
      seed: of the draws.
      count: equations, each followed by `;`.
      wrong: share of them with another result, in [0, 1].
    """
    _check(count, wrong)
    draw = np.random.default_rng(seed)
    items = []
    for mistaken in draw.random(count) < wrong:
        a = int(draw.integers(6))
        minus = bool(draw.random() < 0.5)
        b = int(draw.integers(min(a, 4) + 1 if minus else 5))
        result = a - b if minus else a + b
        if mistaken:
            result = int(draw.choice([c for c in range(10) if c != result]))
        items.append(f"{a}{'-' if minus else '+'}{b}={result}{END}")
    return "".join(items)


def judge_words(text: str) -> Judgement:
    """Counts words that are none of `WORDS`. What stands before the first `;` does not count."""
    items = text.split(END)[1:-1]
    return Judgement(len(items), sum(item not in WORDS for item in items))


def judge_sums(text: str) -> Judgement:
    """Counts items that are no equation, or a false one; before the first `;` nothing counts."""
    items = text.split(END)[1:-1]
    return Judgement(len(items), sum(not _holds(item) for item in items))


def _holds(item: str) -> bool:
    match = re.fullmatch(r"(\d)([+-])(\d)=(\d+)", item)
    if match is None:
        return False
    a, sign, b, result = match.groups()
    return (int(a) + int(b) if sign == "+" else int(a) - int(b)) == int(result)


def _check(count: int, wrong: float) -> None:
    check_at_least(1, count=count)
    check(0 <= wrong <= 1, "wrong", wrong, "a share in [0, 1]")
