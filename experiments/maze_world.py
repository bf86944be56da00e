"""World models and policies of Maze World, learnt from demonstrations: what is context worth?

    python experiments/maze_world.py

trains an autoencoder of what is seen (`maze_autoencoder.py`), then four causal models side by side,
on the same episodes of a privileged agent: one attends to the whole episode, the others to its last
8, 2 and 1 steps. On mazes that none has seen it measures how they imitate and foresee along the
episode, how they do when they act themselves, beside privileged agents and random ones, and how far
ahead they see. `--preset paper-small` is the paper's; `--dry-run` says what it would take here.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import maze_autoencoder
import numpy as np
from maze_world_settings import ACTING, PRESETS, Config, Weights
from reports.maze_world import report

import gpicljax
from gpicljax.agents import causal_model, sequence
from gpicljax.agents.catalogue import CausalSettings, TaughtCausalConfig
from gpicljax.agents.causal_model import Cooling, Targets, causal_agent, dreaming
from gpicljax.agents.sequence import Sequences
from gpicljax.data.maze_world import Episode, Noise, lessons, trajectories
from gpicljax.envs.maze_world import MazeWorld, Params, Task
from gpicljax.envs.maze_world.experts import Rule
from gpicljax.evaluation.returns import one_trial_each
from gpicljax.evaluation.world_model import Foresight, foresee
from gpicljax.interface import Agent
from gpicljax.networks.autoencoder import (
    Autoencoder,
    AutoencoderSettings,
    autoencoder,
    standardised,
)
from gpicljax.networks.causal_model import AUTOENCODER, MODEL, UNLIMITED, WINDOW
from gpicljax.networks.causal_model import causal_model as causal_network
from gpicljax.networks.contract import Network
from gpicljax.rollout import RolloutState
from gpicljax.runtime import (
    FAST_COMPILE,
    ConfigError,
    Measure,
    Outcome,
    Program,
    cell_folder,
    load_agent,
    load_autoencoder,
    parse,
    run_experiment,
    save_agent,
    say,
    stream,
)
from gpicljax.storage.array_folder import SavedError


class Cell(NamedTuple):
    """What distinguishes models that are trained side by side.

    Attributes:
      window: `int32[]`, steps that it attends to.
      autoencoder: parameters, the same for all.
      model: parameters to start from; None to start anew.
    """

    window: Any
    autoencoder: Any
    model: Any


class Data(NamedTuple):
    """What training sequences are made from.

    Attributes:
      params: the distribution over mazes.
      weights: of the losses.
    """

    params: Params
    weights: Weights


class Imitated(NamedTuple):
    """How a model does on episodes of a demonstrator; leaves `[N, T]`.

    Attributes:
      policy: nats of the teacher's action, L_pm.
      agrees: whether its most probable action is the teacher's.
      latent: L_z.
      image: L_wm.
    """

    policy: jax.Array
    agrees: jax.Array
    latent: jax.Array
    image: jax.Array


class Acted(NamedTuple):
    """Episodes that a model acted; leaves `[N, T]`.

    Attributes:
      arrived: the target was reached.
      policy: nats of the teacher's action.
      agrees: whether its most probable action is the teacher's.
      pose: `uint8[N, 3, T + 1]`.
      command: `uint8[N, T + 1]`.
    """

    arrived: jax.Array
    policy: jax.Array
    agrees: jax.Array
    pose: jax.Array
    command: jax.Array


def build(config: Config) -> Program:
    """Wires mazes, autoencoder, models and trainer together."""
    env = gpicljax.make("MazeWorld-v0", **config.env_options)
    assert isinstance(env, MazeWorld)
    pictures, settings, eyes = autoencoder_of(config)
    actions, policy = env.action_space(), config.model.policy(env.action_space())
    longest, part = max(config.demonstration.length, config.steps), config.part or None
    network = causal_network(config.model, pictures, actions, longest + config.horizon, part)
    updates = config.updates(config.observations_per_update)
    first = round(config.first_share * updates)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    known = None
    if config.tasks:
        known = gpicljax.TaskSet.create(stream(config.seed, "mazes"), config.tasks)

    def params_of(size: int, length: int) -> Params:
        return env.make_params(
            size=size, density=config.density, num_commands=10_000, horizon=length + 1
        )

    learnt_on = params_of(config.size, config.demonstration.length)
    measured_on = params_of(config.size, config.steps)

    def sample(keys: jax.Array, data: Data) -> Sequences:
        made = trajectories(keys[0], env, data.params, len(keys), config.demonstration, tasks=known)
        seen = lessons(env, *made)
        return Sequences(seen.inputs, None, Targets(seen.label, seen.counts))

    def phase(data: Data, updates: jax.Array) -> Data:
        early = updates < first
        weights = jax.tree.map(
            lambda now, then: jnp.where(early, then, now), data.weights, config.first_weights
        )
        return data._replace(weights=weights if first else data.weights)

    losses = [
        kind(weight=lambda data, name=name: getattr(data.weights, name))
        for name, kind in (
            ("policy", lambda weight: causal_model.imitation_loss(policy, weight=weight)),
            ("image", causal_model.image_loss),
            ("latent", causal_model.latent_loss),
        )
        if getattr(config.weights, name) or (first and getattr(config.first_weights, name))
    ]
    length = config.demonstration.length
    trainer = sequence.make(
        config.agent,
        network,
        sample,
        losses,
        length=length,
        phase=phase,
        frozen=(AUTOENCODER, WINDOW),
    )

    def init(key: jax.Array, cell: Cell) -> sequence.TrainState:
        weights = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(float)), config.weights)
        state = trainer.init(key, hparams, Data(learnt_on, weights))
        model = state.params[MODEL] if cell.model is None else cell.model
        whole = {MODEL: model, AUTOENCODER: cell.autoencoder, WINDOW: cell.window}
        return dataclasses.replace(state, params=whole)

    # What is measured: all models on the same mazes.

    every = [
        causal_model.imitation_loss(policy),
        causal_model.latent_loss(),
        causal_model.image_loss(),
    ]

    def shown(key: jax.Array, params: Any, cell: Cell, episodes: Episode, mazes: Task) -> Imitated:
        """On episodes of the demonstrator."""
        del key, cell

        def some(episodes: Episode, mazes: Task) -> Imitated:
            seen = lessons(env, *jax.tree.map(lambda x: x[None], (episodes, mazes)))
            outputs, _ = network.unroll(params, None, seen.inputs, None)
            given = Sequences(seen.inputs, None, Targets(seen.label, seen.counts))
            nats, latent, image = (loss.at(outputs, given)[:, 0] for loss in every)
            best = policy.distribution(outputs.policy, None).mode()[:, 0]
            return Imitated(nats, best == seen.label[:, 0], latent, image)

        return jax.lax.map(lambda each: some(*each), (episodes, mazes))

    def agent_of(cooling: Cooling) -> Agent:
        return causal_agent(network, actions, policy, cooling=cooling)

    def acted(
        key: jax.Array, params: Any, cell: Cell, mazes: jax.Array, where: Params, cooling: Cooling
    ) -> Acted:
        """The model's own episodes."""
        del cell
        made, _ = trajectories(
            key,
            env,
            where,
            len(mazes),
            dataclasses.replace(config.demonstration, length=config.steps),
            actor=agent_of(cooling),
            actor_params=params,
            tasks=jax.random.wrap_key_data(mazes),
            noted=lambda aux: aux["policy"],
        )
        said = policy.distribution(made.aux, None)
        label = made.label.astype(jnp.int32)
        nats, agrees = -said.log_prob(label), said.mode() == label
        return Acted(made.reward > 0, nats, agrees, made.pose, made.command)

    asleep = dreaming(network, actions, policy, pictures.latent)

    def ahead(
        key: jax.Array, params: Any, cell: Cell, mazes: jax.Array, context: jax.Array
    ) -> Foresight:
        """What the model expects to see next, after `context` pictures."""
        del cell
        awake = agent_of(ACTING["drawn"])
        keys = jax.random.wrap_key_data(mazes)
        tasks = jax.vmap(env.sample_task, (0, None))(keys, measured_on)
        vec = one_trial_each(env, len(mazes), config.steps)
        start = RolloutState(*vec.init(key, task=tasks), awake.initial_carry(len(mazes)))
        seen = foresee(vec, awake, asleep, params, start, context, config.horizon)
        return Foresight(seen.error, *(x[:4] for x in seen[1:]))

    # The arguments of all measures.

    def mazes(name: str, count: int = config.evaluation_tasks) -> np.ndarray:
        keys = jax.random.split(stream(config.seed, name), count)
        return np.asarray(jax.random.key_data(keys))

    unseen = mazes("unseen mazes")
    known_mazes = None
    if known is not None:
        keys = np.asarray(jax.random.key_data(known.keys))
        known_mazes = keys[np.arange(config.evaluation_tasks) % len(keys)]
    rules = Rules(config, env, unseen, known_mazes, params_of)
    measures = {
        f"shown, {name}": Measure(shown, functools.partial(rules.shown, name))
        for name in NOISES
        if known is not None or name != SEEN
    }
    for size in config.sizes:
        for name, cooling in ACTING.items():
            where = params_of(size, config.steps)
            cooled = Cooling(*(np.float32(x) for x in cooling))
            measures[f"acted, n = {size}, {name}"] = Measure(acted, (unseen, where, cooled))
    for mark in config.marks:
        measures[f"ahead after {mark}"] = Measure(ahead, (unseen, np.int32(mark)))

    return Program(
        title=f"{config.model.kind} models of mazes and of a way through them",
        details={
            "mazes": f"{config.size} x {config.size}, "
            + (f"{config.tasks:,} different ones" if config.tasks else "each seen once"),
            "episodes": f"{config.demonstration.length:,} steps",
            "contexts": ", ".join(context_name(steps) for steps in config.contexts),
        },
        init=init,
        update=trainer.update,
        observations=config.observations_per_update,
        cells={
            context_name(steps): Cell(
                np.int32(steps or UNLIMITED), eyes, start_of(config, network, steps)
            )
            for steps in config.contexts
        },
        measures=measures,
        baselines=rules.all,
        key_metric="policy_loss",
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm="causal-model",
            env_id="MazeWorld-v0",
            env_options=config.env_options,
            env_params=learnt_on,
            num_envs=config.agent.batch_size,
            config=TaughtCausalConfig(
                **dataclasses.asdict(config.agent), length=length, capacity=longest
            ),
            network=CausalSettings(**dataclasses.asdict(config.model), autoencoder=settings),
            **about,
        ),
        more=env,
    )


