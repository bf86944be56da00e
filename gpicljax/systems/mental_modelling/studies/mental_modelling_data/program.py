"""Recording of the episodes of mental modelling: `python experiments/mental_modelling.py collect`.

For every task, agents of several kinds are trained side by side, as `train_agent.py` trains them,
and kept at three points of their training. Each is saved under `agents/`, so that `load_agent`
loads it, and its episodes are written with its name and the hash of its weights. What is there
already is not made again. Rules, for Fetch's tasks, are recorded with more and less noise.

    <out>/<task>/<kind>/         episodes of all seeds and skills, `systems.mental_modelling.data`
    <out>/agents/<task>/<agent>  the agents themselves
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

import gpicljax
from gpicljax import agents, spaces
from gpicljax.checks import check
from gpicljax.runs import load_agent, save_agent
from gpicljax.runs.arguments import read_arguments
from gpicljax.runs.distributed import log_once
from gpicljax.runs.provenance import provenance
from gpicljax.runtime import (
    Program,
    Report,
    RunResult,
    make_mesh,
    named_key,
    parse,
    run_config,
)
from gpicljax.runtime.dry_run import compile_within_memory, within_memory
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.mesh import devices_for
from gpicljax.runtime.replicas import Replicas
from gpicljax.runtime.training import start_training
from gpicljax.storage import SavedError
from gpicljax.storage.reading import read_json
from gpicljax.studies.train_agent import program as train_agent
from gpicljax.studies.train_agent.config import SETTINGS
from gpicljax.studies.train_agent.options import env_options
from gpicljax.systems.mental_modelling.data.episodes import Episodes, join_episodes
from gpicljax.systems.mental_modelling.data.recording import recorder
from gpicljax.systems.mental_modelling.data.stored import load_episodes, read_npz, save_episodes
from gpicljax.systems.mental_modelling.experts.habits import vary_weights
from gpicljax.systems.mental_modelling.experts.kinds import (
    DRAWS,
    FETCH,
    FETCH_SCRIPT,
    GAINS,
    LEVELS,
    NOISE,
    TASKS,
    VARIATIONS,
    Kind,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling_data.config import (
    COLLECT,
    CollectConfig,
)


def collect(argv: Sequence[str] | None = None) -> Path | None:
    """Collects episodes; returns the folder, None after a dry run."""
    config = parse(COLLECT, argv, prog="gpicljax run mental_modelling collect")
    with failures_reported(ValueError, ModuleNotFoundError):
        outcome = run_config("mental_modelling_data", config, build, report)
    return None if outcome is None else outcome.run.path


def build(config: CollectConfig) -> Program:
    """Returns the program that trains or loads agents and writes their episodes kind by kind."""
    return Program(
        title=f"episodes of agents in {', '.join(config.tasks)}",
        host_measures=lambda run: collect_episodes(config, run.path),
    )


def report(outcome: RunResult) -> Report:
    """Returns the number of episodes of each kind of agents."""
    lines = [f"- {name}: {count} episodes" for name, count in outcome.host_measured.items()]
    return Report("\n".join(["# Episodes of agents", "", *lines]), outcome.host_measured)


def collect_episodes(config: CollectConfig, folder: Path) -> dict[str, int]:
    """Makes the episodes that are missing; returns their number by kind of agents."""
    _check_card(config, folder)
    if config.agents:
        return dict(_record_loaded(config, folder))
    chosen = [
        (name, kind)
        for name in config.tasks
        for kind in TASKS[name].kinds
        if not config.kinds or kind in config.kinds
    ]
    return dict(_collect_kinds(config, folder, chosen))


def _jit_within_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    return within_memory(jax.jit(function), "the episodes of an agent")


def _recorder(config: CollectConfig, name: str, saved: Any) -> Callable[..., Episodes]:
    steps = TASKS[name].max_steps if name in TASKS else 100
    return recorder(
        saved.env,
        saved.agent,
        environment=name,
        episodes=config.episodes,
        max_steps=config.max_steps or steps,
        jit=_jit_within_memory,
        env_params=saved.env_params,
    )


def _check_card(config: CollectConfig, folder: Path) -> None:
    """Refuses a folder whose card, of an earlier version, has other settings."""
    about = {"seed": config.seed, "seeds": config.seeds, "share": config.share}
    about |= {"episodes": config.episodes, "max_steps": config.max_steps}
    card = folder / "collection.json"
    if card.exists() and (stored := read_json(card)) != about:
        raise SavedError(f"{card} says {stored}, not {about}: choose another --out")


def _training_config(config: CollectConfig, name: str, kind_name: str) -> Any:
    """Returns the configuration of `train_agent.py` for a kind of agent."""
    kind = TASKS[name].kinds[kind_name]
    fields = dict(kind.fields)
    tuned_fields = SETTINGS.get((name, fields.pop("like", kind.algo)), {})
    base = train_agent.config_type(agents.get_algorithm(kind.algo))
    options = {"env_options": TASKS[name].options} if TASKS[name].options else {}
    chosen = {**tuned_fields, **fields, **options}
    chosen["observations"] = round(kind.observations * config.share)
    if kind.algo == "ddpg" and not isinstance(chosen.get("agent"), agents.DDPGConfig):
        sizes = {"period", "updates_per_collect", "batch_size", "min_replay", "warm_up"}
        shared_sizes = {field: getattr(chosen["agent"], field) for field in sizes}
        chosen["agent"] = agents.DDPGConfig(**shared_sizes)
    chosen |= {"seed": config.seed, "seeds": config.seeds}
    return base(env=name, algo=kind.algo, **chosen)


def _collect_kinds(
    config: CollectConfig, folder: Path, chosen: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, int]]:
    """Makes what is missing of each kind, and of its experts' variants; yields the numbers."""
    for name, kind in chosen:
        makers = {kind: _collect_kind}
        if TASKS[name].kinds[kind].trains and name not in FETCH:
            makers[f"{kind}_varied"] = _collect_variants
        for place, make in makers.items():
            try:
                count = len(load_episodes(folder / name / place).length)
                log_once(f"{name}, {place}: {count} episodes are there already")
            except SavedError:
                count = make(config, folder, name, kind)
            yield f"{name}/{place}", count


