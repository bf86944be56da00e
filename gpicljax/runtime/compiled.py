"""Reports on compiled programs, read from their optimised HLO: kernels, loops, collectives."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_NO_KERNEL = {
    "add-dependency",
    "after-all",
    "bitcast",
    "constant",
    "domain",
    "get-tuple-element",
    "opt-barrier",
    "parameter",
    "partition-id",
    "replica-id",
    "tuple",
}
_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
_ARRAY = re.compile(r"\b(pred|token|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{\s*$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = ")
_TRIPS = re.compile(r'"?known_trip_count"?[:=]\{"n":"(\d+)"')


class Collective(NamedTuple):
    """An operation in which devices exchange data.

    Attributes:
      kind: its name in HLO, such as `"all-reduce"`.
      bytes: of its result on each device.
      loops: rounds of the loops that it is in, from the outermost to the innermost; None for
        rounds that are not known. Empty outside of loops.
    """

    kind: str
    bytes: int
    loops: tuple[int | None, ...] = ()

    @property
    def calls(self) -> int:
        """The number of times that it runs; rounds that are not known count as one."""
        calls = 1
        for rounds in self.loops:
            calls *= rounds or 1
        return calls


class Block(NamedTuple):
    """A computation: the whole program, a loop's body or a branch.

    Attributes:
      operations: its own kernels by their name in HLO, without those of loops and branches.
      loops: in it.
      branches: the alternatives of each condition in it.
      own_collectives: in it, without those of loops and branches.
    """

    operations: Mapping[str, int]
    loops: tuple[Loop, ...] = ()
    branches: tuple[tuple[Block, ...], ...] = ()
    own_collectives: tuple[Collective, ...] = ()

    @property
    def kernels(self) -> int:
        """Launches of a run: every round of a loop, one of a data-dependent loop, the longest
        branch."""
        direct = sum(self.operations.values())
        return (
            direct
            + sum(loop.kernels for loop in self.loops)
            + sum(max(branch.kernels for branch in alternatives) for alternatives in self.branches)
        )

    @property
    def data_loops(self) -> int:
        """The number of started loops whose number of rounds is not known."""
        return sum(
            (loop.rounds is None) + (loop.rounds or 1) * loop.body.data_loops for loop in self.loops
        ) + sum(max(branch.data_loops for branch in alternatives) for alternatives in self.branches)

    @property
    def conditions(self) -> int:
        """The number of choices between branches in a run."""
        return sum(
            1 + max(branch.conditions for branch in alternatives) for alternatives in self.branches
        ) + sum((loop.rounds or 1) * loop.body.conditions for loop in self.loops)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All of them, those of loops and branches too."""
        collectives = list(self.own_collectives)
        for loop in self.loops:
            for block in (loop.condition, loop.body):
                collectives += [
                    collective._replace(loops=(loop.rounds, *collective.loops))
                    for collective in block.collectives
                ]
        for alternatives in self.branches:
            collectives += [inner for branch in alternatives for inner in branch.collectives]
        return tuple(collectives)

    @property
    def main_loop(self) -> Loop | None:
        """The loop with the most kernels; None without loops."""
        return max(self.loops, key=lambda loop: loop.kernels, default=None)


class Loop(NamedTuple):
    """A `while` of HLO.

    Attributes:
      rounds: how many; None where that depends on data. A GPU then asks the host in every round.
        XLA tells rounds for GPUs and CPUs, not for TPUs.
      body: what each round runs.
      condition: what decides whether there is another round; a loop of known rounds has none to
        run.
    """

    rounds: int | None
    body: Block
    condition: Block

    @property
    def kernels(self) -> int:
        """Launches of all rounds, or of one where their number is not known."""
        if self.rounds is None:
            return self.body.kernels + self.condition.kernels
        return self.rounds * self.body.kernels


