"""What agents of `gradual_learning.py` make of task sets, and of operands, that were never taught.

Each task set is played alone, with frozen weights, by the learner and by the null: those of
`config.elsewhere`, and those of the curriculum with the operands of the training, where others are
held out.
"""

from __future__ import annotations

import jax
import numpy as np

from gpicljax.systems.gradual_learning.measures.streams import Streams
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import Config

STRANGE, KNOWN = "task sets elsewhere", "known operands"


def elsewhere_section(measured: list[dict[str, dict[str, Streams]]], config: Config) -> list[str]:
    """The summary's tables: all seeds together."""
    parts = []
    for kind, names in ((STRANGE, config.strange), (KNOWN, config.curriculum)):
        if not measured or kind not in measured[0]:
            continue
        numbers = {
            agent: [
                shares(measured, kind, agent, slice(place, None, len(names)))
                for place in range(len(names))
            ]
            for agent in measured[0][kind]
        }
        heads = [f"{agent}: right | solved | cleared" for agent in numbers]
        columns = 1 + 3 * len(numbers)
        lines = [f"| task set | {' | '.join(heads)} |", "|---" * columns + "|"]
        for place, name in enumerate(names):
            cells = [f"{share:.2f}" for each in numbers.values() for share in each[place]]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        title = {STRANGE: "Never taught", KNOWN: "Operands of the training"}[kind]
        parts += [
            f"## {title}, each alone",
            "",
            "Shares of right answers, of instances that were solved, and of streams in which the "
            "task set was cleared.",
            "",
            *lines,
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
