"""Recurrent R2D2 listeners in Meta-Referential Games: do they learn to bind words to values?

    python experiments/meta_rg.py --seeds 6

trains the seeds side by side in one compiled program, then compares them on fresh episodes with
ablated channels, rules that ignore the messages, and oracles. `--preset paper-table3` is the
paper's grid; `--dry-run` says what it would take on the machine at hand.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from reports.meta_rg import Results, report

import gpicljax
from gpicljax.agents import classifier, r2d2
from gpicljax.envs.meta_rg import MetaRG, experts, memoryless
from gpicljax.evaluation.meta_rg.games import NEVER, Games, play_games
from gpicljax.evaluation.meta_rg.zsct import ZSCTAccuracy, zsct_accuracy
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.q_network import RecurrentQNetwork
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.runtime import (
    FAST_COMPILE,
    Checkpointer,
    Progress,
    RunConfig,
    announce,
    check,
    devices_for,
    enable_compilation_cache,
    failures_reported,
    join_cluster,
    lanes_for,
    make_mesh,
    on_main,
    one_device_per_core,
    open_run,
    parse,
    per_lane,
    run_chunks,
    say,
    shard_leading,
    to_host,
)
from gpicljax.runtime.dry_run import measure, parameter_count

Auxiliary = Literal["feedback", "stimulus", "both", "none"]


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """The recurrent Q-network (appendix C by default).

    Attributes:
      encoder: hidden sizes of the stimulus encoder.
      mixer: hidden sizes of the MLP over all inputs.
      core: kind of recurrent core.
      core_sizes: LSTM sizes; of a delta memory, the output size.
      memory_heads: heads of a delta memory.
      memory_width: width of its keys and values.
      predictor: hidden size of the auxiliary predictors.
      residual: feed the mixer's output to the heads too.
      compare: show the Q head how far the predicted feedback is from the stimulus at hand.
    """

    encoder: tuple[int, ...] = (512, 256, 128)
    mixer: tuple[int, ...] = (512, 256, 256)
    core: Literal["lstm", "delta"] = "lstm"
    core_sizes: tuple[int, ...] = (256, 128)
    memory_heads: int = 4
    memory_width: int = 16
    predictor: int = 512
    residual: bool = False
    compare: bool = False


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Trains listeners in Meta-Referential Games and puts their accuracy into proportion.

    Attributes:
      env_id: MetaRG-v0 (reference rules) or MetaRG-v1 (without shortcuts).
      shots: S, one or several; every pair of shots and samples is a cell of the table.
      samples: O, one or several.
      vmin: Smallest number of values per latent dimension.
      vmax: Largest number of values per latent dimension.
      vocab_size: Tokens besides the end of sentence.
      message_length: Positions of a message.
      distractors: K.
      actions: Action layout: one action per decision, or the reference's 519.
      observations: Environment steps per seed.
      auxiliary: What the core predicts: the coming feedback, the current stimulus, both or none.
      auxiliary_weight: Weight of that loss.
      network: Sizes of the network.
      agent: Sizes and switches of R2D2.
      hparams: Hyper-parameters of R2D2.
      collections_per_chunk: Updates between two log lines.
      checkpoint_every: Chunks between checkpoints.
      bank_size: Target lists kept ready for new episodes.
      renew_share: Share of them drawn anew in every chunk.
      curriculum: Largest numbers of values to train with at first, one stage of equal length each;
        the last half of the run, and every evaluation, uses vmax.
      probe_episodes: Greedy episodes per log line.
      evaluation_episodes: Episodes per seed and condition at the end.
    """

    env_id: Literal["MetaRG-v0", "MetaRG-v1"] = "MetaRG-v0"
    shots: tuple[int, ...] = (1,)
    samples: tuple[int, ...] = (1,)
    vmin: int = 2
    vmax: int = 5
    vocab_size: int = 6
    message_length: int = 3
    distractors: int = 0
    actions: Literal["compact", "reference"] = "compact"
    observations: int = 10_000_000
    auxiliary: Auxiliary = "stimulus"
    auxiliary_weight: float = 1.0
    network: NetworkConfig = NetworkConfig()
    agent: r2d2.R2D2Config = r2d2.R2D2Config()
    hparams: r2d2.R2D2HParams = r2d2.R2D2HParams()
    collections_per_chunk: int = 100
    checkpoint_every: int = 5
    bank_size: int = 2048
    renew_share: float = 0.5
    curriculum: tuple[int, ...] = ()
    probe_episodes: int = 64
    evaluation_episodes: int = 1024

    def default_name(self) -> str:
        """The preset and the environment."""
        return f"{self.preset}-{self.env_id}"

    def validate(self) -> None:
        """Refuses empty grids, counts below 1 and what the environment refuses."""
        super().validate()
        for name in ("shots", "samples"):
            value = getattr(self, name)
            check(len(value) > 0 and min(value) > 0, name, value, "one or more integers >= 1")
        for name in (
            "observations",
            "collections_per_chunk",
            "checkpoint_every",
            "bank_size",
            "probe_episodes",
            "evaluation_episodes",
        ):
            check(getattr(self, name) >= 1, name, getattr(self, name), "an integer >= 1")
        check(
            not self.network.compare or self.auxiliary in ("feedback", "both"),
            "network.compare",
            self.network.compare,
            "False, or an auxiliary that predicts the feedback",
        )
        stages = self.curriculum
        inside = all(self.vmin <= value <= self.vmax for value in stages)
        check(inside, "curriculum", stages, f"values from vmin = {self.vmin} to vmax = {self.vmax}")
        make_env(self)

    @property
    def cells(self) -> list[tuple[int, int]]:
        """The (S, O) cells of the table."""
        return list(itertools.product(self.shots, self.samples))

    @property
    def observations_per_chunk(self) -> int:
        """Environment steps of one seed in one chunk."""
        return self.collections_per_chunk * self.agent.period * self.agent.num_envs

    @property
    def num_chunks(self) -> int:
        """Chunks of the whole run."""
        return math.ceil(self.observations / self.observations_per_chunk)


