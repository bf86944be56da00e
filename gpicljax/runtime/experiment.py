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

import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.runtime.config import ConfigError, TrainingConfig, exit_with_error, parse
from gpicljax.runtime.distributed import is_main, join_cluster, log_once, on_main, to_host
from gpicljax.runtime.dry_run import measure, parameter_count
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.loop import NOT_FINITE_CODE, run_chunks
from gpicljax.runtime.mesh import (
    devices_for,
    enable_compilation_cache,
    make_mesh,
    one_device_per_core,
    per_replica,
)
from gpicljax.runtime.metrics import in_words, not_finite_since
from gpicljax.runtime.progress import Progress, announce
from gpicljax.runtime.provenance import provenance
from gpicljax.runtime.replicas import Replicas
from gpicljax.runtime.run_directory import RunDirectory, open_run, write_summary
from gpicljax.runtime.training import Training, start_training

ConfigT = TypeVar("ConfigT", bound=TrainingConfig)


def named_key(seed: int, name: str) -> jax.Array:
    """The key of one use of randomness: `fold_in(key(seed), crc32(name))`.

    Args:
      seed: of the configuration.
      name: of the use. The driver's are `"train"`, `"probe"` and `"evaluate"`, each folded with the
        number of the seed's replica within its cell; those of probes and evaluations also with the
        number of the chunk, or of the repetition.

    Returns:
      A typed key.

    Example:
      >>> bool(named_key(0, "train") == named_key(0, "evaluate"))
      False
    """
    return jax.random.fold_in(jax.random.key(seed), np.uint32(zlib.crc32(name.encode())))


