"""Programs for machines that are not at hand: what is compiled, and what is read from it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from gpicljax.runtime import targets
from gpicljax.runtime.compiled import Block, Collective, Loop, read_hlo
from gpicljax.runtime.dry_run import TooLargeError
from gpicljax.runtime.targets import compile_for, report, target

STORED = Path(__file__).parents[1] / "stored" / "hlo"


def needs(name):
    """Skips where the compiler for a target is not installed."""
    try:
        return target(name)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


# A scan of 17 rounds on four devices: a matrix product, a mean over devices and a loop until a
# threshold in each round; then a sum over devices, a choice and a gathering.


def test_kernels_and_loops_of_a_stored_program_for_a_gpu():
    block = read_hlo((STORED / "scan.cuda.hlo").read_text())
    assert block.operations["all-reduce-start"] == 1 and "while" not in block.operations
    scan = block.main_loop
    assert scan is not None and scan.rounds == 17
    assert sum(scan.body.operations.values()) == 8
    (inner,) = scan.body.loops
    assert (inner.rounds, inner.kernels) == (None, 2)  # the second kernel is the condition's
    assert scan.kernels == 17 * (8 + 2)
    assert block.kernels == 12 + scan.kernels
    assert block.data_loops == 17


def test_collectives_of_a_stored_program_for_a_gpu():
    block = read_hlo((STORED / "scan.cuda.hlo").read_text())
    # The sums of the matrix [128, 128] and of the means [17] are joined; the gathering returns
    # [4, 17].
    assert set(block.collectives) == {
        Collective("all-reduce", 4, (17,)),
        Collective("all-reduce", 4 * (128 * 128 + 17)),
        Collective("all-gather", 4 * 4 * 17),
    }


def test_collectives_and_branches_of_a_stored_program_for_a_tpu():
    block = read_hlo((STORED / "scan.tpu.hlo").read_text())
    assert block.conditions == 1
    inside = [each for each in block.collectives if each.loops]
    assert inside == [Collective("all-reduce", 4, (None,))]  # a TPU's HLO has no rounds
    # XLA gathers by a sum of [4 * 17], with zeros for the parts of the other devices.
    outside = sorted(each.bytes for each in block.collectives if not each.loops)
    assert outside == [4 * 17, 4 * (128 * 128 + 4 * 17)]


def test_a_loop_of_unknown_rounds_counts_once_and_a_choice_by_its_longest_branch():
    inner = Loop(None, Block({"fusion": 3}), Block({"fusion": 1}))
    short, long = Block({"copy": 1}), Block({"fusion": 5}, loops=(inner,))
    block = Block({"fusion": 2}, loops=(Loop(10, Block({}, loops=(inner,)), Block({})),))
    assert (block.kernels, block.data_loops) == (2 + 10 * 4, 10)
    chosen = Block({}, branches=((short, long),))
    assert (chosen.kernels, chosen.data_loops, chosen.conditions) == (9, 1, 1)


@pytest.mark.parametrize("text", ["", "HloModule empty\n"])
def test_what_is_no_hlo_is_refused(text):
    with pytest.raises(ValueError, match="accepted: an HLO module"):
        read_hlo(text)


@pytest.mark.parametrize(
    "name", ["h10", "v5e:", "v5e:0x4", "h100:1x2x3", "v5e:3x3", "v5e:4x4x4", "v6e:32x32", "cpu"]
)
def test_targets_that_do_not_exist_are_refused(name):
    with pytest.raises(ValueError, match=r"target: got .*; accepted: "):
        target(name)


@pytest.mark.parametrize(("name", "extra"), [("h100", "gpu-aot"), ("v5e", "tpu-aot")])
def test_a_missing_compiler_is_named_with_what_to_install(name, extra, monkeypatch):
    monkeypatch.setattr(targets, "_installed", lambda module: False)
    targets._target.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=rf'pip install "gpicljax\[{extra}\]"'):
        target(name)


@pytest.mark.parametrize(
    ("name", "chips", "gib"), [("h100:2x4", 8, 79), ("h200", 1, 139), ("v5e", 1, 16)]
)
def test_a_target_has_its_chips(name, chips, gib):
    on = needs(name)
    assert len(on.devices) == chips and on.memory_bytes // 2**30 == gib
    assert 0 < on.usable_bytes < on.memory_bytes


def test_a_topology_of_the_wrong_number_of_axes_is_refused():
    needs("v5p")
    for name in ("v5p:4x4", "v5p:3x5x1"):
        with pytest.raises(ValueError, match="accepted: a topology of v5p"):
            target(name)


def steps(x):
    return jax.lax.scan(lambda x, _: (jnp.sin(x @ x), ()), x, length=5)[0]


def halves(x):
    return jax.lax.while_loop(lambda x: (x > 1).any(), lambda x: x / 2, x)


def test_a_program_for_a_gpu():
    needs("h100")
    known = report(compile_for("h100", steps, np.zeros((64, 64), np.float32)))
    assert known.data_loops == 0 and 5 <= known.kernels <= 20
    assert known.argument_bytes == 4 * 64 * 64
    depends = report(compile_for("h100", halves, jax.ShapeDtypeStruct((64,), jnp.float32)))
    assert depends.data_loops == 1 and depends.collectives == ()


def test_a_program_for_a_slice():
    on = needs("v5e:4x4")
    mesh = jax.make_mesh((16,), ("data",), axis_types=(AxisType.Auto,), devices=on.devices)
    split, whole = PartitionSpec("data"), PartitionSpec()

    def total(x):
        return jax.lax.psum(x.sum(0), "data")

    spread = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=split, out_specs=whole))
    x = jax.ShapeDtypeStruct((1024, 256), jnp.float32, sharding=NamedSharding(mesh, split))
    made = report(compile_for(on, spread, x))
    assert made.argument_bytes == 4 * 64 * 256  # a sixteenth
    assert made.collectives == (Collective("all-reduce", 4 * 256),)


def test_a_program_that_a_chip_cannot_hold_is_refused():
    needs("v5e")

    def large(key):
        return jnp.sort(jax.random.normal(key, (2**15, 2**18)))

    with pytest.raises(TooLargeError, match=r"a chip of v5e .* needs .* GiB of 15.75 GiB"):
        compile_for("v5e", large, jax.random.key(0))
