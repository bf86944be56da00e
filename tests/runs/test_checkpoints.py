import resource
import shutil
import subprocess
import sys
import types
from pathlib import Path

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gpicljax.runs import checkpoints as checkpoints_module
from gpicljax.runs.checkpoints import Checkpointer, CheckpointError, CheckpointMismatchError
from gpicljax.storage.patience import Patience


@flax.struct.dataclass
class State:
    params: dict
    opt_state: optax.OptState
    key: jax.Array
    extras: dict
    nothing: None = None


def make_state(seed=0, width=3):
    key = jax.random.key(seed)
    params = {"a/b": jax.random.normal(key, (2, width)), "list": [jnp.ones(4, jnp.bfloat16)]}
    extras = {
        "flag": jnp.array([True, False]),
        "bytes": jnp.arange(5, dtype=jnp.uint8),
        "count": jnp.int32(-7),
        "odd": jnp.array([jnp.nan, jnp.inf, -0.0, 1e-45], jnp.float32),
        "none": None,
        "empty": jnp.zeros((0, 3), jnp.int32),
        "numpy": np.arange(3, dtype=np.int64) + 2**40,
        "scalar": np.float64(0.1),
        "number": 5,
        "yes": True,
        "keys": jax.random.split(jax.random.key(1, impl="rbg"), 3),
    }
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    return State(params, optimiser.init(params), key, extras)


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        if isinstance(x, jax.Array):
            assert x.dtype == y.dtype and x.shape == y.shape and x.committed == y.committed
            if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
                x, y = jax.random.key_data(x), jax.random.key_data(y)
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def biggest_file(folder):
    files = [f for f in folder.rglob("*") if f.is_file() and f.name != "manifest.json"]
    return max(files, key=lambda file: file.stat().st_size)


def test_round_trip_is_bit_exact(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    assert checkpointer.restore_latest(make_state()) is None
    for step in (1, 2, 5):
        assert checkpointer.save(step, make_state(step))
    assert checkpointer.steps() == [2, 5]
    for reader in (checkpointer, Checkpointer(tmp_path)):
        step, state = reader.restore_latest(make_state(99))
        assert step == 5
        assert_equal(state, make_state(5))
    with pytest.raises(ValueError, match="step: got 5"):
        checkpointer.save(5, make_state())
    checkpointer.close()


def test_abstract_state_and_empty_state(tmp_path):
    state = {"x": jnp.arange(4.0), "key": jax.random.key(3), "none": None}
    checkpointer = Checkpointer(tmp_path / "a")
    checkpointer.save(1, state)
    assert_equal(checkpointer.restore_latest(jax.eval_shape(lambda: state))[1], state)
    empty = Checkpointer(tmp_path / "b")
    empty.save(0, {"none": None})
    assert empty.restore_latest({"none": None}) == (0, {"none": None})


def test_orbax_alone_reads_the_arrays(tmp_path):
    Checkpointer(tmp_path).save(1, {"x": jnp.arange(4.0)})
    with checkpoints_module.ocp.StandardCheckpointer() as reader:
        table = reader.restore(
            tmp_path / "1" / "default", {"step": np.array(0), "0000.x": np.zeros(4)}
        )
    assert table["step"] == 1
    np.testing.assert_array_equal(table["0000.x"], np.arange(4))


def test_restored_buffers_can_be_donated(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    double = jax.jit(lambda x: x * 2, donate_argnums=0)
    x = double(jnp.arange(1000.0))
    checkpointer.save(1, x)
    expected = np.asarray(x).copy()
    x = double(x)
    _, restored = checkpointer.restore_latest(jnp.zeros(1000))
    np.testing.assert_array_equal(restored, expected)
    np.testing.assert_array_equal(double(restored), x)


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "manifest"])
def test_damage_falls_back_to_the_one_before(tmp_path, damage):
    messages = []
    checkpointer = Checkpointer(tmp_path, report=messages.append)
    checkpointer.save(1, make_state(1))
    checkpointer.save(2, make_state(2))
    victim = biggest_file(tmp_path / "2")
    if damage == "manifest":
        victim = tmp_path / "2" / "manifest.json"
    content = victim.read_bytes()
    if damage == "flip":
        middle = len(content) // 2
        flipped = bytes([content[middle] ^ 1])
        victim.write_bytes(content[:middle] + flipped + content[middle + 1 :])
    elif damage == "delete":
        victim.unlink()
    else:
        victim.write_bytes(content[:-3])
    step, state = checkpointer.restore_latest(make_state())
    assert step == 1
    assert_equal(state, make_state(1))
    assert f"damaged checkpoint {tmp_path / '2'}" in messages[0] and victim.name in messages[0]
    assert "going back to step 1" in messages[1]
    assert (tmp_path / "damaged" / "2-0").exists()  # put aside, not deleted
    assert checkpointer.save(2, make_state(2)) and checkpointer.steps() == [1, 2]


@pytest.mark.parametrize("name", ["9", "08", "٨"])
def test_a_checkpoint_that_was_renamed_is_not_taken_for_another_step(name, tmp_path):
    messages = []
    saver = Checkpointer(tmp_path, report=messages.append)
    for step in (3, 6):
        assert saver.save(step, make_state(step))
    (tmp_path / "6").rename(tmp_path / name)
    step, state = saver.restore_latest(make_state())
    assert step == 3
    assert_equal(state, make_state(3))
    assert name != "9" or "manifest.json is of step 6" in messages[0]


