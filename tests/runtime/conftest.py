import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


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
