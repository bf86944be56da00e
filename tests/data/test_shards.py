"""A store of records keeps what was written, whatever happens to writers and files."""

import json
import os
import pickle
import shutil
import signal
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.data import shards
from gpicljax.data.shards import (
    DamagedShardError,
    ShardReader,
    ShardWriter,
    StoreLockedError,
    StoreMismatchError,
    find_damage,
)

SIZES = (6, 10, 3)


class Pose(NamedTuple):
    cell: np.ndarray
    heading: np.ndarray


def records(shard, count):
    draw = np.random.default_rng(shard)
    return {
        "pose": Pose(
            draw.integers(0, 255, (count, 20, 2)).astype(np.uint8),
            draw.normal(size=(count, 20)).astype(np.float16),
        ),
        "number": np.arange(count) + 100 * shard,
        "done": draw.random((count, 20)) < 0.5,
        "nothing": np.zeros((count, 4), np.float32),
        "weight": jnp.asarray(draw.normal(size=count), jnp.bfloat16),
    }


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    with ShardWriter(path, {"size": 15, "mode": ["a", None]}) as writer:
        for i, count in enumerate(SIZES):
            writer.append(records(i, count))
    return path


def one_array(store, shard, leaf):
    return store / f"shard-{shard:06d}" / leaf / "c" / "0"


def data_file(store, shard, leaf="done"):
    return next(p for p in one_array(store, shard, leaf).parent.rglob("*") if p.is_file())


def test_what_is_written_is_read(store):
    reader = ShardReader(store)
    assert len(reader) == sum(SIZES) and reader.about == {"size": 15, "mode": ["a", None]}
    whole = [records(i, n) for i, n in enumerate(SIZES)]
    whole = jax.tree.map(lambda *x: np.concatenate(x), *whole)
    indices = np.array([18, 0, 7, 7, 16])
    read = reader.read(indices)
    assert set(read["pose"]) == {"cell", "heading"}
    stored = {**read, "pose": Pose(**read["pose"])}
    for given, found in zip(jax.tree.leaves(whole), jax.tree.leaves(stored), strict=True):
        assert found.dtype == given.dtype and np.array_equal(found, given[indices])
    assert reader[8]["number"] == 102 and reader[-1]["number"] == 202
    assert reader[8]["pose"]["cell"].shape == (20, 2)
    # Plain zarr: other programs read it.
    about = json.loads((store / "shard-000000" / "number" / "zarr.json").read_text())
    assert about["zarr_format"] == 3


def test_batches_are_shuffled_and_complete(store):
    reader = ShardReader(store)

    def numbers(**order):
        return [batch["number"].tolist() for batch in reader.batches(4, **order)]

    first = numbers(seed=1)
    assert [len(batch) for batch in first] == [4] * 4
    seen = sum(first, [])
    assert len(set(seen)) == 16 and set(seen) <= set(reader.read(np.arange(19))["number"].tolist())
    assert seen != sorted(seen)
    assert numbers(seed=1) == first and numbers(seed=1, start=2) == first[2:]
    assert numbers(seed=2) != first and numbers(seed=1, epoch=1) != first
    assert numbers(seed=1, start=9) == []


def test_goes_on_where_an_interrupted_writer_stopped(tmp_path, monkeypatch):
    path = tmp_path / "store"
    with pytest.raises(OSError, match="full"), ShardWriter(path) as writer:
        writer.append(records(0, 4))
        with monkeypatch.context() as patch:

            def full(*_):
                raise OSError("disk full")

            patch.setattr(shards, "write_manifest", full)
            writer.append(records(1, 4))
    # The shard was complete, yet never counted.
    assert (path / "shard-000001").exists() and len(ShardReader(path)) == 4
    (path / ".shard-000001.tmp").mkdir()
    with ShardWriter(path) as writer:
        assert not (path / ".shard-000001.tmp").exists()
        assert len(writer.shards) == 1 and writer.num_records == 4
        writer.append(records(2, 5))
    reader = ShardReader(path)
    assert len(reader) == 9 and reader[4]["number"] == 200


@pytest.mark.parametrize("place", ["write_arrays", "describe_files", "rename"])
def test_a_failed_write_leaves_the_store_as_it_was(store, monkeypatch, place):
    before = sorted(str(p) for p in store.rglob("*"))
    with ShardWriter(store, {"size": 15, "mode": ["a", None]}) as writer:
        with monkeypatch.context() as patch:

            def fail(*_):
                raise OSError("disk full")

            patch.setattr(os if place == "rename" else shards, place, fail)
            with pytest.raises(OSError, match="full"):
                writer.append(records(3, 2))
        assert sorted(str(p) for p in store.rglob("*")) == before
        writer.append(records(3, 2))
    assert len(ShardReader(store)) == sum(SIZES) + 2


