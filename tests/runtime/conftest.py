import subprocess
import sys
from pathlib import Path

import pytest
from resumed import result

TRAINING = Path(__file__).parent / "tiny_training.py"


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory, child_environment):
    """The folder of the tiny training run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    command = [sys.executable, str(TRAINING), str(folder)]
    subprocess.run(command, env=child_environment, check=True, capture_output=True, timeout=60)
    return result(folder)


@pytest.fixture
def start(child_environment):
    """Starts the tiny training run; whatever is left of it is killed after the test."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, str(TRAINING), *map(str, arguments)],
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
