"""Numbers as printed in the paper, for tables that compare ours with theirs.

Accuracies are fractions in [0, 1] (the paper prints per cent). They are means over sizes of history
that the text does not name, of prompts that are not ours, about agents that are not ours: what
stands beside them here is not comparable one to one. Nor is there a null in the paper: it has no
accuracy of copying the last action.

Source: Lu et al. (2024), "Mental modelling of reinforcement learning agents by language models".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gpicljax.registration import id_without_version

MODELS: Final = ("GPT-3.5", "Llama3-8b", "Llama3-70b")
TASKS: Final = ("MountainCar", "Acrobot", "Pendulum")
QUESTIONS: Final = ("next_action", "last_action", "next_state", "last_state")


class Printed(NamedTuple):
    """One cell of Table 6.

    Attributes:
      plain: accuracy with a history of three lists.
      indexed: with a history step by step, each with its number.
    """

    plain: float
    indexed: float

    @property
    def best(self) -> float:
        """Returns the better of the two."""
        return max(self)


def _row(*cells: tuple[float, float]) -> dict[tuple[str, str], Printed]:
    places = [(task, model) for task in TASKS for model in MODELS]
    shares = [Printed(round(a / 100, 6), round(b / 100, 6)) for a, b in cells]
    return dict(zip(places, shares, strict=True))


_TABLE_6 = {
    "next_action": _row(
        (74.60, 81.48), (59.10, 68.63), (86.18, 87.06),
        (43.94, 46.36), (46.29, 44.95), (65.12, 64.73),
        (17.08, 17.49), (3.72, 3.51), (11.77, 12.42),
    ),
    "last_action": _row(
        (76.73, 80.06), (61.83, 73.99), (78.87, 76.85),
        (39.25, 44.62), (47.24, 42.35), (55.32, 55.40),
        (14.28, 20.63), (1.58, 1.89), (14.02, 13.86),
    ),
    "next_state": _row(
        (33.43, 37.41), (30.81, 33.65), (37.04, 40.68),
        (0.30, 0.00), (0.26, 0.42), (0.13, 0.43),
        (9.52, 7.89), (8.34, 6.65), (7.61, 5.49),
    ),
    "last_state": _row(
        (31.97, 32.41), (22.12, 22.45), (29.32, 35.25),
        (1.14, 0.61), (2.95, 2.32), (1.69, 2.87),
        (6.46, 5.41), (10.54, 8.27), (10.22, 7.64),
    ),
}  # fmt: skip

TABLE_6: Final[Mapping[tuple[str, str, str], Printed]] = MappingProxyType(
    {
        (task, question, model): printed
        for question, row in _TABLE_6.items()
        for (task, model), printed in row.items()
    }
)
"""Accuracy by (task, question, model). A state counts as right if all of its elements are."""

ERRORS: Final = (
    "task understanding",
    "logic",
    "history understanding",
    "physical understanding",
    "mathematical understanding",
    "missing information",
)
"""The six types of Table 5, in its order."""

TABLE_1: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "GPT-3.5": (9, 5, 3, 1, 2, 9),
        "Llama3-8b": (30, 19, 18, 2, 25, 10),
        "Llama3-70b": (16, 4, 4, 3, 2, 13),
    }
)
"""Numbers of 50 replies about MountainCar with an error of each type, maybe several."""

TABLE_2: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {"GPT-3.5": (0.60, 0.67), "Llama3-8b": (0.40, 0.52), "Llama3-70b": (0.67, 0.65)}
)
"""Judging an action in 50 steps of MountainCar: right in a reviewer's eyes, and by the agent's."""

PENDULUM_MOST: Final[Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        ("GPT-3.5", "bins"): 0.3919,
        ("Llama3-8b", "bins"): 0.1087,
        ("GPT-3.5", "absolute"): 0.5682,
        ("Llama3-8b", "absolute"): 0.4773,
    }
)
"""The most that section 5.1 has of Pendulum's actions, as parts of the range or as numbers."""


def best_language_model(environment: str, question: str) -> tuple[str, float] | None:
    """Returns the paper's best model, and its accuracy with the better format; None if none is.

    Example:
      >>> best_language_model("MountainCar-v0", "next_action")
      ('Llama3-70b', 0.8706)
      >>> best_language_model("FrozenLake-v1", "next_action") is None
      True
    """
    task = id_without_version(environment)
    accuracies = {
        model: TABLE_6[task, question, model].best
        for model in MODELS
        if (task, question, model) in TABLE_6
    }
    return max(accuracies.items(), key=lambda item: item[1]) if accuracies else None
