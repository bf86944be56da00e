"""The program of the study `meta_rg_language_models`."""

from __future__ import annotations

import dataclasses
import functools
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import jax
import numpy as np

import gpicljax
from gpicljax.checks import Count, Range
from gpicljax.llm.budget import Ledger
from gpicljax.llm.chat import ChatModel, FakeModel, Usage
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.runs.distributed import log_once
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, RunConfig, check_config, run_experiment
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.signals import exit_code
from gpicljax.systems.meta_rg.env.game import Stimulus
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.experts.listeners import nearest_rule, rule_listener
from gpicljax.systems.meta_rg.measures.listening import Confusion
from gpicljax.systems.meta_rg.prompts.games import PlayedGames, play_listener, play_rule
from gpicljax.systems.meta_rg.prompts.sessions import ListenerSettings, answer_schema
from gpicljax.systems.meta_rg.studies.meta_rg_language_models.report import (
    ListenerResults,
    report,
)
from gpicljax.vector import VectorEnv

_EPISODES = 8  # that a dry run plays in each cell
PROMPTS = {
    "same-first": ListenerSettings(),
    "different-first": ListenerSettings(different_first=True),
}
"""How a listener is asked, by name."""


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """A language model as listener to the rule-based speaker.

    Attributes:
      env: `MetaRG-v0`, the paper's, or `MetaRG-v1`, without its shortcuts.
      episodes: Episodes of each seed.
      shots: S, each a column.
      samples: O, each a column.
      values: The most values of a dimension.
      stimulus: Representation of stimuli; categories and pseudowords have no numbers, which the
        paper takes for a cause of Table 4's accuracies.
      llm: The model that is asked; its prompts are the orders of the answers. Without an endpoint,
        a fake that always says "same" shows what everything looks like.
    """

    free: ClassVar[tuple[str, ...]] = ("preset", "seeds", "shots", "samples", "llm.prompts")

    seeds: Count = 5
    env: str = "MetaRG-v0"
    episodes: Count = 64
    shots: tuple[Count, ...] = (1, 2)
    samples: tuple[Count, ...] = (1, 4)
    values: Annotated[int, Range(2)] = 5
    stimulus: Stimulus = "scs"
    llm: LanguageModelOptions = LanguageModelOptions(
        structured=True, prompts=tuple(PROMPTS), max_tokens=64
    )

    def validate(self) -> None:
        """Refuses environments of another game, and counts below 1."""
        super().validate()
        self.llm.check_prompts(PROMPTS)
        check_config(
            self.env in ("MetaRG-v0", "MetaRG-v1"), "env", self.env, "MetaRG-v0, MetaRG-v1"
        )
        for name in ("shots", "samples"):
            value = getattr(self, name)
            check_config(bool(value), name, value, "one or more integers >= 1")


PRESETS = {"quick": Config(seeds=2, episodes=2, shots=(1,), samples=(1,)), "table4": Config()}


def language_model(config: Config, settings: ListenerSettings) -> ChatModel:
    """The model that is asked."""
    if not config.llm.asks:
        return FakeModel('{"meaning": "same"}', name="always same (fake)")
    return config.llm.client(answer_schema(settings))


def listen(run: RunDirectory, config: Config) -> ListenerResults:
    """The decisions of all cells, or of those that are whole where Ctrl-C ends the others."""
    ledger = config.llm.ledger(log_once if config.progress else None)
    decisions: dict[str, list[Confusion]] = {}
    nulls: dict[str, list[Confusion]] = {}
    tallies: dict[str, ReplyTally] = {}
    name, stopped = "", False
    try:
        for cell, vec, settings in _cells(config):
            if ledger.exhausted:
                break
            model = language_model(config, settings)
            name = model.name
            place = run.path / cell.replace(" ", "_")
            played = _seeds(config, vec, model, settings, place, ledger)
            decisions[cell] = [of_seed.query for of_seed in played]
            tallies[cell] = sum((games.tally for games in played), ReplyTally())
            nulls[cell] = null_rule(config, vec)[: len(decisions[cell])]
            log_once(f"{cell}: {decisions[cell][0].in_words()} (first seed)")
    except KeyboardInterrupt:
        log_once("stopped; the same command goes on where it was left")
        if not decisions:
            raise
        stopped = True
    spent = config.llm.summarise_spending(ledger) if config.llm.asks else ""
    return ListenerResults(name, decisions, nulls, tallies, spent, stopped)


