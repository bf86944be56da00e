"""Which queries the study `mental_modelling` asks: a function of its configuration and its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gpicljax.runtime import check_config
from gpicljax.spaces import Box
from gpicljax.storage import SavedError
from gpicljax.storage.reading import visible_files
from gpicljax.systems.mental_modelling.data.episodes import Episodes, join_episodes, take_episodes
from gpicljax.systems.mental_modelling.data.stored import load_episodes
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    build_queries,
    pick_queries,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import Config


def tasks_of(config: Config) -> dict[str, list[Path]]:
    """Folders of episodes by task; a ConfigError where there are none."""
    found: dict[str, list[Path]] = {}
    for card in visible_files(config.data, "*/*/episodes.json"):
        found.setdefault(card.parent.parent.name, []).append(card.parent)
    known = ", ".join(found) or "a folder that `mental_modelling.py collect` wrote"
    for name in config.tasks or ("",):
        there = name in found if name else bool(found)
        accepted = f"a folder with episodes of {name or 'any task'}; {known}"
        check_config(there, "data", str(config.data), accepted)
    return {name: found[name] for name in config.tasks or found}


def episodes_of(folders: list[Path]) -> Episodes:
    """The episodes of a task's folders; the process ends with a message about a damaged one."""
    try:
        return join_episodes(*(load_episodes(folder) for folder in folders))
    except (SavedError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


def cells_of(config: Config, tasks: Mapping[str, list[Path]]) -> Iterator[Queries]:
    """All queries, by task, question, form and size of history."""
    for folders in tasks.values():
        _, asked = split(config, episodes_of(folders))
        sizes = histories_of(config, asked)
        for sized in queries_of(config, long_enough(asked, sizes), sizes):
            yield from sized


def split(config: Config, episodes: Episodes) -> tuple[Episodes | None, Episodes]:
    """The episodes to learn from, if there are any, and those of the agents that are asked about.

    Agents are told apart by what their names end in; where no name does, a third is asked about.
    """
    names = list(dict.fromkeys(episodes.agents))
    unseen = [name for name in names if name.endswith(config.unseen)] or names[::3]
    skilled = [name for name in unseen if config.skill and config.skill in name] or unseen
    seen = np.array([name not in unseen for name in episodes.agents])
    asked = np.array([name in skilled for name in episodes.agents])
    return take_episodes(episodes, seen) if seen.any() else None, take_episodes(episodes, asked)


def histories_of(config: Config, episodes: Episodes) -> tuple[int, ...]:
    """The sizes of history for which a fifth of the episodes are long enough."""
    enough = max(2, len(episodes.length) // 5)
    fits = [size for size in config.histories if (episodes.length > size + 2).sum() >= enough]
    return tuple(sorted(fits)) or (0,)


def long_enough(episodes: Episodes, sizes: tuple[int, ...]) -> Episodes:
    """Those that have a step to be asked about in every size of history."""
    return take_episodes(episodes, episodes.length > max(sizes) + 1)


def queries_of(config: Config, long: Episodes, sizes: tuple[int, ...]) -> Iterator[list[Queries]]:
    """The queries of each question and form: the same steps in every size of history."""
    first = max(sizes)
    for question in config.questions:
        forms = [None]
        if question.endswith("action") and isinstance(long.action_space, Box):
            forms = ["bins", "absolute"]
        for form in forms:
            asked = [
                build_queries(
                    long,
                    question,  # type: ignore[arg-type]
                    form=form,  # type: ignore[arg-type]
                    history=history,
                    first=first,
                    decimals=config.decimals,
                    seed=config.seed,
                )
                for history in sizes
            ]
            yield [pick_queries(each, config.queries, config.seed) for each in asked]
