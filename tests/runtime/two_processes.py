"""Run as two processes of two devices: agreement, refusals, checkpoints of shared arrays.

usage: two_processes.py FOLDER (with the variables that `join_cluster` reads)
"""

import dataclasses
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from gpicljax.runs.checkpoints import Checkpointer, CheckpointError, CheckpointMismatchError
from gpicljax.runs.distributed import all_agree, exchange, is_main, join_cluster
from gpicljax.runs.metrics import MetricsLog
from gpicljax.runs.run_directory import (
    ConfigMismatchError,
    RunError,
    RunExistsError,
    RunLockedError,
    open_run,
    write_summary,
)
from gpicljax.runtime import RunConfig, make_mesh, on_main, per_replica, to_host
from gpicljax.runtime.mesh import devices_for, shard_leading
from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.leaves import is_key
from gpicljax.storage.patience import Patience

folder = Path(sys.argv[1])
CONFIG = RunConfig(runs_dir=folder / "runs", distributed=True)
join_cluster(CONFIG)
join_cluster(CONFIG)  # the second time, nothing is left to do
ME = jax.process_index()


def fail_in(process, error):
    def function(*_, **__):
        if process == ME:
            raise error

    return function


def check_agreement():
    assert is_main() == (ME == 0)
    assert exchange(ME) == [0, 1]
    long = "x" * 5000
    assert exchange(long * (ME + 1)) == [long, long + long]
    assert on_main(lambda: f"of {ME}") == "of 0"
    assert on_main(lambda: on_main(lambda: long)) == long  # process 0 is alone inside
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        on_main(lambda: Path("nowhere").read_text())
    assert caught.value.filename == "nowhere"
    for process in (0, 1):
        with pytest.raises(OSError, match="disk"):
            all_agree(lambda process=process: fail_in(process, OSError(28, "full disk"))())

    class Unknown(Exception):  # cannot be pickled
        pass

    with pytest.raises(Unknown if ME == 1 else RuntimeError, match="odd"):
        all_agree(fail_in(1, Unknown("odd")))
    assert all_agree(lambda: ME) == ME


def refusals():
    with open_run("e", CONFIG) as run:
        assert run.config_file.exists() and run.figures.exists()
        with pytest.raises(RunLockedError, match="in use by another process"):
            open_run("e", dataclasses.replace(CONFIG, resume=True))
        # Process 0 alone writes the summary: the others may be elsewhere already.
        if is_main():
            write_summary(run, {"a": 1}, "# Result")
    for config, error, words in (
        (CONFIG, RunExistsError, "--resume continues it"),
        (dataclasses.replace(CONFIG, resume=True, seeds=3), ConfigMismatchError, "seeds: 6 -> 3"),
        (dataclasses.replace(CONFIG, seed=ME), RunError, "processes 0 and 1 .*\n  seed: 0 -> 1"),
    ):
        with pytest.raises(error, match=words):
            open_run("e", config)
    resuming = dataclasses.replace(CONFIG, resume=True, distributed=False)
    with open_run("e", resuming) as run:  # a run may go on with another number of processes
        assert run.resumed


def devices():
    assert [devices_for(n) for n in (1, 2, 3, 4, 6)] == [2, 2, 4, 4, 4]
    assert [d.process_index for d in make_mesh(2).devices] == [0, 1]
    for wrong in (1, 3):  # some process would be left out, or have more to do
        with pytest.raises(ValueError, match=f"num_devices: got {wrong}; .* in each of the 2"):
            make_mesh(wrong)
    mesh = make_mesh()
    keys = shard_leading(jax.random.split(jax.random.key(0), 4), mesh)
    with pytest.raises(AssertionError):
        shard_leading(np.full(4, ME), mesh)  # not the same values

    def draw(key, scale):
        return jax.random.normal(key, (3,)) * scale

    expected = jax.vmap(draw, (0, None))(jax.random.split(jax.random.key(0), 4), 2.0)
    drawn = per_replica(draw, mesh, (0, None))(keys, 2.0)
    with pytest.raises(RuntimeError, match="non-addressable"):
        np.asarray(drawn)
    host = to_host({"keys": keys, "drawn": drawn, "text": "a", "here": jnp.ones(2)})
    np.testing.assert_array_equal(host["drawn"], expected)
    np.testing.assert_array_equal(
        host["keys"], jax.random.key_data(jax.random.split(jax.random.key(0), 4))
    )
    assert host["text"] == "a" and isinstance(host["here"], np.ndarray)
    # The trap: an array of several processes cannot be closed over, it has to be an argument.
    with pytest.raises(RuntimeError, match="Closing over"):
        per_replica(lambda x: x + drawn.sum(), mesh)(drawn)
    total = per_replica(lambda x, all_of_it: x + all_of_it.sum(), mesh, (0, None))(drawn, drawn)
    np.testing.assert_allclose(to_host(total), expected + expected.sum(), rtol=1e-6)