QUICK = Config(
    observations=2_250_000,
    auxiliary="feedback",
    auxiliary_weight=10.0,
    network=NetworkConfig(
        encoder=(128, 128),
        mixer=(128,),
        core_sizes=(128,),
        predictor=128,
        residual=True,
        compare=True,
    ),
    # The listener's decisions do not change what comes next, so that a discount of 0 is exact.
    agent=r2d2.R2D2Config(
        unroll=40,
        overlap=0,
        burn_in=0,
        replay_capacity=1024,
        min_replay=64,
        updates_per_collect=2,
        bootstrap=False,
        forced_steps=False,
    ),
    hparams=r2d2.R2D2HParams(
        learning_rate=2e-3,
        final_share=0.1,
        adam_epsilon=1e-8,
        max_gradient_norm=5.0,
        priority_exponent=0.0,
        importance_exponent=0.0,
    ),
)
CPU_TABLE2 = dataclasses.replace(
    QUICK,
    seeds=3,
    vmax=3,
    observations=4_000_000,
    network=dataclasses.replace(NetworkConfig(), residual=True, compare=True),
)
PAPER_TABLE2 = Config(seeds=3, vmax=3)
PAPER_TABLE3 = Config(shots=(1, 2, 4), samples=(1, 4, 16), observations=5_000_000)
PRESETS = {
    "quick": QUICK,
    # Without shortcuts nothing rewards a first step towards binding: fewer values make it easier.
    "cpu-v1": dataclasses.replace(
        QUICK, env_id="MetaRG-v1", curriculum=(2, 3), observations=24_000_000
    ),
    "cpu-table2": CPU_TABLE2,
    "paper-table2": PAPER_TABLE2,
    "paper-table3": PAPER_TABLE3,
}


def make_env(config: Config, **options: Any) -> MetaRG:
    """The game of a configuration; `options` override its static options.

    Raises:
      ValueError: where the configuration contradicts itself.
    """
    env = gpicljax.make(
        config.env_id,
        max_values=max(config.vmax, 2),
        max_shots=max(config.shots),
        max_samples=max(config.samples),
        vocab_size=config.vocab_size,
        message_length=config.message_length,
        num_distractors=config.distractors,
        actions=config.actions,
        **options,
    )
    assert isinstance(env, MetaRG)
    for shots, samples in config.cells:
        env.make_params(
            shots=shots, samples=samples, min_values=config.vmin, max_values=config.vmax
        )
    return env


def make_auxiliaries(config: Config, env: MetaRG) -> tuple[r2d2.Auxiliary, ...]:
    """The auxiliary regressions of the configuration."""

    def feedback(here: Any, following: Any) -> tuple[jax.Array, jax.Array]:
        deciding = here["round"] == env.num_rounds
        return following["stimulus"], deciding.astype(following["stimulus"].dtype)

    def stimulus(here: Any, following: Any) -> tuple[jax.Array, jax.Array]:
        return here["stimulus"], jnp.ones_like(here["previous_reward"])

    kinds = {"both": ("feedback", "stimulus"), "none": ()}.get(
        config.auxiliary, (config.auxiliary,)
    )
    targets = {"feedback": feedback, "stimulus": stimulus}
    return tuple(r2d2.Auxiliary(kind, targets[kind], config.auxiliary_weight) for kind in kinds)


