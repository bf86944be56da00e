"""The driver of all experiments: from a command line to a folder of results.

An experiment is a configuration with presets, `build(config) -> Program`, and a report:

```python
def main(argv=None):
    return run_experiment("mazes", PRESETS, build, report, argv)
```

Everything else is here, from top to bottom: command line, compilation cache, processes, devices,
seeds side by side, dry run, announcement, training with its log and checkpoints, evaluation, saved
agents, summary. `experiments/train_agent.py` is an example.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import refusal
from gpicljax.data.shard_files import ShardError
from gpicljax.interface import TrainingState
from gpicljax.runs.arguments import program_name
from gpicljax.runs.config import (
    ConfigError,
    RunConfig,
    TrainingConfig,
    as_config_error,
    exit_with_error,
    parse,
    validate,
)
from gpicljax.runs.distributed import is_main, join_cluster, log_once, on_main, to_host
from gpicljax.runs.metrics import in_words, not_finite_since
from gpicljax.runs.progress import Progress, announce
from gpicljax.runs.provenance import provenance
from gpicljax.runs.run_directory import RunDirectory, open_run, write_summary
from gpicljax.runtime.collecting import check_memory, collect, measure_collection
from gpicljax.runtime.compile_update import update_in_words
from gpicljax.runtime.dry_run import (
    TooLargeError,
    compile_within_memory,
    measure_seconds,
    parameter_count,
    within_memory,
)
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.loop import NOT_FINITE_CODE, run_chunks
from gpicljax.runtime.mesh import (
    devices_for,
    enable_compilation_cache,
    make_mesh,
    one_device_per_core,
    per_replica,
)
from gpicljax.runtime.program import (
    Measure,
    Program,
    Report,
    RunResult,
    named_key,
    replica_names,
)
from gpicljax.runtime.replicas import Replicas
from gpicljax.runtime.targets import Target, leave_accelerators_alone, target
from gpicljax.runtime.training import Training, plan_training, start_training
from gpicljax.storage import SavedError
from gpicljax.typing import ArrayTree

ConfigT = TypeVar("ConfigT", bound=RunConfig)
Take = Callable[[str, Measure, Any, Sequence[int]], Any]
"""`(use, measure, params, numbers) -> results [seeds, ...]`, a repetition for each number."""


def run_experiment(
    name: str,
    presets: Mapping[str, ConfigT],
    build: Callable[[ConfigT], Program],
    report: Callable[[RunResult], Report],
    argv: Sequence[str] | None = None,
    *,
    first: Callable[[ConfigT], ConfigT] | None = None,
) -> RunResult | None:
    """Runs an experiment as its command line says. In several processes, all call it.

    Args:
      name: of the experiment; its runs lie in `runs/<name>/`.
      presets: configurations by name, see `parse`.
      build: wires a program; nothing is computed. A `ValueError` means that the configuration
        contradicts itself; its message begins with the field's name.
      report: draws figures into the run's folder and returns the summary; in process 0.
      argv: arguments without the program's name; `sys.argv[1:]` by default.
      first: runs other experiments whose results this one needs, once `build` has accepted the
        configuration, and returns the configuration with what they made. A dry run leaves it out.

    Returns:
      The outcome; None after a dry run.

    Raises:
      SystemExit: with code 2 for arguments that are not accepted, 1 for runs, checkpoints and files
        that cannot be used, 143 or 130 after a signal, and 3 if the loss or the parameters of a
        seed have stopped being finite (where others have not, all results are written first).

    Example:
      >>> def main(argv=None):
      ...     presets = {"quick": Config(), "paper": Config(num_chunks=1000)}
      ...     return run_experiment("bandits", presets, build, report, argv)
    """
    with failures_reported():
        config = parse(presets, argv, prog=program_name(name), prepare=_set_up)
        if first is not None and not config.dry_run:
            _built(build, config)
            config = first(config)
        return run_config(name, config, build, report)


def run_config(
    name: str,
    config: ConfigT,
    build: Callable[[ConfigT], Program],
    report: Callable[[RunResult], Report],
) -> RunResult | None:
    """Runs an experiment with a configuration: what `run_experiment` does after the command line.

    One experiment uses another by calling it so.

    Args:
      name: of the experiment.
      config: the configuration.
      build: as for `run_experiment`.
      report: as for `run_experiment`.

    Returns:
      The outcome; None after a dry run.

    Raises:
      SystemExit: as `run_experiment`.

    Example:
      >>> def run(config):
      ...     return run_config("bandits", config, build, report)
    """
    with failures_reported():
        _set_up(config)
        targets = _targets(config)
        program = _built(build, config)
        if targets:
            _compile_update(config, program, targets)
            return None
        replicas = _replicas(config, program)
        if config.dry_run:
            _dry_run(config, program, replicas)
            return None
    with failures_reported(), _open(name, config, program) as (run, program):
        _announce_run(run, config, program, replicas)
        take = _measurer(config, program, replicas)
        params, history = _train(run, config, program, replicas, take)
        if program.init is not None:
            log_once("evaluating ...")
        outcome = _evaluate(run, config, program, replicas, take, params, history)
        written = on_main(lambda: report(outcome))
        on_main(lambda: _save_agents(outcome, written, replicas))
        write_summary(run, written.results, written.text, written.icl)
        log_once(f"{written.text}\n\nResults, figures and agents: {run.path}")
        if unsound := not_finite_since(history):
            if is_main():
                print(f"error: {in_words(unsound)}", file=sys.stderr)
            raise SystemExit(NOT_FINITE_CODE)
        return outcome


@contextlib.contextmanager
def _open(name: str, config: RunConfig, program: Program) -> Iterator[tuple[RunDirectory, Program]]:
    """The open run, and the program, of which a shard is known to fit into memory."""
    if (collection := program.collection) is None:
        with open_run(name, config) as run:
            yield run, program
        return
    checked = [collection]

    def check() -> None:
        checked[:] = [check_memory(collection, config, config.run_folder(name))]

    with open_run(name, config, recognise=collection.recognise, before=check) as run:
        yield run, program._replace(collection=checked[0])


def _set_up(config: RunConfig) -> None:
    """Cache, processes and devices; the first computation comes after it."""
    if "MPLBACKEND" in os.environ:  # which would be read when the first figure is drawn
        try:
            importlib.import_module("matplotlib")
        except ValueError as error:
            exit_with_error(f"MPLBACKEND: {error}")
    if config.target:
        leave_accelerators_alone()
    enable_compilation_cache()
    join_cluster(config)
    one_device_per_core()


def _targets(config: RunConfig) -> list[Target]:
    """The machines to compile for; the process ends with a message where there is no such one."""
    try:
        return [target(name) for name in config.target]
    except ValueError as error:
        exit_with_error(ConfigError(str(error)))
    except ModuleNotFoundError as error:
        exit_with_error(error)


def _built(build: Callable[[ConfigT], Program], config: ConfigT) -> Program:
    """The program; the process ends with a message about a flag where the values do not fit."""
    try:
        validate(config)
        return build(config)
    except (ValueError, OSError, SavedError, ShardError) as error:
        exit_with_error(as_config_error(error, config))


# Where the runs are ------------------------------------------------------------------------------


def _replicas(
    config: RunConfig, program: Program, devices: Sequence[Any] | None = None
) -> Replicas:
    """Returns all seeds of all cells, cell by cell, on these devices or on those of this run."""
    names = replica_names(config, program)
    return Replicas(names, make_mesh(devices_for(len(names), devices), devices))


def _keys(config: RunConfig, program: Program, use: str) -> jax.Array:
    """Returns a key for each run; seeds have the same in all cells."""
    seeds = jnp.arange(config.seeds, dtype=jnp.uint32)
    root = named_key(config.seed, use)
    keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(seeds)
    return keys[np.tile(np.arange(config.seeds), len(program.cells))]


def _cells(config: RunConfig, program: Program) -> Any:
    """Returns the cell of each run."""
    return jax.tree.map(
        lambda *each: np.repeat(np.stack(each), config.seeds, axis=0), *program.cells.values()
    )


def _announce_run(
    run: RunDirectory, config: RunConfig, program: Program, replicas: Replicas
) -> None:
    sizes = {}
    if program.init is not None:
        sizes = {
            "observations": _observations_in_words(config, program),
            "seeds": _devices_in_words(config, program, replicas),
        }
    announce(
        f"{run.experiment} {config.run_name}: {program.title}",
        {**program.details, **sizes, "results": str(run.path)},
        expected_seconds=program.expected_seconds,
    )


def _observations_in_words(config: RunConfig, program: Program) -> str:
    assert isinstance(config, TrainingConfig)
    updates, chunks = config.chunks(program.observations)
    chunk = updates * program.observations
    words = f"{chunk * chunks:,} per seed"
    if chunk * chunks <= config.observations:
        return words
    return f"{words} (for {config.observations:,}: rounded up to whole log lines of {chunk:,})"


def _devices_in_words(config: RunConfig, program: Program, replicas: Replicas) -> str:
    cells = f" of each of {len(program.cells)} cells" if len(program.cells) > 1 else ""
    return f"{config.seeds}{cells}, side by side on up to {replicas.mesh.size} device(s)"


# Training ----------------------------------------------------------------------------------------


def _train(
    run: RunDirectory, config: RunConfig, program: Program, replicas: Replicas, take: Take
) -> tuple[Any, list[dict[str, Any]]]:
    """Parameters of all agents `[replicas, ...]` and the log; None and no log without agents."""
    if program.init is None:
        return None, []
    assert isinstance(config, TrainingConfig)
    per_chunk, num_chunks = config.chunks(program.observations)
    training = _training(config, program, replicas, per_chunk)
    advance = None
    if num_chunks:
        advance, cost = compile_within_memory(
            training.advance, "one update of all seeds", training.running, np.int32(1)
        )
        kept = cost.argument_bytes / 2**30
        log_once(f"an update takes {cost.in_words}, beside {kept:.2f} GiB kept")
    progress = Progress(num_chunks, key_metric=program.key_metric) if config.progress else None
    state, history = run_chunks(
        training.finish,
        training.running,
        advance=advance,
        updates=per_chunk,
        num_chunks=num_chunks,
        run=run,
        replicas=training.replicas,
        probe=_probe(program, replicas, take, training),
        checkpoint_every=config.checkpoint_every,
        progress=progress,
        key_metric=program.key_metric,
        observations_per_chunk=per_chunk * program.observations * replicas.count,
    )
    return _params(state, replicas, training), history


def _training(config: RunConfig, program: Program, replicas: Replicas, updates: int) -> Training:
    """Returns all runs as they begin, with chunks of so many updates."""
    keys, cells = _keys(config, program, "train"), _cells(config, program)
    return start_training(program, replicas, keys, cells, updates)


def _params(state: TrainingState, replicas: Replicas, training: Training) -> Any:
    """Returns the parameters of a training state, one run per replica."""
    if training.replicas is replicas:
        return state.params
    params = to_host(state.params)
    if training.replicas is None:
        params = jax.tree.map(lambda x: x[None], params)
    return replicas.spread(params)


# Evaluation --------------------------------------------------------------------------------------


def _measurer(config: RunConfig, program: Program, replicas: Replicas) -> Take:
    """Takes measures; every function is compiled once."""
    compiled: dict[Any, Callable[..., Any]] = {}
    keys: dict[str, jax.Array] = {}
    cells = replicas.spread(_cells(config, program))

    def take(use: str, measure: Measure, params: ArrayTree, numbers: Sequence[int]) -> Any:
        fixed = measure.arguments() if callable(measure.arguments) else measure.arguments
        if use not in keys:
            keys[use] = replicas.spread(_keys(config, program, use))
        signature = measure.function, len(fixed)
        if signature not in compiled:

            def one(
                key: jax.Array,
                number: jax.Array,
                params: ArrayTree,
                cell: ArrayTree,
                *arguments: Any,
            ) -> Any:
                return measure.function(jax.random.fold_in(key, number), params, cell, *arguments)

            axes = (0, None, 0, 0, *[None] * len(fixed))
            spread = per_replica(one, replicas.mesh, axes)
            compiled[signature] = within_memory(spread, "an evaluation")
        function = compiled[signature]
        parts = [
            replicas.fetch(function(keys[use], np.uint32(i), params, cells, *fixed))
            for i in numbers
        ]
        return parts[0] if len(parts) == 1 else jax.tree.map(_join, *parts)

    return take


def _take_all(take: Callable[[Measure], Any], measures: Any) -> Any:
    """Returns the results of measures, in the measures' places; mappings keep their order."""
    if measures is None:
        return None
    if isinstance(measures, Measure):
        return take(measures)
    if isinstance(measures, Mapping):
        return {name: _take_all(take, value) for name, value in measures.items()}
    return type(measures)(*(_take_all(take, measure) for measure in measures))