def make_state(mesh, seed):
    instance_keys = jax.random.split(jax.random.key(seed), 4)
    spread = {
        "keys": instance_keys,
        "other keys": jax.random.split(jax.random.key(seed, impl="rbg"), 4),
        "x": jax.random.normal(jax.random.key(seed), (4, 3)),
        "none": jnp.zeros((4, 0)),
    }
    common = NamedSharding(mesh, PartitionSpec())
    return shard_leading(spread, mesh) | {
        "common": jax.device_put(np.full(3, seed), common),
        "here": jnp.int32(seed),
        "number": seed,
    }


def assert_equal(state, expected):
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    for a, b in zip(
        jax.tree.leaves(to_host(state)), jax.tree.leaves(to_host(expected)), strict=True
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def checkpoints():
    mesh, messages = make_mesh(), []
    saver = Checkpointer(folder / "checkpoints", report=messages.append, patience=Patience(3, 0.0))
    for step in (1, 2):
        assert saver.save(step, make_state(mesh, step))
    for some_mesh in (mesh, make_mesh(2)):
        step, state = saver.restore_latest(make_state(some_mesh, 9))
        assert step == 2
        assert_equal(state, make_state(mesh, 2))
        assert state["keys"].sharding.mesh == some_mesh and is_key(state["keys"])
    abstract = make_state(mesh, 9)
    x = abstract["x"]
    abstract["x"] = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    assert_equal(saver.restore_latest(abstract)[1], make_state(mesh, 2))
    with pytest.raises(CheckpointMismatchError, match="number"):
        saver.restore_latest(make_state(mesh, 9) | {"number": 1.5})
    assert messages == []

    def damage():
        part = next((saver.directory / "2").rglob("ocdbt.process_1/d/*"))
        part.write_bytes(part.read_bytes()[:-1])

    on_main(damage)
    step, state = saver.restore_latest(make_state(mesh, 9))
    assert step == 1  # in both processes
    assert_equal(state, make_state(mesh, 1))
    assert len(messages) == (2 if is_main() else 0)

    # One process that cannot write its part fails for all, and none waits for another.
    write = saver._handler.save
    for process in (1, 0):
        saver._handler.save = lambda *args, process=process, **named: (
            fail_in(process, OSError(28, "No space left"))(),
            write(*args, **named),
        )
        assert not saver.save(3, make_state(mesh, 3))
        assert saver.steps() == [1] and not (saver.directory / "3").exists()
    with pytest.raises(CheckpointError, match="3 failures in a row"):
        saver.save(3, make_state(mesh, 3))
    saver._handler.save = write
    assert saver.save(3, make_state(mesh, 3)) and saver.steps() == [1, 3]
    if is_main():
        assert "No space left" in messages[-1]
    saver.close()


def log():
    path = folder / "m.jsonl"
    on_main(lambda: write_atomically(path, '{"step": 1}\n{"st'))
    log = MetricsLog(path)
    log.append(2, {"x": 1.5})
    assert log.complete and log.read() == [{"step": 1}, {"step": 2, "x": 1.5}]
    log._write = fail_in(0, OSError(28, "No space left"))
    log.append(3, {})
    assert not log.complete
    log.append(4, {})
    with pytest.raises(OSError, match="No space left"):
        log.append(5, {})


for part in (check_agreement, refusals, devices, checkpoints, log):
    part()
print("all well")
