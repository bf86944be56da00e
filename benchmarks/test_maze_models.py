"""Costs of the parts of an update of Maze World's small models, and of an evaluation.

An update of `experiments/maze_world.py` makes 16 episodes of 128 steps in mazes of 7 x 7, renders
and encodes them, and then has every model learn from them.
"""

import functools
import time

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.agents import autoencoder as training
from gpicljax.agents import causal_losses, causal_model, sequence
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams, Sequences
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import AUTOENCODER, WINDOW, CausalModelSettings
from gpicljax.networks.causal_model import causal_model as causal_network
from gpicljax.networks.contract import AgentInput
from gpicljax.runtime import FAST_COMPILE
from gpicljax.systems.maze_world.data.demonstrations import Demonstration, sample_trajectories
from gpicljax.systems.maze_world.data.sequences import imitation_batch

BATCH, STEPS, LONG, TASKS, FRAMES = 16, 128, 2_048, 64, 256
UPDATES = 4
"""In one program, as in training: its memory is then warm."""


@functools.cache
def setting(length=STEPS):
    env = gpicljax.make("MazeWorld-v0", size=7, max_landmarks=4, resolution=(32, 32))
    params = env.make_params(num_commands=10_000, horizon=length + 1)
    eyes = autoencoder(AutoencoderSettings("patches", latent=64, width=64), (32, 32))
    settings = CausalModelSettings(masked=0.0, noisy=0.0)
    network = causal_network(settings, standardise(eyes), env.action_space(), length)
    blank = AgentInput(
        jnp.zeros((1, 32, 32, 3), jnp.uint8), jnp.full(1, -1, jnp.int32), jnp.zeros(1)
    )
    weights = network.init(jax.random.key(0), blank)
    return env, params, eyes, settings.policy(env.action_space()), network, weights


@functools.cache
def batch():
    env, params, *_ = setting()
    make = jax.jit(
        lambda key: sample_trajectories(key, env, params, BATCH, Demonstration(length=STEPS))
    )
    episodes, tasks = make(jax.random.key(0))
    return episodes, tasks, jax.jit(lambda *stored: imitation_batch(env, *stored))(episodes, tasks)


def _sequences():
    imitated = batch()[2]
    targets = causal_losses.Targets(imitated.label, imitated.counts)
    return Sequences(imitated.inputs, None, targets)


# From a part's name to what it begins with and goes on with, `(state, key) -> state`.


def episodes():
    env, params, *_ = setting()
    demonstration = Demonstration(length=STEPS)
    return (
        0.0,
        lambda x, key: (
            x + sample_trajectories(key, env, params, BATCH, demonstration)[0].reward.sum()
        ),
    )


def rendering():
    env, *_ = setting()
    episodes, tasks, _ = batch()

    def render(x, key):
        order = jax.random.permutation(key, BATCH)
        chosen = jax.tree.map(lambda leaf: leaf[order], (episodes, tasks))
        return x + imitation_batch(env, *chosen).inputs.observation.astype(jnp.float32)

    return jnp.zeros((STEPS, BATCH, 32, 32, 3)), render


def encoding():
    _, _, eyes, _, _, weights = setting()
    prepare = causal_losses.encode_observations(standardise(eyes), part=128)
    sequences = _sequences()

    def encode(x, key):
        pictures = sequences.inputs.observation + jax.random.bits(key, (), jnp.uint8)
        inputs = sequences.inputs._replace(observation=pictures)
        return x + prepare(weights, sequences._replace(inputs=inputs)).inputs.observation

    return jnp.zeros((STEPS, BATCH, 64)), encode


def learning():
    """One model's losses, gradient and step of the optimiser; its pictures are encoded."""
    _, _, _, policy, network, _ = setting()
    sequences = _sequences()
    latents = jax.random.normal(jax.random.key(0), (STEPS, BATCH, 64))
    sequences = sequences._replace(inputs=sequences.inputs._replace(observation=latents))
    losses = [causal_losses.imitation_loss(policy), causal_losses.latent_loss(weight=0.5)]
    config, frozen = SequenceConfig(BATCH, schedule="cosine"), (AUTOENCODER, WINDOW)
    trainer = sequence.make(config, network, lambda keys, data: sequences, losses, frozen=frozen)
    return trainer.init(jax.random.key(0), SequenceHParams()), lambda x, key: trainer.update(x)[0]


def eyes():
    """An update of the autoencoder, from 256 frames."""
    _, _, eyes, *_ = setting()
    frames = batch()[2].inputs.observation.reshape(-1, 32, 32, 3)[:FRAMES]
    trainer = training.make(
        SequenceConfig(1), eyes, lambda keys, data: frames, images_per_key=FRAMES
    )
    return trainer.init(jax.random.key(0), SequenceHParams()), lambda x, key: trainer.update(x)[0]


PARTS = {
    "episodes": (episodes, BATCH * STEPS),
    "rendering": (rendering, BATCH * STEPS),
    "encoding": (encoding, BATCH * STEPS),
    "learning": (learning, BATCH * STEPS),
    "autoencoder": (eyes, FRAMES),
}


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_an_update(benchmark, one_core, part):
    make, frames = PARTS[part]
    state, go_on = make()

    def several(state, keys):
        return jax.lax.scan(lambda x, key: (go_on(x, key), None), state, keys)[0]

    keys = jax.random.split(jax.random.key(0), UPDATES)
    run, compile_s = compile_program(several, state, keys, compiler_options=FAST_COMPILE)
    benchmark.extra_info["compile_cpu_s"] = compile_s
    benchmark.pedantic(lambda: jax.block_until_ready(run(state, keys)), rounds=5, warmup_rounds=1)
    update_s = benchmark.stats.stats.median / UPDATES
    benchmark.extra_info["ms_per_update"] = 1e3 * update_s
    benchmark.extra_info["frames_per_cpu_second"] = frames / update_s


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("steps", [STEPS, LONG])
def test_acting(benchmark, one_core, steps):
    """A model acts in 64 mazes, beside a teacher that says what it would do."""
    env, params, _, policy, network, weights = setting(steps)
    agent = causal_model.causal_agent(network, policy)

    def act(key):
        settings = Demonstration(length=steps)
        acting = {"actor": agent, "actor_params": weights}
        return sample_trajectories(key, env, params, TASKS, settings, **acting)[0].reward.sum()

    key = jax.random.key(0)
    run, compile_s = compile_program(act, key, compiler_options=FAST_COMPILE)
    benchmark.extra_info["compile_cpu_s"] = compile_s
    benchmark.pedantic(lambda: jax.block_until_ready(run(key)), rounds=1)
    benchmark.extra_info["steps_per_cpu_second"] = TASKS * steps / benchmark.stats.stats.median