def test_what_the_disk_refuses_is_an_oserror(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("RESOURCE_EXHAUSTED: no space left on device")

    with ShardWriter(tmp_path / "store") as writer:
        monkeypatch.setattr(shards.tensorstore(), "open", refuse)
        with pytest.raises(OSError, match="no space left"):
            writer.append(records(0, 2))


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


def truncate(file):
    os.truncate(file, file.stat().st_size - 3)


DAMAGE = {
    "flip": (flip, "changed"),
    "truncate": (truncate, "bytes instead of"),
    "remove": (os.unlink, "missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", ["data", "zarr.json"])
def test_damage_is_named_and_the_rest_is_read(store, kind, name):
    damage, word = DAMAGE[kind]
    file = data_file(store, 1) if name == "data" else store / "shard-000001" / "done" / "zarr.json"
    damage(file)
    assert list(find_damage(store)) == ["shard-000001"]
    if (kind, name) == ("flip", "data"):  # sizes agree, so it shows where it is read
        reader = ShardReader(store)
        assert reader[2]["number"] == 2
        with pytest.raises(DamagedShardError, match="shard-000001/done"):
            reader.read(np.arange(19))
    else:
        with pytest.raises(DamagedShardError, match=word) as raised:
            ShardReader(store)
        assert str(file) in str(raised.value)
    reader = ShardReader(store, skip_damaged=True)
    assert len(reader) == 9 and reader.num_skipped == 10
    assert word in reader.skipped["shard-000001"]
    assert reader.read(np.arange(9))["number"].tolist() == [*range(6), 200, 201, 202]
    with ShardWriter(store, reader.about) as writer:  # and nobody is kept from going on
        writer.append(records(3, 1))
    assert len(ShardReader(store, skip_damaged=True)) == 10


def test_a_lost_shard_is_noticed_whichever_it_is(store):
    shutil.rmtree(store / "shard-000002")
    shutil.rmtree(store / "shard-000000")
    with pytest.raises(DamagedShardError, match="missing") as raised:
        ShardReader(store)
    assert all(name in str(raised.value) for name in ("shard-000000", "shard-000002"))


@pytest.mark.parametrize(
    ("content", "word"),
    [(None, "missing"), (b"", "damaged"), (b"{}", "damaged"), ("digit", "changed")],
)
def test_a_damaged_manifest_costs_no_shard(store, content, word):
    file = store / shards.MANIFEST
    good = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(
            good.replace(b'"records": 10', b'"records": 11') if content == "digit" else content
        )
    with pytest.raises(DamagedShardError, match=word):
        ShardReader(store)
    with pytest.raises(DamagedShardError, match=word):
        ShardWriter(store, {"size": 15, "mode": ["a", None]})
    file.write_bytes(good)
    assert len(ShardReader(store)) == sum(SIZES)


def test_of_two_writers_the_second_is_refused(store):
    about = {"size": 15, "mode": ["a", None]}
    with ShardWriter(store, about) as first:
        with pytest.raises(StoreLockedError, match="another writer"):
            ShardWriter(store, about)
        first.append(records(3, 1))
    ShardWriter(store, about).close()


def test_another_configuration_is_refused_with_what_differs(store):
    with pytest.raises(StoreMismatchError) as raised:
        ShardWriter(store, {"size": 25, "mode": ["a", None], "new": 1})
    assert "size: 15 -> 25" in str(raised.value) and "new: (absent) -> 1" in str(raised.value)
    with ShardWriter(store, {"size": 15, "mode": ["a", None]}) as writer:
        other = records(0, 2)
        other["number"] = other["number"].astype(np.int32)
        del other["nothing"]
        with pytest.raises(StoreMismatchError) as raised:
            writer.append(other)
    assert "number: int64[] -> int32[]" in str(raised.value)
    assert "nothing: float32[4] -> (absent)" in str(raised.value)
    assert len(ShardReader(store)) == sum(SIZES)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"a": np.zeros(3), "b": np.zeros(4)},
        {"a": np.zeros(())},
        {"a": np.zeros((0, 2))},
        {"a": np.array(["text"])},
        {"a": jax.random.split(jax.random.key(0), 2)},
        {"../a": np.zeros(3)},
        np.zeros(3),
    ],
)
def test_bad_records_are_refused(tmp_path, given):
    with ShardWriter(tmp_path / "store") as writer:
        with pytest.raises(ValueError, match="accepted"):
            writer.append(given)
        assert not writer.shards
    assert len(ShardReader(tmp_path / "store")) == 0


def test_bad_requests_are_refused(store, tmp_path):
    reader = ShardReader(store)
    for call in (
        lambda: reader[19],
        lambda: reader[-20],
        lambda: reader.read([]),
        lambda: reader.read([0, 19]),
        lambda: reader.read([0.5]),
        lambda: reader.read([[0]]),
    ):
        with pytest.raises(IndexError, match="accepted"):
            call()
    for bad in ({"batch_size": 0}, {"batch_size": 20}, {"batch_size": 2, "start": -1}):
        with pytest.raises(ValueError, match="accepted"):
            reader.batches(**bad, seed=0)
    with pytest.raises(DamagedShardError, match="no store"):
        ShardReader(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="JSON"):
        ShardWriter(tmp_path / "other", {"a": np.zeros(2)})


def test_a_reader_in_a_forked_process_is_refused_before_it_hangs(tmp_path):
    with ShardWriter(tmp_path) as writer:
        writer.append({"x": np.arange(4)})
    reader = ShardReader(tmp_path)
    assert pickle.loads(pickle.dumps(reader))[3]["x"] == reader[3]["x"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's, about the fork
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            reader[0]
        except RuntimeError as error:
            os._exit("spawn" in str(error))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_shards_that_have_changed_places_are_noticed(tmp_path):
    with ShardWriter(tmp_path) as writer:
        for number in range(2):
            writer.append({"reward": np.full(4, float(number))})
    first, second = tmp_path / "shard-000000", tmp_path / "shard-000001"
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    with pytest.raises(DamagedShardError, match=r"shard-000000.*zarr\.json has changed"):
        ShardReader(tmp_path)
