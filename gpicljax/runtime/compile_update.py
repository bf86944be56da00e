"""An update of a study, compiled for a machine that is not at hand, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np

from gpicljax.runtime.compiled import Block, Collective
from gpicljax.runtime.dry_run import TooLargeError
from gpicljax.runtime.targets import CompiledReport, Target, compile_for, report
from gpicljax.runtime.training import Plan

_MOST = 0.95
"""The greatest part of a GPU's memory that `XLA_PYTHON_CLIENT_MEM_FRACTION` can well give."""


class UpdateReport(NamedTuple):
    """The needs of an update of all runs on each chip.

    Attributes:
      chips: that take part.
      seconds: that compilation took.
      needs: of the program that the driver calls: a loop of updates.
      update: one round of that loop.
    """

    chips: int
    seconds: float
    needs: CompiledReport
    update: Block


def compile_update(plan: Plan, on: Target) -> UpdateReport:
    """Compiles the program of all updates, as the driver runs it.

    Raises:
      TooLargeError: if the compiler refuses the program for the memory that it needs.
    """
    compiled = compile_for(on, plan.advance, plan.running_like(), np.int32(1))
    needs = report(compiled)
    # Its only loop at the top is the one over updates, unless the compiler has moved others there.
    loop = needs.program.main_loop
    update = needs.program if loop is None else loop.body
    return UpdateReport(plan.mesh.size, compiled.seconds, needs, update)


def update_in_words(plan: Plan, on: Target) -> dict[str, str]:
    """Describes the needs of an update of all runs, or why it cannot be compiled for the target.

    Args:
      plan: as for `compile_update`.
      on: the target.
    """
    chips = f"{plan.mesh.size} of {len(on.devices)}"
    try:
        report = compile_update(plan, on)
    except TooLargeError as error:
        return {"chips": chips, "memory per chip": f"DOES NOT FIT: {error}"}
    except jax.errors.JaxRuntimeError as error:
        return {"chips": chips, "compilation": f"FAILED: {str(error).splitlines()[0]}"}
    words = {"chips": chips, "memory per chip": memory_in_words(report.needs, on)}
    if on.platform == "cuda":
        words["kernels"] = f"{report.update.kernels:,}"
        words["data-dependent loops"] = f"{report.update.data_loops:,}"
        if report.update.conditions:
            words["choices between branches"] = f"{report.update.conditions:,}"
    if report.chips > 1:
        words["collectives"] = collectives_in_words(report.update.collectives)
    return words | {"compilation": f"{report.seconds:.1f} s"}


def memory_in_words(needs: CompiledReport, on: Target) -> str:
    """Returns the memory that a program needs on a chip, and whether the chip has it."""
    total = needs.total_bytes
    if total <= on.usable_bytes:
        fits = "fits"
    elif on.platform == "cuda" and total <= _MOST * on.memory_bytes:
        fits = f"fits with XLA_PYTHON_CLIENT_MEM_FRACTION={_MOST} only"
    else:
        fits = "DOES NOT FIT"
    parts = f"{_size(needs.argument_bytes)} kept, {_size(needs.temporary_bytes)} temporary"
    have = f"{_size(on.usable_bytes)} that JAX takes of {_size(on.memory_bytes)}"
    return f"{fits}: {_size(total)} ({parts}) of the {have}"


def collectives_in_words(collectives: Iterable[Collective]) -> str:
    """Describes the exchanges of data of each kind, their bytes together, and the loops around
    them.
    """
    together: dict[tuple[str, tuple[int | None, ...]], list[int]] = {}
    for collective in collectives:
        together.setdefault((collective.kind, collective.loops), []).append(collective.bytes)
    parts = []
    for (kind, loops), sizes in together.items():
        rounds = ["an unknown number of" if number is None else f"{number}" for number in loops]
        around = "".join(f" in a loop of {number} rounds" for number in rounds)
        parts.append(f"{len(sizes)} {kind} of {_size(sum(sizes))}{around}")
    return "; ".join(parts) or "none"


def _size(number: int) -> str:
    """Says a number of bytes with three digits."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= unit:
            return f"{number / unit:#.3g}".rstrip(".") + f" {name}"
    return f"{number} B"
