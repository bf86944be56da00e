"""Command lines: numbers and paths as people write them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

_WHOLE = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?")
_REGISTRY = ConstructorRegistry()


def read_arguments(kind: Any, **options: Any) -> Any:
    """Returns what a command line says, as `tyro.cli` of that type reads it.

    Whole numbers may be written as `1e6` or `1_000_000`, and paths may begin with `~`.

    Args:
      kind: the type of the result, or a function to be called.
      **options: of `tyro.cli`.

    Raises:
      SystemExit: with code 2 for arguments that are not accepted, 0 after `--help`.
    """
    return tyro.cli(kind, registry=_REGISTRY, **options)


def whole_number(text: str) -> int:
    """Returns the integer that a text stands for.

    Raises:
      ValueError: if it stands for none.
    """
    if _WHOLE.fullmatch(text.strip()):
        digits, _, power = text.strip().lower().replace("_", "").partition("e")
        whole, _, rest = digits.partition(".")
        rest, zeros = rest.rstrip("0"), int(power or 0)
        if len(rest) <= zeros:
            return int(whole + rest) * 10 ** (zeros - len(rest))
    raise ValueError(f"got {text!r}; accepted: a whole number, such as 1000000, 1_000_000 or 1e6")


def user_path(text: str) -> Path:
    """Returns a path as a user types it: `~` and `~name` at its beginning are home folders.

    Raises:
      ValueError: for a user without a home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"got {text!r}; accepted: a path, or ~ and the name of a user") from None


def program_name(study: str) -> str:
    """Returns how a study was called, for its `--help`: as a script, or as `gpicljax run STUDY`."""
    is_script = sys.argv[0].endswith(".py") and not sys.argv[0].endswith("__main__.py")
    return f"python {sys.argv[0]}" if is_script else f"gpicljax run {study}"


@_REGISTRY.primitive_rule
def _integers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        1, "INT", lambda words: whole_number(words[0]), _is_integer, lambda number: [str(number)]
    )


@_REGISTRY.primitive_rule
def _paths(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Path] | None:
    if info.type is not Path:
        return None
    return PrimitiveConstructorSpec(
        1, "PATH", lambda words: user_path(words[0]), _is_path, lambda path: [str(path)]
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_path(value: object) -> bool:
    return isinstance(value, Path)
