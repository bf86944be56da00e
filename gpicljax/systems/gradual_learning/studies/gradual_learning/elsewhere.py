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
    agents = [config.learner_name, *config.nulls]
    head = ["task set", *(f"{agent}: right, %" for agent in agents)]
    head += [*(f"{config.learner_name} - {null}" for null in config.nulls), "cleared"]
    parts = []
    for kind, names in sets_by_table(config).items() if measured else ():
        by_agent = [[seed[kind][agent] for seed in measured] for agent in agents]
        rows = [
            [name, *_cells([_join_streams(seeds, place, len(names)) for seeds in by_agent])]
            for place, name in enumerate(names)
        ]
        parts += [
            f"## {kind}, each alone",
            "Right answers in %, means over streams, and leads over the nulls on the same streams; "
            "and how many streams each agent of the first columns cleared.",
            markdown_table(head, rows),
        ]
    return parts


def _join_streams(seeds: list[Streams], place: int, count: int) -> Streams:
    """Returns the streams of one of so many task sets, of all seeds."""
    of_set = (jax.tree.map(lambda x: np.asarray(x)[place::count], seed) for seed in seeds)
    return jax.tree.map(lambda *x: np.concatenate(x), *of_set)


def _cells(streams: list[Streams]) -> list[str]:
    """Returns shares of right answers, leads of the first agent, and counts of cleared streams."""
    right = [x.right.sum((1, 2)) / np.maximum(x.asked.sum((1, 2)), 1) for x in streams]
    leads = [mean_interval(100 * (right[0] - null)).format("+.1f") for null in right[1:]]
    cleared = " / ".join(str(int((x.cleared > 0).sum())) for x in streams)
    cells = [mean_interval(shares).percent for shares in right]
    return [*cells, *leads, f"{cleared} of {len(right[0])}"]
