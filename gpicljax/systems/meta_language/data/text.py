"""Natural text as tokens: letters and a few signs, mapped at random onto a small vocabulary.

A model that has learnt to learn languages has never seen this one: which token stands for which
letter is drawn anew, so that nothing but the context can tell.

Source: section 2.2 of the GPICL benchmarks paper (letters of the PG-19 test set, mapped at random
onto 32 tokens; the slots left over are punctuation; all texts concatenated, cut into windows).
"""

from __future__ import annotations

import codecs
import dataclasses
import pydoc_data.topics
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check, check_at_least
from gpicljax.storage.reading import open_regular, visible_files

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIGNS = " .,;-\n"
SYMBOLS = LETTERS + SIGNS
"""The 32 symbols that text is reduced to."""

BLOCK = 1 << 20
_OTHER_SIGNS = {
    **dict.fromkeys("!?", "."),
    **dict.fromkeys(":", ";"),
    **dict.fromkeys("()[]{}", ","),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014_/", "-"),
}
_UNSAID = re.compile(r"['\"`\u2018\u2019\u201c\u201d*]")
_BEGIN = re.compile(r"\*\*\* ?start of th.*?\*\*\*", re.IGNORECASE | re.DOTALL)
_END = re.compile(r"\*\*\* ?end of th", re.IGNORECASE)


def normalise(text: str) -> str:
    """Returns the text reduced to `SYMBOLS`.

    Lower case; letters without their accents; quotation marks left out; other signs replaced by the
    nearest of the six; anything else (digits, other scripts) by a space. A run of spaces becomes
    one, a single line break a space, an empty line one line break.
    """
    text = unicodedata.normalize("NFKD", text).lower()
    text = "".join(c for c in _UNSAID.sub("", text) if not unicodedata.combining(c))
    text = re.sub(r"\r\n?", "\n", text)
    text = "".join(c if c in SYMBOLS else _OTHER_SIGNS.get(c, " ") for c in text)
    text = re.sub(r" *\n[ \n]*\n *", "\0", text).replace("\n", " ").replace("\0", "\n")
    return re.sub(r"([.,;-])\1+", r"\1", re.sub(r" +", " ", text))


@dataclasses.dataclass(frozen=True)
class SymbolMap:
    """The token of each symbol.

    Attributes:
      tokens: of every symbol, in their order; each once.
      symbols: different ASCII characters.

    Example:
      >>> symbols = SymbolMap.draw(seed=0)
      >>> symbols.decode(symbols.encode("mi ro ka"))
      'mi ro ka'
    """

    tokens: tuple[int, ...]
    symbols: str = SYMBOLS

    @classmethod
    def draw(cls, seed: int, vocab_size: int = 32, symbols: str = SYMBOLS) -> SymbolMap:
        """Returns a random one.

        Raises:
          ValueError: if the vocabulary has fewer tokens than there are symbols.
        """
        accepted_values = f"at least {len(symbols)}, a token for each symbol"
        check(vocab_size >= len(symbols), "vocab_size", vocab_size, accepted_values)
        order = np.random.default_rng(seed).permutation(vocab_size)[: len(symbols)]
        return cls(tuple(int(token) for token in order), symbols)

    def encode(self, text: str) -> NDArray[np.uint8]:
        """Tokens of a text, `uint8[N]`.

        Raises:
          ValueError: at a character that is none of the symbols.
        """
        table = np.full(128, 255, np.uint8)
        for symbol, token in zip(self.symbols, self.tokens, strict=True):
            table[ord(symbol)] = token
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        strange = (codes >= 128) | (table[np.minimum(codes, 127)] == 255)
        if strange.any():
            character = chr(int(codes[strange.argmax()]))
            raise ValueError(
                f"text: {character!r} is none of the {len(self.symbols)} symbols; `normalise` "
                "reduces natural text to them"
            )
        return table[codes]

    def decode(self, tokens: Iterable[int]) -> str:
        """Returns the symbols that tokens stand for; "�" where there is none."""
        symbols = dict(zip(self.tokens, self.symbols, strict=True))
        return "".join(symbols.get(int(token), "\N{REPLACEMENT CHARACTER}") for token in tokens)


