"""Streams played by agents that learn while they play, and by others."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

import gpicljax
from gpicljax import agents
from gpicljax.agents.ppo import PPOConfig, PPOHParams
from gpicljax.agents.r2d2 import R2D2Config, R2D2HParams
from gpicljax.checks import check, check_array
from gpicljax.interface import Agent
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.runtime import fast_jit, named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.learners.online import (
    online_learner,
)
from gpicljax.systems.gradual_learning.measures.streams import play_streams, streams_of
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import (
    DEEP,
    Config,
    Method,
)


class Lives(NamedTuple):
    """N streams of one method; P task sets.

    Attributes:
      finished: float `[N, P]`, the step at which each task set was cleared; infinite where it was
        not.
      budget: steps of a stream.
    """

    finished: np.ndarray
    budget: int

    def count_cleared(self, steps: int) -> np.ndarray:
        """Returns the number of task sets that each stream has cleared by then, `int[N]`."""
        return (self.finished <= steps).sum(1)


def read_lives(config: Config, method: Method, content: Any) -> Lives:
    """Returns the streams of a method from a file, where null stands for what was not cleared.

    Raises:
      ValueError: if they are none, or others than those of the configuration.
      TypeError: if they are none.
    """
    check(isinstance(content, dict), "content", content, "the streams of a method")
    finished = np.asarray(content.get("finished"), float)
    lives = Lives(np.where(np.isnan(finished), np.inf, finished), content.get("budget"))
    deep = method in DEEP
    budget = config.deep_budget if deep else config.budget
    shape = config.deep_seeds if deep else config.seeds, len(config.curriculum)
    fits = finished.shape == shape and (lives.finished > 0).all() and lives.budget == budget
    check_array(bool(fits), "finished", finished, f"numbers > 0, {[*shape]}, and {budget} steps")
    return lives


def agent_of(config: Config, method: Method) -> Agent:
    """Returns the agent of a method that plays with a memory alone."""
    learner = config.learner
    frozen = dataclasses.replace(learner, learning_rate=0.0)
    if method == "suffix-predictor":
        return experts.suffix_predictor()
    if method == "online":
        return online_learner(learner)
    if method == "no-replay":
        return online_learner(dataclasses.replace(learner, replay=0))
    return online_learner(frozen, fixed=method == "fixed")


def play_lives(config: Config, method: Method) -> Lives:
    """Plays the streams of a method; all methods but those of the catalogue play the same ones."""
    families = Curriculum(config.curriculum).families
    env = ByteStream(max_tasks=len(config.curriculum), families=families)
    curriculum = Curriculum(config.curriculum, threshold=config.threshold)
    if method in DEEP:
        return _train_from_catalogue(config, env, curriculum, method)
    key = named_key(config.seed, "streams")
    tasks = streams_of(key, env, [curriculum] * config.seeds, config.budget)
    agent = agent_of(config, method)
    play = fast_jit(lambda key: play_streams(key, env, agent, (), tasks, config.budget))
    play = within_memory(play, f"{config.seeds} streams of {method}")
    streams = play(named_key(config.seed, method))
    finished = np.cumsum(np.asarray(streams.steps), 1).astype(float)
    places = np.arange(finished.shape[1])
    finished[places >= np.asarray(streams.cleared)[:, None]] = np.inf
    return Lives(finished, config.budget)


def _train_from_catalogue(
    config: Config, env: ByteStream, curriculum: Curriculum, method: Method
) -> Lives:
    """Trains a learner of the catalogue with one environment; its steps are known to an update."""
    params = env.make_params(curriculum=curriculum, horizon=config.deep_budget)
    vec = gpicljax.VectorEnv(env, 1, resets="fresh", params=params)
    sizes: Any
    hparams: Any
    if method == "r2d2":
        network = RecurrentQSettings(encoder=(64,), mixer=(), core=(64,))
        sizes = R2D2Config(num_envs=1, unroll=40, overlap=20, burn_in=10, replay_capacity=1_024)
        hparams = R2D2HParams(learning_rate=5e-4, discount=0.9, target_period=400)
        trainer = agents.make(method, vec, sizes, network)
    else:
        sizes = PPOConfig(unroll=64, epochs=2, minibatches=1)
        hparams = PPOHParams(discount=0.9, entropy_coefficient=0.003)
        trainer = agents.make(method, vec, sizes)
    keys = jax.random.split(named_key(config.seed, method), config.deep_seeds)
    init = fast_jit(jax.vmap(lambda key: trainer.init(key, hparams, params)))
    state = within_memory(init, f"the start of {method}")(keys)
    update = fast_jit(jax.vmap(lambda state: trainer.update(state)[0]))
    update = within_memory(update, f"an update of {method}")
    finished = np.full((config.deep_seeds, len(config.curriculum)), np.inf)
    places = np.arange(len(config.curriculum))
    steps = trainer.observations
    while steps <= config.deep_budget:
        state = update(state)
        cleared = np.asarray(state.rollout.vstate.state.cleared)[:, 0]
        is_new = (places < cleared[:, None]) & np.isinf(finished)
        finished[is_new] = steps
        steps += trainer.observations
    return Lives(finished, config.deep_budget)
