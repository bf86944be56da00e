"""Experiment configurations: frozen dataclasses with presets and a command line.

```python
@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    '''Trains on mazes.'''
    updates: int = 200
    agent: AgentConfig = AgentConfig()

config = parse({"quick": Config(), "paper-table-1": Config(updates=100_000)})
```

gives `--preset`, `--seeds`, `--updates`, `--agent.learning-rate` and so on.
Nothing here imports JAX.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import math
import re
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar

import tyro

from gpicljax.checks import Count, Range, check_fields, refusal, unknown_choice
from gpicljax.runs.arguments import read_arguments

LOG_PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""What a log may also be sent to, and the package that this needs."""


class ConfigError(ValueError):
    """A configuration holds a value that is not accepted.

    Example:
      >>> validate(RunConfig(seeds=0))
      Traceback (most recent call last):
      gpicljax.runs.config.ConfigError: seeds: got 0; accepted: an integer >= 1
    """


def check_config(condition: bool, argument: str, value: object, accepted_values: str) -> None:
    """Refuses a value unless `condition` holds.

    Args:
      condition: whether the value is acceptable.
      argument: the field's name, as in the dataclass.
      value: what was given.
      accepted_values: what would have been accepted, in words.

    Raises:
      ConfigError: if `condition` is false.

    Example:
      >>> check_config(0 >= 1, "seeds", 0, "an integer >= 1")
      Traceback (most recent call last):
      gpicljax.runs.config.ConfigError: seeds: got 0; accepted: an integer >= 1
    """
    if not condition:
        raise ConfigError(refusal(argument, value, accepted_values))


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of every experiment.

    Attributes:
      preset: Named set of values to start from; the other flags override it.
      seeds: Number of independent repetitions, trained side by side (at least 1).
      seed: Number from which every random key of the run is made.
      name: Name of the run's folder; by default the preset (and what the experiment adds to it).
      runs_dir: Folder that holds all runs.
      resume: Continue this run from its newest checkpoint.
      requeue: Continue this run if there is one, else start it: for jobs that are started again.
      overwrite: Delete an existing run of this name first.
      dry_run: Report size, memory and expected duration without training.
      target: With --dry-run, compile an update for these machines, which need not be at hand: h100,
        h200, v5e, v5p, v6e, or several chips, such as h100:8 and v5e:4x4.
      progress: Draw a progress line.
      distributed: Join the other processes of this job (SLURM, Open MPI, Kubernetes, Cloud TPU, or
        JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID).
      log_to: Also show the log in TensorBoard (files in the run's folder) or Weights & Biases
        (WANDB_MODE, WANDB_PROJECT and so on apply).
      profile: Write a profiler trace of the second chunk into the run's folder.

    Example:
      >>> RunConfig(preset="cpu-small").run_name
      'cpu-small'
    """

    trains: ClassVar[bool] = False
    """Whether it is the configuration of a training."""
    free: ClassVar[tuple[str, ...] | None] = None
    """Fields that may change when a command is given again, which then goes on with its run.

    None where that takes --resume, and nothing may change.
    """

    preset: str = "quick"
    seeds: Count = 6
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0
    name: str | None = None
    runs_dir: Path = Path("runs")
    resume: bool = False
    requeue: bool = False
    overwrite: bool = False
    dry_run: bool = False
    target: tuple[str, ...] = ()
    progress: bool = True
    distributed: bool = False
    log_to: tuple[Literal["tensorboard", "wandb"], ...] = ()
    profile: bool = False

    def default_name(self) -> str:
        """The run's name where none was given. Experiments override this to add, say, the task."""
        return self.preset

    @property
    def run_name(self) -> str:
        """The run's folder below `runs/<experiment>/`."""
        return self.default_name() if self.name is None else self.name

    def run_folder(self, experiment: str) -> Path:
        """Returns the run's folder."""
        return self.runs_dir / experiment / self.run_name

    def chunks(self, observations_per_update: int) -> tuple[int, int]:
        """Updates in a chunk, and chunks: none, where nothing is trained."""
        del observations_per_update
        return 0, 0

    def validate(self) -> None:
        """Checks the values. Experiments extend this and call `super().validate()`.

        Raises:
          ConfigError: for the first value that is not accepted.
        """
        name = self.run_name
        plain_name = re.fullmatch(r'[^.<>:"/\\|?*\x00-\x1f][^<>:"/\\|?*\x00-\x1f]*', name)
        accepted_values = 'a folder name of every system, without <>:"/\\|?* and a leading dot'
        check_config(plain_name is not None, "name", name, accepted_values)
        for name in self.log_to:
            package_spec = importlib.util.find_spec(LOG_PACKAGES[name])
            # Without an origin it is but a folder of that name, such as the one W&B itself makes.
            installed = package_spec is not None and package_spec.origin is not None
            check_config(
                installed, "log_to", name, "what is installed; pip install 'gpicljax[log]'"
            )
        if self.target:
            check_config(self.trains, "target", self.target, "none, for this study trains nothing")
            check_config(self.dry_run, "target", self.target, "targets with --dry-run only")
        ways = [way for way in ("resume", "requeue", "overwrite") if getattr(self, way)]
        check_config(len(ways) <= 1, " and ".join(ways), (True,) * len(ways), "at most one of them")
        above = next(path for path in (self.runs_dir, *self.runs_dir.parents) if path.exists())
        accepted_values = f"a folder, or where one can be made; {above} is none"
        check_config(above.is_dir(), "runs_dir", str(self.runs_dir), accepted_values)


@dataclasses.dataclass(frozen=True)
class DataConfig(RunConfig):
    """Settings of every study that makes data.

    Attributes:
      out: Folder to write to; by default the run's.
    """

    out: Path | None = None

    def run_folder(self, experiment: str) -> Path:
        """Returns the folder of the data."""
        return self.out or super().run_folder(experiment)


@dataclasses.dataclass(frozen=True)
class TrainingConfig(RunConfig):
    """Settings of every training.

    Attributes:
      observations: Environment steps (or tokens) of each seed.
      log_lines: Log lines of the whole run.
      checkpoint_every: Log lines between checkpoints.

    Example:
      >>> config = TrainingConfig(seeds=3, observations=100_000)
      >>> config.run_name, config.updates(1_024)
      ('quick', 98)
    """

    trains: ClassVar[bool] = True

    observations: Count = 1_000_000
    log_lines: Count = 40
    checkpoint_every: Count = 5

    def updates(self, observations_per_update: int) -> int:
        """Updates that the run needs for its observations; 0 where an update makes none."""
        if not observations_per_update:
            return 0
        return math.ceil(self.observations / observations_per_update)

    def chunks(self, observations_per_update: int) -> tuple[int, int]:
        """Returns the run in chunks of equal length, one for each log line.

        Returns:
          Updates in a chunk, and chunks.

        Example:
          >>> TrainingConfig(observations=100_000, log_lines=10).chunks(1_000)
          (10, 10)
        """
        updates = self.updates(observations_per_update)
        updates_per_chunk = max(1, math.ceil(updates / self.log_lines))
        return updates_per_chunk, math.ceil(updates / updates_per_chunk)


ConfigT = TypeVar("ConfigT", bound=RunConfig)


def validate(config: Any, prefix: str = "") -> None:
    """Checks a configuration and every dataclass nested in it.

    Fields are checked by their annotations (see `gpicljax.checks`), then `validate()` is called.

    Args:
      config: a dataclass instance; it need not have a `validate` method.
      prefix: dotted name of `config` within the whole, put before the argument in errors.

    Raises:
      ConfigError: for the first value that is not accepted, under its dotted name.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            validate(value, f"{prefix}{field.name}.")
    try:
        check_fields(config)
        if hasattr(config, "validate"):
            config.validate()
    except ValueError as error:
        raise ConfigError(f"{prefix}{error}") from error


def assignments(argument: str, items: Sequence[str]) -> dict[str, Any]:
    """Settings such as `size=8` by name.

    Values are Python literals, `true`, `false` and `none` in any case, or else text; whether a
    value is accepted is decided where it is used, by the annotation of what it sets.

    Raises:
      ConfigError: for what is no `name=value`, or a name that comes twice.
    """
    words = {"true": True, "false": False, "none": None}
    values: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        check_config(bool(equals) and name.isidentifier(), argument, item, "name=value")
        check_config(name not in values, argument, item, "every name once")
        try:
            values[name] = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def parse(
    presets: Mapping[str, ConfigT],
    argv: Sequence[str] | None = None,
    *,
    prog: str | None = None,
    prepare: Callable[[ConfigT], None] | None = None,
) -> ConfigT:
    """Reads the command line.

    At the top of `--help` is the first paragraph of the configuration's docstring. Below it is a
    line for each flag, and a paragraph for each group of them; `--help-verbose` describes them all.

    Args:
      presets: configurations by name. `quick` is the default one; without it, the first is.
      argv: arguments without the program's name; `sys.argv[1:]` by default.
      prog: the program's name in messages.
      prepare: called before the values are checked, which may be JAX's first computation.

    Returns:
      The chosen preset with the given fields replaced, validated.

    Raises:
      SystemExit: with code 2, after a message on stderr, for an unknown preset, an unknown flag or
        a value that is not accepted; with code 0 after `--help`.
      ValueError: if `presets` is empty.

    Example:
      >>> config = parse({"quick": TrainingConfig()}, ["--seeds", "2", "--observations", "5000"])
      >>> config.seeds, config.observations
      (2, 5000)
    """
    if not presets:
        raise ValueError(
            "presets: got an empty mapping; accepted: at least one named configuration"
        )
    from gpicljax.registration import import_from_here

    import_from_here()
    arguments = list(sys.argv[1:] if argv is None else argv)
    default = "quick" if "quick" in presets else next(iter(presets))
    # Only the preset is read here: it decides the defaults of everything else. The flag stays in
    # place for tyro, so that it is listed in --help like any other.
    finder = ArgumentParser(prog=prog, add_help=False, allow_abbrev=False)
    finder.add_argument("--preset", default=default)
    chosen = str(finder.parse_known_args(arguments)[0].preset)
    if chosen not in presets:
        exit_with_error(unknown_choice("--preset", chosen, presets))
    base = dataclasses.replace(presets[chosen], preset=chosen)
    # The attributes are described at each flag.
    text = (type(base).__doc__ or "").partition("Attributes:")[0].strip()
    text = f"{text}\n\nPresets: {', '.join(presets)} (default: {default})."
    kind, shown = type(base), base
    if {"-h", "--help"} & {*arguments}:
        kind, groups = _without_groups(base)
        shown = kind(
            **{field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
        )
        text = "\n".join([text, *groups])
    config = read_arguments(
        kind, default=shown, args=arguments, description=text, prog=prog, compact_help=True
    )
    if prepare is not None:
        prepare(config)
    try:
        validate(config)
    except ConfigError as error:
        exit_with_error(error)
    return config


def _without_groups(base: ConfigT) -> tuple[type[ConfigT], list[str]]:
    """A configuration's type for a short help, and what it leaves out: the fields of its fields."""
    groups = {
        field.name: value
        for field in dataclasses.fields(base)
        if dataclasses.is_dataclass(value := getattr(base, field.name))
    }
    hidden = [
        (name, tyro.conf.Suppress[type(value)], dataclasses.field(default=value))
        for name, value in groups.items()
    ]
    kind: Any = dataclasses.make_dataclass(
        type(base).__name__, hidden, bases=(type(base),), frozen=True
    )

    def list_values(name: str, value: Any) -> str:
        if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            inner = [
                list_values(f"{name}.{field.name}", getattr(value, field.name)) for field in fields
            ]
            return ", ".join(inner)
        items = value if isinstance(value, tuple) else (value,)
        words = " ".join(str(item) for item in items) or "()"
        return f"{name.replace('_', '-')} {words}"

    lines = []
    for name, value in groups.items():
        fields = dataclasses.fields(value)
        if inner := [
            list_values(entry_field.name, getattr(value, entry_field.name))
            for entry_field in fields
        ]:
            flags = f"--{name.replace('_', '-')}.NAME VALUE: {', '.join(inner)}."
            lines.append(textwrap.fill(flags, 100, subsequent_indent="  "))
    return kind, lines


def as_config_error(error: Exception, config: RunConfig) -> Exception:
    """Returns an error about an argument as one about the field of the configuration that holds it.

    Args:
      error: its message begins with an argument's name and a colon, or not.
      config: the configuration, whose groups are searched for a field of that name.

    Returns:
      A `ConfigError` under the field's dotted name, where exactly one field has that name; else the
      error itself.
    """
    argument, colon, rest = str(error).partition(":")
    places = _places(config, argument)
    if isinstance(error, ConfigError) or not colon or len(places) != 1:
        return error
    return ConfigError(f"{places[0]}:{rest}")


def _places(config: object, name: str, prefix: str = "") -> list[str]:
    """Dotted names of the fields called `name` in a dataclass and in those nested in it."""
    places = []
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        if field.name == name:
            places.append(f"{prefix}{name}")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            places += _places(value, name, f"{prefix}{field.name}.")
    return places


def exit_with_error(error: object) -> NoReturn:
    """Ends the program as a bad argument does: a message on stderr, exit code 2.

    Args:
      error: a `ConfigError`, whose argument is shown as the flag that it is; or a message.
    """
    message = str(error)
    if isinstance(error, ConfigError):
        message = f"--{message.replace('_', '-', message.partition(':')[0].count('_'))}"
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)
