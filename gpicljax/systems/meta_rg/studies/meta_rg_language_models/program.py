"""How the study `meta_rg_language_models` is built and run."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

import gpicljax
from gpicljax.checks import Count, Natural, Range
from gpicljax.llm.budget import Budget
from gpicljax.llm.chat import ChatModel, FakeModel
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import RunConfig, check_config, enable_compilation_cache, parse
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.signals import exit_code
from gpicljax.storage import SavedError
from gpicljax.storage.lock import LockedError
from gpicljax.systems.meta_rg.measures.listening import Confusion
from gpicljax.systems.meta_rg.prompts.games import play_listener
from gpicljax.systems.meta_rg.prompts.sessions import ListenerSettings, answer_schema
from gpicljax.systems.meta_rg.studies.meta_rg_language_models.report import report
from gpicljax.vector import VectorEnv


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """A language model as listener to the rule-based speaker.

    Attributes:
      endpoint: Address of the model, up to /v1. Without one, a fake that always says "same" shows
        what everything looks like.
      model: Its name there.
      key_variable: Environment variable with the key; empty where none is needed.
      schema: Whether to bound answers by a schema; some servers know none.
      env: `MetaRG-v0`, the paper's, or `MetaRG-v1`, without its shortcuts.
      episodes: Episodes of each seed.
      shots: S, each a column.
      samples: O, each a column.
      values: The most values of a dimension.
      orders: Whether to ask in both orders of the answers.
      requests: The most there may be in the whole run; 0 for no limit.
    """

    seeds: Count = 5
    endpoint: str | None = None
    model: str = "gpt-4o-mini"
    key_variable: str = "OPENAI_API_KEY"
    schema: bool = True
    env: str = "MetaRG-v0"
    episodes: Count = 64
    shots: tuple[Count, ...] = (1, 2)
    samples: tuple[Count, ...] = (1, 4)
    values: Annotated[int, Range(2)] = 5
    orders: bool = True
    requests: Natural = 0

    def validate(self) -> None:
        """Refuses environments of another game, and counts below 1."""
        super().validate()
        check_config(
            self.env in ("MetaRG-v0", "MetaRG-v1"), "env", self.env, "MetaRG-v0, MetaRG-v1"
        )
        for name in ("shots", "samples"):
            value = getattr(self, name)
            check_config(bool(value), name, value, "one or more integers >= 1")


PRESETS = {"quick": Config(seeds=2, episodes=2, shots=(1,), samples=(1,)), "table4": Config()}


def language_model(config: Config, settings: ListenerSettings) -> ChatModel:
    """The model that is asked."""
    if config.endpoint is None:
        return FakeModel('{"meaning": "same"}', name="always same (fake)")
    from gpicljax.llm.client import OpenAICompatible

    options: dict[str, Any] = {"options": answer_schema(settings)} if config.schema else {}
    return OpenAICompatible(
        config.endpoint, config.model, key_variable=config.key_variable or None, **options
    )


def main(argv: list[str] | None = None) -> dict[str, list[Confusion]]:
    """Plays, and prints and writes the table; returns decisions by seed, cell by cell."""
    config = parse(PRESETS, argv, prog="gpicljax run meta_rg_language_models")
    enable_compilation_cache()
    folder = config.runs_dir / "meta_rg_language_models" / config.run_name
    found: dict[str, list[Confusion]] = {}
    name = ""
    with failures_reported(SavedError, LockedError, ValueError):
        try:
            for cell, vec, settings in _cells(config):
                model = language_model(config, settings)
                name = model.name
                place = folder / cell.replace(" ", "_")
                found[cell] = [
                    _seed(config, vec, model, settings, place, seed) for seed in range(config.seeds)
                ]
                log_once(f"{cell}: {found[cell][0].in_words()} (first seed)")
        except KeyboardInterrupt:
            log_once("stopped; the same command goes on where it was left")
            if found:
                log_once(report(folder, name, found))
            raise SystemExit(exit_code(signal.SIGINT)) from None
        log_once(report(folder, name, found))
    return found


def _cells(config: Config) -> Iterator[tuple[str, VectorEnv, ListenerSettings]]:
    """The table's cells: name, episodes, and how they are asked about."""
    for samples in config.samples:
        for shots in config.shots:
            env = gpicljax.make(
                config.env, max_values=config.values, max_shots=shots, max_samples=samples
            )
            params = env.make_params(shots=shots, samples=samples)
            vec = VectorEnv(env, config.episodes, resets="fresh", params=params)
            for different_first in (False, True)[: 1 + config.orders]:
                settings = ListenerSettings(different_first=different_first)
                yield f"O={samples} S={shots} {settings.order[0]} first", vec, settings


def _seed(
    config: Config,
    vec: VectorEnv,
    model: ChatModel,
    settings: ListenerSettings,
    folder: Path,
    seed: int,
) -> Confusion:
    """The decisions of a seed's query games."""
    key = jax.random.fold_in(jax.random.key(config.seed), np.uint32(seed))
    budget = Budget(requests=config.requests or None)
    played = play_listener(key, vec, model, folder / f"seed_{seed}", settings, budget=budget)
    if played.episodes < vec.num_envs:
        last = played.faults[-1] if played.faults else "episodes were cut"
        log_once(f"seed {seed}: {played.episodes} of {vec.num_envs} episodes are over; {last}")
    return played.query
