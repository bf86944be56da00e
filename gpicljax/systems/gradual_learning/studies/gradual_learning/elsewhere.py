"""The results of agents on task sets, and on operands, that were never taught.

Each task set is played alone, with frozen weights, by the learner and by the nulls: those of
`config.elsewhere`, and those of the curriculum with the operands of the training and with others,
where some are held out.
"""

from __future__ import annotations

import jax
import numpy as np

from gpicljax.evaluation.statistics import mean_interval
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
    """Returns the summary's tables, over the streams of all seeds."""
    parts = []
    for kind, names in sets_by_table(config).items() if measured else ():
        agents = [config.learner_name, *config.nulls]
        head = [f"{agent}: right, %" for agent in agents]
        leads = [f"{config.learner_name} - {null}" for null in config.nulls]
        rows = []
        for place, name in enumerate(names):
            streams = {
                agent: jax.tree.map(
                    lambda *x: np.concatenate([seed[place :: len(names)] for seed in x]),  # noqa: B023
                    *(jax.tree.map(np.asarray, seed[kind][agent]) for seed in measured),
                )
                for agent in agents
            }
            right = {
                agent: x.right.sum((1, 2)) / np.maximum(x.asked.sum((1, 2)), 1)
                for agent, x in streams.items()
            }
            learner = right[config.learner_name]
            cleared = [int((x.cleared > 0).sum()) for x in streams.values()]
            cells = [mean_interval(x).percent for x in right.values()]
            paired = [
                mean_interval(100 * (learner - right[x])).format("+.1f") for x in config.nulls
            ]
            rows.append(
                [name, *cells, *paired, f"{' / '.join(map(str, cleared))} of {len(learner)}"]
            )
        parts += [
            f"## {kind}, each alone",
            "Right answers in %, means over streams, and leads over the nulls on the same streams; "
            "and how many streams each agent of the first columns cleared.",
            markdown_table(["task set", *head, *leads, "cleared"], rows),
        ]
    return parts
