"""Types for annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, Union

import jax
import numpy as np


class Dataclass(Protocol):
    """A dataclass, which is a pytree where it is registered as one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Array: TypeAlias = jax.Array | np.ndarray | np.bool_ | np.number
"""An array, traced or concrete, on a device or on the host."""

ArrayTree: TypeAlias = Union[  # noqa: UP007 - a name in quotes has no `|`
    Array, float, Sequence["ArrayTree"], Mapping[Any, "ArrayTree"], Dataclass, None
]
"""A pytree of arrays: parameters, memories, tasks, states, observations, actions."""

Observation: TypeAlias = Array | Mapping[str, Any]
"""An observation: an array, or a dictionary of what there is to see."""

Variables: TypeAlias = Mapping[str, Any]
"""Variables of Linen modules: nested dictionaries of arrays by collection, module and name."""

JsonObject: TypeAlias = Mapping[str, Any]
"""An object of a JSON file: what its entries are depends on their names."""