def make_network(config: Config, env: MetaRG) -> Network:
    """The recurrent Q-network of the configuration."""
    shape = config.network
    space = env.observation_space()
    size = gpicljax.spaces.flat_size(space["stimulus"])  # type: ignore[index]
    if shape.core == "lstm":
        core = LSTMStack(shape.core_sizes)
    else:
        core = DeltaMemory(shape.core_sizes[-1], shape.memory_heads, shape.memory_width)
    names = [auxiliary.name for auxiliary in make_auxiliaries(config, env)]
    return as_network(
        RecurrentQNetwork(
            space,
            env.action_space().n,  # type: ignore[attr-defined]
            encoded="stimulus",
            encoder_sizes=shape.encoder,
            mixer_sizes=shape.mixer,
            core=core,
            predictions=tuple((name, size) for name in names),
            prediction_hidden=shape.predictor,
            residual=shape.residual,
            compare=("feedback",) if shape.compare else (),
        )
    )


class Study(NamedTuple):
    """What a configuration becomes.

    Attributes:
      env: the game.
      trainer: R2D2.
      init: `(key, env_params) -> TrainState` of one lane (a seed of a cell).
      update_chunk: `TrainState -> (TrainState, metrics)`, one lane.
      evaluate: `(channel, episodes, key, params, env_params, explore, forget) -> Games`, one lane;
        `explore` scales the actors' epsilons.
    """

    env: MetaRG
    trainer: r2d2.R2D2
    init: Callable[..., r2d2.TrainState]
    update_chunk: Callable[..., Any]
    evaluate: Callable[..., Games]


