"""What agents of `gradual_learning.py` make of task sets, and of operands, that were never taught.

Each task set is played alone, with frozen weights, by the learner and by the nulls: those of
`config.elsewhere`, and those of the curriculum with the operands of the training and with others,
where some are held out.
"""

from __future__ import annotations

import jax
import numpy as np

from gpicljax.evaluation.tables import markdown_table
from gpicljax.systems.gradual_learning.measures.streams import Streams
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import Config

STRANGE, KNOWN, NEW = "Never taught", "Operands of the training", "Operands that were held out"
COMPOSED = ("micro11", "micro12", "micro16", "micro16.mixed", "micro19", "micro20")
"""Task sets with operations, whose operands can be held out."""


def kinds(config: Config) -> dict[str, tuple[str, ...]]:
    """Which task sets are played, by the title of their table."""
    composed = [name for name in config.curriculum if name in COMPOSED and config.env.split]
    found = {STRANGE: config.strange, KNOWN: tuple(composed), NEW: tuple(composed)}
    return {kind: names for kind, names in found.items() if names}


def elsewhere_section(measured: list[dict[str, dict[str, Streams]]], config: Config) -> list[str]:
    """The summary's tables: all seeds together."""
    parts = []
    for kind, names in kinds(config).items() if measured else ():
        numbers = {
            agent: [
                shares(measured, kind, agent, slice(place, None, len(names)))
                for place in range(len(names))
            ]
            for agent in measured[0][kind]
        }
        heads = [[f"{agent}: right", "solved", "cleared"] for agent in numbers]
        rows = [
            [name, *(f"{share:.2f}" for each in numbers.values() for share in each[place])]
            for place, name in enumerate(names)
        ]
        parts += [
            f"## {kind}, each alone",
            "",
            "Shares of right answers, of instances that were solved, and of streams in which the "
            "task set was cleared.",
            "",
            markdown_table(["task set", *sum(heads, [])], rows),
            "",
        ]
    return parts


def shares(
    measured: list[dict[str, dict[str, Streams]]], kind: str, agent: str, which: slice
) -> tuple[float, float, float]:
    """Shares of right answers, of solved instances and of cleared streams, over all seeds."""
    of = [jax.tree.map(lambda x: np.asarray(x)[which], seed[kind][agent]) for seed in measured]
    names = ("right", "asked", "solved", "instances")
    right, asked, solved, ended = (
        sum(np.asarray(getattr(one, name)).sum() for one in of) for name in names
    )
    cleared = np.concatenate([np.asarray(one.cleared) for one in of])
    return right / max(asked, 1), solved / max(ended, 1), float(cleared.mean())
