"""What is refused, in one form: the argument, what was given, what is accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def check(condition: Any, argument: str, given: Any, accepted: str) -> None:
    """Refuses an argument unless `condition` holds.

    Raises:
      ValueError: `argument: got given; accepted: accepted`.

    Example:
      >>> check(0 > 0, "num_envs", 0, "an integer >= 1")
      Traceback (most recent call last):
      ValueError: num_envs: got 0; accepted: an integer >= 1
    """
    if not condition:
        raise ValueError(refusal(argument, given, accepted))


def check_at_least(minimum: int, **arguments: int | None) -> None:
    """Refuses numbers below a minimum; None is somebody's default.

    Raises:
      ValueError: for the first of them.

    Example:
      >>> check_at_least(1, num_envs=4, group=None)
      >>> check_at_least(1, num_envs=4, group=0)
      Traceback (most recent call last):
      ValueError: group: got 0; accepted: an integer >= 1
    """
    for argument, given in arguments.items():
        check(given is None or given >= minimum, argument, given, f"an integer >= {minimum}")


def check_choice(argument: str, given: Any, known: Iterable[Any]) -> None:
    """Refuses what is none of the known values.

    Raises:
      ValueError: see `unknown`.

    Example:
      >>> check_choice("mode", "navigate", ["navigation", "survival"])
      Traceback (most recent call last):
      ValueError: mode: got 'navigate' (did you mean 'navigation'?); accepted: navigation, survival
    """
    known = list(known)
    if given not in known:
        raise ValueError(unknown(argument, given, known))


def refusal(argument: str, given: Any, accepted: str) -> str:
    """The message about an argument that is refused.

    Example:
      >>> refusal("size", 4, "an odd number of at least 7")
      'size: got 4; accepted: an odd number of at least 7'
    """
    return f"{argument}: got {given!r}; accepted: {accepted}"


def unknown(argument: str, given: Any, known: Iterable[Any]) -> str:
    """The message about a name that is refused; it suggests the nearest known one.

    Example:
      >>> print(unknown("algorithm", "pppo", ["dqn", "ppo"]))
      algorithm: got 'pppo' (did you mean 'ppo'?); accepted: dqn, ppo
    """
    names = [str(name) for name in known]
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{argument}: got {given!r}{hint}; accepted: {', '.join(names)}"
