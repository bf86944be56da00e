"""The queries of the study `mental_modelling`: a function of its configuration and its data."""

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
    """Returns folders of episodes by task; raises a ConfigError if there are none."""
    folders: dict[str, list[Path]] = {}
    for card in visible_files(config.data, "*/*/episodes.json"):
        folders.setdefault(card.parent.parent.name, []).append(card.parent)
    names = ", ".join(folders) or "a folder that `mental_modelling.py collect` wrote"
    for name in config.tasks or ("",):
        is_present = name in folders if name else bool(folders)
        expected = f"a folder with episodes of {name or 'any task'}; {names}"
        check_config(is_present, "data", str(config.data), expected)
    return {name: folders[name] for name in config.tasks or folders}


def episodes_of(folders: list[Path]) -> Episodes:
    """Returns the episodes of a task's folders; ends the process if one is damaged."""
    try:
        return join_episodes(*(load_episodes(folder) for folder in folders))
    except (SavedError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


def cells_of(config: Config, tasks: Mapping[str, list[Path]]) -> Iterator[Queries]:
    """Returns all queries, by task, question, form and size of history."""
    for folders in tasks.values():
        _, test_episodes = split_episodes(config, episodes_of(folders))
        sizes = histories_of(config, test_episodes)
        for sized in queries_of(config, take_long_enough(test_episodes, sizes), sizes):
            yield from sized


def split_episodes(config: Config, episodes: Episodes) -> tuple[Episodes | None, Episodes]:
    """Returns the episodes to learn from, or None, and those of agents that are asked about.

    Agents are told apart by what their names end in; where no name does, a third is asked about.
    """
    names = list(dict.fromkeys(episodes.agents))
    unseen = [name for name in names if name.endswith(config.unseen)] or names[::3]
    skilled = [name for name in unseen if config.skill and config.skill in name] or unseen
    is_seen = np.array([name not in unseen for name in episodes.agents])
    is_asked = np.array([name in skilled for name in episodes.agents])
    return take_episodes(episodes, is_seen) if is_seen.any() else None, take_episodes(
        episodes, is_asked
    )


def histories_of(config: Config, episodes: Episodes) -> tuple[int, ...]:
    """Returns the sizes of history for which a fifth of the episodes are long enough."""
    enough = max(2, len(episodes.length) // 5)
    fits = [size for size in config.histories if (episodes.length > size + 2).sum() >= enough]
    return tuple(sorted(fits)) or (0,)


def take_long_enough(episodes: Episodes, sizes: tuple[int, ...]) -> Episodes:
    """Returns the episodes with a step to ask about in every size of history."""
    return take_episodes(episodes, episodes.length > max(sizes) + 1)


def queries_of(config: Config, long: Episodes, sizes: tuple[int, ...]) -> Iterator[list[Queries]]:
    """Yields the queries of each question and form: the same steps in every size of history."""
    first = max(sizes)
    for question in config.questions:
        forms = [None]
        if question.endswith("action") and isinstance(long.action_space, Box):
            forms = ["bins", "absolute"]
        for form in forms:
            sized_queries = [
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
            yield [pick_queries(queries, config.queries, config.seed) for queries in sized_queries]