class Measure(NamedTuple):
    """Something to be measured of every trained agent.

    Attributes:
      function: `(key, params, cell, *arguments) -> pytree of arrays`, of one replica. Measures with
        the same function share its compiled program, where arguments have the same shapes.
      arguments: arrays or numbers, the same for all replicas; traced. Or a function that makes
        them, where that takes a computation: it is called when the measure is taken.
      repeats: how often, with different keys; results are joined along their leading axis.

    Example:
      >>> from gpicljax.agents.acting import random_agent
      >>> from gpicljax.evaluation.returns import episode_returns
      >>> import gpicljax
      >>> env = gpicljax.make("FrozenLake-v1")
      >>> def returns(key, params, cell):
      ...     agent = random_agent(env)
      ...     return episode_returns(key, env, agent, params, episodes=100, max_steps=100).returns
      >>> measure = Measure(returns, repeats=4)
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] | Callable[[], tuple[Any, ...]] = ()
    repeats: int = 1


class Probe(NamedTuple):
    """A measure to be taken after every chunk.

    Attributes:
      measure: without repeats. Its program is compiled once for probes and evaluations.
      metrics: from its results, arrays `[seeds, ...]` on the host, to what is logged, `[seeds]`.

    Example:
      >>> def accuracy(key, params, cell):
      ...     return (jax.random.uniform(key, (100,)) < params).mean()
      >>> probe = Probe(Measure(accuracy), metrics=lambda measured: {"accuracy": measured})
      >>> probe.metrics(np.array([0.5, 0.75]))["accuracy"].tolist()
      [0.5, 0.75]
    """

    measure: Measure
    metrics: Callable[[Any], Mapping[str, Any]]


class Sharding(NamedTuple):
    """How a single run is spread over devices, or several runs that learn from the same data.

    Attributes:
      instances: number of instances to spread; the number of devices divides it.
      update: `(devices, axis) -> update`, the update of one device's part; see `runtime.per_part`.
      partition: partition of the state, see `Trainer.partition`.
      together: whether the update takes all cells of a seed at once, from their states with leaves
        `[cells, ...]`. Each device then holds a copy of these states, and what it makes for the
        first cell serves all cells. If False, several runs lie side by side.

    Example:
      >>> def update(devices, axis):
      ...     return lambda state: (jax.lax.pmean(state, axis), {})
      >>> sharding = Sharding(instances=16, update=update, partition=lambda batch, whole: whole)
      >>> sharding.together
      False
    """

    instances: int
    update: Callable[[int, str], Callable[[Any], Any]]
    partition: Callable[[Any, Any], Any]
    together: bool = False


class Program(NamedTuple):
    """What a configuration becomes: plain functions of one replica, a seed of one cell.

    Attributes:
      title: what runs, in a line.
      init: `(key, cell) -> state`; the state has `params`.
      update: `state -> (state, metrics)`, once.
      observations: environment steps (or tokens) of one update; 0 where nothing is trained.
      details: what else to announce, by name.
      between: `state -> state`, between two chunks: new tasks, the next stage of a curriculum.
      cells: what distinguishes the cells of a grid by their names, pytrees of equal shapes; every
        cell is run with every seed.
      measures: what is measured in the end, by name.
      baselines: `() -> anything`, what is measured besides, without any agent, on the host.
      probe: what is measured after every chunk.
      key_metric: what the progress line shows.
      save: `(folder, cell, *, params, **about)`, writes the agent of one seed, with what else its
        card should say; None where there is nothing to keep.
      sharding: how one run alone, or all cells of a seed together, are spread over devices; None if
        they cannot be.
      expected_seconds: how long the run takes, if that is known.
      more: what the report needs to know besides.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents import tabular
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=8, resets="fresh")
      >>> trainer = tabular.make(tabular.TabularConfig(unroll=64), vec)
      >>> program = Program(
      ...     title="Q-learning on ice",
      ...     init=lambda key, cell: trainer.init(key, tabular.TabularHParams()),
      ...     update=trainer.update,
      ...     observations=trainer.observations,
      ... )
    """

    title: str
    init: Callable[[jax.Array, Any], Any]
    update: Callable[[Any], tuple[Any, dict[str, jax.Array]]]
    observations: int
    details: Mapping[str, str] = {}
    between: Callable[[Any], Any] = lambda state: state
    cells: Mapping[str, Any] = {"": ()}
    measures: Mapping[str, Measure] = {}
    baselines: Callable[[], Any] | None = None
    probe: Probe | None = None
    key_metric: str | None = None
    save: Callable[..., None] | None = None
    sharding: Sharding | None = None
    expected_seconds: float | None = None
    more: Any = None


class RunResult(NamedTuple):
    """The result of a run.

    Arrays are on the host, `[seeds, ...]`: all seeds of the first cell, then those of the next.

    Attributes:
      run: the run's folder.
      config: the configuration.
      program: the program that was built from it.
      params: the agents' parameters.
      measured: results of all measures, by name.
      baselines: what `Program.baselines` returned.
      history: the log.
      steps: `int64[chunks]`, observations of one seed by the end of each chunk.
      parameters: number of parameters of one agent.
      sound: `bool[seeds]`, loss and parameters have been finite throughout.

    Example:
      >>> rest = dict.fromkeys(RunResult._fields)
      >>> steps, sound = np.array([512, 1024]), np.array([True, False])
      >>> result = RunResult(**rest | {"steps": steps, "sound": sound})
      >>> result.observations, result.seeds([0.5, 0.75]).tolist()
      (1024, [0.5, nan])
    """

    run: RunDirectory
    config: Any
    program: Program
    params: Any
    measured: Mapping[str, Any]
    baselines: Any
    history: list[dict[str, Any]]
    steps: np.ndarray
    parameters: int
    sound: np.ndarray

    @property
    def observations(self) -> int:
        """Observations of one seed in the whole training."""
        return int(self.steps[-1]) if len(self.steps) else 0

    def curve(self, metric: str) -> np.ndarray:
        """A metric over the training, `float64[seeds, chunks]`."""
        rows = [np.atleast_1d(np.asarray(row[metric], np.float64)) for row in self.history]
        return np.stack(rows, axis=1)

    def seeds(self, values: Any) -> np.ndarray:
        """Values of each seed as `float64[seeds, ...]`, NaN where a seed is not sound."""
        values = np.asarray(values, np.float64)
        return np.where(self.sound.reshape(-1, *[1] * (values.ndim - 1)), values, np.nan)

    def first_sound(self, measured: Any) -> tuple[str, Any]:
        """Name and share of the first seed that is sound (of the first of all if none is).

        Args:
          measured: pytree of arrays `[seeds, ...]`.
        """
        replica = int(np.argmax(self.sound))
        name = _names(self.config, self.program)[replica]
        return name, jax.tree.map(lambda x: x[replica], measured)


class Report(NamedTuple):
    """What is written about an outcome.

    Attributes:
      text: the summary, in Markdown.
      results: its numbers.
      evaluations: what each saved agent's card says of its evaluation; none by default.

    Example:
      >>> Report("arrivals: 0.75", {"arrivals": 0.75}).results
      {'arrivals': 0.75}
    """

    text: str
    results: Mapping[str, Any]
    evaluations: Sequence[Mapping[str, Any]] = ()


def run_experiment(
    name: str,
    presets: Mapping[str, ConfigT],
    build: Callable[[ConfigT], Program],
    report: Callable[[RunResult], Report],
    argv: Sequence[str] | None = None,
) -> RunResult | None:
    """Runs an experiment as its command line says. In several processes, all call it.

    Args:
      name: of the experiment; its runs lie in `runs/<name>/`.
      presets: configurations by name, see `parse`.
      build: wires a program; nothing is computed. It raises `ConfigError` where the configuration
        contradicts itself.
      report: draws figures into the run's folder and returns the summary; in process 0.
      argv: arguments without the program's name; `sys.argv[1:]` by default.

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

    def prepare(config: TrainingConfig) -> None:
        enable_compilation_cache()
        join_cluster(config)
        one_device_per_core()

    config = parse(presets, argv, prog=f"gpicljax run {name}", prepare=prepare)
    try:
        program = build(config)
    except ConfigError as error:
        exit_with_error(error)
    per_chunk, num_chunks = config.chunks(program.observations)
    replicas = _replicas(config, program)
    if config.dry_run:
        _dry_run(config, program, replicas, per_chunk * num_chunks)
        return None
    with failures_reported(), open_run(name, config) as run:
        announce(
            f"{name} {config.run_name}: {program.title}",
            {
                **program.details,
                "observations": _observations_in_words(config, program),
                "seeds": _devices_in_words(config, program, replicas),
                "results": str(run.path),
            },
            expected_seconds=program.expected_seconds,
        )

        # Training.
        training = _training(config, program, replicas, per_chunk)
        take = _measurer(config, program, replicas)
        state, history = run_chunks(
            training.finish,
            training.running,
            advance=training.advance,
            updates=per_chunk,
            num_chunks=num_chunks,
            run=run,
            replicas=training.replicas,
            probe=_probe(program, replicas, take, training),
            checkpoint_every=config.checkpoint_every,
            progress=Progress(num_chunks, key_metric=program.key_metric)
            if config.progress
            else None,
            observations_per_chunk=per_chunk * program.observations * replicas.count,
        )

        # Evaluation.
        log_once("evaluating ...")
        params = _params(state, replicas, training)
        measured = {
            key: take("evaluate", each, params, range(each.repeats))
            for key, each in program.measures.items()
        }
        unsound = not_finite_since(history)
        names = ("the run",) if training.replicas is None else replicas.names
        outcome = RunResult(
            run=run,
            config=config,
            program=program,
            params=(fetched := replicas.fetch(params)),
            measured=measured,
            baselines=None if program.baselines is None else on_main(program.baselines),
            history=history,
            steps=per_chunk * program.observations * np.arange(1, len(history) + 1),
            parameters=parameter_count(fetched) // replicas.count,
            sound=np.asarray([name not in unsound for name in names]),
        )

        # Results.
        written = on_main(lambda: report(outcome))
        on_main(lambda: _save_agents(outcome, written, replicas))
        write_summary(run, written.results, written.text)
        log_once(f"{written.text}\n\nResults, figures and agents: {run.path}")
        if unsound:
            if is_main():
                print(f"error: {in_words(unsound)}", file=sys.stderr)
            raise SystemExit(NOT_FINITE_CODE)
        return outcome


