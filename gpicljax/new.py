"""The command `gpicljax new`: writes the manual's files into the current folder.

    gpicljax new environment my_maze

The files are those of `templates/`, an example and its test; the manual shows the same text.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpicljax.agents import CATALOGUE
from gpicljax.checks import check, check_choice, refusal
from gpicljax.registration import is_registered
from gpicljax.studies.registry import STUDIES

_TEMPLATES = Path(__file__).with_name("templates")
_USAGE = "gpicljax new study | environment | network NAME"
_EXAMPLES = {
    "study": ["slippery_lakes", "python slippery_lakes.py --preset quick"],
    "environment": [
        "hidden_prize",
        "gpicljax play hidden_prize:HiddenPrize-v0",
        "gpicljax run train_agent --env hidden_prize:HiddenPrize-v0",
    ],
    "network": [
        "small_memory",
        "gpicljax run train_agent --env BernoulliBandit-v0 --algo small_memory:small-memory",
    ],
}
"""Module of each kind's example, and the commands that run it."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      The exit code: 0; 1 if a file cannot be written; 2 for arguments that are not accepted.
    """
    if not arguments or {"-h", "--help"} & {*arguments}:
        print(f"usage: {_USAGE}\n\nWrites an example and its test as NAME.py and test_NAME.py.")
        return 0
    try:
        check(len(arguments) == 2, "arguments", [*arguments], _USAGE)
        kind, name = arguments
        check_choice("kind", kind, _EXAMPLES)
        example, *commands = _EXAMPLES[kind]
        sources = [_TEMPLATES / f"{prefix}{example}.py" for prefix in ("", "test_")]
        texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
        check_name(name, example, texts)
        files = {rename(file, example, name): rename(texts[file], example, name) for file in texts}
        write_new_files(files)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2
    print(f"wrote {' and '.join(files)}; run")
    for command in (f"pytest test_{example}.py", *commands):
        print(f"  {rename(command, example, name)}")
    return 0


def spellings(name: str) -> tuple[str, str, str]:
    """Returns a name as an algorithm, a class and a module are named."""
    words = [word for word in name.split("_") if word]
    camel = "".join(word[0].upper() + word[1:] for word in words)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", "_".join(words)).lower()
    return snake.replace("_", "-"), camel, snake


def rename(text: str, example: str, name: str) -> str:
    """Returns a text with another name in place of the example's, in every spelling."""
    names = dict(zip(spellings(example), spellings(name), strict=True))
    return re.sub("|".join(names), lambda match: names[match[0]], text)


def check_name(name: str, example: str, texts: Mapping[str, str]) -> None:
    """Refuses names that would hide a module, an entry of a registry or a name of the files.

    Args:
      name: the user's.
      example: the module of the example.
      texts: of the example's files, by file.
    """
    fits = re.fullmatch("[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name)
    check(fits, "NAME", name, "a name of letters, digits and single underscores, such as my_maze")
    algorithm, camel, module = spellings(name)
    reserved = any(map(keyword.iskeyword, (module, camel)))
    check(not reserved, "NAME", name, "a name that is no keyword of Python")
    for file in (f"{module}.py", f"test_{module}.py"):
        check(not Path(file).exists(), "NAME", name, f"a name for which there is no {file} yet")
    shadowed = module in sys.stdlib_module_names or importlib.util.find_spec(module)
    check(not shadowed, "NAME", name, "a name that no other module has")
    registered = module in STUDIES or algorithm in CATALOGUE or is_registered(f"{camel}-v0")
    check(not registered, "NAME", name, "a name that no study, algorithm or environment has")
    used = {word for file, text in texts.items() for word in compile(text, file, "exec").co_names}
    clashes = {module, camel} & (used - {*spellings(example)})
    check(not clashes, "NAME", name, "a name that the files do not use for something else")


def write_new_files(files: Mapping[str, str]) -> None:
    """Writes files into the current folder: all of them, or none where one exists or cannot be.

    Raises:
      ValueError: if one exists.
      OSError: if one cannot be written.
    """
    written: list[Path] = []
    try:
        for file, text in files.items():
            # In the mode "x", a file that has appeared in the meantime is not replaced.
            with open(file, "x", encoding="utf-8") as stream:
                written.append(Path(file))
                stream.write(text)
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise ValueError(refusal("NAME", error.filename, "a file that is not there")) from None
        raise
