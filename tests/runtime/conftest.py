import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpicljax.runtime

ROOT = Path(gpicljax.runtime.__file__).parents[2]
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def child_environment(tmp_path_factory):
    """What a child process needs to find the package and to compile each program only once."""
    cache = tmp_path_factory.mktemp("xla")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture
def start(child_environment):
    """Starts the tiny training run; whatever is left of it is killed after the test."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, str(HERE / "tiny_training.py"), *map(str, arguments)],
            env=child_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def train(start):
    """Runs the tiny training to its end and returns its exit code and its output."""

    def train(*arguments):
        process = start(*arguments)
        output = process.communicate(timeout=60)[0]
        return process.returncode, output

    return train
