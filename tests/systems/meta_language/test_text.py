"""Text as tokens."""

import os

import numpy as np
import pytest

from gpicljax.systems.meta_language.data import text
from gpicljax.systems.meta_language.data.text import (
    SYMBOLS,
    SymbolMap,
    normalise,
    read_normalised,
    text_windows,
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The CAT sat!", "the cat sat."),
        ("one\ntwo\r\n\r\n  three", "one two\nthree"),
        ("“Don’t,” she said — 12 times…", "dont, she said - times."),
        ("déjà vu: (naïve) straße", "deja vu; ,naive, stra e"),
        ("a\n\n\n\nb   c", "a\nb c"),
        ("wait--no...", "wait-no."),
    ],
)
def test_normalise(raw, expected):
    assert normalise(raw) == expected
    assert set(normalise(raw)) <= set(SYMBOLS)


def test_there_are_32_symbols():
    assert len(set(SYMBOLS)) == len(SYMBOLS) == 32


def test_mapping_is_a_random_bijection():
    symbols = SymbolMap.draw(0)
    assert sorted(symbols.tokens) == list(range(32))
    assert symbols == SymbolMap.draw(0) != SymbolMap.draw(1)
    line = "the quick brown fox, etc.; a-z\nend"
    tokens = symbols.encode(line)
    assert tokens.dtype == np.uint8 and symbols.decode(tokens) == line
    assert len(set(SymbolMap.draw(2, 64).tokens)) == 32
    with pytest.raises(ValueError, match="'A' is none of the 32 symbols"):
        symbols.encode("A")
    with pytest.raises(ValueError, match="vocab_size: got 31"):
        SymbolMap.draw(0, 31)


def test_what_surrounds_a_book_is_left_out(tmp_path):
    book = (
        "Licence\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nIt was.\n*** END OF THE PROJECT"
    )
    (tmp_path / "a.txt").write_text("\ufeff" + book)
    assert "".join(read_normalised(tmp_path / "a.txt")).strip() == "it was."


def test_files_are_read_in_pieces_as_in_one(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    words = ["alpha", "béta", "gamma.", "“delta”", "\n", "\n\n", "--"]
    raw = " ".join(words[i] for i in draw.integers(len(words), size=4000))
    path = tmp_path / "a.txt"
    path.write_text(raw)
    whole = "".join(read_normalised(path))
    monkeypatch.setattr(text, "BLOCK", 1001)
    pieces = list(read_normalised(path))
    assert len(pieces) > 10
    # Between pieces a space may stand where a line was broken; nothing else differs.
    assert "".join(pieces).split() == whole.split()
    assert whole.count("\n") == "".join(pieces).count("\n")


def test_windows_overlap_by_one_symbol_and_have_codes_of_their_own(tmp_path):
    (tmp_path / "b.txt").write_text("world and more")
    (tmp_path / "a.txt").write_text("hello ")
    windows = text_windows(tmp_path, 4, seed=3)
    assert windows.shape == (4, 5) and windows.dtype == np.uint8
    parts = [SymbolMap.draw(3 + i).decode(window) for i, window in enumerate(windows)]
    assert parts == ["hello", "o wor", "rld a", "and m"]


def test_bad_input(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        text_windows(tmp_path / "none", 4)
    with pytest.raises(FileNotFoundError, match=r"no \*.txt file"):
        text_windows(tmp_path, 4)
    (tmp_path / "a.txt").write_text("abc")
    with pytest.raises(ValueError, match="3 characters are too few for one window of 4"):
        text_windows(tmp_path, 4)
    with pytest.raises(ValueError, match="length: got 0"):
        text_windows(tmp_path, 0)
    (tmp_path / "b.txt").write_text("  \n ")
    with pytest.raises(ValueError, match="b.txt: there is no text in it"):
        text_windows(tmp_path, 1)
    (tmp_path / "b.txt").write_bytes(b"caf\xe9 noir")
    with pytest.raises(ValueError, match="b.txt: byte 3 is not UTF-8"):
        text_windows(tmp_path, 1)


def test_hidden_files_and_what_is_no_file_are_not_read(tmp_path):
    (tmp_path / "book.txt").write_text("all is well " * 20)
    (tmp_path / "._book.txt").write_bytes(b"\x00\x05\x16\x07")
    assert text_windows(tmp_path, length=8).shape[0] > 10
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(OSError, match="not a regular file"):
        text_windows(tmp_path, length=8)


def test_without_a_folder_there_is_the_language_reference():
    windows = text_windows(None, 64)
    assert len(windows) > 1_000
    text = "".join(SymbolMap.draw(i).decode(windows[i][1:]) for i in range(20))
    assert " the " in text and " statement" in text