def context_name(steps: int) -> str:
    """Of a model that attends to so many steps, 0 for all."""
    return {0: "full context", 1: "context-free"}.get(steps, f"context of {steps}")


SEEN = "seen mazes"
NOISES = {"noise as in training": None, "noise of 1": 1.0, SEEN: None}
"""Epsilon of the demonstrators whose episodes are shown to the models; None for their range."""
RULES = {
    "random": (0.0, 1.0),
    **{f"privileged, p = {100 * p:.0f} %": (p, 0.0) for p in (0, 0.05, 0.1, 0.25, 0.5, 1)},
}
"""Memory and share of random actions of those who act beside the models."""


class Rules:
    """Episodes of privileged agents, noisy and not, and of random ones, all in one program.

    Args:
      config: the configuration.
      env: the environment.
      unseen: keys of mazes, `uint32[N, 2]`.
      seen: those of mazes that are trained on; None if there is no finite set of them.
      params_of: from size and length of an episode to the distribution.
    """

    def __init__(
        self, config: Config, env: MazeWorld, unseen: Any, seen: Any, params_of: Any
    ) -> None:
        self._config, self._env, self._params_of = config, env, params_of
        self._names = [*RULES, *NOISES]
        self._mazes = [
            seen if name == SEEN and seen is not None else unseen for name in self._names
        ]
        self._play = functools.cache(self._played)

    def shown(self, name: str) -> tuple[Episode, Task]:
        """Noisy demonstrators' episodes `[N, ...]` and their mazes."""
        return self._play(self._config.size, "default")[name]

    def all(self) -> dict[str, dict[str, Episode]]:
        """Everybody's episodes by size and rule, then by name."""
        return {
            f"n = {size}, {rule} rule": {
                name: episodes for name, (episodes, _) in self._play(size, rule).items()
            }
            for rule in self._config.rules
            for size in self._config.sizes
        }

    def _played(self, size: int, rule: Rule) -> dict[str, tuple[Episode, Task]]:
        settings = dataclasses.replace(
            self._config.demonstration, length=self._config.steps, rule=rule
        )
        each = [self._noise(name) for name in self._names]
        noise = jax.tree.map(lambda *x: np.concatenate(x), *each)
        keys = np.concatenate(self._mazes)

        def play(where: Params, keys: jax.Array, noise: Noise) -> tuple[Episode, Task]:
            key, tasks = stream(self._config.seed, "rules"), jax.random.wrap_key_data(keys)
            return trajectories(
                key, self._env, where, len(keys), settings, tasks=tasks, noise=noise
            )

        where = self._params_of(size, self._config.steps)
        made = jax.device_get(jax.jit(play, compiler_options=FAST_COMPILE)(where, keys, noise))
        count = self._config.evaluation_tasks
        return {
            name: jax.tree.map(lambda x, i=i: x[i * count : (i + 1) * count], made)
            for i, name in enumerate(self._names)
        }

    def _noise(self, name: str) -> Noise:
        """How badly each of one kind acts."""
        draw, count = np.random.default_rng(self._config.seed), self._config.evaluation_tasks
        if name in RULES:
            memory, epsilon = RULES[name]
            drawn: Any = np.full(count, memory), np.full(count, epsilon), np.zeros(count)
        else:
            settings, fixed = self._config.demonstration, NOISES[name]
            drawn = (
                draw.uniform(*settings.probability, count),
                draw.uniform(*(settings.epsilon if fixed is None else (fixed, fixed)), count),
                draw.uniform(0, 1, count),
            )
        return Noise(*(np.asarray(x, np.float32) for x in drawn))


