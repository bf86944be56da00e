"""Checkpoints that survive kills, full disks and damaged files.

Orbax writes each step into a folder of its own, every process its part. A manifest with the size
and the checksum of every file is added last; a step without one was never finished, and a step that
disagrees with its own has been damaged since.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from gpicljax.checks import check
from gpicljax.runs.distributed import all_agree, is_main, log_once, on_main
from gpicljax.storage.leaves import (
    Spec,
    from_storage,
    is_key,
    named_leaves,
    spec,
    storage_target,
    to_storage,
)
from gpicljax.storage.manifest import MANIFEST, find_damage, read_manifest, write_manifest
from gpicljax.storage.nested import differences
from gpicljax.storage.patience import Patience, in_a_line

T = TypeVar("T")
DAMAGED = "damaged"
MOST_STEPS = 2
"""Steps that stay on disk, so that there is one to fall back to."""
_INDEX = "manifest.ocdbt"
"""File that Orbax writes last, by which arrays are found."""
ARRAYS = "default"
"""Sub-folder of a step that Orbax writes (its `StandardCheckpointer` reads it, too)."""


class CheckpointError(RuntimeError):
    """No checkpoint can be restored, or none can be written."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint holds a state of another structure, shape or type."""


class _LiteralPath(type(epath.Path("."))):
    """A path for Orbax, whose own would take [ ] * ? in the names of folders for patterns."""

    def glob(self, pattern: str) -> Iterator[_LiteralPath]:
        """Yields what matches the pattern within this folder, whose own name is taken as it is."""
        return map(type(self), sorted(Path(self).glob(pattern)))