def read_hlo(text: str) -> Block:
    """Reads an optimised HLO module, as `compiled.as_text()` has it.

    Raises:
      ValueError: if it has no entry computation, or another notation.
    """
    entry = re.search(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    if entry is None:
        raise ValueError("text: got a text without `ENTRY`; accepted: an HLO module")
    computations = dict(_computations(text))

    @functools.cache
    def read(name: str) -> Block:
        return _block(computations.get(name, ()), read)

    return read(entry[1])


def memory_of(compiled: Any) -> tuple[int, int]:
    """Bytes of a compiled function on each device.

    Args:
      compiled: a `jax.stages.Compiled`.

    Returns:
      Those of the arguments; and of scratch space and results that do not replace arguments.
    """
    memory = compiled.memory_analysis()

    def size(name: str) -> int:
        return int(getattr(memory, f"{name}_size_in_bytes", 0))

    return size("argument"), size("temp") + max(0, size("output") - size("alias"))


def _computations(text: str) -> Iterator[tuple[str, list[str]]]:
    """Names of computations and their instructions, a line each."""
    lines: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith(" ") and (start := _COMPUTATION.match(line)):
            lines = []
            yield start[1], lines
        elif line.startswith("}"):
            lines = None
        elif lines is not None and _INSTRUCTION.match(line):
            lines.append(line)


def _block(lines: Any, read: Any) -> Block:
    operations: dict[str, int] = {}
    loops: list[Loop] = []
    branches: list[tuple[Block, ...]] = []
    collectives: list[Collective] = []
    for line in lines:
        shape, operation = _shape_and_operation(line)
        kind = operation.removesuffix("-start")
        if operation in _NO_KERNEL or operation.endswith(("-done", "-update")):
            continue
        if operation == "while":
            trips = _TRIPS.search(line)
            body, condition = (
                read(_called_computations(line, role)[0]) for role in ("body", "condition")
            )
            loops.append(Loop(int(trips[1]) if trips else None, body, condition))
            continue
        if operation == "conditional":
            branches.append(tuple(read(name) for name in _branches(line)))
            continue
        if kind in _COLLECTIVES:
            collectives.append(Collective(kind, _result_bytes(shape, operation)))
        inner = [
            read(name)
            for role in ("calls", "to_apply")
            for name in _called_computations(line, role)
        ]
        if operation == "call" or kind == "async":
            for block in inner:
                operations = _add_counts(operations, block.operations)
                loops += block.loops
                branches += block.branches
                collectives += block.own_collectives
            continue
        # A TPU fuses collectives with what makes their operands.
        collectives += [collective for block in inner for collective in block.collectives]
        operations = _add_counts(operations, {operation: 1})
    return Block(operations, tuple(loops), tuple(branches), tuple(collectives))


def _add_counts(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in [*first, *second]}


def _shape_and_operation(line: str) -> tuple[str, str]:
    """Returns the shape and the operation of `%name = shape operation(operands), attributes`."""
    start = _INSTRUCTION.match(line)
    assert start is not None
    rest = line[start.end() :]
    depth = 0
    for end, character in enumerate(rest):
        depth += (character in "({") - (character in ")}")
        if character == " " and depth == 0:
            return rest[:end], rest[end + 1 :].partition("(")[0]
    raise ValueError(f"text: got {line[:200]!r}; accepted: instructions of HLO")


def _called_computations(line: str, role: str) -> list[str]:
    return re.findall(rf"\b{role}=%?([\w.\-]+)", line)


def _branches(line: str) -> list[str]:
    listed = re.search(r"branch_computations=\{([^}]*)\}", line)
    if listed:
        return re.findall(r"%?([\w.\-]+)", listed[1])
    return _called_computations(line, "true_computation") + _called_computations(
        line, "false_computation"
    )


def _result_bytes(shape: str, operation: str) -> int:
    """Bytes of a collective's result.

    The asynchronous ones return their operand as well, except for the reduction.
    """
    if operation.endswith("-start") and operation != "all-reduce-start" and shape.startswith("("):
        return _bytes(_parts(shape)[1])
    return _bytes(shape)


def _parts(shape: str) -> list[str]:
    """Returns the shapes in a tuple's shape."""
    parts, depth = [""], 0
    for character in shape[1:-1]:
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _bytes(shape: str) -> int:
    """Bytes of an array, or of all arrays of a tuple; without padding."""
    bits = 0
    for name, width, sizes in _ARRAY.findall(shape):
        entries = 1
        for size in sizes.split(","):
            entries *= int(size or 1)
        bits += entries * {"pred": 8, "token": 0}.get(name, int(width or 0))
    return -(-bits // 8)
