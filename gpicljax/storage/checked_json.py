"""Files in JSON with their own checksum, which tell when they have been changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.reading import read_json
from gpicljax.typing import JsonObject

FORMAT = 1


def write_checked_json(path: Path, content: JsonObject) -> None:
    """Replaces a file in one step, durable once this returns.

    Args:
      path: the file; its folder exists.
      content: for JSON, without entries `format` and `sha256`, which are added.
    """
    whole = json.loads(json.dumps({"format": FORMAT, **content}))
    text = json.dumps(whole | {"sha256": _digest_of(whole)}, indent=1) + "\n"
    write_atomically(path, text)


def read_checked_json(path: Path) -> dict[str, Any]:
    """Returns the content that `write_checked_json` wrote.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if it is damaged, changed or of another version; it names the file.
    """
    try:
        content = read_json(path)
        checksum, version = content.pop("sha256"), content["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}; this version reads {FORMAT}")
    if checksum != _digest_of(content):
        raise ValueError(f"{path} has changed (its checksum differs)")
    return content


def _digest_of(content: JsonObject) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
