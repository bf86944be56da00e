"""What environments refuse in their static fields and params, and ranges given as one number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

import numpy as np

from gpicljax.checks import check, check_choice


def check_literals(env: Any) -> None:
    """Raises ValueError where a field that is a `Literal` has none of its values."""
    for field, kind in get_type_hints(type(env)).items():
        known = get_args(kind)
        if known and not isinstance(known[0], type):
            check_choice(field, getattr(env, field), known)


def widened(overrides: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The overrides, with both ends of those ranges where one number was given."""
    ranges = {
        n: (overrides[n],) * 2 for n in names if n in overrides and np.ndim(overrides[n]) == 0
    }
    return overrides | ranges


def check_values(name: str, values: Any, fine: Any, accepted: str) -> None:
    """Raises ValueError unless `fine`, one or more booleans, holds everywhere."""
    check(np.all(fine), name, _shown(values), accepted)


def _shown(values: Any) -> Any:
    """Numbers as they were given: 0.2 and not what a float32 makes of it."""
    if isinstance(values, tuple):
        return tuple(_shown(x) for x in values)
    values = np.asarray(values)
    if values.dtype != np.float32:
        return values.tolist()
    return np.reshape([float(str(x)) for x in values.ravel()], values.shape).tolist()


def check_pair(name: str, values: Any) -> None:
    """Raises ValueError unless the last axis holds a lowest and a highest value."""
    fine = np.shape(values)[-1:] == (2,)
    check_values(name, values, fine, "a number or a range (lowest, highest)")


def check_order(name: str, values: Any) -> None:
    """Raises ValueError unless the lowest value comes first."""
    values = np.asarray(values)
    check_values(name, values, values[..., 0] <= values[..., 1], "a range (lowest, highest)")


def check_probability(name: str, value: Any) -> None:
    """Raises ValueError unless it lies within [0, 1]."""
    value = np.asarray(value)
    check_values(name, value, (value >= 0) & (value <= 1), "a probability in [0, 1]")


def check_horizon(horizon: Any, unit: str = "step") -> None:
    """Raises ValueError unless every episode has a step."""
    check_values("horizon", horizon, np.asarray(horizon) >= 1, f"at least 1 {unit}")
