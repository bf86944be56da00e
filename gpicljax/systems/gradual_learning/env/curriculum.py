"""Curricula: which task sets a stream goes through, and how; and their files.

A curriculum's file is JSON, an object with these entries, of which only `tasks` is needed:

```json
{
  "format": "gpicljax curriculum 1",
  "name": "copying",
  "tasks": ["micro4", "micro7.1", {"name": "micro7.2", "requires": ["micro4"], "weight": 2}],
  "mode": "ordered",
  "threshold": 5
}
```

Each of `tasks` is a task set's name, or an object with its `name`, what it `requires` (by default,
what `TASK_SETS` says) and, in a mixture, its `weight`. A mixture may say `repeats`: so many
instances in a row are of the task set that is drawn.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from gpicljax.checks import (
    Range,
    check,
    check_choice,
    check_fields,
    check_no_circle,
    refusal,
)
from gpicljax.storage.reading import read_json
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES, FAMILIES, NAMES, TASK_SETS

FORMAT = "gpicljax curriculum 1"


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """The task sets of a stream, and the rule by which they follow each other.

    Args:
      tasks: names of task sets, in their order.
      mode: `"ordered"`, one after another, each until it is passed; or `"mixture"`, one drawn for
        each instance, or for `repeats` of them.
      threshold: instances solved in a row that pass a task set.
      weights: of a mixture, how often each is drawn, in proportion; equally often if empty.
      repeats: of a mixture, so many instances in a row are of the task set that is drawn.
      requires: pairs of a task set and what it builds on, where that is not what `TASK_SETS` says.
      name: for reports.

    Raises:
      ValueError: for unknown names (the nearest known one is suggested), requirements in a circle,
        and fields that contradict each other.

    Example:
      >>> Curriculum(("micro1", "micro2")).threshold
      5
      >>> Curriculum(("micro1", "micro5.19"))
      Traceback (most recent call last):
      ValueError: tasks: got 'micro5.19' (did you mean 'micro5.9'?); accepted: micro1, ...
    """

    tasks: tuple[str, ...] = NAMES
    mode: Literal["ordered", "mixture"] = "ordered"
    threshold: Annotated[int, Range(1, 10**6)] = 5
    weights: tuple[float, ...] = ()
    repeats: Annotated[int, Range(1, 10**6)] = 1
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        named = isinstance(self.tasks, str)
        check(not named, "tasks", self.tasks, "a tuple of names, as in TASKS")
        for field in ("tasks", "weights"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        check_fields(self)
        check(self.tasks, "tasks", self.tasks, "at least one name of TASKS")
        for task in self.tasks:
            check_choice("tasks", task, ALL_NAMES)
        for task, needed in self.requires:
            for name in (task, *needed):
                check_choice("requires", name, ALL_NAMES)
        fits = not self.weights or (
            self.mode == "mixture"
            and len(self.weights) == len(self.tasks)
            and all(0 <= weight < float("inf") for weight in self.weights)
            and 0 < sum(self.weights) < float("inf")
        )
        expected = "none, or for a mixture a number >= 0 for each task, not all 0"
        check(fits, "weights", self.weights, expected)
        fits = self.mode == "mixture" or self.repeats == 1
        check(fits, "repeats", self.repeats, "1, or a mixture")
        check_no_circle("requires", self.prerequisites)

    @property
    def prerequisites(self) -> dict[str, tuple[str, ...]]:
        """Returns the prerequisites of each task set, whether in the curriculum or not."""
        required_by_name = {task.name: task.requires for task in TASK_SETS} | dict(self.requires)
        return {name: tuple(required_by_name[name]) for name in dict.fromkeys(self.tasks)}

    @property
    def families(self) -> tuple[str, ...]:
        """Returns the families of questions that the curriculum needs, see `ByteStream`.

        Example:
          >>> Curriculum(("micro1", "micro5.1", "micro6")).families
          ('mapping', 'sentences')
        """
        needed = {TASK_SETS[ALL_NAMES.index(name)].family for name in self.tasks}
        return tuple(FAMILIES[family] for family in sorted(needed))


def predecessors(name: str) -> list[str]:
    """Returns everything that a task set builds on, in an order in which it can be learnt.

    Raises:
      ValueError: for an unknown name.
    """
    graph = {task.name: task.requires for task in TASK_SETS}
    check_choice("name", name, graph)
    names: list[str] = []

    def visit(name: str) -> None:
        for needed in graph.get(name, ()):
            if needed not in names:
                visit(needed)
                names.append(needed)

    visit(name)
    return names


def load_curriculum(path: str | Path) -> Curriculum:
    """Reads a curriculum's file.

    Raises:
      ValueError: for a file that is none, with its name and what is wrong; see `Curriculum`.
      OSError: if there is none, or it is no regular file, such as a pipe.

    Example:
      >>> import pathlib, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder, "two.json")
      ...     _ = path.write_text('{"tasks": ["micro1", "micro2"], "threshold": 3}')
      ...     load_curriculum(path).threshold
      3
    """
    path = Path(path)
    try:
        content = read_json(path)
    except ValueError as error:
        raise ValueError(refusal(str(path), "a file that is no JSON", f"JSON ({error})")) from None
    try:
        return _from_content(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


_ENTRIES = ("tasks", "mode", "threshold", "repeats", "name", "format")


def _from_content(content: Any) -> Curriculum:
    check(isinstance(content, dict), "content", content, "an object with an entry 'tasks'")
    for key in content:
        check_choice("entry", key, _ENTRIES)
    check(content.get("format", FORMAT) == FORMAT, "format", content.get("format"), FORMAT)
    check(isinstance(content.get("tasks"), list), "tasks", content.get("tasks"), "a list")
    names, requires, weights = [], [], []
    for entry in content["tasks"]:
        fields = {"name": entry} if isinstance(entry, str) else entry
        fine = isinstance(fields, dict) and isinstance(fields.get("name"), str)
        check(fine, "tasks", entry, "names, or objects with an entry 'name'")
        for key in fields:
            check_choice(f"entry of {fields['name']}", key, ("name", "requires", "weight"))
        names.append(fields["name"])
        needed = fields.get("requires")
        if needed is not None:
            fine = isinstance(needed, list) and all(isinstance(x, str) for x in needed)
            check(fine, f"requires of {fields['name']}", needed, "a list of names")
            requires.append((fields["name"], tuple(needed)))
        weights.append(fields.get("weight"))
    if all(weight is None for weight in weights):
        weights = []
    plain = ("mode", "threshold", "repeats", "name")
    options = {key: content[key] for key in plain if key in content}
    weights = [1.0 if weight is None else weight for weight in weights]
    return Curriculum(tuple(names), weights=tuple(weights), requires=tuple(requires), **options)
