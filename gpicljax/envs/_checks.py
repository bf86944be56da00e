"""Annotations for fields of environments' params, and checks of several values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import jax
import numpy as np
from jax.typing import ArrayLike

from gpicljax.checks import Range, check, numbers

Real = Annotated[jax.Array, Range()]
Positive = Annotated[jax.Array, Range(above=0)]
NotNegative = Annotated[jax.Array, Range(0)]
Probability = Annotated[jax.Array, Range(0, 1)]
Count = Annotated[jax.Array, Range(1)]


def expand_ranges(overrides: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the overrides, with one number for a range as both its ends."""
    ends = {
        name: (value, value)
        for name, value in overrides.items()
        if name in names and np.ndim(value) == 0 and not isinstance(value, str | None)
    }
    return overrides | ends


def check_values(
    name: str, values: ArrayLike | tuple[np.ndarray, ...], fine: ArrayLike, accepted_values: str
) -> None:
    """Raises ValueError unless `fine`, one or more booleans, holds everywhere."""
    check(np.all(fine), name, numbers(values), accepted_values)


def check_pair(name: str, values: ArrayLike) -> None:
    """Raises ValueError unless the last axis holds a lowest and a highest value."""
    fine = np.shape(values)[-1:] == (2,)
    check_values(name, values, fine, "a number or a range (lowest, highest)")


def check_order(name: str, values: ArrayLike) -> None:
    """Raises ValueError unless the lowest value comes first."""
    values = np.asarray(values)
    check_values(name, values, values[..., 0] <= values[..., 1], "a range (lowest, highest)")
