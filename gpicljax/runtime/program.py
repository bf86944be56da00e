"""The parts of a study: the types that `build` and `report` exchange with the driver."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.data.collection import Collection
from gpicljax.evaluation.records import ICLRecord
from gpicljax.runs.config import RunConfig
from gpicljax.runs.metrics import throughput
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.style import save_figure


def named_key(seed: int, name: str) -> jax.Array:
    """Returns the key of one use of randomness: `fold_in(key(seed), crc32(name))`.

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
    """The way in which a run, or several runs that learn from the same data, is spread over
    devices.

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
    """A study as plain functions of one replica, a seed of one cell.

    Attributes:
      title: what runs, in a line.
      init: `(key, cell) -> state`; the state has `params`. None for a study without agents.
      update: `state -> (state, metrics)`, once. None where nothing is trained.
      observations: environment steps (or tokens) of one update.
      details: what else to announce, by name.
      between: `state -> state`, between two chunks: new tasks, the next stage of a curriculum.
      cells: what distinguishes the cells of a grid by their names, pytrees of equal shapes; every
        cell is run with every seed.
      measures: what is measured of the agents in the end: `Measure`s in mappings and NamedTuples
        of any nesting, or None.
      host_measures: `run -> anything`, what is measured on the host, without these agents: rules,
        nulls, language models; all there is in a study without agents. Work that takes long is
        stored in the run's folder piece by piece, see `runs.pieces`.
      collection: what is collected in the run's folder, in a study that makes data.
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
    init: Callable[[jax.Array, Any], Any] | None = None
    update: Callable[[Any], tuple[Any, dict[str, jax.Array]]] | None = None
    observations: int = 0
    details: Mapping[str, str] = {}
    between: Callable[[Any], Any] = lambda state: state
    cells: Mapping[str, Any] = {"": ()}
    measures: Any = {}
    host_measures: Callable[[RunDirectory], Any] | None = None
    collection: Collection | None = None
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
      params: the agents' parameters; None where there are no agents.
      measured: the results, in the places that the measures have in `Program.measures`.
      host_measured: what `Program.host_measures` returned, or a reader of what was collected.
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
    measured: Any
    host_measured: Any
    history: list[dict[str, Any]]
    steps: np.ndarray
    parameters: int
    sound: np.ndarray

    @property
    def observations(self) -> int:
        """Observations of one seed in the whole training."""
        return int(self.steps[-1]) if len(self.steps) else 0

    @property
    def speed(self) -> float:
        """Observations per second over all seeds, see `runs.metrics.throughput`."""
        return throughput(self.history)

    def training_note(self, unit: str = "observations") -> str:
        """Returns the extent and the speed of the training, and the agents' size, in a sentence.

        Args:
          unit: what an observation is, such as "environment steps".
        """
        size = f"{self.parameters:,} parameters each."
        if not self.history:
            return f"Agents have {size}"
        rate = "" if np.isnan(self.speed) else f", {self.speed:,.0f} per second over all seeds"
        rate += ", probes included" * bool(rate and self.program.probe)
        return f"{self.observations:,} {unit} per seed{rate}; {size}"

    def curve(self, metric: str) -> np.ndarray:
        """Returns a metric over the training, `float64[seeds, chunks]`."""
        rows = [np.atleast_1d(np.asarray(row[metric], np.float64)) for row in self.history]
        return np.stack(rows, axis=1)

    def draw_learning(self, metric: str, name: str = "learning", **labels: Any) -> None:
        """Draws a metric over the training, cell by cell, if the log has two lines of it.

        Args:
          metric: the metric's name in the log.
          name: the figure's file, without its ending.
          **labels: see `viz.learning_curves`.
        """
        if len(self.steps) > 1:
            curves = self.by_cell(self.curve(metric))
            shown = curves if len(curves) > 1 else next(iter(curves.values()))
            figure = learning_curves(self.steps, shown, **labels)
            save_figure(figure, self.run.figures / f"{name}.png")

    def by_cell(self, values: Any) -> dict[str, Any]:
        """Returns the part of arrays `[seeds, ...]` that belongs to each cell, by its name."""
        count = self.config.seeds
        return {
            cell: jax.tree.map(lambda x, i=i: np.asarray(x)[i * count : (i + 1) * count], values)
            for i, cell in enumerate(self.program.cells)
        }

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
        name = replica_names(self.config, self.program)[replica]
        return name, jax.tree.map(lambda x: x[replica], measured)


class Report(NamedTuple):
    """The summary of an outcome.

    Attributes:
      text: the summary, in Markdown.
      results: its numbers.
      evaluations: what each saved agent's card says of its evaluation; none by default.
      icl: in-context learning of its agents, for `gpicljax profile`; none by default.

    Example:
      >>> Report("arrivals: 0.75", {"arrivals": 0.75}).results
      {'arrivals': 0.75}
    """

    text: str
    results: Mapping[str, Any]
    evaluations: Sequence[Mapping[str, Any]] = ()
    icl: Sequence[ICLRecord] = ()


def replica_names(config: RunConfig, program: Program) -> tuple[str, ...]:
    """Names of all replicas, cell by cell: every seed of every cell."""
    return tuple(
        f"{cell}, seed {seed}" if cell else f"seed {seed}"
        for cell in program.cells
        for seed in range(config.seeds)
    )
