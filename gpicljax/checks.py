"""Refusals in one form: the argument, the value received, the values accepted.

What a field of a dataclass accepts is declared where the field is, by its annotation:

```python
@dataclasses.dataclass(frozen=True)
class Pond:
    size: Annotated[int, Range(2, 64)] = 8
    water: Literal["salt", "fresh"] = "fresh"

    def __post_init__(self):
        check_fields(self)
```
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import graphlib
import math
import os
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

__all__ = ["Range", "check"]


def check(condition: object, argument: str, value: object, accepted_values: str) -> None:
    """Refuses an argument unless `condition` holds.

    Raises:
      ValueError: `argument: got given; accepted: accepted`.

    Example:
      >>> check(0 > 0, "num_envs", 0, "an integer >= 1")
      Traceback (most recent call last):
      ValueError: num_envs: got 0; accepted: an integer >= 1
    """
    if not condition:
        raise ValueError(refusal(argument, value, accepted_values))


def check_array(condition: object, argument: str, value: object, accepted_values: str) -> None:
    """Refuses an array unless `condition` holds, in a message with its dtype and shape.

    Raises:
      ValueError: `argument: got dtype[shape]; accepted: accepted`.
    """
    if not condition:
        raise ValueError(f"{argument}: got {_kind(value)}; accepted: {accepted_values}")


def check_at_least(minimum: int, **arguments: int | None) -> None:
    """Refuses numbers below a minimum; None, as a default, is accepted."""
    for argument, value in arguments.items():
        kind = Annotated[int, Range(minimum)]
        check(value is None or fits(value, kind), argument, value, in_words(kind))


def check_choice(argument: str, value: object, choices: Iterable[object]) -> None:
    """Refuses a value that is none of the choices."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(unknown_choice(argument, value, choices))


def check_no_circle(argument: str, requires: Mapping[str, Iterable[str]]) -> None:
    """Refuses names that require each other in a circle.

    Raises:
      ValueError: with one of the circles, each name before the one that it requires.
    """
    try:
        graphlib.TopologicalSorter(requires).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise ValueError(refusal(argument, circle, "requirements without a circle")) from None


def refusal(argument: str, value: object, accepted_values: str) -> str:
    """Returns the message about an argument that is refused."""
    return f"{argument}: got {describe_value(value)}; accepted: {accepted_values}"


def missing(package: str, extra: str) -> ImportError:
    """The error for a package that is not installed, with the command that brings it.

    Args:
      package: its name.
      extra: of this package's extras, the one that has it.
    """
    return ModuleNotFoundError(
        f'{package} is not installed: pip install "gpicljax[{extra}]", or {package} alone',
        name=package,
    )


def describe_value(value: object) -> str:
    """Returns a value for a message: a larger array by dtype and shape, params and the like by
    class.
    """
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic) and value.size <= 8:
        return repr(value.tolist())
    arrays = all(hasattr(value, name) for name in ("dtype", "shape", "ndim"))
    if arrays and not isinstance(value, type):
        return _kind(value)
    if hasattr(kind, "_flax_dataclass"):
        return f"{kind.__module__}.{kind.__qualname__}"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _kind(array: Any) -> str:
    return f"{array.dtype}{[*array.shape]}"


def unknown_choice(argument: str, value: object, choices: Iterable[object]) -> str:
    """Returns the message about a name that is refused; it suggests the nearest choice."""
    names = [str(name) for name in choices]
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{argument}: got {describe_value(value)}{hint}; accepted: {', '.join(names)}"


