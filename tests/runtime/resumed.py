"""Files of resumed runs, and waiting for their log."""

import time

import numpy as np

from gpicljax.runs import read_metrics


def result(folder):
    """The final parameters and the log without its wall times."""
    run = folder / "tiny" / "quick"
    with np.load(run / "final.npz") as file:
        arrays = {name: file[name] for name in file.files}
    records = read_metrics(run / "metrics.jsonl")
    for record in records:
        assert set(record.pop("time")) >= {"chunk_s", "elapsed_s"}
    return arrays, records


def assert_same(a, b, chunks=12):
    assert a[0].keys() == b[0].keys()
    for name, array in a[0].items():
        assert array.dtype == b[0][name].dtype
        assert array.tobytes() == b[0][name].tobytes(), name
    assert a[1] == b[1]
    assert [record["step"] for record in a[1]] == list(range(1, chunks + 1))


def wait_for_lines(path, number, process):
    for _ in range(30_000):  # minutes: a machine may be busy
        if path.exists() and path.read_bytes().count(b"\n") >= number:
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    raise AssertionError("the run does not get going")