def _collect_kind(config: CollectConfig, folder: Path, name: str, kind: str) -> int:
    """Trains the agents of a kind and writes their episodes; returns their number."""
    target = folder / name / kind
    parts, record, recorded_config = [], None, None
    about = TASKS[name].kinds[kind]
    saved_agents = (
        _trained_agents(config, name, kind) if about.trains else _rule_agents(config, name, about)
    )
    for level, seed, save in saved_agents:
        label = f"{kind} {level} {seed}"
        home = folder / "agents" / name / label.replace(" ", "_")
        save(home)
        saved = load_agent(home)
        # Most agents of a kind differ in their parameters alone.
        if record is None or saved.info["config"] != recorded_config:
            recorded_config = saved.info["config"]
            record = _recorder(config, name, saved)
        key = jax.random.fold_in(named_key(config.seed, f"{name} {label}"), seed)
        parts.append(record(key, saved.params, label, saved.info["hash"]))
    return _write(target, parts)


Saved = tuple[str, int, Callable[[Path], None]]
"""An agent's skill and seed, and what writes it to a folder."""


def _rule_agents(config: CollectConfig, name: str, kind: Kind) -> Iterator[Saved]:
    """Returns rules: scripts with so many gains and more and less noise, or habits as drawn."""
    options = env_options(train_agent.Config(env=name, env_options=TASKS[name].options))
    env, rule = gpicljax.make(name, **options), agents.get_algorithm(kind.algo)
    vec = gpicljax.VectorEnv(env, 1, resets="fresh")
    save = functools.partial(
        save_agent,
        algorithm=kind.algo,
        env_id=name,
        env_options=options,
        env_params=env.default_params,
        num_envs=1,
        network=rule.network(),
        provenance=provenance(),
    )
    levels = NOISE if kind.algo == FETCH_SCRIPT else {f"draw-{n}": n for n in range(DRAWS)}
    for level, number in levels.items():
        for seed in range(config.seeds):
            script_fields = {"gain": GAINS[seed % len(GAINS)], "noise": number}
            settings = rule.config(**(kind.fields or script_fields))
            key = jax.random.fold_in(named_key(config.seed, f"{name} {settings} {level}"), seed)
            params = rule.make(settings, vec, rule.network()).init(key, rule.hparams()).params
            yield level, seed, functools.partial(save, config=settings, params=params)