def build(config: Config) -> Program:
    """Nothing is trained: a language model listens."""
    words = config.llm.name if config.llm.asks else "a fake, which always says the same"
    if config.dry_run:
        log_once("counting requests and tokens ...")
        words = config.llm.expected_usage(expected_usage(config))
    else:
        config.llm.check(answer_schema(PROMPTS[config.llm.prompts[0]]))
    return Program(
        title=f"a language model as listener in {config.env}",
        details={"language model": words},
        host_measures=lambda run: listen(run, config),
    )


def main(argv: list[str] | None = None) -> Mapping[str, Sequence[Confusion]]:
    """Plays, and prints and writes the table; returns decisions by seed, cell by cell.

    After a dry run there are none.
    """
    with failures_reported(ValueError):
        outcome = run_experiment("meta_rg_language_models", PRESETS, build, report, argv)
    if outcome is None:
        return {}
    if outcome.host_measured.stopped:
        raise SystemExit(exit_code(signal.SIGINT))
    return outcome.host_measured.decisions


def expected_usage(config: Config) -> Usage:
    """Requests and tokens read: the first episodes of each cell stand for all."""
    total, model = Usage(0, 0, 0), FakeModel('{"meaning": "same"}')
    few = min(config.episodes, _EPISODES)
    all_of_them = config.seeds * config.episodes
    with tempfile.TemporaryDirectory() as folder:
        for cell, vec, settings in _cells(config, few):
            place = Path(folder) / cell.replace(" ", "_")
            played = play_listener(_key(config, 0), vec, model, place, settings)
            total += Usage(*(-(-all_of_them * count // few) for count in played.usage))
    return total


def _cells(
    config: Config, episodes: int | None = None
) -> Iterator[tuple[str, VectorEnv, ListenerSettings]]:
    """Yields the table's cells: name, episodes, and how they are asked about."""
    for samples in config.samples:
        for shots in config.shots:
            env = gpicljax.make(
                config.env,
                max_values=config.values,
                max_shots=shots,
                max_samples=samples,
                stimulus=config.stimulus,
            )
            params = env.make_params(shots=shots, samples=samples)
            vec = VectorEnv(env, episodes or config.episodes, resets="fresh", params=params)
            for settings in map(PROMPTS.__getitem__, config.llm.prompts):
                yield f"O={samples} S={shots} {settings.order[0]} first", vec, settings


def _key(config: Config, seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(config.seed), np.uint32(seed))


@functools.cache
def null_rule(config: Config, vec: VectorEnv) -> list[Confusion]:
    """The nearest stimulus that was fed back decides, on the same episodes: nothing is trained."""
    env = vec.env
    assert isinstance(env, MetaRG)
    agent = rule_listener(env, nearest_rule(env))
    return [play_rule(_key(config, seed), vec, agent).query for seed in range(config.seeds)]


def _seeds(
    config: Config,
    vec: VectorEnv,
    model: ChatModel,
    settings: ListenerSettings,
    folder: Path,
    ledger: Ledger,
) -> list[PlayedGames]:
    """Plays the episodes of each seed, while the budget lasts."""
    by_seed: list[PlayedGames] = []
    for seed in range(config.seeds):
        if by_seed and ledger.exhausted:
            break
        played = play_listener(
            _key(config, seed),
            vec,
            model,
            folder / f"seed_{seed}",
            settings,
            **config.llm.asking(ledger),
        )
        if played.episodes < vec.num_envs:
            last = played.faults[-1] if played.faults else "episodes were cut"
            log_once(f"seed {seed}: {played.episodes} of {vec.num_envs} episodes are over; {last}")
        by_seed.append(played)
    return by_seed
