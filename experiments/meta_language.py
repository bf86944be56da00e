"""Sequence models on Meta-Language: do they learn a new language from its context alone?

    python experiments/meta_language.py

trains one model on random n-gram languages, each seen once, then measures on languages it has never
seen how its predictions improve with the context, beside what counting alone can do and the floor
of the languages themselves. `--preset paper-small` is the paper's; `--dry-run` says what it would
take on the machine at hand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from reports.meta_language import Curves, Results, report

import gpicljax
from gpicljax.agents import sequence
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams, Sequences
from gpicljax.data.meta_language.faulty_text import (
    SUM_SYMBOLS,
    judge_sums,
    judge_words,
    sums,
    words,
)
from gpicljax.data.meta_language.text import SYMBOLS, SymbolMap, text_windows
from gpicljax.envs.meta_language import MetaLanguage
from gpicljax.networks.contract import Network
from gpicljax.networks.language import LanguageModelSettings, language_model
from gpicljax.networks.transformer import generate
from gpicljax.runtime import (
    Checkpointer,
    Progress,
    RunConfig,
    RunDirectory,
    announce,
    check,
    devices_for,
    enable_compilation_cache,
    failures_reported,
    join_cluster,
    lanes_for,
    make_mesh,
    on_main,
    one_device_per_core,
    open_run,
    parse,
    per_lane,
    per_part,
    provenance,
    run_chunks,
    save_language_model,
    say,
    shard_leading,
    shard_parts,
    to_host,
)
from gpicljax.runtime.dry_run import measure, parameter_count
from gpicljax.runtime.mesh import AXIS

VOCABULARY = 32
TEMPERATURE = 0.3
"""Of the demonstrations' outputs (appendix A.4)."""


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Trains a model on random languages, and measures what it learns of new ones in context.

    Attributes:
      model: The model.
      context: Tokens of a training sequence.
      orders: Smallest and largest n of the languages.
      warmup_orders: Those of the first part of the training.
      warmup_share: That part's share of the updates.
      tasks: Number of different languages to train on; 0 for a new one in every sequence.
      agent: Batch and schedule.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      updates: Updates of the whole run.
      log_lines: Log lines of the whole run.
      checkpoint_every: Log lines between checkpoints.
      evaluation_orders: Smallest and largest n of the languages to evaluate on.
      evaluation_context: Tokens of a sequence there.
      evaluation_sequences: Sequences for every n.
      text_dir: Folder of plain text files (such as the PG-19 test set), to be learnt as a language.
      text_windows: Most windows of it.
      demonstrations: Continuations to draw of each of the demonstrations (words, sums).
    """

    seeds: int = 1
    model: LanguageModelSettings = LanguageModelSettings()
    context: int = 4096
    orders: tuple[int, int] = (3, 6)
    warmup_orders: tuple[int, int] = (2, 3)
    warmup_share: float = 0.1
    tasks: int = 0
    agent: SequenceConfig = SequenceConfig(batch_size=8, ramp=512)
    hparams: SequenceHParams = SequenceHParams()
    updates: int = 61_035
    log_lines: int = 100
    checkpoint_every: int = 5
    evaluation_orders: tuple[int, int] = (2, 8)
    evaluation_context: int = 4096
    evaluation_sequences: int = 4096
    text_dir: Path | None = None
    text_windows: int = 64
    demonstrations: int = 16

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        counts = ("context", "updates", "log_lines", "checkpoint_every", "evaluation_context")
        for name in (*counts, "text_windows"):
            check(getattr(self, name) >= 1, name, getattr(self, name), "an integer >= 1")
        for name in ("tasks", "demonstrations"):
            check(getattr(self, name) >= 0, name, getattr(self, name), "an integer >= 0")
        enough = self.evaluation_sequences >= 2
        check(enough, "evaluation_sequences", self.evaluation_sequences, "an integer >= 2")
        for name in ("orders", "warmup_orders", "evaluation_orders"):
            low, high = getattr(self, name)
            check(1 <= low <= high <= 8, name, (low, high), "two of 1 .. 8 in order")
        check(0 <= self.warmup_share < 1, "warmup_share", self.warmup_share, "a share below 1")
        text = self.text_dir
        check(text is None or text.is_dir(), "text_dir", str(text), "an existing folder")


TINY = LanguageModelSettings(layers=6, width=64, heads=4)
SMALL = LanguageModelSettings(layers=12, width=256, heads=8, precision="bfloat16")
STANDARD = LanguageModelSettings(layers=12, width=1024, heads=16, precision="bfloat16")
BIG_BATCH = SequenceConfig(batch_size=16, ramp=512)
QUICK = Config(
    model=LanguageModelSettings(layers=4),
    context=512,
    orders=(2, 4),
    warmup_share=0.3,
    agent=SequenceConfig(batch_size=16, schedule="cosine"),
    hparams=SequenceHParams(learning_rate=3e-3, warmup_updates=100),
    updates=1_200,
    log_lines=30,
    evaluation_context=512,
    evaluation_sequences=64,
)
CPU_TINY = dataclasses.replace(
    QUICK,
    model=TINY,
    orders=(2, 5),
    warmup_orders=(2, 3),
    updates=3_000,
    log_lines=60,
    evaluation_sequences=256,
)
CPU_SMALL = dataclasses.replace(
    QUICK,
    model=TINY,
    context=1024,
    orders=(3, 6),
    warmup_share=0.2,
    updates=20_000,
    log_lines=200,
    evaluation_context=1024,
    evaluation_sequences=256,
)
DIVERSITY = Config(model=SMALL)
PRESETS = {
    "quick": QUICK,
    "cpu-tiny": CPU_TINY,
    "cpu-small": CPU_SMALL,
    "cpu-task-diversity": dataclasses.replace(CPU_SMALL, tasks=1_000, updates=5_000),
    "task-diversity": dataclasses.replace(DIVERSITY, tasks=1_000),
    # 2 B tokens: 500K sequences of 4,096 in batches of 32K, 32K and 64K tokens.
    "paper-tiny": Config(model=TINY),
    "paper-small": Config(model=SMALL),
    "paper-standard": Config(model=STANDARD, agent=BIG_BATCH, updates=30_518),
}


class Study(NamedTuple):
    """What a configuration becomes.

    Attributes:
      env: the generator.
      network: the model.
      trainer: of one device's part of the batch.
      data: `updates -> data`, the distribution in force after so many updates.
      chunk: updates between two log lines.
      num_chunks: log lines.
    """

    env: MetaLanguage
    network: Network
    trainer: sequence.SequenceTrainer
    data: Callable[[jax.Array], Any]
    chunk: int
    num_chunks: int


def build(config: Config, devices: int = 1, axis: str | None = None) -> Study:
    """Wires generator, model and trainer together."""
    env = gpicljax.make("MetaLanguage-v0")
    assert isinstance(env, MetaLanguage)
    longest = max(config.context, config.evaluation_context)
    network = language_model(config.model, VOCABULARY, longest)
    warmup = round(config.warmup_share * config.updates)

    def data(updates: jax.Array) -> Any:
        (low, high), (first_low, first_high) = config.orders, config.warmup_orders
        warm = updates < warmup
        return dataclasses.replace(
            env.default_params,
            min_order=jnp.where(warm, first_low, low).astype(jnp.int32),
            max_order=jnp.where(warm, first_high, high).astype(jnp.int32),
        )

    def sample(keys: jax.Array, params: Any) -> Sequences:
        task_keys, keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        if config.tasks:
            pick = jax.vmap(lambda key: jax.random.randint(key, (), 0, config.tasks))(task_keys)
            task_keys = training_tasks(config)[pick]
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params)
        tokens = env.sample_sequences(keys, tasks, config.context)[:, 0].T
        return Sequences(tokens[:-1], None, tokens[1:])

    losses = [sequence.cross_entropy("nats")]
    trainer = sequence.make(config.agent, network, sample, losses, devices, axis)
    chunk = max(1, math.ceil(config.updates / config.log_lines))
    return Study(env, network, trainer, data, chunk, math.ceil(config.updates / chunk))


def training_tasks(config: Config) -> jax.Array:
    """The keys of the finite set of languages to train on."""
    return gpicljax.TaskSet.create(jax.random.key(config.seed + 1), config.tasks).keys


def update_chunk(study: Study) -> Callable[[Any], Any]:
    """Updates between two log lines; a curriculum moves on between them."""

    def run(state: sequence.TrainState) -> tuple[sequence.TrainState, dict[str, jax.Array]]:
        state = dataclasses.replace(state, data=study.data(state.updates))
        state, metrics = jax.lax.scan(
            lambda s, _: study.trainer.update(s), state, None, length=study.chunk
        )
        return state, jax.tree.map(lambda m: m.mean(0), metrics)

    return run


def initial(config: Config, study: Study, lane: jax.Array) -> sequence.TrainState:
    """The state of a seed."""
    key = jax.random.fold_in(jax.random.key(config.seed), lane)
    hparams = dataclasses.replace(config.hparams, decay_updates=config.updates)
    return study.trainer.init(key, hparams, study.data(jnp.zeros((), jnp.int32)))


def spread(config: Config) -> tuple[Study, Any, Callable[[Any], Any]]:
    """The study, its initial state, and the compiled chunk.

    A single run spreads its batches over the devices, several run side by side, whole.
    """
    if config.seeds > 1:
        mesh = make_mesh(devices_for(config.seeds))
        study = build(config)
        lanes = jnp.asarray(lanes_for(config.seeds, mesh))
        init = per_lane(lambda lane: initial(config, study, lane), mesh)
        return study, init(shard_leading(lanes, mesh)), per_lane(update_chunk(study), mesh, 0, 0)
    each = config.agent.batch_size // config.agent.microbatches
    mesh = make_mesh(math.gcd(each, len(jax.devices())))
    study = build(config, mesh.size, AXIS)
    partition = study.trainer.partition
    state = jax.jit(lambda: initial(config, build(config), jnp.uint32(0)))()
    return (
        study,
        shard_parts(state, mesh, partition),
        per_part(update_chunk(study), mesh, partition),
    )


# Evaluation --------------------------------------------------------------------------------------


Measure = Callable[[Any, Any], np.ndarray]
"""`(params, tokens int[N, T + 1]) -> float[N, T]`, nats of each token but the first."""


def nats_of(study: Study, group: int = 8) -> Measure:
    """Measures sequences with the model, some at a time."""

    @jax.jit
    def some(params: Any, tokens: jax.Array) -> jax.Array:
        tokens = tokens.T.astype(jnp.int32)
        batch = Sequences(tokens[:-1], None, tokens[1:])
        return study.trainer.evaluate(params, batch)["nats"].T

    def nats(params: Any, tokens: Any) -> np.ndarray:
        tokens = np.asarray(tokens)
        padded = np.concatenate([tokens, np.repeat(tokens[-1:], -len(tokens) % group, axis=0)])
        parts = [some(params, padded[i : i + group]) for i in range(0, len(padded), group)]
        return np.concatenate([np.asarray(part) for part in parts])[: len(tokens)]

    return nats


def measure_languages(
    config: Config, study: Study, nats: Measure, models: Sequence[Any]
) -> list[dict[str, Curves]]:
    """Every model's nats at every position of unseen languages of each order."""
    env, length = study.env, config.evaluation_context
    count = config.evaluation_sequences

    @jax.jit
    def draw(key: jax.Array, task_keys: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        tasks = jax.vmap(env.sample_task, (0, None))(task_keys, params)
        tokens, log_probs = env.sample_sequences(key, tasks, length, with_log_probs=True)
        return tokens[:, 0], -log_probs[:, 0]

    results: list[dict[str, Curves]] = [{} for _ in models]

    def measure(name: str, task_keys: jax.Array, key: jax.Array, low: int, high: int) -> None:
        tokens, floor = draw(key, task_keys, env.make_params(min_order=low, max_order=high))
        tokens, floor = np.asarray(tokens), np.asarray(floor)
        each = [nats(params, tokens) for params in models]
        curves = Curves.of_each(each, tokens, VOCABULARY, high - 1, floor)
        for result, curve in zip(results, curves, strict=True):
            result[name] = curve

    root = jax.random.fold_in(jax.random.key(config.seed), 2**31)
    low, high = config.evaluation_orders
    for order in range(low, high + 1):
        key, task_key = jax.random.split(jax.random.fold_in(root, order))
        measure(f"n = {order}", jax.random.split(task_key, count), key, order, order)
    if config.tasks:
        key, pick_key = jax.random.split(root)
        pick = jax.random.randint(pick_key, (count,), 0, config.tasks)
        measure("seen languages", training_tasks(config)[pick], key, *config.orders)
        measure("unseen languages", jax.random.split(pick_key, count), key, *config.orders)
    return results


class NaturalText(NamedTuple):
    """Text to be learnt as a language.

    Attributes:
      windows: `uint8[N, T + 1]`.
      symbols: which token stands for which symbol, drawn at random.
    """

    windows: np.ndarray
    symbols: SymbolMap


def natural_text(config: Config) -> NaturalText | None:
    """Windows spread evenly over the texts of `config.text_dir`; None without a folder."""
    if config.text_dir is None:
        return None
    symbols = SymbolMap.draw(config.seed)
    windows = text_windows(config.text_dir, symbols, config.evaluation_context)
    keep = np.linspace(0, len(windows) - 1, min(len(windows), config.text_windows)).astype(int)
    return NaturalText(windows[keep], symbols)


class Demonstration(NamedTuple):
    """What a model makes of a context with mistakes.

    Attributes:
      context: tokens of the context.
      items: complete items in all continuations.
      wrong: how many of them are wrong.
      text: the first continuation.
    """

    context: int
    items: int
    wrong: int
    text: str


def demonstrate(
    config: Config, study: Study, models: Sequence[Any]
) -> list[dict[str, list[Demonstration]]]:
    """Every model's continuations of words and sums, 15 % of them wrong, after two lengths."""
    drawn = 192
    longest = min(config.evaluation_context - drawn, 2048)
    results: list[dict[str, list[Demonstration]]] = [{} for _ in models]
    if longest < 64 or not config.demonstrations:
        return results
    continue_text = jax.jit(
        lambda key, params, prompt: generate(key, study.network, params, prompt, drawn, TEMPERATURE)
    )
    kinds = {"words": (words, judge_words, SYMBOLS), "sums": (sums, judge_sums, SUM_SYMBOLS)}
    for kind, (make, judge, letters) in kinds.items():
        maps = [SymbolMap.draw(i, VOCABULARY, letters) for i in range(config.demonstrations)]
        texts = [make(i, 1 + longest // 4) for i in range(config.demonstrations)]
        prompts = np.stack([m.encode(t)[:longest] for m, t in zip(maps, texts, strict=True)])
        for length in (longest // 2, longest):
            prompt = jnp.asarray(prompts[:, :length], jnp.int32)
            for result, params in zip(results, models, strict=True):
                tokens = np.asarray(continue_text(jax.random.key(config.seed), params, prompt))
                said = [m.decode(row) for m, row in zip(maps, tokens, strict=True)]
                judged = np.sum([judge(text) for text in said], axis=0)
                one = Demonstration(length, int(judged[0]), int(judged[1]), said[0])
                result.setdefault(kind, []).append(one)
    return results


def dry_run(config: Config) -> None:
    """Prints exact sizes, one compiled update's memory and time, and the projected hours."""
    whole = build(config)
    _, state, update = spread(dataclasses.replace(config, log_lines=config.updates))
    size = parameter_count(state.params) // (1 if config.seeds == 1 else len(state.updates))
    tokens = config.agent.batch_size * config.context
    facts = {
        "model": f"{config.model.kind}, {size:,} parameters",
        "tokens per update": f"{tokens:,}",
        "tokens of the run": f"{tokens * whole.chunk * whole.num_chunks:,} per seed",
    }
    announce(f"dry run of {config.run_name}", facts)
    step = measure(update, lambda: state)
    hours = step.seconds * config.updates / 3600
    announce(
        "one update",
        {
            "memory per device": f"{step.total_gib:.2f} GiB",
            "compilation": f"{step.compile_s:.1f} s",
            "time": f"{step.seconds:.3f} s ({tokens * config.seeds / step.seconds:,.0f} tokens/s)",
            "projected training": f"{hours:.2f} hours",
        },
    )


def main(argv: list[str] | None = None) -> Results | None:
    """Runs the experiment; returns its results (None after a dry run)."""
    config = parse(PRESETS, argv, prog="meta_language.py")
    enable_compilation_cache()
    join_cluster(config)
    one_device_per_core()
    if config.evaluation_context > config.context:
        say(
            f"note: evaluated on {config.evaluation_context:,} tokens of context, trained on "
            f"{config.context:,}"
        )
    if config.dry_run:
        dry_run(config)
        return None
    with failures_reported(ValueError):  # before any training
        text = natural_text(config)
    with failures_reported(), open_run("meta_language", config) as run:
        study, state, chunk = spread(config)
        lanes = 1 if config.seeds == 1 else len(state.updates)
        size = parameter_count(state.params) // lanes
        per_chunk = study.chunk * config.agent.batch_size * config.context
        announce(
            f"meta_language {config.run_name}: a {config.model.kind} of {size:,} parameters",
            {
                "languages": f"n in {config.orders[0]} .. {config.orders[1]}, "
                + (f"{config.tasks:,} different ones" if config.tasks else "each seen once"),
                "tokens": f"{per_chunk * study.num_chunks:,} per seed, {config.seeds} seed(s)",
                "results": str(run.path),
            },
        )
        state, history = run_chunks(
            chunk,
            state,
            num_chunks=study.num_chunks,
            run=run,
            checkpointer=Checkpointer(run.checkpoints),
            checkpoint_every=config.checkpoint_every,
            progress=Progress(study.num_chunks, key_metric="nats") if config.progress else None,
            observations_per_chunk=per_chunk * lanes,
        )
        say("evaluating ...")
        params = to_host(state.params)
        models = [params]
        if config.seeds > 1:
            models = [jax.tree.map(lambda x, i=i: x[i], params) for i in range(config.seeds)]
        on_main(lambda: save_models(run, config, models, per_chunk * study.num_chunks))
        results = on_main(lambda: evaluated(config, models, text, history, per_chunk, size))
        say(on_main(lambda: report(run, results, config)))
        return results


def save_models(run: RunDirectory, config: Config, models: Sequence[Any], tokens: int) -> None:
    """Saves the model of every seed, for `gpicljax.runtime.load_language_model`."""
    origin = provenance()
    for seed, params in enumerate(models):
        save_language_model(
            run.path / "models" / f"seed_{seed}",
            config.model,
            params,
            vocab_size=VOCABULARY,
            context=config.context,
            training={
                "preset": config.preset,
                "seed": config.seed,
                "lane": seed,
                "orders": list(config.orders),
                "tasks": config.tasks,
                "tokens": tokens,
            },
            provenance=origin,
        )


def evaluated(
    config: Config,
    models: Sequence[Any],
    text: NaturalText | None,
    history: list[dict[str, Any]],
    per_chunk: int,
    size: int,
) -> Results:
    """All measurements of every seed's model."""
    study = build(config)
    nats = nats_of(study)
    languages = measure_languages(config, study, nats, models)
    texts: list[Curves] = []
    if text is not None:
        each = [nats(params, text.windows) for params in models]
        texts = Curves.of_each(each, text.windows, VOCABULARY, 4)
    symbols = None if text is None else text.symbols
    demonstrations = demonstrate(config, study, models)
    return Results(languages, texts, symbols, demonstrations, history, per_chunk, size)


if __name__ == "__main__":
    main()