def _evaluate(
    run: RunDirectory,
    config: RunConfig,
    program: Program,
    replicas: Replicas,
    take: Take,
    params: ArrayTree,
    history: list[dict[str, Any]],
) -> RunResult:
    """Evaluates the agents; returns everything that the report is made from."""
    per_chunk, _ = config.chunks(program.observations)
    unsound = not_finite_since(history)
    fetched = replicas.fetch(params)
    return RunResult(
        run=run,
        config=config,
        program=program,
        params=fetched,
        measured=_take_all(
            lambda each: take("evaluate", each, params, range(each.repeats)), program.measures
        ),
        host_measured=on_main(lambda: _measure_on_host(run, program)),
        history=history,
        steps=per_chunk * program.observations * np.arange(1, len(history) + 1),
        parameters=parameter_count(fetched) // replicas.count,
        sound=np.asarray(
            [name not in unsound for name in replicas.names]
            if replicas.count > 1
            else [not unsound]
        ),
    )


def _measure_on_host(run: RunDirectory, program: Program) -> Any:
    """Returns the measures that need no agents, or a reader of what is collected."""
    if program.collection is not None:
        return collect(run, program.collection)
    return None if program.host_measures is None else program.host_measures(run)


def _join(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=1)


def _probe(
    program: Program, replicas: Replicas, take: Take, training: Training
) -> Callable[[int, Any], Mapping[str, Any]] | None:
    """Returns the function that `run_chunks` calls after every chunk."""
    if (probe := program.probe) is None:
        return None
    return lambda step, state: probe.metrics(
        take("probe", probe.measure, _params(state, replicas, training), [step])
    )


