"""A tiny training run as a process of its own, or one of several, which can be told where to die.

usage: tiny_training.py RUNS_DIR [--die PLACE:N] [--pause SECONDS] [--chunks N] [--every N]
                        [--disk KIND:FIRST:LAST] [flags of the experiment]
"""

import argparse
import contextlib
import dataclasses
import errno
import os
import resource
import signal
import time
from unittest import mock

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpicljax.runs import checkpoints as checkpoints_module
from gpicljax.runs import metrics as metrics_module
from gpicljax.runs.checkpoints import Checkpointer
from gpicljax.runtime import (
    Measure,
    Probe,
    Program,
    Report,
    Sharding,
    TrainingConfig,
    experiment,
    named_key,
    on_main,
    run_experiment,
)
from gpicljax.runtime.loop import run_chunks

CHUNKS = 12
EACH = 16
"""Observations of an update; a chunk has five."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Fits a random function.

    Attributes:
      learning_rate: Of Adam.
      cells: Scales of the function, one cell each.
      break_seed: The seed whose parameters become NaN.
      break_after: Updates after which they do.
      together: Whether the cells of a seed are updated by one function.
    """

    learning_rate: float = 1e-2
    cells: tuple[float, ...] = (1.0,)
    break_seed: int = 99
    break_after: int = 12
    together: bool = False


@flax.struct.dataclass
class State:
    params: dict
    opt_state: optax.OptState
    key: jax.Array
    victim: jax.Array
    updates: jax.Array
    scale: jax.Array
    nothing: None = None


def build(config):
    optimiser = optax.adam(config.learning_rate)
    unlucky = jax.random.fold_in(named_key(config.seed, "train"), config.break_seed)

    def init(key, scale):
        victim = (jax.random.key_data(unlucky) == jax.random.key_data(key)).all()
        key, a, b = jax.random.split(key, 3)
        params = {"w1": jax.random.normal(a, (4, 8)), "w2": jax.random.normal(b, (8, 1))}
        zero = jnp.zeros((), jnp.int32)
        return State(params, optimiser.init(params), key, victim, zero, scale)

    def error(params, key, scale):
        x = jax.random.normal(key, (EACH, 4))
        y = jnp.tanh(x @ params["w1"]) @ params["w2"]
        return jnp.mean((y[:, 0] - scale * jnp.sin(x.sum(-1))) ** 2)

    def update(state):
        key, sub = jax.random.split(state.key)
        loss, grads = jax.value_and_grad(error)(state.params, sub, state.scale)
        steps, opt_state = optimiser.update(grads, state.opt_state)
        params = optax.apply_updates(state.params, steps)
        broken = state.victim & (state.updates >= config.break_after)
        params = jax.tree.map(lambda x: jnp.where(broken, jnp.nan, x), params)
        state = state.replace(
            params=params, opt_state=opt_state, key=key, updates=state.updates + 1
        )
        return state, {"loss": loss}

    def measure(key, params, scale, factor):
        return {"error": factor * error(params, key, scale)[None]}

    return Program(
        "fits a random function",
        init,
        update,
        EACH,
        cells={f"cell {i}": jnp.float32(x) for i, x in enumerate(config.cells)}
        if len(config.cells) > 1
        else {"": jnp.float32(config.cells[0])},
        measures={"once": Measure(measure, (1.0,)), "twice": Measure(measure, (2.0,), repeats=2)},
        probe=Probe(Measure(measure, (1.0,)), lambda found: {"probe": found["error"][:, 0]}),
        key_metric="loss",
        sharding=Sharding(
            2,
            lambda devices, axis: jax.vmap(update),
            lambda batch, whole: whole,
            together=True,
        )
        if config.together
        else None,
    )


def report(outcome):
    errors = outcome.seeds(outcome.measured["once"]["error"][:, 0])
    return Report(f"# Errors {errors}", {"once": errors, "twice": outcome.measured["twice"]})


def arm(place, at):
    """Kills this process, as kill -9 does, at the `at`-th passage of a place in the code."""
    passed = 0

    def fatal():
        nonlocal passed
        passed += 1
        if passed == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if place == "before-manifest":
        original = checkpoints_module.write_manifest
        checkpoints_module.write_manifest = lambda *a: (fatal(), original(*a))
    elif place == "after-save":
        save = Checkpointer.save
        Checkpointer.save = lambda self, *a: (save(self, *a), fatal())[0]
    elif place == "torn-line":
        write = metrics_module.MetricsLog._write

        def torn(self, data):
            if passed + 1 == at:
                with open(self.path, "ab") as file:
                    file.write(data[: len(data) // 2])
            fatal()
            write(self, data)

        metrics_module.MetricsLog._write = torn
    else:
        raise ValueError(place)


@contextlib.contextmanager
def faulty_disk(kind):
    """Nothing can be written: the kernel refuses (`full`), or errors are injected (`read-only`)."""
    if kind == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        return

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    handler = checkpoints_module.ocp.StandardCheckpointHandler
    with (
        mock.patch.object(metrics_module.MetricsLog, "_write", refuse),
        mock.patch.object(handler, "save", refuse),
    ):
        yield


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("runs_dir")
    parser.add_argument("--die")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--disk", default="full:0:0")
    options, rest = parser.parse_known_args(argv)
    preset = Config(
        seeds=2,
        observations=5 * EACH * CHUNKS,
        log_lines=CHUNKS,
        checkpoint_every=options.every,
    )
    if options.die:
        place, _, at = options.die.partition(":")
        arm(place, int(at))
    kind, first, last = options.disk.split(":")
    begun, faults = 0, contextlib.ExitStack()

    def run_paced(update_chunk, *args, **kwargs):
        def wait(state):
            nonlocal begun
            begun += 1
            if begun == int(first):
                faults.enter_context(faulty_disk(kind))
            if begun == int(last) + 1:
                faults.close()
            time.sleep(options.pause)
            return update_chunk(state)

        state, history = run_chunks(wait, *args, **kwargs | {"num_chunks": options.chunks})
        leaves = [kwargs["replicas"].fetch(leaf) for leaf in jax.tree.leaves(state)]
        on_main(lambda: np.savez(kwargs["run"].path / "final.npz", *leaves))
        return state, history

    with mock.patch.object(experiment, "run_chunks", run_paced):
        return run_experiment(
            "tiny", {"quick": preset}, build, report, [*rest, "--runs-dir", options.runs_dir]
        )


if __name__ == "__main__":
    main()