# Where the runs are ------------------------------------------------------------------------------


def _replicas(config: TrainingConfig, program: Program) -> Replicas:
    """All seeds of all cells, cell by cell."""
    names = _names(config, program)
    return Replicas(names, make_mesh(devices_for(len(names))))


def _names(config: TrainingConfig, program: Program) -> tuple[str, ...]:
    return tuple(
        f"{cell}, seed {seed}" if cell else f"seed {seed}"
        for cell in program.cells
        for seed in range(config.seeds)
    )


def _keys(config: TrainingConfig, program: Program, use: str) -> jax.Array:
    """A key for each run; seeds have the same in all cells."""
    seeds = jnp.arange(config.seeds, dtype=jnp.uint32)
    root = named_key(config.seed, use)
    keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(seeds)
    return keys[np.tile(np.arange(config.seeds), len(program.cells))]


def _cells(config: TrainingConfig, program: Program) -> Any:
    """What distinguishes the cells, for each run."""
    return jax.tree.map(
        lambda *each: np.repeat(np.stack(each), config.seeds, axis=0), *program.cells.values()
    )


def _observations_in_words(config: TrainingConfig, program: Program) -> str:
    each, chunks = config.chunks(program.observations)
    chunk = each * program.observations
    words = f"{chunk * chunks:,} per seed"
    if chunk * chunks <= config.observations:
        return words
    return f"{words} (for {config.observations:,}: rounded up to whole log lines of {chunk:,})"


