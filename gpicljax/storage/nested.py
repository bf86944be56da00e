"""Nested mappings of values, as configurations and descriptions of stores are, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def flatten(data: object, prefix: str = "", separator: str = ".") -> dict[str, Any]:
    """Turns nested mappings into one, joining names by `separator`.

    Args:
      data: mappings within mappings; a mapping that is empty stays as it is.
      prefix: put before every name.
      separator: between the names of two levels.

    Returns:
      The innermost values by their joined names.
    """
    if not isinstance(data, Mapping) or (prefix and not data):
        return {prefix: data}
    flat: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{separator}{key}" if prefix else str(key)
        flat.update(flatten(value, name, separator))
    return flat


def differences(
    a: object, b: object, ignore: tuple[str, ...] = (), show: Callable[[Any], str] = repr
) -> list[str]:
    """Lists where two nested mappings differ.

    Returns:
      One line per differing entry, `agent.learning_rate: 0.1 -> 0.2`, in the order of `a`; empty if
      the two agree.
    """
    left, right = flatten(a), flatten(b)
    names = [*left, *(name for name in right if name not in left)]

    def show_value(values: dict[str, object], name: str) -> str:
        return show(values[name]) if name in values else "(absent)"

    return [
        f"{name}: {show_value(left, name)} -> {show_value(right, name)}"
        for name in names
        if name not in ignore
        and (name not in left or name not in right or left[name] != right[name])
    ]