def cell_folder(cell: str) -> str:
    """Returns the name of a cell's folder of agents."""
    return re.sub(r"\W+", "_", cell)


def _save_agents(outcome: RunResult, written: Report, replicas: Replicas) -> None:
    """Saves the agent of every seed that is sound: `agents/seed_0`, with cells a level deeper."""
    save = outcome.program.save
    if save is None:
        return
    origin = provenance()
    runs = [(cell, seed) for cell in outcome.program.cells for seed in range(outcome.config.seeds)]
    for i, (cell, seed) in enumerate(runs):
        if not outcome.sound[i]:
            log_once(f"note: the agent of {replicas.names[i]} is not saved: it is not finite")
            continue
        folder = outcome.run.path / "agents" / cell_folder(cell) / f"seed_{seed}"
        about = {
            "training": {
                "experiment": outcome.run.experiment,
                "preset": outcome.config.preset,
                "seed": outcome.config.seed,
                "seed_index": seed,
                "cell": cell or None,
                "observations": outcome.observations,
            },
            "provenance": origin,
        }
        if written.evaluations:
            about["evaluation"] = written.evaluations[i]
        params = jax.tree.map(lambda x, i=i: x[i], outcome.params)
        save(folder, outcome.program.cells[cell], params=params, **about)


# Dry run -----------------------------------------------------------------------------------------