def autoencoder_of(config: Config) -> tuple[Autoencoder, AutoencoderSettings, Any]:
    """The autoencoder, its settings and its parameters: random ones for a dry run."""
    resolution = (config.resolution, config.resolution)
    if config.autoencoder is None:
        settings = maze_autoencoder.PRESETS[config.autoencoder_preset].model
        pictures = standardised(autoencoder(settings, resolution))
        return pictures, settings, pictures.init(stream(config.seed, "autoencoder"))
    try:
        loaded = load_autoencoder(config.autoencoder, resolution)
    except (SavedError, ValueError) as error:
        raise ConfigError(f"autoencoder: {error}") from error
    return loaded.autoencoder, loaded.settings, loaded.params


def start_of(config: Config, network: Network, steps: int) -> Any:
    """The model that one with such a context starts from; None to start anew."""
    if config.start_from is None:
        return None
    agents = config.start_from / "agents"
    for name in (context_name(steps), context_name(0)):
        folder = agents / cell_folder(name) / "seed_0"
        if folder.is_dir():
            try:
                return load_agent(folder).params[MODEL]
            except SavedError as error:
                raise ConfigError(f"start_from: {error}") from error
    raise ConfigError(f"start_from: got {config.start_from}; accepted: a run of maze_world.py")


def main(argv: list[str] | None = None) -> Outcome | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    config = parse(PRESETS, argv, prog="maze_world.py")
    argv = list(sys.argv[1:] if argv is None else argv)
    if config.autoencoder is None and not config.dry_run:
        argv += ["--autoencoder", str(trained_autoencoder(config))]
    return run_experiment("maze_world", PRESETS, build, report, argv)


def trained_autoencoder(config: Config) -> Path:
    """The autoencoder of this run, trained before it if it is not there yet."""
    name = f"for-{config.run_name}"
    folder = config.runs_dir / "maze_autoencoder" / name / "agents" / "seed_0"
    if folder.is_dir():
        say(f"using the autoencoder in {folder}")
        return folder
    flags = {
        "preset": config.autoencoder_preset,
        "name": name,
        "runs-dir": config.runs_dir,
        "seed": config.seed,
        "size": config.size,
        "landmarks": config.landmarks,
        "density": config.density,
    }
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    maze_autoencoder.main([*words, "--requeue", *([] if config.progress else ["--no-progress"])])
    return folder


if __name__ == "__main__":
    main()
