"""Trains one agent per seed on any registered environment, evaluates, saves and films it.

    python experiments/train_agent.py --env FrozenLake-v1 --algo ppo

What `--env` and `--algo` name decides the defaults of all other flags (see
`train_agent_settings.py`). The run's folder gets a table with intervals, the learning curve, a
film of an episode, and under `agents/` what `gpicljax.runtime.load_agent` loads again.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from reports.train_agent import Results, report
from train_agent_settings import SETTINGS, default_algorithm, named_values

import gpicljax
from gpicljax.agents import catalogue
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.runtime import (
    Checkpointer,
    ConfigError,
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

_PROBE = 2**31 - 1  # apart from the numbers of updates, which trainers fold into the same key


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Trains agents on an environment.

    Attributes:
      env: Id of the environment.
      env_options: Its static options, as name=value.
      env_params: What differs from its default distribution over tasks, as name=value.
      algo: Name of the algorithm.
      num_envs: Instances per seed.
      observations: Environment steps per seed.
      episodes_per_trial: Episodes in a row on one task, over which memories last.
      resets: New tasks from scratch, or from a bank that is renewed at every log line.
      network: Settings of the network.
      agent: Sizes and switches of the algorithm.
      hparams: Its hyper-parameters; decay_updates is set to the length of the run.
      log_lines: Log lines of the whole run.
      checkpoint_every: Log lines between checkpoints.
      probe_episodes: Greedy episodes per seed and log line.
      evaluation_episodes: Greedy episodes per seed at the end.
      evaluation_steps: Steps after which a trial of an evaluation is cut off.
      film_frames: Most frames of the film; 0 for none.
    """

    env: str = "FrozenLake-v1"
    env_options: tuple[str, ...] = ()
    env_params: tuple[str, ...] = ()
    algo: str = "ppo"
    num_envs: int = 32
    observations: int = 1_000_000
    episodes_per_trial: int = 1
    resets: Literal["fresh", "bank"] = "fresh"
    network: Any = None
    agent: Any = None
    hparams: Any = None
    log_lines: int = 40
    checkpoint_every: int = 10
    probe_episodes: int = 16
    evaluation_episodes: int = 100
    evaluation_steps: int = 1_000
    film_frames: int = 150

    def default_name(self) -> str:
        """The preset, the algorithm and the environment."""
        return f"{self.preset}-{self.algo}-{self.env}"

    def validate(self) -> None:
        """Refuses what can be refused without a device: names, options, counts, spaces."""
        super().validate()
        least = {"evaluation_episodes": 2 * self.episodes_per_trial, "film_frames": 0}
        counts = ("num_envs", "observations", "log_lines", "checkpoint_every", "probe_episodes")
        for name in (*counts, "episodes_per_trial", "evaluation_steps", *least):
            value, minimum = getattr(self, name), least.get(name, 1)
            check(value >= minimum, name, value, f"an integer >= {minimum}")
        check(self.film_frames != 1, "film_frames", 1, "0, or an integer >= 2")
        for name in ("probe_episodes", "evaluation_episodes"):
            whole = getattr(self, name) % self.episodes_per_trial == 0
            check(whole, name, getattr(self, name), "a multiple of episodes_per_trial")
        named_values("env_params", self.env_params)
        env = make_env(self)
        spaces = env.observation_space(), env.action_space(), env.num_agents
        reason = catalogue.find(self.algo).refusal(*spaces)
        if reason is not None:
            raise ConfigError(f"algo: {self.algo} does not fit {self.env}: {reason}")


def make_env(config: Config) -> gpicljax.Environment:
    """The environment. ConfigError for an unknown id or option, with the argument's name."""
    options = named_values("env_options", config.env_options)
    argument = "env_options" if config.env in gpicljax.registered() else "env"
    try:
        return gpicljax.make(config.env, **options)
    except ValueError as error:
        raise ConfigError(f"{argument}: {error}") from error


