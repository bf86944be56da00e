"""The command `gpicljax`.

    gpicljax run meta_rg --seeds 6
    gpicljax compile meta_rg --target h100 v5e:4x4
    gpicljax runs list
    gpicljax profile
    gpicljax environments MazeWorld-v0
    gpicljax new environment my_maze
    gpicljax play MazeWorld-v0
    gpicljax watch meta_rg_exact
    gpicljax serve ByteStream-v0

Each command has its own `--help`. A command's modules are imported when it is called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from rich.console import Console
from rich.markup import escape

from gpicljax.checks import numbers, unknown_choice
from gpicljax.environment import Environment
from gpicljax.registration import import_from_here, make, registered
from gpicljax.runs.progress import run_leniently
from gpicljax.studies.registry import STUDIES, run_study, study_summary


def run(arguments: Sequence[str]) -> int:
    """Runs a study, or lists the studies: `gpicljax run [STUDY [flags]]`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: gpicljax run STUDY [flags]\n")
        width = max(map(len, STUDIES))
        for name in STUDIES:
            print(f"  {name:{width}}  {study_summary(name)}")
        print("\n`gpicljax run STUDY --help` lists the flags of a study.")
        return 0
    name, *flags = arguments
    if name not in STUDIES:
        return _refuse(unknown_choice("study", name, STUDIES))
    run_study(name, flags)
    return 0


def compile_study(arguments: Sequence[str]) -> int:
    """Compiles a study for other machines: `gpicljax compile STUDY --target h100 [v5e:4x4 ...]`."""
    usage = "gpicljax compile STUDY --target TARGET [TARGET ...] [flags]"
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: {usage}\n\nIt is `gpicljax run STUDY --dry-run` with these flags. Targets:")
        print("  h100, h200       a GPU; h100:8, eight of one host; h100:2x8, of two hosts")
        print("  v5e, v5p, v6e    a TPU chip; v5e:4x4, a slice of this topology")
        return 0
    name, *flags = arguments
    if name not in STUDIES:
        return _refuse(unknown_choice("study", name, STUDIES))
    if not any(flag.partition("=")[0] == "--target" for flag in flags):
        return _refuse(f"--target: got none; accepted: {usage}")
    run_study(name, ["--dry-run", *flags])
    return 0


def runs(arguments: Sequence[str]) -> int:
    """Lists, shows or compares runs: `gpicljax runs list | show | compare`."""
    from gpicljax.runs.command import main

    return main(arguments)


def profile(arguments: Sequence[str]) -> int:
    """Shows how well agents learn in context, on one scale: `gpicljax profile [RUN ...]`."""
    from gpicljax.runs.icl_page import main

    return main(arguments)


def play(arguments: Sequence[str]) -> int:
    """Plays an environment by hand, in a browser or a terminal: `gpicljax play ID`."""
    from gpicljax.play.command import main

    return main(arguments)


def watch(arguments: Sequence[str]) -> int:
    """Writes the page of an agent's episode and opens it: `gpicljax watch AGENT [AGENT ...]`."""
    from gpicljax.play.command import watch

    return watch(arguments)


def serve(arguments: Sequence[str]) -> int:
    """Serves an environment of bytes to learners over a socket: `gpicljax serve ID`."""
    from gpicljax.serve.command import main, one_thread

    one_thread()
    return main(arguments)


def environments(arguments: Sequence[str]) -> int:
    """Lists the registered environments, or describes one: `gpicljax environments [ID]`."""
    out = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    if not arguments:
        groups: dict[str, dict[tuple[str, str], list[str]]] = {}
        for env_id in registered():
            kind, (name, _, version) = type(make(env_id)), env_id.rpartition("-")
            row = name, _class_text(kind).splitlines()[0]
            groups.setdefault(_group(kind), {}).setdefault(row, []).append(version)
        for group in sorted(groups, key=lambda group: (group == _SHARED, group)):
            out.print(f"[bold]{escape(group)}[/]")
            for (name, about), versions in groups[group].items():
                env_ids = ", -".join([f"{name}-{versions[0]}", *versions[1:]])
                out.print(escape(f"  {env_ids:47}  {about}"), soft_wrap=True)
        out.print("\n`gpicljax environments ID` describes one.")
        return 0
    if arguments[0] in ("-h", "--help"):
        print("usage: gpicljax environments [ID]")
        return 0
    env_id, *more = arguments
    if more:
        return _refuse(f"arguments: got {more} after {env_id}; accepted: one id")
    try:
        env = make(env_id)
    except (ValueError, ModuleNotFoundError) as error:
        return _refuse(str(error))
    out.print(f"[bold]{escape(env_id)}[/]\n\n{escape(_class_text(type(env)))}")
    out.print(f"Observations: {escape(str(env.observation_space()))}", soft_wrap=True)
    out.print(f"Actions: {escape(str(env.action_space()))}", soft_wrap=True)
    out.print(f"Options: {escape(_list_values(vars(env)))}", soft_wrap=True)
    out.print(f"\n[bold]Params[/]\n\n{escape(_class_text(_params(env)))}")
    out.print(f"Defaults: {escape(_list_values(vars(env.default_params)))}", soft_wrap=True)
    return 0


def write_files(arguments: Sequence[str]) -> int:
    """Writes a study, an environment or a network to begin with: `gpicljax new KIND NAME`."""
    from gpicljax.new import main

    return main(arguments)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": run,
    "compile": compile_study,
    "runs": runs,
    "profile": profile,
    "play": play,
    "watch": watch,
    "serve": serve,
    "environments": environments,
    "new": write_files,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
      argv: arguments without the program's name; `sys.argv[1:]` by default.

    Returns:
      The exit code: 0; 1 for a file that cannot be read or written; 2 for an unknown command,
      study, run, metric or environment.

    Raises:
      SystemExit: from a study or a parser, with its own code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_leniently(lambda: _run_command(*arguments or ["--help"]))


def _run_command(name: str, *arguments: str) -> int:
    if name in ("-h", "--help"):
        print("usage: gpicljax COMMAND [arguments]\n")
        for command, function in COMMANDS.items():
            print(f"  {command:12}  {inspect.getdoc(function)}")
        return 0
    if name not in COMMANDS:
        return _refuse(unknown_choice("command", name, COMMANDS))
    import_from_here()
    return COMMANDS[name](arguments)


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


_SHARED = "tasks that several systems share"


def _group(kind: type) -> str:
    """Returns the heading below which an environment is listed: its system, or its module."""
    package, *parts = kind.__module__.split(".")
    if package != "gpicljax":
        return kind.__module__
    return parts[1].replace("_", " ") if parts[0] == "systems" else _SHARED


def _params(env: Environment) -> Any:
    """Returns the class of an environment's params; no array is made."""
    return type(jax.eval_shape(lambda: env.default_params))


def _list_values(values: Mapping[str, Any]) -> str:
    """Returns names and values, arrays as numbers."""
    shown = {
        name: numbers(value) if hasattr(value, "shape") else value for name, value in values.items()
    }
    return ", ".join(f"{name}={value}" for name, value in shown.items()) or "none"


def _class_text(kind: type) -> str:
    """Returns the docstring of a class, or its name where there is none."""
    return inspect.getdoc(kind) or kind.__name__
