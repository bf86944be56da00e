"""The program of the study `meta_rg_stimuli`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.checks import Count, Natural, Range
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import (
    Program,
    Report,
    RunResult,
    TrainingConfig,
    check_config,
    named_key,
    run_experiment,
)
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.measures.disentanglement import (
    factor_vae_score,
    modularity,
    mutual_information_gap,
)
from gpicljax.systems.meta_rg.measures.speaker_language import meanings

Row = tuple[str, int, int]
MEASURES = ("FactorVAE score", "MIG", "modularity")
PAPER: dict[Row, str] = {
    ("scs", 5, 128): "100.0 / 94.8 / 98.9 (number of stimuli not stated)",
    ("scs", 1, 128): "not affected / 64.4 / 66.6 (as low as; likewise)",
}


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Measures how disentangled stimuli are; nothing is trained.

    Attributes:
      stimuli: Representations: scs, mhe.
      values: Values of each of the three dimensions.
      samples: Object-centric samples O.
      rows: Stimuli measured, drawn from all of a structure; 0 for all of them, each once.
      structures: Structures drawn.
    """

    seeds: Count = 1
    stimuli: tuple[str, ...] = ("scs", "mhe")
    values: Annotated[int, Range(2)] = 5
    samples: tuple[Count, ...] = (1, 5, 16)
    rows: tuple[Natural, ...] = (128, 256, 10_000, 0)
    structures: Count = 10

    def validate(self) -> None:
        """Refuses other representations, and counts below 1."""
        super().validate()
        is_supported = set(self.stimuli) <= {"scs", "mhe"} and bool(self.stimuli)
        check_config(is_supported, "stimuli", self.stimuli, "scs, mhe")
        for name in ("samples", "rows"):
            check_config(bool(getattr(self, name)), name, (), "at least one number")
        check_config(1 not in self.rows, "rows", self.rows, "0, or 2 and more")


def measure(config: Config, row: Row) -> dict[str, np.ndarray]:
    """Returns every measure of every structure, `float64[structures]`."""
    stimulus, samples, rows = row
    env = gpicljax.make("MetaRG-v1", max_values=config.values, max_samples=samples)
    assert isinstance(env, MetaRG)
    most = {"min_values": config.values, "max_values": config.values}
    params = env.make_params(samples=samples, **most)
    factors = jnp.asarray(np.repeat(meanings(env), samples, axis=0))
    views = jnp.tile(jnp.arange(samples), len(factors) // samples)

    @jax.jit
    @jax.vmap
    def score(key: jax.Array) -> tuple[jax.Array, ...]:
        task_key, votes_key, draw_key = jax.random.split(key, 3)
        if stimulus == "scs":
            table = env.sample_task(task_key, params).table
            codes = table[jnp.arange(env.num_dims), factors, views[:, None]]
        else:
            codes = jax.nn.one_hot(factors, config.values).reshape(len(factors), -1)
        drawn: dict[str, Any] = {"num_values": config.values}
        if rows:
            drawn |= {"samples": rows, "key": draw_key}
        gap = mutual_information_gap(factors, codes, **drawn)
        return factor_vae_score(votes_key, factors, codes), gap, modularity(factors, codes, **drawn)

    keys = jax.random.split(named_key(config.seed, "structures"), config.structures)
    scores = within_memory(score, f"{config.structures:,} structures")(keys)
    arrays = (np.asarray(values, np.float64) for values in scores)
    return dict(zip(MEASURES, arrays, strict=True))


def build(config: Config) -> Program:
    """Nothing is trained: what is measured needs no agent."""

    def measure_all(run: RunDirectory) -> dict[Row, dict[str, np.ndarray]]:
        kinds = [
            (stimulus, samples, rows)
            for stimulus in config.stimuli
            # One-hot stimuli of a meaning are all the same.
            for samples in (config.samples if stimulus == "scs" else (1,))
            for rows in config.rows
        ]
        return {row: measure(config, row) for row in kinds}

    return Program(
        title="Disentanglement of stimuli",
        host_measures=measure_all,
    )


def report(outcome: RunResult) -> Report:
    """Returns the table, beside the paper's numbers."""
    config = outcome.config
    results, rows = {}, []
    for (stimulus, samples, limit), by_measure in outcome.host_measured.items():
        words = [mean_interval(values).moments.percent for values in by_measure.values()]
        count = "all" if limit == 0 else f"{limit:,}"
        rows.append([stimulus, samples, count, *words, PAPER.get((stimulus, samples, limit), "")])
        results[f"{stimulus}, O = {samples}, {count}"] = by_measure
    head = ["stimulus", "O", "stimuli measured", *MEASURES, "paper"]
    text = join_paragraphs(
        f"# Disentanglement of stimuli, V = {config.values}, N = 3",
        f"In %, mean ± standard deviation over {config.structures} structures.",
        markdown_table(head, rows),
    )
    return Report(text, results)


PRESETS = {"quick": Config(), "disentanglement": Config(structures=100)}


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_rg_stimuli", PRESETS, build, report, argv)