# What fields declare -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Range:
    """A range of accepted numbers; in an annotation, `Annotated[int, Range(1)]`.

    NaN never is.

    Attributes:
      least: the least number,
      most: the greatest.
      above: or what numbers must exceed,
      below: or stay below.
      infinite: whether infinity is accepted too, for a limit that is none.

    Example:
      >>> Range(1).of("integers"), Range(0, 1).of("numbers"), Range(above=0).of("numbers")
      ('integers >= 1', 'numbers within [0, 1]', 'finite numbers above 0')
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    infinite: bool = False

    def accepts(self, values: object) -> bool:
        """Returns whether all of the numbers are accepted."""
        values = np.asarray(values)
        low = (values >= self.least) if self.least > -math.inf else (values > self.above)
        high = (values <= self.most) if self.most < math.inf else (values < self.below)
        endless = (values == math.inf) & self.infinite
        return bool(np.all(low & high | endless))

    def of(self, numbers: str) -> str:
        """The numbers that are accepted, in words."""
        return f"{self._finite(numbers)}, or infinity" if self.infinite else self._finite(numbers)

    def _finite(self, numbers: str) -> str:
        low, high = max(self.least, self.above), min(self.most, self.below)
        left, right = low == self.least, high == self.most
        if math.isfinite(low) and math.isfinite(high):
            if "integer" in numbers:
                return f"{numbers} from {low} to {high}"
            return f"{numbers} within {'[' if left else '('}{low}, {high}{']' if right else ')'}"
        numbers = numbers.replace("number", "finite number")
        if math.isfinite(low):
            return f"{numbers} {'>=' if left else 'above'} {low}"
        return f"{numbers} {'<=' if right else 'below'} {high}" if math.isfinite(high) else numbers


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Size = Annotated[int, Range(1, 2**16)]
Updates = Annotated[int, Range(1, 2**31 - 1)]
Share = Annotated[float, Range(0, 1)]
BelowOne = Annotated[float, Range(0, below=1)]
Rate = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Limit = Annotated[float, Range(above=0, infinite=True)]
Number = Annotated[float, Range()]

_NUMBERS = {int: "an integer", float: "a number", bool: "True or False", str: "text"}


def check_fields(instance: object) -> None:
    """Refuses a dataclass that has a value in a field which its annotation does not accept.

    Numbers are not booleans, nor text numbers; integers pass for floats. Fields of other classes
    must be instances of them, and `Any` accepts everything.
    """
    for argument, kind in field_annotations(type(instance)).items():
        value = getattr(instance, argument)
        if not fits(value, kind):
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            raise ValueError(
                unknown_choice(argument, value, choices)
                if choices
                else refusal(argument, value, in_words(kind))
            )


def check_ranges(values: object) -> None:
    """Refuses a dataclass of arrays that has numbers in a field outside its declared range."""
    for argument, kind in field_annotations(type(values)).items():
        value = getattr(values, argument)
        for mark in getattr(kind, "__metadata__", ()):
            words = "integers" if np.asarray(value).dtype.kind in "iu" else "numbers"
            check(mark.accepts(value), argument, numbers(value), mark.of(words))


@functools.cache
def field_annotations(kind: type) -> dict[str, Any]:
    """Returns the annotations of a dataclass's fields by name; none for another class."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def fits(value: object, kind: object) -> bool:
    """Returns whether an annotation accepts a value."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Annotated:
        marks = [mark for mark in arguments[1:] if isinstance(mark, Range)]
        return fits(value, arguments[0]) and all(mark.accepts(value) for mark in marks)
    if origin in (Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin is tuple and isinstance(value, tuple):
        if arguments[-1] is ...:
            return all(fits(entry, arguments[0]) for entry in value)
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if kind in (int, float):
        classes = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, classes) and not isinstance(value, bool) and value == value
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    kind = origin or kind
    return isinstance(value, kind) if isinstance(kind, type) else True


def in_words(kind: object) -> str:
    """Returns an annotation's accepted values in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        words = in_words(arguments[0])
        return next((mark.of(words) for mark in arguments[1:] if isinstance(mark, Range)), words)
    if origin in (Union, types.UnionType):
        return " or ".join(map(in_words, arguments))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is tuple:
        if arguments[-1] is ...:
            return f"a tuple, each entry {in_words(arguments[0])}"
        return f"({', '.join(map(in_words, arguments))})"
    if kind is types.NoneType:
        return "None"
    return _NUMBERS.get(kind, f"a {getattr(kind, '__name__', kind)}")


def numbers(values: object) -> Any:
    """Returns numbers as they were given: 0.2 and not what a float32 makes of it."""
    if isinstance(values, tuple):
        return tuple(numbers(x) for x in values)
    values = np.asarray(values)
    if values.dtype != np.float32:
        return values.tolist()
    return np.reshape([float(str(x)) for x in values.ravel()], values.shape).tolist()


class Process:
    """Says which process works with a library whose threads do not survive a fork.

    Args:
      library: its name, for the message.
    """

    def __init__(self, library: str) -> None:
        """Starts without a process."""
        self._library = library
        self._process: int | None = None

    def enter(self) -> None:
        """Records the first caller's process as the only one.

        Raises:
          RuntimeError: in a process that was forked from it.
        """
        process = os.getpid()
        if self._process is None:
            self._process = process
        elif self._process != process:
            raise RuntimeError(
                f"this process was forked from one that uses {self._library}, whose threads a fork "
                'leaves behind: it would hang. Start worker processes with "spawn", such as '
                'multiprocessing.get_context("spawn") or AsyncVectorEnv(..., context="spawn")'
            )


JAX_PROCESS = Process("JAX")
"""The process that computes with JAX; everything that makes a batch or takes a key enters it."""