def test_no_intact_checkpoint(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    for step in (1, 2):
        checkpointer.save(step, make_state())
        biggest_file(tmp_path / str(step)).write_bytes(b"")
    for _ in range(2):  # asking again does not make it a fresh start either
        with pytest.raises(CheckpointError, match=f"no intact checkpoint in {tmp_path}.*1.*"):
            checkpointer.restore_latest(make_state())


def test_unfinished_checkpoints_are_removed(tmp_path):
    messages = []
    Checkpointer(tmp_path).save(1, make_state(1))
    shutil.copytree(tmp_path / "1", tmp_path / "2")
    (tmp_path / "2" / "manifest.json").unlink()
    (tmp_path / "3.orbax-checkpoint-tmp").mkdir()
    checkpointer = Checkpointer(tmp_path, report=messages.append)
    assert checkpointer.steps() == [1] and len(messages) == 2
    assert sorted(f.name for f in tmp_path.iterdir()) == ["1"]


def test_another_kind_of_state_is_refused(tmp_path):
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, make_state())
    with pytest.raises(
        CheckpointMismatchError, match=r"params\.a\.b: float\d+\[2, 3\] -> float\d+\[2, 4"
    ):
        checkpointer.restore_latest(make_state(width=4))
    with pytest.raises(CheckpointMismatchError, match=r"\.extra: \(absent\) -> float32\[\]"):
        target = make_state()
        checkpointer.restore_latest(
            target.replace(params=target.params | {"extra": jnp.float32(0)})
        )
    with pytest.raises(CheckpointMismatchError, match=r"key<fry>\[\] -> key<rbg>\[\]"):
        checkpointer.restore_latest(make_state().replace(key=jax.random.key(0, impl="rbg")))
    assert checkpointer.steps() == [1]


@pytest.mark.parametrize("place", ["manifest", "orbax"])
def test_write_errors_leave_the_last_good_checkpoint(tmp_path, monkeypatch, place):
    messages = []
    clock = types.SimpleNamespace(monotonic=iter((0, 40, 60)).__next__)
    monkeypatch.setattr("gpicljax.storage.patience.time", clock)
    checkpointer = Checkpointer(tmp_path, report=messages.append, patience=Patience(3, 60.0))
    checkpointer.save(1, make_state(1))

    def fail(*_, **__):
        raise OSError(28, "No space left on device\nTraceback\n  and more")

    with monkeypatch.context() as patch:
        if place == "manifest":
            patch.setattr(checkpoints_module, "write_manifest", fail)
        else:
            patch.setattr(checkpoints_module.ocp.StandardCheckpointHandler, "save", fail)
        assert not checkpointer.save(2, make_state(2))
        assert not checkpointer.save(3, make_state(3))
        assert len(messages) == 2 and "step 3" in messages[1] and "No space left" in messages[1]
        assert not any("\n" in line for line in messages)
        assert sorted(f.name for f in tmp_path.iterdir()) == ["1"]
        # Three are many enough, but have lasted too short.
        assert not checkpointer.save(4, make_state(4))
        with pytest.raises(CheckpointError, match=r"4 failures in a row; steps on disk: \[1\]"):
            checkpointer.save(4, make_state(4))
    assert checkpointer.save(4, make_state(4))
    assert checkpointer.steps() == [1, 4]
    step, state = checkpointer.restore_latest(make_state())
    assert step == 4
    assert_equal(state, make_state(4))


SMALL_FILES_ONLY = """
import resource, signal, sys
import numpy as np
from gpicljax.runs.checkpoints import Checkpointer

checkpointer = Checkpointer(sys.argv[1])
state = lambda n: {"x": np.random.default_rng(0).random(n)}
assert checkpointer.save(1, state(1000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
assert not checkpointer.save(2, state(1_000_000))
assert checkpointer.save(3, state(2000))
print("steps", checkpointer.steps(), "restored", checkpointer.restore_latest(state(2000))[0])
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a file size limit")
def test_the_operating_system_refuses_to_write(tmp_path, child_environment):
    command = [sys.executable, "-c", SMALL_FILES_ONLY, str(tmp_path)]
    done = subprocess.run(
        command, env=child_environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "could not save step 2" in done.stdout
    assert "steps [1, 3] restored 3" in done.stdout
    assert not list(Path(tmp_path).glob("*tmp*"))


@pytest.mark.parametrize("name", ["[1]", "a[b", "{2}", "a*b", "a**b", "a?b", "a%20b", "[a] runs"])
def test_a_folder_may_have_any_name(name, tmp_path):
    """Its name is no pattern, and what was saved can be read."""
    checkpointer = Checkpointer(tmp_path / name / "checkpoints")
    assert checkpointer.save(1, make_state())
    step, restored = checkpointer.restore_latest(make_state(1))
    assert step == 1
    np.testing.assert_array_equal(restored.params["a/b"], make_state().params["a/b"])


def test_parts_that_were_not_joined_are_no_checkpoint(tmp_path, monkeypatch):
    messages = []
    checkpointer = Checkpointer(tmp_path, report=messages.append)
    assert checkpointer.save(1, make_state())
    monkeypatch.setattr(checkpointer._handler, "finalize", lambda folder: None)
    assert not checkpointer.save(2, make_state()) and "were not joined" in messages[0]
    assert checkpointer.steps() == [1]
