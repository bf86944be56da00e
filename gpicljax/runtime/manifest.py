"""The list of a checkpoint's files with sizes and checksums: complete and checkable."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gpicljax.files import sync_file, sync_folder, to_json_text, write_atomically
from gpicljax.runtime.leaves import Spec

MANIFEST = "manifest.json"


def write_manifest(folder: Path, step: int, leaves: list[Spec]) -> None:
    """Completes a checkpoint: flushes its files, then says what they are.

    Args:
      folder: the folder of one step, all of whose files are written.
      step: the step.
      leaves: descriptions of the state's leaves.

    Raises:
      OSError: if a file cannot be read or the manifest cannot be written.
    """
    files = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        sync_file(file)
        name = str(file.relative_to(folder))
        files[name] = {"size": file.stat().st_size, "sha256": _digest(file)}
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        sync_folder(inner)
    manifest = {"step": step, "files": files, "leaves": leaves}
    write_atomically(folder / MANIFEST, to_json_text(manifest, indent=1))
    sync_folder(folder.parent)


def find_damage(folder: Path) -> str | None:
    """Compares a checkpoint's files with its manifest.

    Args:
      folder: the folder of one step.

    Returns:
      What is wrong with which file, or None if all is well.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        expected = {name: (f["size"], f["sha256"]) for name, f in manifest["files"].items()}
        _ = manifest["leaves"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST} is unreadable ({error})"
    for name, (size, digest) in expected.items():
        file = folder / name
        try:
            found = file.stat().st_size
            if found != size:
                return f"{name} has {found} bytes instead of {size}"
            if _digest(file) != digest:
                return f"{name} has changed (its checksum differs)"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def _digest(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