def config_type(algorithm: catalogue.Algorithm) -> type[Config]:
    """`Config` with the fields of one algorithm, for the command line."""
    kinds = {"network": algorithm.network, "agent": algorithm.config, "hparams": algorithm.hparams}
    return dataclasses.make_dataclass(
        Config.__name__,
        [(name, kind, dataclasses.field(default=kind())) for name, kind in kinds.items()],
        bases=(Config,),
        namespace={"__doc__": Config.__doc__, "__module__": __name__},
        frozen=True,
    )


def starting_point(argv: Sequence[str]) -> Config:
    """The tuned settings, or general defaults, of what `--env` and `--algo` name."""
    finder = ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--env", default=Config.env)
    finder.add_argument("--algo")
    given = finder.parse_known_args(argv)[0]
    algo = given.algo or default_algorithm(given.env)
    try:
        kind = config_type(catalogue.find(algo))
    except ValueError as error:
        refuse(f"--algo: {error}")
    return kind(env=given.env, algo=algo, **SETTINGS.get((given.env, algo), {}))


def refuse(message: object) -> NoReturn:
    """Ends the program as a bad argument does."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


class Study(NamedTuple):
    """What a configuration becomes. The functions are of one seed.

    Attributes:
      env: the environment.
      env_params: the distribution over tasks.
      trainer: the algorithm.
      num_chunks: log lines.
      observations_per_chunk: environment steps between two.
      init: `key -> state`.
      update_chunk: `state -> (state, metrics)`.
      evaluate: `(key, params, random) -> EpisodeReturns` of the greedy agent, or of random actions
        on the same tasks: one program for both.
    """

    env: gpicljax.Environment
    env_params: Any
    trainer: catalogue.Trainer
    num_chunks: int
    observations_per_chunk: int
    init: Callable[[jax.Array], Any]
    update_chunk: Callable[[Any], Any]
    evaluate: Callable[[jax.Array, Any, Any], EpisodeReturns]


def build(config: Config) -> Study:
    """Wires environment and trainer together. ConfigError where they contradict each other."""
    algorithm, env = catalogue.find(config.algo), make_env(config)
    overrides = named_values("env_params", config.env_params)
    try:
        env_params = env.make_params(**overrides)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"--env-params: {error}") from error
    vec = gpicljax.VectorEnv(
        env,
        config.num_envs,
        episodes_per_trial=config.episodes_per_trial,
        resets=config.resets,
        params=env_params,
    )
    try:
        trainer = algorithm.make(config.agent, vec, config.network)
    except ValueError as error:
        raise ConfigError(f"--agent, --network or --num-envs: {error}") from error
    updates = math.ceil(config.observations / trainer.observations) if algorithm.trains else 0
    per_chunk = max(1, math.ceil(updates / config.log_lines))
    hparams = config.hparams
    if hasattr(hparams, "decay_updates"):
        hparams = hparams.replace(decay_updates=updates * trainer.optimiser_steps)

    play = functools.partial(
        episode_returns,
        env=env,
        max_steps=config.evaluation_steps,
        episodes_per_trial=config.episodes_per_trial,
        env_params=env_params,
    )

    def update_chunk(state: Any) -> tuple[Any, dict[str, jax.Array]]:
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, per_chunk)
        vstate, timestep = vec.renew(state.rollout.vstate, state.rollout.timestep)
        rollout = state.rollout._replace(vstate=vstate, timestep=timestep)
        key = jax.random.fold_in(jax.random.fold_in(state.key, _PROBE), state.updates)
        agent = trainer.agent(greedy=True)
        probe = play(key, agent=agent, params=state.params, episodes=config.probe_episodes)
        metrics = {name: metric.mean(0) for name, metric in metrics.items()}
        metrics |= {"return": probe.returns.mean(), "length": probe.lengths.mean()}
        return state.replace(rollout=rollout), metrics

    def evaluate(key: jax.Array, params: Any, random: jax.Array | bool) -> EpisodeReturns:
        greedy, null = trainer.agent(greedy=True), catalogue.random_agent(env)

        def act(key: jax.Array, params: Any, carry: Any, timestep: gpicljax.TimeStep) -> Any:
            action, aux, carry = greedy.act(key, params, carry, timestep)
            return jnp.where(random, null.act(key, (), (), timestep)[0], action), aux, carry

        agent = gpicljax.Agent(greedy.initial_carry, act)
        return play(key, agent=agent, params=params, episodes=config.evaluation_episodes)

    return Study(
        env,
        env_params,
        trainer,
        math.ceil(updates / per_chunk),
        per_chunk * trainer.observations,
        lambda key: trainer.init(key, hparams),
        update_chunk,
        evaluate,
    )


def seed_keys(config: Config, stream: int) -> tuple[Any, jax.Array]:
    """The mesh, and a key per seed, padded to a multiple of its devices and spread over it."""
    mesh = make_mesh(devices_for(config.seeds))
    lane = jnp.asarray(lanes_for(config.seeds, mesh))
    root = jax.random.fold_in(jax.random.key(config.seed), stream)
    return mesh, shard_leading(jax.vmap(lambda i: jax.random.fold_in(root, i))(lane), mesh)


def dry_run(config: Config, study: Study) -> None:
    """Prints exact sizes, one compiled update's memory and time, and the projected hours."""
    mesh, keys = seed_keys(config, 0)
    init = per_lane(study.init, mesh)
    size = parameter_count(jax.eval_shape(study.init, jax.random.key(0)).params)
    facts = {"parameters per agent": f"{size:,}", "seeds": config.seeds}
    if study.num_chunks:
        update = per_lane(study.trainer.update, mesh, donate_argnums=0)
        step = measure(update, lambda: init(keys))
        count = study.num_chunks * study.observations_per_chunk // study.trainer.observations
        rate = study.trainer.observations * len(keys) / step.seconds
        facts |= {
            "observations per agent": f"{count * study.trainer.observations:,}",
            "memory per device": f"{step.total_gib:.3f} GiB",
            "compilation of one update": f"{step.compile_s:.1f} s",
            "one update": f"{step.seconds:.4f} s ({rate:,.0f} observations per second)",
            "projected training": f"{step.seconds * count / 3600:.3f} hours",
        }
    announce(f"dry run of {config.run_name}", facts)


