"""Words and sums with mistakes, and who judges them."""

import pytest

from gpicljax.systems.meta_language.data.faulty_text import (
    SUM_SYMBOLS,
    WORDS,
    judge_sums,
    judge_words,
    sums,
    words,
)
from gpicljax.systems.meta_language.data.text import SYMBOLS, SymbolMap


def test_forty_words():
    assert len(set(WORDS)) == len(WORDS) == 40
    assert set("".join(WORDS) + ";") <= set(SYMBOLS)


@pytest.mark.parametrize(("make", "judge"), [(words, judge_words), (sums, judge_sums)])
def test_as_many_mistakes_as_asked_for(make, judge):
    text = make(0, 4000, 0.15)
    assert make(0, 4000, 0.15) == text != make(1, 4000, 0.15)
    items, wrong = judge(";" + text)
    assert items == 4000 and abs(wrong / items - 0.15) < 3 * (0.15 * 0.85 / 4000) ** 0.5
    assert judge(";" + make(0, 300, 0.0)) == (300, 0)
    assert judge(";" + make(0, 300, 1.0)) == (300, 300)


def test_symbols_suffice():
    tokens = SymbolMap.draw(0, symbols=SUM_SYMBOLS).encode(sums(0))
    assert SymbolMap.draw(0, symbols=SUM_SYMBOLS).decode(tokens) == sums(0)
    assert set(words(0)) <= set(SYMBOLS)


def test_judges_look_at_whole_items():
    assert judge_words("ter;water;wator;tab") == (2, 1)
    assert judge_words("water") == (0, 0)
    assert judge_sums("3;1+2=3;5-4=0;1+=3;5+4=9;2") == (4, 2)


def test_bad_input():
    with pytest.raises(ValueError, match="count: got 0"):
        words(0, 0)
    with pytest.raises(ValueError, match="wrong: got 1.5"):
        sums(0, 3, 1.5)
