"""The results of agents on task sets, and on operands, that were never taught.

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

NEVER_TAUGHT, TRAINING_OPERANDS, HELD_OUT_OPERANDS = (
    "Never taught",
    "Operands of the training",
    "Operands that were held out",
)
OPERATION_SETS = ("micro11", "micro12", "micro16", "micro16.mixed", "micro19", "micro20")
"""Task sets with operations, whose operands can be held out."""


def sets_by_table(config: Config) -> dict[str, tuple[str, ...]]:
    """Returns the task sets to play, by the title of their table."""
    operation_sets = [
        name for name in config.curriculum if name in OPERATION_SETS and config.env.split
    ]
    all_sets = {
        NEVER_TAUGHT: config.never_taught,
        TRAINING_OPERANDS: tuple(operation_sets),
        HELD_OUT_OPERANDS: tuple(operation_sets),
    }
    return {kind: names for kind, names in all_sets.items() if names}


def elsewhere_section(measured: list[dict[str, dict[str, Streams]]], config: Config) -> list[str]:
    """Returns the summary's tables, all seeds together."""
    parts = []
    for kind, names in sets_by_table(config).items() if measured else ():
        numbers = {
            agent: [
                shares(measured, kind, agent, slice(place, None, len(names)))
                for place in range(len(names))
            ]
            for agent in measured[0][kind]
        }
        heads = [[f"{agent}: right", "solved", "cleared"] for agent in numbers]
        rows = [
            [
                name,
                *(
                    f"{share:.2f}"
                    for agent_shares in numbers.values()
                    for share in agent_shares[place]
                ),
            ]
            for place, name in enumerate(names)
        ]
        parts += [
            f"## {kind}, each alone",
            "Shares of right answers, of instances that were solved, and of streams in which the "
            "task set was cleared.",
            markdown_table(["task set", *sum(heads, [])], rows),
        ]
    return parts


def shares(
    measured: list[dict[str, dict[str, Streams]]], kind: str, agent: str, places: slice
) -> tuple[float, float, float]:
    """Returns the shares of right answers, solved instances and cleared streams, over all seeds."""
    streams_by_seed = [
        jax.tree.map(lambda x: np.asarray(x)[places], seed[kind][agent]) for seed in measured
    ]
    names = ("right", "asked", "solved", "instances")
    right, questions, solved, ended = (
        sum(np.asarray(getattr(streams, name)).sum() for streams in streams_by_seed)
        for name in names
    )
    cleared = np.concatenate([np.asarray(streams.cleared) for streams in streams_by_seed])
    return right / max(questions, 1), solved / max(ended, 1), float(cleared.mean())
