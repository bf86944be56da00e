"""Programs for machines that are not at hand: what is compiled, and what is read from it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_training
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from gpicljax.runs.config import ConfigError, RunConfig, validate
from gpicljax.runtime import compile_update as compile_update_module
from gpicljax.runtime import experiment, targets
from gpicljax.runtime.compile_update import compile_update, memory_in_words
from gpicljax.runtime.compiled import Block, Collective, Loop, read_hlo
from gpicljax.runtime.dry_run import TooLargeError
from gpicljax.runtime.mesh import devices_for, make_mesh
from gpicljax.runtime.targets import CompiledReport, Target, compile_for, report, target
from gpicljax.runtime.training import plan_training, start_training

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
    inside = [collective for collective in block.collectives if collective.loops]
    assert inside == [Collective("all-reduce", 4, (None,))]  # a TPU's HLO has no rounds
    # XLA gathers by a sum of [4 * 17], with zeros for the parts of the other devices.
    outside = sorted(
        found_collective.bytes
        for found_collective in block.collectives
        if not found_collective.loops
    )
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
    monkeypatch.setattr(targets, "_is_installed", lambda module: False)
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
    estimate = report(compile_for("h100", steps, np.zeros((64, 64), np.float32)))
    assert estimate.data_loops == 0 and 5 <= estimate.kernels <= 20
    assert estimate.argument_bytes == 4 * 64 * 64
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
    estimate = report(compile_for(on, spread, x))
    assert estimate.argument_bytes == 4 * 64 * 256  # a sixteenth
    assert estimate.collectives == (Collective("all-reduce", 4 * 256),)


@pytest.mark.parametrize(("seeds", "chips"), [(1, 2), (6, 6), (8, 8), (16, 8)])
def test_a_mesh_of_some_chips_of_a_slice(seeds, chips):
    # Two hosts of four chips each, which take the same number of chips.
    devices = needs("v5e:2x4").devices
    mesh = make_mesh(devices_for(seeds, devices), devices)
    assert mesh.size == chips and {*mesh.devices.flat} <= {*devices}


def test_a_program_that_a_chip_cannot_hold_is_refused():
    needs("v5e")

    def large(key):
        return jnp.sort(jax.random.normal(key, (2**15, 2**18)))

    with pytest.raises(TooLargeError, match=r"a chip of v5e .* needs .* GiB of 15.75 GiB"):
        compile_for("v5e", large, jax.random.key(0))


# An update of a study -----------------------------------------------------------------------------


@pytest.fixture
def target_mesh(monkeypatch):
    """This machine as if it were another: the same path without a compiler of another platform."""
    devices = tuple(jax.devices())
    on = Target("here", "cpu", devices, 2**34, 2**33)
    monkeypatch.setattr(experiment, "target", lambda name: on)
    monkeypatch.setattr(experiment, "leave_accelerators_alone", lambda: None)
    return on


def test_a_dry_run_for_a_target_says_what_an_update_needs(target_mesh, tmp_path, capsys):
    flags = ["--dry-run", "--target", "here", "there", "--cells", "1.0", "2.0"]
    assert tiny_training.main([str(tmp_path), *flags]) is None
    output = capsys.readouterr().out
    assert "parameters per agent: 40" in output
    assert output.count("one update of all seeds on here") == 2
    assert f"chips: {devices_for(4)} of {len(target_mesh.devices)}" in output
    assert (
        "memory per chip: fits: " in output
        and "of the 8.00 GiB that JAX takes of 16.0 GiB" in output
    )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("together", [False, True])
def test_what_is_compiled_is_what_the_driver_runs(target_mesh, together):
    config = tiny_training.Config(seeds=2, cells=(1.0, 2.0), together=together)
    program = tiny_training.build(config)
    replicas = experiment._replicas(config, program)
    arguments = (
        replicas,
        experiment._keys(config, program, "train"),
        experiment._cells(config, program),
    )
    training = start_training(program, *arguments, 1)
    plan = plan_training(program, *arguments, 1, jax.devices())
    like, running = plan.running_like(), training.running
    assert jax.tree.structure(like) == jax.tree.structure(running)
    for a, b in zip(jax.tree.leaves(like), jax.tree.leaves(running), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        # There are several ways to write one down.
        assert a.sharding.is_equivalent_to(b.sharding, b.ndim)
    compiled = compile_update(plan, target_mesh)
    held = sum(
        x.addressable_shards[0].data.nbytes
        for x in jax.tree.leaves(training.running)
        if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    )
    # Beside keys, of eight bytes each, and the number of updates.
    assert held < compiled.needs.argument_bytes <= held + 8 * replicas.count + 4
    assert compiled.update.collectives == ()


def test_memory_is_said_to_fit_or_not():
    chip = Target("h100", "cuda", (), 80 * 2**30, 60 * 2**30)

    def words(gib):
        return memory_in_words(CompiledReport(gib * 2**30, 0, Block({})), chip)

    assert words(60).startswith("fits: ")
    assert words(70).startswith("fits with XLA_PYTHON_CLIENT_MEM_FRACTION=0.95 only")
    assert words(78).startswith("DOES NOT FIT: ")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TooLargeError("a chip cannot hold it"), "memory per chip: DOES NOT FIT: a chip cannot"),
        (
            jax.errors.JaxRuntimeError("INTERNAL: why\nand more"),
            "compilation: FAILED: INTERNAL: why",
        ),
    ],
)
def test_what_cannot_be_compiled_is_said_and_the_next_target_tried(
    error, message, target_mesh, monkeypatch, tmp_path, capsys
):
    def refuse(*_):
        raise error

    monkeypatch.setattr(compile_update_module, "compile_for", refuse)
    tiny_training.main([str(tmp_path), "--dry-run", "--target", "here", "there"])
    output = capsys.readouterr().out
    assert output.count(message) == 2 and "and more" not in output


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--dry-run", "--target", "h10"], "error: --target: got 'h10' (did you mean 'h100'?)"),
        (["--target", "h100"], "accepted: targets with --dry-run only"),
    ],
)
def test_targets_that_are_refused_are_said_in_a_line(flags, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path), *flags])
    message = capsys.readouterr().err
    assert stop.value.code == 2 and said in message and message.count("\n") == 1


def test_a_missing_compiler_ends_the_dry_run_in_a_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(targets, "_is_installed", lambda module: False)
    targets._target.cache_clear()
    with pytest.raises(SystemExit) as stop:
        tiny_training.main([str(tmp_path), "--dry-run", "--target", "v5e"])
    message = capsys.readouterr().err
    assert stop.value.code == 2 and message.count("\n") == 1
    assert 'pip install "gpicljax[tpu-aot]"' in message


def test_a_study_that_trains_nothing_refuses_targets():
    with pytest.raises(ConfigError, match="accepted: none, for this study trains nothing"):
        validate(RunConfig(dry_run=True, target=("h100",)))


def test_seeds_on_a_slice_need_no_collectives(tmp_path, capsys):
    needs("v5e:4x4")
    tiny_training.main([str(tmp_path), "--seeds=32", "--dry-run", "--target", "v5e:4x4"])
    output = capsys.readouterr().out
    assert "chips: 16 of 16" in output and "collectives: none" in output
