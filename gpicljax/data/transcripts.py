"""Conversations with language models on disk: every turn is there before the next is asked for.

A transcript is a text file of JSON lines: a header that says what the conversation is about, and a
line for every turn. Lines are appended and flushed to the device one by one, each with a checksum
of its own and that of the line before (`"previous"`). A last line that was cut short (the process
or the machine died while it was written) is left out and the conversation goes on from before it;
any other damage is an error that names the line, as is a line that was removed, swapped or doubled.
Files of earlier versions, whose lines do not name the one before, are read as well.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import flush_to_device, sync_folder, to_json_text
from gpicljax.storage.reading import read_bytes
from gpicljax.typing import JsonObject

_END = b', "crc": "'
_PREVIOUS = "previous"


def _line(entry: JsonObject, previous: str) -> tuple[bytes, str]:
    """Returns an entry as a line with the checksums of the line before and its own, and the
    latter.
    """
    # Half a surrogate pair stays what it is: an escape of JSON.
    text = to_json_text({**entry, _PREVIOUS: previous}).encode(errors="backslashreplace")[:-1]
    checksum = f"{zlib.crc32(text):08x}"
    return text + _END + f'{checksum}"}}\n'.encode(), checksum


def _entry(line: bytes) -> tuple[dict[str, Any], str] | None:
    """Returns a line's entry and checksum; None if it is damaged."""
    text, _, rest = line.rpartition(_END)
    checksum = f"{zlib.crc32(text):08x}"
    if rest != f'{checksum}"}}\n'.encode():
        return None
    try:
        entry = json.loads(text.decode() + "}")
    except (ValueError, RecursionError):
        return None
    return (entry, checksum) if isinstance(entry, dict) else None


def read_transcript(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Reads a conversation's header and turns.

    Returns:
      The header's and the turns' dictionaries; a last line that was cut short is left out.

    Raises:
      SavedError: for a file that is damaged elsewhere, or is no transcript; it names file and line.
      OSError: if it cannot be read, or is no regular file.
    """
    return _read(Path(path))[:2]


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], int, str]:
    """Returns also the number of bytes in whole lines, and the checksum of the last one."""
    lines = read_bytes(path).splitlines(keepends=True)
    entries: list[dict[str, Any]] = []
    whole, last, chained = 0, "", False
    for number, line in enumerate(lines, 1):
        parsed = _entry(line)
        if parsed is None:
            if number == len(lines) and number > 1:
                break
            raise SavedError(f"{path}, line {number}: damaged, or no transcript")
        entry, checksum = parsed
        previous = entry.pop(_PREVIOUS, None)
        chained = chained or previous is not None
        if chained and previous != last:
            raise SavedError(
                f"{path}, line {number}: it does not follow the line before it; "
                "a line was removed, swapped or doubled"
            )
        entries.append(entry)
        whole, last = whole + len(line), checksum
    if not entries or "transcript" not in entries[0]:
        raise SavedError(f"{path}, line 1: no transcript")
    return entries[0]["transcript"], entries[1:], whole, last


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

    def __init__(self, path: str | Path, about: JsonObject) -> None:
        """Opens it; see the class."""
        self.path = Path(path)
        about = json.loads(to_json_text(about))
        self.turns: list[dict[str, Any]] = []
        whole, self._last = 0, ""
        # A header that was cut short has no turns behind it.
        if self.path.exists() and b"\n" in read_bytes(self.path):
            header, self.turns, whole, self._last = _read(self.path)
            for name in sorted(header.keys() | about.keys()):
                if header.get(name) != about.get(name):
                    raise SavedError(
                        f"{self.path} is about something else: {name} is {header.get(name)!r}, "
                        f"not {about.get(name)!r}"
                    )
        self._file = open(self.path, "ab")  # noqa: SIM115
        self._file.truncate(whole)
        if whole == 0:
            self._write({"transcript": about})
            sync_folder(self.path.parent)

    def append(self, turn: JsonObject) -> None:
        """Writes a turn; it is on the device once this returns. No entry of it is `"previous"`."""
        self._write(turn)
        self.turns.append(json.loads(to_json_text(turn)))

    def _write(self, entry: JsonObject) -> None:
        line, last = _line(entry, self._last)
        self._file.write(line)
        self._file.flush()
        flush_to_device(self._file.fileno())
        self._last = last

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
