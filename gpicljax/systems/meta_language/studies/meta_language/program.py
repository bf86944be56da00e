"""The program of the study `meta_language`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents import sequence
from gpicljax.agents.language_agent import LanguageModelConfig, language_agent
from gpicljax.evaluation.returns import Episode, record_episode
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import language_model
from gpicljax.networks.transformer import generate
from gpicljax.runs import load_language_model, save_agent
from gpicljax.runs.saved_agents import agents_of
from gpicljax.runtime import Measure, Program, RunResult, Sharding, named_key, run_experiment
from gpicljax.systems.meta_language.data.text import text_windows
from gpicljax.systems.meta_language.data.training import TrainingTexts
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.systems.meta_language.measures.curves import nats_without_memory
from gpicljax.systems.meta_language.measures.demonstrations import (
    TEMPERATURE,
    Demonstration,
    demonstrations,
)
from gpicljax.systems.meta_language.measures.nulls import nats_by
from gpicljax.systems.meta_language.studies.meta_language.config import PRESETS, Config
from gpicljax.systems.meta_language.studies.meta_language.report import (
    Extras,
    Measures,
    report,
)
from gpicljax.typing import ArrayTree

GENERATED = 192
"""Tokens of a continuation."""
REPLAYED = 1024
"""Tokens of an episode to be replayed, at most."""


class Languages(NamedTuple):
    """Sequences of N languages, and what a model makes of them; T tokens each.

    Attributes:
      tokens: `uint8[N, T + 1]`.
      nats: float `[N, T]`, of each token but the first, by the model.
      wiped: float `[N, T]`, by the model that sees the token before alone.
      floor: float `[N, T]`, by the language itself.
    """

    tokens: jax.Array
    nats: jax.Array
    wiped: jax.Array
    floor: jax.Array


def measures_of(
    config: Config,
    texts: TrainingTexts,
    network: Network,
    windows: np.ndarray | None,
    demonstrations: Sequence[Demonstration],
) -> Measures:
    """Returns the measures of every model: all seeds on the same sequences."""
    env = texts.env

    def languages(
        key: jax.Array,
        params: ArrayTree,
        cell: ArrayTree,
        low: jax.Array,
        high: jax.Array,
        is_familiar: jax.Array,
    ) -> Languages:
        """Languages of orders low .. high, of those trained on if `is_familiar`."""
        del key, cell
        root = jax.random.fold_in(named_key(config.seed, "languages"), 16 * low + high)
        key, task_key = jax.random.split(root)
        task_keys = jax.random.split(task_key, config.evaluation_sequences)
        if config.tasks:
            task_keys = jnp.where(is_familiar, texts.known_languages(task_keys), task_keys)
        params_of = dataclasses.replace(env.default_params, min_order=low, max_order=high)
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params_of)
        tokens, log_probs = env.sample_sequences(
            key, tasks, config.evaluation_context, with_log_probs=True
        )
        tokens = tokens[:, 0].astype(jnp.uint8)
        nats = (
            nats_by(network, params, tokens),
            nats_without_memory(network, params, tokens, env.vocab_size),
        )
        return Languages(tokens, *nats, -log_probs[:, 0])

    def text(key: jax.Array, params: ArrayTree, cell: ArrayTree, windows: jax.Array) -> jax.Array:
        del key, cell
        return nats_by(network, params, windows)

    def continue_prompts(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, prompts: jax.Array
    ) -> jax.Array:
        del key, cell
        key = named_key(config.seed, "demonstrations")
        return generate(key, network, params, prompts, GENERATED, TEMPERATURE)

    tokens = min(config.evaluation_context, REPLAYED)
    replayed = env.make_params(
        min_order=config.orders[0], max_order=config.orders[1], horizon=tokens
    )

    def episode(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> Episode:
        """Returns an unseen language, token by token; `aux` has its own predictions."""
        del cell
        agent = language_agent(network, env.action_space())
        played = record_episode(key, env, agent, params, max_steps=tokens, env_params=replayed)
        truth = jax.vmap(env.privileged, (0, None))(played.states, played.task)
        return played._replace(aux=truth)

    def orders(low: int, high: int, is_familiar: bool = False) -> Measure:
        return Measure(languages, (np.int32(low), np.int32(high), is_familiar))

    low, high = config.evaluation_orders
    kinds = {f"n = {order}": orders(order, order) for order in range(low, high + 1)}
    if config.tasks:
        kinds["seen languages"] = orders(*config.orders, is_familiar=True)
        kinds["unseen languages"] = orders(*config.orders)
    return Measures(
        languages=kinds,
        text=None if windows is None else Measure(text, (windows,)),
        continued={x.name: Measure(continue_prompts, (x.prompts,)) for x in demonstrations},
        episode=Measure(episode),
    )


def build(config: Config) -> Program:
    """Wires generator, model and trainer together."""
    options = {"slot_weights": config.slot_weights, "calibration": config.calibration}
    env = gpicljax.make("MetaLanguage-v0", **options)
    assert isinstance(env, MetaLanguage)
    capacity = max(config.context, config.evaluation_context)
    network = language_model(config.model, env.vocab_size, capacity)
    texts = TrainingTexts(
        env,
        config.context,
        config.tasks,
        named_key(config.seed, "tasks"),
        config.other_languages,
        config.lexicons,
    )
    updates = config.updates(config.observations_per_update)
    # The same key is another language where orders are others: a finite set has one range of them.
    warmup = 0 if config.tasks else round(config.warmup_share * updates)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)

    def data(updates: jax.Array) -> Any:
        """Returns the distribution over languages in force after so many updates."""
        (low, high), (first_low, first_high) = config.orders, config.warmup_orders
        warm = updates < warmup
        return dataclasses.replace(
            env.default_params,
            min_order=jnp.where(warm, first_low, low).astype(jnp.int32),
            max_order=jnp.where(warm, first_high, high).astype(jnp.int32),
        )

    def make(devices: int = 1, axis: str | None = None) -> Any:
        losses = [sequence.cross_entropy("nats")]
        return sequence.make(config.agent, network, texts.sample, losses, devices, axis)

    trainer = make()

    def init(key: jax.Array, cell: ArrayTree) -> Any:
        state = trainer.init(key, hparams, data(jnp.zeros((), jnp.int32)))
        return state if config.start_from is None else dataclasses.replace(state, params=cell)

    longest = min(config.evaluation_context - GENERATED, 2048)
    shown = demonstrations(config.demonstrations, longest, env.vocab_size)
    languages_in_words = f"{config.tasks:,} different ones" if config.tasks else "each seen once"
    beyond = {
        "note": f"evaluated on {config.evaluation_context:,} tokens of context, trained on "
        f"{config.context:,}"
    }
    return Program(
        title=f"{config.model.title}: models of random languages",
        details={
            "languages": f"n in {config.orders[0]} .. {config.orders[1]}, {languages_in_words}",
            **(beyond if config.evaluation_context > config.context else {}),
        },
        init=init,
        update=trainer.update,
        observations=config.observations_per_update if config.train else 0,
        cells=models_to_start_from(config, capacity),
        between=lambda state: dataclasses.replace(state, data=data(state.updates)),
        measures=measures_of(config, texts, network, natural_text(config), shown),
        key_metric="nats",
        save=lambda folder, cell, **about: (
            save_agent(
                folder,
                algorithm="language-model",
                env_id="MetaLanguage-v0",
                env_options=options,
                env_params=env.make_params(min_order=config.orders[0], max_order=config.orders[1]),
                num_envs=config.agent.batch_size,
                config=LanguageModelConfig(
                    **dataclasses.asdict(config.agent), length=config.context, capacity=capacity
                ),
                network=config.model,
                tasks=config.tasks,
                **about,
            )
            if config.train
            else None
        ),
        sharding=Sharding(
            config.agent.batch_size // config.agent.microbatches,
            lambda devices, axis: make(devices, axis).update,
            trainer.partition,
        )
        if config.train
        else None,
        more=Extras(env, shown),
    )


def models_to_start_from(config: Config, capacity: int) -> dict[str, Any]:
    """Returns the parameters of saved models, each a cell; a single empty cell to start anew."""
    start = config.start_from
    if start is None:
        return {"": ()}
    agents = agents_of(start)
    names = [""] if len(agents) == 1 else [f"seed_{seed}" for _, seed, _ in agents]
    models = [load_language_model(folder, capacity, config.model) for *_, folder in agents]
    return {name: model.params for name, model in zip(names, models, strict=True)}


def natural_text(config: Config) -> np.ndarray | None:
    """Windows `uint8[N, T + 1]` of the texts; None without any."""
    if not config.text_windows:
        return None
    windows = text_windows(config.text_dir, config.evaluation_context, config.seed)
    if len(windows) < 2:
        raise ValueError(f"text_dir: got text for one window of {windows.shape[1]}; two are needed")
    keep = np.linspace(0, len(windows) - 1, min(len(windows), config.text_windows)).astype(int)
    return windows[keep]


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_language", PRESETS, build, report, argv)
