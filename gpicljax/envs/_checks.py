"""What environments refuse in their params, and ranges given as one number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def widened(overrides: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The overrides, with both ends of those ranges where one number was given."""
    ranges = {
        n: (overrides[n],) * 2 for n in names if n in overrides and np.ndim(overrides[n]) == 0
    }
    return overrides | ranges


def check_pair(name: str, values: Any) -> None:
    """Raises ValueError unless the last axis holds a lowest and a highest value."""
    if np.shape(values)[-1:] != (2,):
        raise ValueError(f"{name}: a number or a range (lowest, highest) is needed")


def check_order(name: str, values: Any) -> None:
    """Raises ValueError unless the lowest value comes first."""
    values = np.asarray(values)
    if not np.all(values[..., 0] <= values[..., 1]):
        raise ValueError(f"{name} = {values}: the lowest value comes first")


def check_probability(name: str, value: Any) -> None:
    """Raises ValueError unless it lies within [0, 1]."""
    value = np.asarray(value)
    if not np.all((value >= 0) & (value <= 1)):
        raise ValueError(f"{name} = {value}: a probability lies within [0, 1]")


def check_horizon(horizon: Any, unit: str = "step") -> None:
    """Raises ValueError unless every episode has a step."""
    if not np.all(np.asarray(horizon) >= 1):
        raise ValueError(f"horizon = {horizon}: at least 1 {unit} is needed")
