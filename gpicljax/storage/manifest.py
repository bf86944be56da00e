"""Lists of files with sizes and checksums: what makes a folder complete and checkable."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

from gpicljax.storage.atomic import sync_file, sync_folder, to_json_text, write_atomically
from gpicljax.storage.reading import read_json
from gpicljax.typing import JsonObject

MANIFEST = "manifest.json"
Files = dict[str, tuple[int, str]]
"""Size in bytes and SHA-256 of files, by their paths within a folder."""


def describe_files(folder: Path) -> Files:
    """Size and SHA-256 of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f.relative_to(folder)): (f.stat().st_size, digest_of(f)) for f in files}


def find_problems(folder: Path, files: Files, *, checksums: bool = True) -> list[str]:
    """Finds what is wrong with the files of a folder.

    Args:
      folder: the folder.
      files: what its files are to be.
      checksums: compare the contents of all files too, not only of the small JSON ones.
    """
    problems = (_problem(folder / name, *expected, checksums) for name, expected in files.items())
    return [problem for problem in problems if problem is not None]


def _problem(file: Path, size: int, digest: str, checksums: bool) -> str | None:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return f"{file} is not a regular file"
        found_size = status.st_size
        if found_size != size:
            return f"{file} has {found_size} bytes instead of {size}"
        if (checksums or file.suffix == ".json") and digest_of(file) != digest:
            return f"{file} has changed (its checksum differs)"
    except FileNotFoundError:
        return f"{file} is missing"
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    return None


def digest_of(file: Path) -> str:
    """Returns the SHA-256 of a file's content."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_manifest(folder: Path, about: JsonObject) -> None:
    """Completes a folder: flushes its files to the device, then says what they are.

    Args:
      folder: all of its files are written.
      about: what else there is to be known, for JSON.

    Raises:
      OSError: if a file cannot be read or the manifest cannot be written.
    """
    for file in (path for path in folder.rglob("*") if path.is_file()):
        sync_file(file)
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        sync_folder(inner)
    manifest = {**about, "files": describe_files(folder)}
    write_atomically(folder / MANIFEST, to_json_text(manifest, indent=1))
    sync_folder(folder.parent)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the content of a manifest; its entry `files` is a `Files`.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is damaged.
    """
    try:
        manifest = read_json(folder / MANIFEST)
        files = {name: (int(size), str(sha)) for name, (size, sha) in manifest["files"].items()}
        return {**manifest, "files": files}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{MANIFEST} is damaged ({type(error).__name__}: {error})") from error


def find_damage(folder: Path) -> str | None:
    """The first thing that is wrong with a folder's manifest or files; None if all is well."""
    try:
        files = read_manifest(folder)["files"]
    except (OSError, ValueError) as error:
        return f"{MANIFEST} is unreadable ({error})"
    problems = find_problems(folder, files)
    return problems[0] if problems else None