def tenth_of_updates(updates: int) -> int:
    """Returns the updates of a tenth of a training, rounded up: no agent falls short."""
    return -(-updates // 10)


def _trained_agents(config: CollectConfig, name: str, kind: str) -> Iterator[Saved]:
    """Yields all agents of a kind, as their training comes to each level."""
    settings, label = _training_config(config, name, kind), f"{name} {kind}"
    program = train_agent.build(settings)
    names = tuple(f"seed {n}" for n in range(config.seeds))
    replicas = Replicas(names, make_mesh(devices_for(config.seeds)))
    root = named_key(config.seed, "train")
    keys = jax.vmap(lambda n: jax.random.fold_in(root, n))(np.arange(config.seeds, dtype=np.uint32))
    tenth_updates = tenth_of_updates(settings.updates(program.observations))
    training = start_training(
        program, replicas, keys, _no_cells(program, config.seeds), tenth_updates
    )
    running, update = training.running, "one update of all seeds"
    advance, _ = compile_within_memory(training.advance, update, running, np.int32(1))
    for tenth in range(1, 11):
        running, _ = advance(running, np.int32(tenth_updates))
        running, metrics = training.finish(running)
        for level in (level for level, when in LEVELS.items() if when == tenth):
            seed_metrics = replicas.fetch(metrics)
            words = ", ".join(f"{n} {np.mean(seed_metrics[n]):.4g}" for n in list(seed_metrics)[:2])
            steps = tenth_updates * tenth * program.observations
            log_once(f"{label}: {level} after {steps:,} steps ({words})")
            params = replicas.fetch(running.params)
            assert program.save is not None
            save = functools.partial(program.save, cell=(), provenance=provenance())
            for seed in range(config.seeds):
                seed_params = jax.tree.map(lambda x, seed=seed: x[seed], params)
                yield level, seed, functools.partial(save, params=seed_params)


def _collect_variants(config: CollectConfig, folder: Path, name: str, kind: str) -> int:
    """Writes the episodes of experts whose weights deviate more and more; returns their number."""
    parts, record = [], None
    for seed in range(config.seeds):
        saved = load_agent(folder / "agents" / name / f"{kind}_expert_{seed}")
        record = record or _recorder(config, name, saved)
        for n, deviation in enumerate(VARIATIONS):
            label = f"{kind} varied-{n} {seed}"
            rng = np.random.default_rng([config.seed, seed, n])
            params = vary_weights(saved.params, deviation, rng)
            parts.append(record(named_key(config.seed, f"{name} {label}"), params, label, ""))
    return _write(folder / name / f"{kind}_varied", parts)


def _no_cells(program: Program, seeds: int) -> Any:
    (cell,) = program.cells.values()
    return jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], seeds, 0), cell)


def _record_loaded(config: CollectConfig, folder: Path) -> Iterator[tuple[str, int]]:
    """Writes the episodes of saved agents; yields their folders and numbers."""
    for path in config.agents:
        saved = load_agent(path, modules=config.modules)
        name = saved.info["env"]["id"].rpartition(":")[2]
        label = f"{saved.info['algorithm']} {saved.info['hash'][:8]}"
        key = named_key(config.seed, label)
        part = _recorder(config, name, saved)(key, saved.params, label, saved.info["hash"])
        place = f"{name}/{label.replace(' ', '_')}"
        yield place, _write(folder / place, [part])


def _write(target: Path, parts: Sequence[Episodes]) -> int:
    episodes = join_episodes(*parts)
    save_episodes(target, episodes)
    log_once(
        f"{target}: {len(episodes.length)} episodes, {episodes.length.sum():,} steps, "
        f"mean return {episodes.returns.mean():.4g}"
    )
    return len(episodes.length)


# A user's own episodes ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LoadConfig:
    """Reads episodes in the reference's layout into a folder that `mental_modelling.py` measures.

    Attributes:
      files: Files .npz, one for each episode.
      env: Id of the environment, for its space of actions.
      agent: Name of the agent.
      out: Folder to write to.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    env: str
    agent: str
    out: Path


def load(argv: Sequence[str] | None = None) -> Path:
    """Reads a user's files; returns the folder that was written."""
    config = read_arguments(LoadConfig, args=argv, prog="gpicljax run mental_modelling load")
    with failures_reported(ValueError):
        expected = "a folder that no study collects into, and so may delete"
        check(not (config.out / "config.json").exists(), "out", str(config.out), expected)
        env = gpicljax.make(config.env)
        seen = env.observation_space()
        actions: Any = env.action_space()  # `read_npz` says what it accepts
        episodes = read_npz(
            config.files,
            environment=config.env,
            action_space=actions,
            agent=config.agent,
            num_states=seen.n if isinstance(seen, spaces.Discrete) else None,
        )
        target = config.out / config.env / config.agent.replace(" ", "_")
        _write(target, [episodes])
    return target
