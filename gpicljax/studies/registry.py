"""The studies by name. A study is imported when it runs, never before."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpicljax.checks import unknown_choice
from gpicljax.storage.reading import read_bytes

_SYSTEMS = {
    "meta_rg": (
        "meta_rg",
        "meta_rg_players",
        "meta_rg_language_models",
        "meta_rg_rules",
        "meta_rg_stimuli",
        "recall",
    ),
    "meta_language": ("meta_language", "meta_language_compare"),
    "maze_world": (
        "maze_world",
        "maze_world_autoencoder",
        "maze_world_data",
        "maze_world_variants",
    ),
    "in_context_rl": (
        "in_context_rl",
        "in_context_rl_bias",
        "in_context_rl_histories",
        "in_context_rl_train",
        "in_context_control",
    ),
    "mental_modelling": ("mental_modelling",),
    "gradual_learning": (
        "gradual_learning",
        "gradual_learning_lifelong",
        "gradual_learning_online",
    ),
}

STUDIES: dict[str, str] = {
    study: f"gpicljax.studies.{study}" for study in ("train_agent", "one_learner")
} | {
    study: f"gpicljax.systems.{system}.studies.{study}"
    for system, studies in _SYSTEMS.items()
    for study in studies
}
"""Package of each study, by name."""


def run_study(name: str, argv: Sequence[str] | None = None) -> Any:
    """Runs a study.

    Args:
      name: a name in `STUDIES`.
      argv: arguments of the study; `sys.argv[1:]` by default.

    Returns:
      What the study's `main` returns: a `RunResult`, or None after a dry run.

    Raises:
      ValueError: for an unknown name.
      SystemExit: for arguments that the study does not accept.

    Example:
      >>> run_study("meta_rg", ["--preset", "quick", "--seeds", "1", "--dry-run"])  # doctest: +SKIP
    """
    if name not in STUDIES:
        raise ValueError(unknown_choice("study", name, STUDIES))
    return importlib.import_module(f"{STUDIES[name]}.program").main(argv)


def study_summary(name: str) -> str:
    """Returns the first line of a study's documentation, read without importing the study.

    Example:
      >>> study_summary("train_agent")
      'Trains one agent per seed on any registered environment, evaluates, saves and films it.'
    """
    root = Path(__file__).parents[1].joinpath(*STUDIES[name].split(".")[1:])
    docstring = ast.get_docstring(ast.parse(read_bytes(root / "__init__.py")))
    return (docstring or "").partition("\n")[0]
