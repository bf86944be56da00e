"""Contexts with mistakes that models continue, as in Figure 16 of the GPICL paper."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpicljax.systems.meta_language.data.faulty_text import (
    SUM_SYMBOLS,
    WORDS,
    judge_sums,
    judge_words,
    sums,
    words,
)
from gpicljax.systems.meta_language.data.text import SYMBOLS, SymbolMap
from gpicljax.systems.meta_language.measures.nulls import (
    ORDERS,
    chosen_elsewhere,
    continued_by_counting,
)

TEMPERATURE = 0.3
"""Temperature of the demonstrations' continuations (appendix A.4)."""


class Demonstration(NamedTuple):
    """Contexts with mistakes that models continue.

    Attributes:
      kind: of what they consist.
      prompts: `int32[N, T]`.
      maps: which token stands for which symbol, in each of them.
      judge: `text -> (complete items, wrong ones)`.
    """

    kind: str
    prompts: np.ndarray
    maps: Sequence[SymbolMap]
    judge: Callable[[str], Any]

    @property
    def name(self) -> str:
        """Kind and length."""
        return f"{self.kind} after {self.prompts.shape[1]}"

    def judge_all(self, continued: np.ndarray) -> np.ndarray:
        """Items and wrong ones after each context, `int[N, 2]`, of tokens int `[seeds, N, T]`."""
        texts = [[m.decode(t) for m, t in zip(self.maps, s, strict=True)] for s in continued]
        return np.sum([[self.judge(text) for text in seed_texts] for seed_texts in texts], axis=0)


def demonstrations(count: int, longest: int, vocab_size: int) -> list[Demonstration]:
    """Words and sums, 15 % of them wrong, in contexts of two lengths, to be continued.

    Args:
      count: contexts of each kind; none for 0.
      longest: tokens of the longer ones; none are made that would be shorter than 64.
      vocab_size: V.
    """
    if longest < 64 or not count:
        return []
    # Forty words in a short context would be seen once each: fewer, so that each comes seven times.
    different = min(len(WORDS), max(2, longest // 50))
    some_words = functools.partial(words, different=different)
    shown = []
    for kind, make, judge, letters in (
        (f"{different} words", some_words, judge_words, SYMBOLS),
        ("sums", sums, judge_sums, SUM_SYMBOLS),
    ):
        maps = [SymbolMap.draw(i, vocab_size, letters) for i in range(count)]
        texts = [make(i, 1 + longest // 4) for i in range(count)]
        tokens = np.stack([m.encode(t)[:longest] for m, t in zip(maps, texts, strict=True)])
        for length in (longest // 2, longest):
            shown.append(Demonstration(kind, tokens[:, :length].astype(np.int32), maps, judge))
    return shown


def wrong_share(judged: np.ndarray) -> np.ndarray:
    """Returns wrong items after each context in per cent; 100 where there are no items."""
    items, wrong = judged.T
    return np.where(items > 0, 100 * wrong / np.maximum(items, 1), 100.0)


def ngram_errors(demo: Demonstration, length: int, vocabulary: int) -> tuple[np.ndarray, list[int]]:
    """Items and wrong ones of n-grams, `int[N, 2]`; and their orders.

    Each context has the order that makes the fewest mistakes after others of its kind.
    """

    def errors(order: int) -> np.ndarray:
        continued = continued_by_counting(demo.prompts, length, order, vocabulary, TEMPERATURE)
        return demo.judge_all(continued[None])

    judged = np.stack([errors(order) for order in range(ORDERS)])
    shares = np.stack([wrong_share(counts) for counts in judged])
    orders = chosen_elsewhere(shares[..., None], slice(None))
    return judged[orders, np.arange(len(orders))], sorted({int(order) for order in orders})
