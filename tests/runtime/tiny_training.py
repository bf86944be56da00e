"""A tiny training run as a process of its own, which can be told where to die.

usage: tiny_training.py RUNS_DIR [--die PLACE:N] [--pause SECONDS] [flags of the experiment]
"""

import argparse
import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpicljax.runtime import Checkpointer, Progress, RunConfig, open_run, parse, run_chunks
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

    keys = jax.random.split(jax.random.key(config.seed), config.seeds)
    return jax.jit(jax.vmap(chunk), donate_argnums=0), jax.vmap(init)(keys)


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runs_dir")
    parser.add_argument("--die")
    parser.add_argument("--pause", type=float, default=0.0)
    own, rest = parser.parse_known_args()
    config = parse({"quick": Config(seeds=2)}, [*rest, "--runs-dir", own.runs_dir])
    if own.die:
        place, _, at = own.die.partition(":")
        arm(place, int(at))
    with open_run("tiny", config) as run:
        update_chunk, state = make(config)

        def paced(state):
            time.sleep(own.pause)
            return update_chunk(state)

        state, _ = run_chunks(
            paced,
            state,
            num_chunks=CHUNKS,
            run=run,
            checkpoint_every=3,
            progress=Progress(CHUNKS, key_metric="loss"),
            observations_per_chunk=160,
        )
        state = state.replace(key=jax.random.key_data(state.key))
        np.savez(Path(run.path) / "final.npz", *map(np.asarray, jax.tree.leaves(state)))


if __name__ == "__main__":
    sys.exit(main())
