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
import sys
import time
from pathlib import Path
from unittest import mock

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpicljax.runtime import (
    Checkpointer,
    Progress,
    RunConfig,
    join_cluster,
    make_mesh,
    on_main,
    open_run,
    parse,
    per_lane,
    run_chunks,
    shard_leading,
    to_host,
)
from gpicljax.runtime import checkpoints as checkpoints_module
from gpicljax.runtime import metrics as metrics_module

CHUNKS = 12


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Fits a random function."""

    learning_rate: float = 1e-2


@flax.struct.dataclass
class State:
    params: dict
    opt_state: optax.OptState
    key: jax.Array
    done: jax.Array
    nothing: None = None


def make(config):
    optimiser = optax.adam(config.learning_rate)

    def init(key):
        key, a, b = jax.random.split(key, 3)
        params = {"w1": jax.random.normal(a, (4, 8)), "w2": jax.random.normal(b, (8, 1))}
        return State(params, optimiser.init(params), key, jnp.zeros((), bool))

    def loss_fn(params, x):
        y = jnp.tanh(x @ params["w1"]) @ params["w2"]
        return jnp.mean((y[:, 0] - jnp.sin(x.sum(-1))) ** 2)

    def update(state, _):
        key, sub = jax.random.split(state.key)
        x = jax.random.normal(sub, (16, 4))
        loss, grads = jax.value_and_grad(loss_fn)(state.params, x)
        steps, opt_state = optimiser.update(grads, state.opt_state)
        params = optax.apply_updates(state.params, steps)
        return state.replace(params=params, opt_state=opt_state, key=key), loss

    def chunk(state):
        state, losses = jax.lax.scan(update, state, None, 5)
        return state, {"loss": losses[-1]}

    mesh = make_mesh()
    keys = jax.random.split(jax.random.key(config.seed), config.seeds)
    state = shard_leading(jax.vmap(init)(keys), mesh)
    return per_lane(chunk, mesh, donate_argnums=0), state


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runs_dir")
    parser.add_argument("--die")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--disk", default="full:0:0")
    own, rest = parser.parse_known_args()
    config = parse({"quick": Config(seeds=2)}, [*rest, "--runs-dir", own.runs_dir])
    join_cluster(config)
    if own.die:
        place, _, at = own.die.partition(":")
        arm(place, int(at))
    with open_run("tiny", config) as run:
        update_chunk, state = make(config)

        kind, first, last = own.disk.split(":")
        begun, faults = 0, contextlib.ExitStack()

        def paced(state):
            nonlocal begun
            begun += 1
            if begun == int(first):
                faults.enter_context(faulty_disk(kind))
            if begun == int(last) + 1:
                faults.close()
            time.sleep(own.pause)
            return update_chunk(state)

        state, _ = run_chunks(
            paced,
            state,
            num_chunks=own.chunks,
            run=run,
            checkpoint_every=own.every,
            progress=Progress(own.chunks, key_metric="loss"),
            observations_per_chunk=160,
        )
        final = jax.tree.leaves(to_host(state))
        on_main(lambda: np.savez(Path(run.path) / "final.npz", *final))


if __name__ == "__main__":
    sys.exit(main())
