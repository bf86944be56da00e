"""Configurations as JSON values, and what differs between two of them.

Not cattrs: it converts ("6" and True are integers to it) where a stored configuration of another
shape is to be refused by the name of its field, and knows no JSON for infinities.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from gpicljax.checks import check, check_choice, refusal
from gpicljax.storage.nested import differences

T = TypeVar("T")
_NON_FINITE = ("nan", "inf", "-inf")


def to_json(config: object, _name: str = "config") -> Any:
    """Turns a configuration into JSON values.

    Args:
      config: a dataclass instance, possibly nested, of numbers, strings, booleans, None, paths,
        enums, tuples, lists and dicts.

    Returns:
      A dict that `json.dumps` accepts; non-finite floats become the strings `nan`, `inf`, `-inf`.

    Raises:
      TypeError: for a field of another type, by name.
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        fields = dataclasses.fields(config)
        return {f.name: to_json(getattr(config, f.name), f"{_name}.{f.name}") for f in fields}
    if isinstance(config, enum.Enum):
        return config.name
    if isinstance(config, float) and not math.isfinite(config):
        return str(config)
    if config is None or isinstance(config, str | bool | int | float):
        return config
    if isinstance(config, Path):
        return str(config)
    if isinstance(config, tuple | list):
        return [to_json(item, f"{_name}[{i}]") for i, item in enumerate(config)]
    if isinstance(config, Mapping):
        return {str(key): to_json(item, f"{_name}.{key}") for key, item in config.items()}
    raise TypeError(
        f"{_name}: got {config!r} of type {type(config).__name__}; accepted: numbers, strings, "
        "None, paths, enums, tuples, lists, dicts and dataclasses"
    )


def from_json(kind: type[T], data: Any) -> T:
    """Returns the inverse of `to_json`.

    Args:
      kind: the dataclass that `data` was made from.
      data: what `to_json` returned, possibly through a file.

    Returns:
      An instance of `kind`. Fields that `data` lacks take their defaults.

    Raises:
      ValueError: if a field is unknown or a value does not fit its field's type.
    """
    return _read(kind, data, "config")


def _read(kind: Any, data: Any, name: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, data, name)
    if origin is typing.Annotated:
        return _read(arguments[0], data, name)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, data, name)
    if origin is Literal and data in arguments:
        return data
    sequence: Any = origin or kind
    if sequence in (tuple, list) and isinstance(data, list):
        if sequence is list or (len(arguments) == 2 and arguments[1] is Ellipsis):
            kinds = [arguments[0] if arguments else Any] * len(data)
        else:
            kinds = list(arguments) if arguments else [Any] * len(data)
        if len(kinds) == len(data):
            items = zip(kinds, data, strict=True)
            return sequence(_read(k, v, f"{name}[{i}]") for i, (k, v) in enumerate(items))
    if isinstance(sequence, type) and issubclass(sequence, Mapping) and isinstance(data, Mapping):
        key_kind, value_kind = arguments or (str, Any)
        convert = int if key_kind is int else str
        return {convert(k): _read(value_kind, v, f"{name}.{k}") for k, v in data.items()}
    if isinstance(kind, type):
        if issubclass(kind, enum.Enum) and isinstance(data, str) and data in kind.__members__:
            return kind[data]
        if issubclass(kind, Path) and isinstance(data, str):
            return kind(data)
        if kind is float and isinstance(data, str) and data in _NON_FINITE:
            return float(data)
        if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
            return float(data)
        # bool is an int to Python, but a flag in a configuration is not a number.
        if isinstance(data, kind) and isinstance(data, bool) == (kind is bool):
            return data
        if kind is types.NoneType and data is None:
            return None
    raise ValueError(refusal(name, data, getattr(kind, "__name__", str(kind))))


def _read_dataclass(kind: Any, data: Any, name: str) -> Any:
    check(isinstance(data, Mapping), name, data, f"the fields of {kind.__name__}")
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    for key in data:
        check_choice(name, key, names)
    return kind(**{key: _read(hints[key], data[key], f"{name}.{key}") for key in data})


def _read_union(kinds: tuple[Any, ...], data: Any, name: str) -> Any:
    for kind in kinds:
        try:
            value = _read(kind, data, name)
        except ValueError:
            continue
        # The round trip tells `1` meant as a float from `1` meant as an integer, and one nested
        # dataclass from another that has some fields in common.
        round_trip = to_json(value)
        if round_trip == data and type(round_trip) is type(data):
            return value
    raise ValueError(refusal(name, data, " | ".join(map(str, kinds))))


def describe_difference(a: object, b: object, ignore: tuple[str, ...] = ()) -> list[str]:
    """Lists the fields in which two configurations differ.

    Args:
      a: a configuration, or what `to_json` made of one.
      b: another.
      ignore: dotted names of fields that do not matter.

    Returns:
      One line per differing field, `agent.learning_rate: 0.1 -> 0.2`, in the order of `a`; empty if
      the two agree.
    """
    return differences(to_json(a), to_json(b), ignore)