def main(argv: list[str] | None = None) -> Results | None:
    """Runs the experiment; returns its results (None after a dry run)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    config = parse({"quick": starting_point(arguments)}, arguments, prog="train_agent.py")
    enable_compilation_cache()
    join_cluster(config)
    one_device_per_core()
    try:
        study = build(config)
    except ConfigError as error:
        refuse(error)
    if (config.env, config.algo) not in SETTINGS:
        say(f"note: no tuned settings for {config.algo} on {config.env}; these are general ones")
    if config.dry_run:
        dry_run(config, study)
        return None
    with failures_reported(), open_run("train_agent", config) as run:
        mesh, keys = seed_keys(config, 0)
        announce(
            f"train_agent {config.run_name}",
            {
                "environment": " ".join((config.env, *config.env_options, *config.env_params)),
                "seeds": f"{config.seeds}, trained side by side ({len(keys)} lanes on "
                f"{mesh.size} device(s))",
                "observations": f"{study.num_chunks * study.observations_per_chunk:,} per seed",
                "results": str(run.path),
            },
        )
        progress = Progress(study.num_chunks, key_metric="return")
        state, history = run_chunks(
            per_lane(study.update_chunk, mesh, donate_argnums=0),
            per_lane(study.init, mesh)(keys),
            num_chunks=study.num_chunks,
            run=run,
            checkpointer=Checkpointer(run.checkpoints),
            checkpoint_every=config.checkpoint_every,
            progress=progress if config.progress else None,
            observations_per_chunk=study.observations_per_chunk * config.seeds,
        )
        say("evaluating ...")
        _, keys = seed_keys(config, 1)
        evaluate = per_lane(study.evaluate, mesh, (0, 0, None))
        played, null = (evaluate(keys, state.params, random) for random in (False, True))
        fetched = to_host((played, null, state.params))
        played, null, params = jax.tree.map(lambda x: np.asarray(x)[: config.seeds], fetched)
        results = Results(played, null, params, history, study.observations_per_chunk)
        options = named_values("env_options", config.env_options)
        say(on_main(lambda: report(run, results, study, config, options)))
        return results


if __name__ == "__main__":
    main()
