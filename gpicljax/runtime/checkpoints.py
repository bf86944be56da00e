"""Checkpoints that survive kills, full disks and damaged files.

Orbax writes each step into a folder of its own. A manifest with the size and the checksum of every
file is added last; a step without one was never finished, and a step that disagrees with its own
has been damaged since.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from gpicljax.runtime.leaves import Spec, from_host, is_key, named_leaves, spec, to_host
from gpicljax.runtime.manifest import MANIFEST, find_damage, write_manifest

T = TypeVar("T")
DAMAGED = "damaged"


class CheckpointError(RuntimeError):
    """No checkpoint can be restored, or none can be written."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint holds a state of another structure, shape or type."""


class Checkpointer:
    """Saves and restores training states below one folder. One process at a time.

    Args:
      directory: the folder; made if absent. Steps that were never finished are removed from it.
      max_to_keep: how many steps stay on disk; 2 or more, so that there is one to fall back to.
      max_failures: consecutive failures of `save` after which it raises.
      report: where messages go.

    Raises:
      ValueError: if `max_to_keep` < 2 or `max_failures` < 1.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        max_to_keep: int = 2,
        max_failures: int = 3,
        report: Callable[[str], None] = print,
    ) -> None:
        """Opens the folder; see the class."""
        if max_to_keep < 2:
            raise ValueError(f"max_to_keep: got {max_to_keep}; accepted: an integer >= 2")
        if max_failures < 1:
            raise ValueError(f"max_failures: got {max_failures}; accepted: an integer >= 1")
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._max_to_keep = max_to_keep
        self._max_failures = max_failures
        self._report = report
        self._failures = 0
        self._opened: ocp.CheckpointManager | None = None
        self._remove_unfinished()

    def steps(self) -> list[int]:
        """The finished steps on disk, ascending. They may still turn out to be damaged."""
        folders = self.directory.iterdir()
        return sorted(int(f.name) for f in folders if f.name.isdigit() and (f / MANIFEST).exists())

    def save(self, step: int, state: Any) -> bool:
        """Writes a state and returns when it is on disk.

        Args:
          step: the state's position; larger than every step on disk.
          state: pytree of arrays (typed keys included), numbers and None.

        Returns:
          True if the checkpoint is complete. False if writing failed: the partial checkpoint is
          gone, those before are as they were, and a message has been given to `report`.

        Raises:
          CheckpointError: at the `max_failures`-th failure in a row.
          TypeError: if a leaf of the state cannot be stored.
          ValueError: if `step` is not larger than those on disk.
        """
        on_disk = self.steps()
        if step < 0 or (on_disk and step <= on_disk[-1]):
            newest = on_disk[-1] if on_disk else -1
            raise ValueError(f"step: got {step}; accepted: an integer > {newest}")
        specs: list[Spec] = []
        # Orbax refuses empty arrays; their shape says everything. The step keeps the table filled.
        table: dict[str, np.ndarray] = {"step": np.asarray(step)}
        for name, leaf in named_leaves(state):
            impl = {"impl": str(jax.random.key_impl(leaf))} if is_key(leaf) else {}
            specs.append(spec(name, leaf) | impl)
            value = to_host(name, leaf)
            if value.size:
                table[name] = value
        try:
            if not self._manager().save(step, args=ocp.args.StandardSave(table), force=True):
                raise OSError("the checkpoint library declined to save")
            write_manifest(self.directory / str(step), step, specs)
        except Exception as error:  # full disks surface as various types from the storage library
            self._close_manager()
            self._remove_unfinished(quiet=True)
            self._failures += 1
            text = (
                f"could not save step {step} in {self.directory}: {type(error).__name__}: {error}"
            )
            if self._failures >= self._max_failures:
                raise CheckpointError(
                    f"{text} ({self._failures} failures in a row; steps on disk: {self.steps()})"
                ) from error
            self._report(f"warning: {text}; going on (steps on disk: {self.steps()})")
            return False
        self._failures = 0
        return True

    def restore_latest(self, abstract_state: T) -> tuple[int, T] | None:
        """Reads the newest intact checkpoint.

        Damaged ones that are newer are moved to the sub-folder `damaged`, with a message each.

        Args:
          abstract_state: pytree of the saved structure: `jax.ShapeDtypeStruct`s or concrete leaves.
            Their shardings are used; the number of devices may differ from when it was saved.

        Returns:
          The step and its state, equal to the saved one bit for bit; None if there is no
          checkpoint.

        Raises:
          CheckpointError: if there are checkpoints but none is intact.
          CheckpointMismatchError: if the newest intact one holds another kind of state.
        """
        problems: list[str] = []
        for step in reversed(self.steps()):
            folder = self.directory / str(step)
            problem = find_damage(folder)
            if problem is None:
                if problems:
                    self._report(f"warning: going back to step {step}")
                return step, self._read(step, abstract_state)
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

    def close(self) -> None:
        """Frees what the checkpoint library holds."""
        self._close_manager()

    def _read(self, step: int, abstract_state: T) -> T:
        folder = self.directory / str(step)
        stored: list[Spec] = json.loads((folder / MANIFEST).read_text())["leaves"]
        wanted = named_leaves(abstract_state)
        _compare(folder, stored, [spec(name, leaf) for name, leaf in wanted])
        target = {"step": np.asarray(0)}
        empty: dict[str, np.ndarray] = {}
        for (name, leaf), saved in zip(wanted, stored, strict=True):
            abstract = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
            if isinstance(leaf, bool | int | float):
                value = np.asarray(leaf)
            else:
                value = np.empty(abstract.shape, abstract.dtype)
            (target if 0 not in saved["shape"] else empty)[name] = value
        try:
            restored = self._manager().restore(step, args=ocp.args.StandardRestore(target))
        except Exception as error:
            raise CheckpointError(
                f"cannot read {folder}, whose files are intact: {error}"
            ) from error
        table: dict[str, Any] = {**restored, **empty}
        leaves = [
            from_host(np.asarray(table[name]), leaf, saved.get("impl"))
            for (name, leaf), saved in zip(wanted, stored, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(abstract_state), leaves)

    def _manager(self) -> ocp.CheckpointManager:
        if self._opened is None:
            options = ocp.CheckpointManagerOptions(
                max_to_keep=self._max_to_keep, enable_async_checkpointing=False
            )
            self._opened = ocp.CheckpointManager(self.directory, options=options)
        return self._opened

    def _close_manager(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(Exception):  # it may still be upset about a failed save
                self._opened.close()
            self._opened = None

    def _set_aside(self, folder: Path) -> None:
        self._close_manager()  # it would go on counting the step
        aside = self.directory / DAMAGED
        aside.mkdir(exist_ok=True)
        number = sum(1 for other in aside.iterdir() if other.name.split("-")[0] == folder.name)
        folder.rename(aside / f"{folder.name}-{number}")

    def _remove_unfinished(self, quiet: bool = False) -> None:
        for folder in sorted(self.directory.iterdir()):
            unfinished = folder.name.isdigit() and not (folder / MANIFEST).exists()
            if unfinished or ".orbax-checkpoint-tmp" in folder.name:
                shutil.rmtree(folder, ignore_errors=True)
                if not quiet:
                    self._report(f"note: removed the unfinished checkpoint {folder}")


def _compare(folder: Path, stored: list[Spec], wanted: list[Spec]) -> None:
    def table(specs: list[Spec]) -> dict[str, str]:
        # The running number is left out, so that one added leaf does not make all others differ.
        return {s["name"][5:]: f"{s['dtype']}{s['shape']}" for s in specs}

    old, new = table(stored), table(wanted)
    names = [*old, *(name for name in new if name not in old)]
    lines = [
        f"\n  {name}: {old.get(name, '(absent)')} -> {new.get(name, '(absent)')}"
        for name in names
        if old.get(name) != new.get(name)
    ]
    if not lines and [s["name"] for s in stored] != [s["name"] for s in wanted]:
        lines = ["\n  the order of the leaves"]
    if lines:
        more = f"\n  and {len(lines) - 8} more" if len(lines) > 8 else ""
        raise CheckpointMismatchError(
            f"{folder} holds another kind of state (stored -> wanted):{''.join(lines[:8])}{more}"
        )