def _dry_run(config: RunConfig, program: Program, replicas: Replicas) -> None:
    """Prints exact sizes, one compiled update's memory and time, and the projected hours."""
    updates_per_chunk, chunks = config.chunks(program.observations)
    seeds = {"seeds": _devices_in_words(config, program, replicas)} if program.init else {}
    announce(
        f"dry run of {config.run_name}: {program.title}",
        {**program.details, **_sizes(config, program), **seeds},
    )
    if program.collection is not None:
        announce("a part of the collection", measure_collection(program.collection))
    if program.init is None or not chunks:
        return
    update, single = "one update of all seeds", np.int32(1)
    try:
        log_once("compiling the start of the training ...")
        training = _training(config, program, replicas, 1)
        log_once("compiling one update ...")
        advance, cost = compile_within_memory(training.advance, update, training.running, single)
    except TooLargeError as error:  # what a larger machine is to have, on one that cannot run it
        announce(update, {"time": f"not taken: {error}"})
        return
    seconds = measure_seconds(advance, training.running, single)
    rate = program.observations * replicas.count / seconds
    announce(
        update,
        {
            "memory per device": f"{cost.total_gib:.3f} GiB; set aside {cost.in_words}",
            "compilation": f"{cost.compile_s:.1f} s",
            "time": f"{seconds:.4f} s ({rate:,.0f} observations/s)",
            "projected training": f"{seconds * updates_per_chunk * chunks / 3600:.3f} hours",
        },
    )


def _sizes(config: RunConfig, program: Program) -> dict[str, str]:
    """Sizes that do not depend on devices; none without agents."""
    if program.init is None:
        return {}
    updates_per_chunk, chunks = config.chunks(program.observations)
    cell = next(iter(program.cells.values()))
    shapes = jax.eval_shape(program.init, jax.random.key(0), cell)
    observations = _observations_in_words(config, program)
    return {
        "parameters per agent": f"{parameter_count(shapes.params):,}",
        "observations": f"{observations}, in {updates_per_chunk * chunks:,} updates",
    }


def _compile_update(config: RunConfig, program: Program, targets: Sequence[Target]) -> None:
    """Prints what an update needs on machines that are not at hand."""
    if program.init is None or program.update is None or not program.observations:
        accepted_values = f"a study that trains; {config.run_name} trains nothing"
        exit_with_error(ConfigError(refusal("target", config.target, accepted_values)))
    announce(
        f"dry run of {config.run_name}: {program.title}",
        {**program.details, **_sizes(config, program)},
    )
    keys, cells = _keys(config, program, "train"), _cells(config, program)
    for on in targets:
        replicas = _replicas(config, program, on.devices)
        log_once(f"compiling one update for {on.name} ...")
        plan = plan_training(program, replicas, keys, cells, 1, on.devices)
        announce(f"one update of all seeds on {on.name}", update_in_words(plan, on))
