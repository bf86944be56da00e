"""The origin of a result: hardware, versions, commit, date and command line."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

PACKAGES = (
    "gpicljax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "distrax",
    "rlax",
    "flashbax",
    "chex",
    "numpy",
)


def provenance() -> dict[str, Any]:
    """Describes the machine and the software of this process.

    Returns:
      A dict of JSON values: `date` (UTC, ISO 8601), `command`, `git` (`commit` and `modified`, or
      None outside a repository), `hardware` (`cpu`, `cores` usable by this process, `devices` as
      counts by kind, `processes`) and `versions` by package.
    """
    devices = Counter(f"{d.platform}: {d.device_kind}" for d in jax.devices())
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "git": git_state(Path(__file__).parent),
        "hardware": {
            "cpu": cpu_model(),
            "cores": usable_cores(),
            "devices": dict(devices),
            "processes": jax.process_count(),
        },
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of those of `PACKAGES` that are installed."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def cpu_model() -> str:
    """Returns the processor's name as the operating system gives it, or its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Returns the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit that is checked out around `folder`.

    Returns:
      `{"commit": str, "modified": bool}`, or None if there is no repository, no commit or no git.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, check=True, timeout=10)
        return done.stdout.decode("utf-8", "replace").strip()

    try:
        commit = git("rev-parse", "--verify", "HEAD")
        return {"commit": commit, "modified": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