def build(config: Config) -> Study:
    """Wires environment, network and trainer together."""
    env = make_env(config)
    vec = gpicljax.VectorEnv(
        env,
        config.agent.num_envs,
        bank_size=config.bank_size,
        renew_share=config.renew_share,
        params=env.make_params(min_values=config.vmin, max_values=config.vmax),
    )
    trainer = r2d2.make(config.agent, vec, make_network(config, env), make_auxiliaries(config, env))
    updates = config.num_chunks * config.collections_per_chunk * config.agent.updates_per_collect
    hparams = config.hparams.replace(decay_updates=updates)  # type: ignore[attr-defined]

    def stage(observations: jax.Array) -> jax.Array:
        """Largest number of values in force after so many observations, `int32[]`."""
        stages = jnp.asarray([*config.curriculum, config.vmax], jnp.int32)
        length = max(1, config.observations // (2 * max(1, len(config.curriculum))))
        return stages[jnp.minimum(observations // length, len(config.curriculum))]

    def init(key: jax.Array, env_params: Any) -> r2d2.TrainState:
        first = dataclasses.replace(env_params, max_values=stage(jnp.int32(0)))
        return trainer.init(key, hparams, first)

    def evaluate(
        channel: str,
        episodes: int,
        key: jax.Array,
        params: Any,
        env_params: Any,
        explore: jax.Array | float,
        forget: jax.Array | int,
    ) -> Games:
        game = dataclasses.replace(env, channel=channel)
        size = min(128, episodes)
        batch = gpicljax.VectorEnv(game, size, resets="fresh", params=vec.params)
        epsilons = r2d2.actor_epsilons(hparams, size) * explore
        return play_games(
            key,
            batch,
            trainer.agent(epsilons),
            params,
            max_games=env.max_games,
            max_steps=int(env.horizon()),
            episodes_per_env=math.ceil(episodes / size),
            forget_at_round=forget,
            env_params=env_params,
        )

    def update_chunk(state: r2d2.TrainState) -> tuple[r2d2.TrainState, dict[str, jax.Array]]:
        state, metrics = jax.lax.scan(
            lambda s, _: trainer.update(s), state, None, length=config.collections_per_chunk
        )
        metrics = jax.tree.map(lambda m: m.mean(0), metrics)
        vstate = state.rollout.vstate
        vstate = dataclasses.replace(
            vstate,
            params=dataclasses.replace(vstate.params, max_values=stage(state.observations)),
        )
        vstate, timestep = vec.renew(vstate, state.rollout.timestep)
        rollout = state.rollout._replace(vstate=vstate, timestep=timestep)
        probe = evaluate(
            "episode",
            config.probe_episodes,
            jax.random.fold_in(state.key, state.updates),
            state.params,
            dataclasses.replace(vstate.params, max_values=jnp.int32(config.vmax)),
            0.0,
            NEVER,
        )
        accuracy = zsct_accuracy(probe.correct, probe.valid, probe.query)
        metrics |= {
            "query_accuracy": accuracy.query.by_game,
            "support_accuracy": accuracy.support.by_game,
        }
        return state.replace(rollout=rollout), metrics

    return Study(env, trainer, init, update_chunk, evaluate)


class Lanes(NamedTuple):
    """The lanes (seeds of all cells, cell by cell) and where they run.

    Attributes:
      mesh: the devices.
      keys: typed keys `[lanes]`, padded to a multiple of the devices.
      env_params: their distributions over tasks.
      wanted: how many lanes count; the padding repeats the first ones.
    """

    mesh: Mesh
    keys: jax.Array
    env_params: Any
    wanted: int


def make_lanes(config: Config, env: MetaRG) -> Lanes:
    """Spreads the seeds of all cells over the devices."""
    wanted = len(config.cells) * config.seeds
    mesh = make_mesh(devices_for(wanted))
    lane = lanes_for(wanted, mesh)
    keys = jax.vmap(functools.partial(jax.random.fold_in, jax.random.key(config.seed)))(
        jnp.asarray(lane % config.seeds, jnp.uint32)
    )
    cells = np.asarray(config.cells)[lane // config.seeds]
    full = lambda x: jnp.full(len(lane), x, jnp.int32)  # noqa: E731
    params = env.default_params.replace(
        min_values=full(config.vmin),
        max_values=full(config.vmax),
        shots=jnp.asarray(cells[:, 0], jnp.int32),
        samples=jnp.asarray(cells[:, 1], jnp.int32),
    )
    return Lanes(mesh, shard_leading(keys, mesh), shard_leading(params, mesh), wanted)


CONDITIONS: dict[str, tuple[str, float, int]] = {
    "greedy": ("episode", 0.0, NEVER),
    "behaviour (exploring actors)": ("episode", 1.0, NEVER),
    "memory cleared every game": ("episode", 0.0, 0),
    "messages re-permuted every game": ("game", 0.0, NEVER),
    "random tokens": ("random", 0.0, NEVER),
}
"""Channel, exploration and forgetting of every way in which the trained agents are evaluated."""


def evaluate_agents(
    config: Config, study: Study, params: Any, lanes: Lanes
) -> tuple[dict[str, ZSCTAccuracy], Games]:
    """All conditions for all lanes, leaves `[lanes]`; and the greedy games `[lanes, N, ...]`."""
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(config.seed + 1), i))(
        jnp.arange(len(lanes.keys), dtype=jnp.uint32)
    )
    keys = shard_leading(keys, lanes.mesh)
    score = jax.jit(jax.vmap(lambda g: zsct_accuracy(g.correct, g.valid, g.query)))
    compiled: dict[str, Callable[..., Games]] = {}
    accuracies, greedy = {}, None
    for name, (channel, explore, forget) in CONDITIONS.items():
        if channel not in compiled:
            play = functools.partial(study.evaluate, channel, config.evaluation_episodes)
            compiled[channel] = per_lane(play, lanes.mesh, (0, 0, 0, None, None))
        games = compiled[channel](keys, params, lanes.env_params, explore, forget)
        games = to_host(games)
        accuracies[name] = jax.tree.map(lambda x: np.asarray(x)[: lanes.wanted], score(games))
        greedy = games if greedy is None else greedy
    assert greedy is not None
    return accuracies, jax.tree.map(lambda x: x[: lanes.wanted], greedy)


def calibrate(config: Config, cell: tuple[int, int]) -> dict[str, tuple[float, float]]:
    """Query and support accuracy of the rules that need no training, in one cell."""
    env = make_env(dataclasses.replace(config, actions="compact"))
    params = env.make_params(
        shots=cell[0], samples=cell[1], min_values=config.vmin, max_values=config.vmax
    )
    vec = gpicljax.VectorEnv(env, 256, resets="fresh", params=params)
    play = functools.partial(
        play_games,
        vec=vec,
        agent=experts.calibration_panel(env),
        params=None,
        max_games=env.max_games,
        max_steps=int(env.horizon()),
        episodes_per_env=math.ceil(config.evaluation_episodes / 256),
    )
    games = jax.tree.map(
        np.asarray, jax.jit(play, compiler_options=FAST_COMPILE)(jax.random.key(config.seed + 2))
    )
    results = {}
    for i, name in enumerate(experts.calibration_rules(env)):
        correct = games.correct[..., i]
        phases = [games.valid & games.query, games.valid & ~games.query]
        results[name] = tuple(float(correct[phase].mean()) for phase in phases)
    results["memoryless classifier (learnt)"] = memoryless_accuracy(config, env, params)
    return results


def memoryless_accuracy(config: Config, env: MetaRG, params: Any) -> tuple[float, float]:
    """Query and support accuracy of a classifier of single decisions, on held-out games."""
    train_key, test_key, fit_key = jax.random.split(jax.random.key(config.seed + 3), 3)
    features, labels, _ = memoryless.decision_dataset(
        train_key, env, params, 60_000, message="equality"
    )
    fitted = classifier.fit_classifier(fit_key, features, labels)
    features, labels, query = memoryless.decision_dataset(
        test_key, env, params, 20_000, message="equality"
    )
    return (
        float(classifier.accuracy(fitted, features, labels, query)),
        float(classifier.accuracy(fitted, features, labels, ~query)),
    )


def dry_run(config: Config, study: Study) -> None:
    """Prints exact sizes, one compiled step's memory and time, and the projected hours."""
    lanes = make_lanes(config, study.env)
    init = per_lane(study.init, lanes.mesh)
    state = jax.eval_shape(init, lanes.keys, lanes.env_params)
    count = len(lanes.keys)
    size = parameter_count(state.params) // count
    step = measure(
        per_lane(study.trainer.update, lanes.mesh, donate_argnums=0),
        lambda: init(lanes.keys, lanes.env_params),
    )
    per_update = config.agent.period * config.agent.num_envs
    updates = math.ceil(config.observations / per_update)
    announce(
        f"dry run of {config.preset}",
        {
            "lanes": f"{lanes.wanted} ({len(config.cells)} cells x {config.seeds} seeds)",
            "parameters per agent": f"{size:,}",
            "observations per agent": f"{config.observations:,}",
            "memory per device": f"{step.total_gib:.2f} GiB",
            "compilation of one step": f"{step.compile_s:.1f} s",
            "one step": f"{step.seconds:.3f} s for {per_update * count:,} observations "
            f"({per_update * count / step.seconds:,.0f} per second)",
            "projected training": f"{step.seconds * updates / 3600:.2f} hours",
        },
    )


def main(argv: list[str] | None = None) -> Results | None:
    """Runs the experiment; returns its results (None after a dry run)."""
    config = parse(PRESETS, argv, prog="meta_rg.py")
    enable_compilation_cache()
    join_cluster(config)
    one_device_per_core()
    study = build(config)
    if config.dry_run:
        dry_run(config, study)
        return None
    with failures_reported(), open_run("meta_rg", config) as run:
        lanes = make_lanes(config, study.env)
        cells = ", ".join(f"S = {s}, O = {o}" for s, o in config.cells)
        announce(
            f"meta_rg {config.run_name}: R2D2 listeners in {config.env_id}",
            {
                "cells": f"{cells}; V in {config.vmin} .. {config.vmax}",
                "seeds": f"{config.seeds}, trained side by side ({len(lanes.keys)} lanes on "
                f"{lanes.mesh.size} device(s))",
                "observations": f"{config.observations:,} per seed",
                "results": str(run.path),
            },
            expected_seconds=570.0 if config.preset == "quick" else None,
        )
        state = per_lane(study.init, lanes.mesh)(lanes.keys, lanes.env_params)
        state, history = run_chunks(
            per_lane(study.update_chunk, lanes.mesh, donate_argnums=0),
            state,
            num_chunks=config.num_chunks,
            run=run,
            checkpointer=Checkpointer(run.checkpoints),
            checkpoint_every=config.checkpoint_every,
            progress=Progress(config.num_chunks, key_metric="query_accuracy")
            if config.progress
            else None,
            observations_per_chunk=config.observations_per_chunk * len(lanes.keys),
        )
        say("evaluating ...")
        accuracies, greedy = evaluate_agents(config, study, state.params, lanes)
        rules = on_main(lambda: {cell: calibrate(config, cell) for cell in config.cells})
        results = Results(
            cells=config.cells,
            seeds=config.seeds,
            accuracies=accuracies,
            greedy=greedy,
            rules=rules,
            history=history,
            observations_per_chunk=config.observations_per_chunk,
            parameters=parameter_count(state.params) // len(lanes.keys),
        )
        say(on_main(lambda: report(run, results, study.env, config)))
        return results


if __name__ == "__main__":
    main()
