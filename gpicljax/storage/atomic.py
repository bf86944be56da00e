"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Error numbers of a file system that has no `fsync`, as those of network mounts."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces `path` by `content` in one step, durable once this returns.

    The bytes go to a temporary file in the same folder, are flushed to the device and then renamed
    over `path`. Whatever happens in between, `path` holds either the old content or the new one.

    Args:
      path: the file to write; its folder exists.
      content: text (written as UTF-8) or bytes.

    Raises:
      OSError: if writing fails; it names `path`, which is untouched. The temporary file is gone.

    Example:
      >>> import tempfile
      >>> folder = Path(tempfile.mkdtemp())
      >>> write_atomically(folder / "summary.md", "# Done")
      >>> (folder / "summary.md").read_text()
      '# Done'
    """
    data = content.encode() if isinstance(content, str) else content
    # Made by `open`, so that the system applies the umask: some file systems refuse `chmod`.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            flush_to_device(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)
        raise
    sync_folder(path.parent)


def flush_to_device(descriptor: int) -> None:
    """Waits until a file's bytes are on the device, where the file system can do that.

    Raises:
      OSError: if the bytes cannot be written, such as on a full disk.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def sync_file(path: Path) -> None:
    """Flushes a file, written by other code, to the device."""
    with open(path, "rb") as file:
        flush_to_device(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flushes the names in `folder` to the device, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def plain(value: object) -> Any:
    """Turns arrays, scalars and paths into what JSON can say.

    Args:
      value: nested mappings, dataclasses and sequences of numbers, strings, paths, numpy or JAX
        arrays.

    Returns:
      The same structure of dicts, lists, strings, numbers, booleans and None. NaN and the
      infinities, which JSON lacks, become None; dataclasses become dicts of their fields.

    Raises:
      TypeError: for a value of any other type.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(vars(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "biu":
            return array.tolist()
        # Everything else that is a real number, bfloat16 included, goes through float64 exactly.
        return plain(array.astype(np.float64).tolist())
    raise TypeError(
        f"value: got {value!r} of type {type(value).__name__}; accepted: numbers, "
        "strings, paths, arrays, and mappings, dataclasses or sequences of them"
    )


def to_json_text(value: object, *, indent: int | None = None) -> str:
    """Writes `plain(value)` as strict JSON (see `plain` for what becomes of NaN)."""
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)
