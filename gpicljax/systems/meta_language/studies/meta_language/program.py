"""The program of the study `meta_language`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents import sequence
from gpicljax.agents.language_agent import LanguageModelConfig, language_agent
from gpicljax.agents.sequence import Sequences
from gpicljax.evaluation.returns import Episode, record_episode
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import language_model
from gpicljax.networks.transformer import generate
from gpicljax.runs import load_language_model, save_agent
from gpicljax.runtime import Measure, Program, RunResult, Sharding, named_key, run_experiment
from gpicljax.systems.meta_language.data.faulty_text import (
    SUM_SYMBOLS,
    WORDS,
    judge_sums,
    judge_words,
    sums,
    words,
)
from gpicljax.systems.meta_language.data.lexicon import sample_lexicon_text
from gpicljax.systems.meta_language.data.text import SYMBOLS, SymbolMap, text_windows
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage, Params, Task
from gpicljax.systems.meta_language.measures import nats_by
from gpicljax.systems.meta_language.studies.meta_language.config import PRESETS, Config
from gpicljax.systems.meta_language.studies.meta_language.report import (
    TEMPERATURE,
    Demonstration,
    Extras,
    Measures,
    report,
)
from gpicljax.typing import ArrayTree

VOCABULARY = 32
GENERATED = 192
"""Tokens of each of them."""
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


def nats_without_memory(network: Network, params: ArrayTree, tokens: jax.Array) -> jax.Array:
    """Returns `nats_by` of a model with its memory cleared before every token."""
    vocabulary = jnp.arange(VOCABULARY, dtype=jnp.int32)
    logits, _ = network.unroll(params, None, vocabulary[None], None)
    nats = -jax.nn.log_softmax(logits[0].astype(jnp.float32))
    return nats[tokens[:, :-1], tokens[:, 1:]]


def known_languages(config: Config, keys: jax.Array) -> jax.Array:
    """Returns the keys of languages drawn from the finite set that is trained on."""
    every = gpicljax.TaskSet.create(named_key(config.seed, "tasks"), config.tasks).keys
    return every[jax.vmap(lambda key: jax.random.randint(key, (), 0, config.tasks))(keys)]


def measures_of(
    config: Config,
    env: MetaLanguage,
    network: Network,
    windows: np.ndarray | None,
    demonstrations: Sequence[Demonstration],
) -> Measures:
    """Returns the measures of every model: all seeds on the same sequences."""

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
            task_keys = jnp.where(is_familiar, known_languages(config, task_keys), task_keys)
        params_of = dataclasses.replace(env.default_params, min_order=low, max_order=high)
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params_of)
        tokens, log_probs = env.sample_sequences(
            key, tasks, config.evaluation_context, with_log_probs=True
        )
        tokens = tokens[:, 0].astype(jnp.uint8)
        nats = nats_by(network, params, tokens), nats_without_memory(network, params, tokens)
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
    longest = max(config.context, config.evaluation_context)
    network = language_model(config.model, VOCABULARY, longest)
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
        sample = functools.partial(sample_sequences, config, env)
        return sequence.make(config.agent, network, sample, losses, devices, axis)

    trainer = make()

    def init(key: jax.Array, cell: ArrayTree) -> Any:
        state = trainer.init(key, hparams, data(jnp.zeros((), jnp.int32)))
        return state if config.start_from is None else dataclasses.replace(state, params=cell)

    shown = demonstrations(config)
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
        cells=models_to_start_from(config, longest),
        between=lambda state: dataclasses.replace(state, data=data(state.updates)),
        measures=measures_of(config, env, network, natural_text(config), shown),
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
                    **dataclasses.asdict(config.agent), length=config.context, capacity=longest
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
        more=Extras(env, VOCABULARY, shown),
    )


def sample_sequences(
    config: Config, env: MetaLanguage, keys: jax.Array, params: Params
) -> Sequences:
    """Draws a sequence to learn from for each key, of a language of its own or of a finite set."""
    task_keys, keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    if config.tasks:
        task_keys = known_languages(config, task_keys)
    tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params)
    if config.other_languages:
        # Without the oldest token, which has no influence there, tables have the same shape.
        equal = MetaLanguage(max_order=env.num_slots, slot_weights="uniform")
        tasks = jax.vmap(functools.partial(vary_language, config, equal, params))(task_keys, tasks)
    tokens = env.sample_sequences(keys, tasks, config.context)[:, 0]
    if config.lexicons:
        tokens = jax.vmap(functools.partial(replace_by_lexicon, config))(task_keys, tokens)
    tokens = tokens.T
    return Sequences(tokens[:-1], None, tokens[1:])


def vary_language(
    config: Config, equal: MetaLanguage, params: Params, key: jax.Array, task: Task
) -> Task:
    """Returns the language, or one of another kind; see `Config.other_languages`."""
    key = jax.random.fold_in(key, 1)
    chosen_key, equal_key, scale_key, task_key = jax.random.split(key, 4)
    most = jnp.minimum(params.max_order, equal.max_order)
    low = jnp.minimum(params.min_order, most)
    other = equal.sample_task(task_key, dataclasses.replace(params, min_order=low, max_order=most))
    is_chosen = jax.random.bernoulli(chosen_key, config.other_languages)
    is_equal = is_chosen & jax.random.bernoulli(equal_key)
    task = jax.tree.map(lambda x, y: jnp.where(is_equal, x, y), other, task)
    scale = jax.random.uniform(scale_key, dtype=task.scale.dtype, minval=1.0, maxval=6.0)
    return dataclasses.replace(task, scale=jnp.where(is_chosen, scale, task.scale))


def replace_by_lexicon(config: Config, key: jax.Array, tokens: jax.Array) -> jax.Array:
    """Returns the tokens, or as many of a text of random words; see `Config.lexicons`."""
    chosen_key, key = jax.random.split(jax.random.fold_in(key, 2))
    text = sample_lexicon_text(key, config.context, VOCABULARY)
    return jnp.where(jax.random.bernoulli(chosen_key, config.lexicons), text, tokens)


def models_to_start_from(config: Config, capacity: int) -> dict[str, Any]:
    """Returns the parameters of saved models, each a cell; a single empty cell to start anew."""
    start = config.start_from
    if start is None:
        return {"": ()}
    folders = sorted((start / "agents").glob("seed_*")) or [start]
    names = [""] if len(folders) == 1 else [folder.name for folder in folders]
    models = [load_language_model(folder, capacity, config.model) for folder in folders]
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


def demonstrations(config: Config) -> list[Demonstration]:
    """Words and sums, 15 % of them wrong, in contexts of two lengths, to be continued."""
    count, longest = config.demonstrations, min(config.evaluation_context - GENERATED, 2048)
    if longest < 64 or not count:
        return []
    # Forty words in a short context would be seen once each: fewer, so that each comes seven times.
    different = min(len(WORDS), max(2, longest // 50))
    some_words = functools.partial(words, different=different)
    shown = []
    for kind, make, judge, letters in (
        (f"{different} words", some_words, judge_words, SYMBOLS),
        ("sums", sums, judge_sums, SUM_SYMBOLS),
    ):
        maps = [SymbolMap.draw(i, VOCABULARY, letters) for i in range(count)]
        texts = [make(i, 1 + longest // 4) for i in range(count)]
        tokens = np.stack([m.encode(t)[:longest] for m, t in zip(maps, texts, strict=True)])
        for length in (longest // 2, longest):
            shown.append(Demonstration(kind, tokens[:, :length].astype(np.int32), maps, judge))
    return shown


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_language", PRESETS, build, report, argv)