class Checkpointer:
    """Saves and restores training states below one folder. One run at a time.

    The processes of a run call every method together, and share the folder. An array that is spread
    over them is written part by part; whatever else is in the state has the same value in all of
    them, and process 0 writes it. What fails in one process fails in all.

    Args:
      directory: the folder; made if absent. Steps that were never finished are removed from it.
      patience: how many failures of `save` in a row, and for how long, before it raises.
      report: where messages go, in process 0.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        patience: Patience | None = None,
        report: Callable[[str], None] = log_once,
    ) -> None:
        """Opens the folder; see the class."""
        self.directory = Path(directory).absolute()
        self._patience = patience or Patience()
        self._report = report
        # Not Orbax's CheckpointManager: its processes meet in barriers of their own, where those
        # that are well would wait for one whose disk is full.
        self._handler = ocp.StandardCheckpointHandler()

        def prepare() -> None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._remove_unfinished()

        on_main(prepare)

    def steps(self) -> list[int]:
        """Returns the finished steps on disk, ascending. They may still turn out to be damaged."""
        return on_main(self._steps)

    def save(self, step: int, state: object) -> bool:
        """Writes a state and returns when it is on disk.

        Args:
          step: the state's position; larger than every step on disk.
          state: pytree of arrays (typed keys included), numbers and None.

        Returns:
          True if the checkpoint is complete. False if writing failed: the partial checkpoint is
          gone, those before are as they were, and a message has been given to `report`.

        Raises:
          CheckpointError: if it has failed more often and longer than `patience` allows.
          TypeError: if a leaf of the state cannot be stored.
          ValueError: if `step` is not larger than those on disk.
        """
        on_disk = self.steps()
        newest = on_disk[-1] if on_disk else -1
        check(step > newest, "step", step, f"an integer > {newest}")
        specs: list[Spec] = []
        # Orbax refuses empty arrays; their shape says everything. The step keeps the table filled.
        table: dict[str, np.ndarray | jax.Array] = {"step": np.asarray(step)}
        for name, leaf in named_leaves(state):
            impl = {"impl": str(jax.random.key_impl(leaf))} if is_key(leaf) else {}
            specs.append(spec(name, leaf) | impl)
            value = to_storage(leaf)
            if value.size:
                table[name] = value
        try:
            self._write(self.directory / str(step), step, specs, table)
        except Exception as error:  # full disks surface as various types from the storage library
            on_main(lambda: self._remove_unfinished(quiet=True))
            over, kept = on_main(self._patience.fails), self.steps()
            text = f"could not save step {step} in {self.directory}: {in_a_line(error)}"
            if over:
                count = on_main(lambda: self._patience.count)
                raise CheckpointError(
                    f"{text} ({count} failures in a row; steps on disk: {kept})"
                ) from error
            self._tell(f"warning: {text}; going on (steps on disk: {kept})")
            return False
        self._patience.succeeds()
        return True

    def restore_latest(self, abstract_state: T) -> tuple[int, T] | None:
        """Reads the newest intact checkpoint.

        Damaged ones that are newer are moved to the sub-folder `damaged`, with a message each.

        Args:
          abstract_state: pytree of the saved structure: `jax.ShapeDtypeStruct`s or concrete leaves.
            Their shardings are used; the number of devices and of processes may differ from when it
            was saved.

        Returns:
          The step and its state, equal to the saved one bit for bit; None if there is no
          checkpoint.

        Raises:
          CheckpointError: if there are checkpoints but none is intact.
          CheckpointMismatchError: if the newest intact one holds another kind of state.
        """
        step = on_main(self._newest_intact)
        if step is None:
            return None
        return step, all_agree(lambda: self._read(self.directory / str(step), abstract_state))

    def close(self) -> None:
        """Frees what the checkpoint library holds."""
        self._handler.close()

    def _steps(self) -> list[int]:
        folders = self.directory.iterdir()
        return sorted(int(f.name) for f in folders if _is_step(f) and (f / MANIFEST).exists())

    def _write(self, folder: Path, step: int, specs: list[Spec], table: dict[str, Any]) -> None:
        arrays = _LiteralPath(folder / ARRAYS)
        # Where each process describes its parts. Orbax would have the others wait until process 0
        # makes it, ten minutes if that one fails before.
        spread = any(isinstance(value, jax.Array) for value in table.values())
        first = arrays / "array_metadatas" if spread else arrays
        on_main(lambda: first.mkdir(parents=True))
        all_agree(lambda: self._handler.save(arrays, args=ocp.args.StandardSave(table)))

        def finish() -> None:
            self._handler.finalize(arrays)
            if not (arrays / _INDEX).is_file():
                raise OSError(f"{arrays} has no {_INDEX}: its parts were not joined")
            write_manifest(folder, {"step": step, "leaves": specs})
            for old in self._steps()[:-MOST_STEPS]:
                # Without its manifest it counts as unfinished, should this be interrupted.
                (self.directory / str(old) / MANIFEST).unlink()
                shutil.rmtree(self.directory / str(old), ignore_errors=True)

        on_main(finish)

    def _newest_intact(self) -> int | None:
        problems: list[str] = []
        for step in reversed(self._steps()):
            folder = self.directory / str(step)
            problem = find_damage(folder)
            if problem is None and (stated_step := read_manifest(folder).get("step")) != step:
                problem = f"{MANIFEST} is of step {stated_step!r}"
            if problem is None:
                if problems:
                    self._report(f"warning: going back to step {step}")
                return step
            problems.append(f"step {step}: {problem}")
            self._report(f"warning: damaged checkpoint {folder}: {problem}")
            self._set_aside(folder)
        earlier = self.directory / DAMAGED
        if not problems and earlier.exists() and any(earlier.iterdir()):
            problems = [f"{DAMAGED}/{folder.name}" for folder in sorted(earlier.iterdir())]
        if problems:
            raise CheckpointError(
                f"no intact checkpoint in {self.directory}; found: {'; '.join(problems)}"
            )
        return None

    def _read(self, folder: Path, abstract_state: T) -> T:
        try:
            stored: list[Spec] = read_manifest(folder)["leaves"]
        except OSError as error:
            raise CheckpointError(f"{folder} is not visible to all processes: {error}") from error
        leaves_to_read = named_leaves(abstract_state)
        _compare(folder, stored, [spec(name, leaf) for name, leaf in leaves_to_read])
        targets = {name: storage_target(leaf) for name, leaf in leaves_to_read}
        target = {"step": np.asarray(0)} | {n: leaf for n, leaf in targets.items() if leaf.size}
        try:
            table: dict[str, Any] = self._handler.restore(
                _LiteralPath(folder / ARRAYS), args=ocp.args.StandardRestore(target)
            )
        except Exception as error:
            raise CheckpointError(
                f"cannot read {folder}, whose files are intact: {in_a_line(error)}"
            ) from error
        if str(table["step"]) != folder.name:
            raise CheckpointError(f"{folder} holds the state after step {table['step']}")
        leaves = [
            # Empty arrays are not stored.
            from_storage(table.get(name, np.empty(like.shape, like.dtype)), leaf, saved.get("impl"))
            for (name, leaf), like, saved in zip(
                leaves_to_read, targets.values(), stored, strict=True
            )
        ]
        return jax.tree.unflatten(jax.tree.structure(abstract_state), leaves)

    def _tell(self, text: str) -> None:
        if is_main():
            self._report(text)

    def _set_aside(self, folder: Path) -> None:
        aside = self.directory / DAMAGED
        aside.mkdir(exist_ok=True)
        number = sum(1 for earlier in aside.iterdir() if earlier.name.split("-")[0] == folder.name)
        folder.rename(aside / f"{folder.name}-{number}")

    def _remove_unfinished(self, quiet: bool = False) -> None:
        for folder in sorted(self.directory.iterdir()):
            unfinished = _is_step(folder) and not (folder / MANIFEST).exists()
            if unfinished or ".orbax-checkpoint-tmp" in folder.name:
                shutil.rmtree(folder, ignore_errors=True)
                if not quiet:
                    self._report(f"note: removed the unfinished checkpoint {folder}")


def _is_step(folder: Path) -> bool:
    """Returns whether a folder has the name of a step, as `save` writes it."""
    return re.fullmatch("0|[1-9][0-9]*", folder.name) is not None


def _compare(folder: Path, stored: list[Spec], requested: list[Spec]) -> None:
    def table(specs: list[Spec]) -> dict[str, str]:
        # The running number is left out, so that one added leaf does not make all others differ.
        return {s["name"][5:]: f"{s['dtype']}{s['shape']}" for s in specs}

    lines = [f"\n  {line}" for line in differences(table(stored), table(requested), show=str)]
    if not lines and [s["name"] for s in stored] != [s["name"] for s in requested]:
        lines = ["\n  the order of the leaves"]
    if lines:
        more = f"\n  and {len(lines) - 8} more" if len(lines) > 8 else ""
        raise CheckpointMismatchError(
            f"{folder} holds another kind of state (stored -> wanted):{''.join(lines[:8])}{more}"
        )