def read_normalised(path: Path) -> Iterator[str]:
    """The normalised text of a file, in pieces, without what surrounds a Project Gutenberg book.

    Raises:
      OSError: if it cannot be read, or is no regular file.
      ValueError: if the file is not UTF-8; it names the file and the byte.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    rest, first, over, place = "", True, False, 0
    with open_regular(path) as file:
        while not over:
            block = file.read(BLOCK)
            try:
                text = rest + decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = place - len(decoder.getstate()[0]) + error.start
                raise ValueError(f"{path}: byte {at} is not UTF-8 ({error.reason})") from None
            place += len(block)
            if first:
                begin = _BEGIN.search(text[: BLOCK // 4])
                text, first = text[begin.end() :] if begin else text, False
            end = _END.search(text)
            if end:
                text, over = text[: end.start()], True
            if not block:
                over = True
            # Cut at a line's end, so that no word, sign or empty line is torn.
            cut = len(text) if over else text.rfind("\n", 0, -200) + 1
            rest = text[cut:]
            piece = normalise(text[:cut])
            if piece.strip():
                yield piece


def language_reference() -> str:
    """Returns the prose of Python's language reference, as it comes with every Python.

    It is natural text that needs no file: about 150,000 characters of `pydoc_data.topics`, without
    syntax, code and short lines. Other versions of Python have other editions of it.

    Example:
      >>> "dictionary" in language_reference()
      True
    """
    topics = pydoc_data.topics.topics
    paragraphs = (x for name in sorted(topics) for x in re.split(r"\n\s*\n", topics[name]))
    prose = (x for x in paragraphs if len(x) >= 200 and not x[0].isspace() and "::=" not in x)
    return "\n\n".join(dict.fromkeys(prose))


def text_windows(directory: str | Path | None, length: int, seed: int = 0) -> NDArray[np.uint8]:
    """Returns all texts of a folder as one sequence, split into windows, each in a code of its own.

    Args:
      directory: with plain text files `*.txt`, taken in the order of their names. They are read in
        pieces: memory is one byte per character that is left. None for `language_reference`.
      length: T, tokens of a window that are to be predicted.
      seed: of the codes; which token stands for which symbol is `SymbolMap.draw(seed + i)` in
        window i.

    Returns:
      `uint8[N, T + 1]`; the text of neighbouring windows overlaps by one symbol.

    Raises:
      FileNotFoundError: if there is no such folder, or no text in it.
      ValueError: if a file is empty or not UTF-8, or all together are too short for one window.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = (Path(folder) / "letter.txt").write_text("Dear reader, all is well.")
      ...     text_windows(folder, length=8).shape
      (3, 9)
    """
    check_at_least(1, length=length)
    plain = SymbolMap(tuple(range(len(SYMBOLS))))
    if directory is None:
        source, parts = "the language reference", [normalise(language_reference())]
    else:
        source, parts = directory, _read_folder(Path(directory))
    numbers = np.concatenate([plain.encode(part) for part in parts])
    count = (len(numbers) - 1) // length
    if count < 1:
        raise ValueError(
            f"{source}: {len(numbers)} characters are too few for one window of {length} + 1"
        )
    starts = np.arange(count)[:, None] * length
    codes = np.array([SymbolMap.draw(seed + i).tokens for i in range(count)], np.uint8)
    return codes[np.arange(count)[:, None], numbers[starts + np.arange(length + 1)]]


def _read_folder(folder: Path) -> list[str]:
    """Returns the texts of a folder, normalised, in pieces; see `text_windows`."""
    paths = visible_files(folder, "*.txt")
    if not paths:
        reason = "no *.txt file in it" if folder.is_dir() else "no such folder"
        raise FileNotFoundError(f"{folder}: {reason}")
    parts: list[str] = []
    for path in paths:
        pieces = list(read_normalised(path))
        if not pieces:
            raise ValueError(f"{path}: there is no text in it")
        parts.extend(pieces)
    return parts