def _devices_in_words(config: TrainingConfig, program: Program, replicas: Replicas) -> str:
    cells = f" of each of {len(program.cells)} cells" if len(program.cells) > 1 else ""
    return f"{config.seeds}{cells}, side by side on up to {replicas.mesh.size} device(s)"


# Training ----------------------------------------------------------------------------------------


def _training(
    config: TrainingConfig, program: Program, replicas: Replicas, updates: int
) -> Training:
    """All runs as they begin, with chunks of so many updates."""
    keys, cells = _keys(config, program, "train"), _cells(config, program)
    return start_training(program, replicas, keys, cells, updates)


def _params(state: Any, replicas: Replicas, training: Training) -> Any:
    """The parameters of a training state, one run per replica."""
    if training.replicas is replicas:
        return state.params
    params = to_host(state.params)
    if training.replicas is None:
        params = jax.tree.map(lambda x: x[None], params)
    return replicas.spread(params)


# Evaluation --------------------------------------------------------------------------------------

Take = Callable[[str, Measure, Any, Sequence[int]], Any]
"""`(use, measure, params, numbers) -> results [seeds, ...]`, a repetition for each number."""


def _measurer(config: TrainingConfig, program: Program, replicas: Replicas) -> Take:
    """Takes measures; every function is compiled once."""
    compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
    keys: dict[str, jax.Array] = {}
    cells = replicas.spread(_cells(config, program))

    def take(use: str, each: Measure, params: Any, numbers: Sequence[int]) -> Any:
        given = each.arguments() if callable(each.arguments) else each.arguments
        if use not in keys:
            keys[use] = replicas.spread(_keys(config, program, use))
        if each.function not in compiled:

            def one(key: jax.Array, number: Any, params: Any, cell: Any, *arguments: Any) -> Any:
                return each.function(jax.random.fold_in(key, number), params, cell, *arguments)

            axes = (0, None, 0, 0, *[None] * len(given))
            compiled[each.function] = per_replica(one, replicas.mesh, axes)
        function = compiled[each.function]
        parts = [
            replicas.fetch(function(keys[use], np.uint32(i), params, cells, *given))
            for i in numbers
        ]
        return parts[0] if len(parts) == 1 else jax.tree.map(_joined, *parts)

    return take


def _joined(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=1)


def _probe(
    program: Program, replicas: Replicas, take: Take, training: Training
) -> Callable[[int, Any], Mapping[str, Any]] | None:
    """What `run_chunks` measures after every chunk."""
    if (probe := program.probe) is None:
        return None
    return lambda step, state: probe.metrics(
        take("probe", probe.measure, _params(state, replicas, training), [step])
    )


def cell_folder(cell: str) -> str:
    """The name of a cell's folder of agents.

    Example:
      >>> cell_folder("S = 1, O = 4")
      'S_1_O_4'
    """
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
                "lane": seed,
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


def _dry_run(config: TrainingConfig, program: Program, replicas: Replicas, updates: int) -> None:
    """Prints exact sizes, one compiled update's memory and time, and the projected hours."""
    cell = next(iter(program.cells.values()))
    shapes = jax.eval_shape(program.init, jax.random.key(0), cell)
    announce(
        f"dry run of {config.run_name}: {program.title}",
        {
            **program.details,
            "parameters per agent": f"{parameter_count(shapes.params):,}",
            "observations": f"{_observations_in_words(config, program)}, in {updates:,} updates",
            "seeds": _devices_in_words(config, program, replicas),
        },
    )
    if not updates:
        return
    log_once("compiling the start of the training ...")
    training = _training(config, program, replicas, 1)
    log_once("compiling one update ...")
    cost = measure(training.advance, training.running, np.int32(1))
    say_cost = {
        "memory per device": f"{cost.total_gib:.3f} GiB",
        "compilation": f"{cost.compile_s:.1f} s",
    }
    if cost.fits:
        rate = program.observations * replicas.count / cost.seconds
        say_cost |= {
            "time": f"{cost.seconds:.4f} s ({rate:,.0f} observations/s)",
            "projected training": f"{cost.seconds * updates / 3600:.3f} hours",
        }
    else:
        say_cost["time"] = f"not taken: {cost.free_bytes / 2**30:.3f} GiB are free"
    announce("one update of all seeds", say_cost)
