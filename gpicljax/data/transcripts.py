"""Conversations with language models on disk: every turn is there before the next is asked for.

A transcript is a text file of JSON lines: a header that says what the conversation is about, and a
line for every turn. Lines are appended and flushed to the device one by one, each with a checksum
of its own. A last line that was cut short (the process or the machine died while it was written) is
left out and the conversation goes on from before it; any other damage is an error that names the
line.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import sync_folder, to_json_text

_END = ', "crc": "'


def _line(entry: Mapping[str, Any]) -> bytes:
    """An entry with its checksum, as one line."""
    text = to_json_text(entry)[:-1]
    return f'{text}{_END}{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is damaged."""
    try:
        text, _, rest = line.decode().rpartition(_END)
        if rest.rstrip("\n") != f'{zlib.crc32(text.encode()):08x}"}}' or not rest.endswith("\n"):
            return None
        return json.loads(text + "}")
    except ValueError:
        return None


def read_transcript(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a conversation is about, and its turns.

    Args:
      path: the file.

    Returns:
      The header's and the turns' dictionaries; a last line that was cut short is left out.

    Raises:
      SavedError: for a file that is damaged elsewhere, or is no transcript; it names file and line.
    """
    return _read(Path(path))[:2]


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """The same, and how many bytes of the file are whole."""
    lines = path.read_bytes().splitlines(keepends=True)
    entries: list[dict[str, Any]] = []
    whole = 0
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            if number == len(lines) and number > 1:
                break
            raise SavedError(f"{path}, line {number}: damaged, or no transcript")
        entries.append(entry)
        whole += len(line)
    if not entries or "transcript" not in entries[0]:
        raise SavedError(f"{path}, line 1: no transcript")
    return entries[0]["transcript"], entries[1:], whole


class Transcript:
    """A transcript that is written, or gone on with.

    Args:
      path: the file; it is made if it is not there.
      about: what the conversation is about. Another one's transcript is refused.

    Attributes:
      turns: the turns there are.

    Raises:
      SavedError: for a damaged file, or one about something else; it names what differs.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        """Opens it; see the class."""
        self.path = Path(path)
        about = json.loads(to_json_text(about))
        self.turns: list[dict[str, Any]] = []
        whole = 0
        # A header that was cut short has no turns behind it.
        if self.path.exists() and b"\n" in self.path.read_bytes():
            known, self.turns, whole = _read(self.path)
            for name in sorted(known.keys() | about.keys()):
                if known.get(name) != about.get(name):
                    raise SavedError(
                        f"{self.path} is about something else: {name} is {known.get(name)!r}, "
                        f"not {about.get(name)!r}"
                    )
        self._file = open(self.path, "ab")  # noqa: SIM115
        self._file.truncate(whole)
        if whole == 0:
            self._write({"transcript": about})
            sync_folder(self.path.parent)

    def append(self, turn: Mapping[str, Any]) -> None:
        """Writes a turn; it is on the device once this returns."""
        self._write(turn)
        self.turns.append(json.loads(to_json_text(turn)))

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.write(_line(entry))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
