"""Building and running the study `train_agent`."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax

import gpicljax
from gpicljax import agents
from gpicljax.agents.acting import random_agent
from gpicljax.checks import Count, Natural, refusal
from gpicljax.rollout.traced import renew_tasks
from gpicljax.runs import save_agent
from gpicljax.runs.config import exit_with_error
from gpicljax.runtime import (
    ConfigError,
    Measure,
    Probe,
    Program,
    RunResult,
    TrainingConfig,
    check_config,
    run_experiment,
)
from gpicljax.studies.train_agent.config import (
    OWN_STUDY,
    SETTINGS,
    bandit_rules,
    default_algorithm,
    settings,
)
from gpicljax.studies.train_agent.measures import is_bandit, make_evaluator, probe_metrics
from gpicljax.studies.train_agent.options import (
    cells,
    env_options,
    evaluation_params,
    has_choice_of_memory,
    make_env,
    make_params,
    memories,
)
from gpicljax.studies.train_agent.report import ELSEWHERE, TRAINED, report
from gpicljax.typing import ArrayTree


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains agents on an environment: any id of `gpicljax environments`, or `module:id` of yours.

    Attributes:
      env: Id of the environment.
      env_options: Its static options, as name=value.
      env_params: What differs from its default distribution over tasks, as name=value.
      evaluation_params: What differs from env_params in a second evaluation, as name=value.
      algo: Name of the algorithm.
      num_envs: Instances per seed.
      episodes_per_trial: Episodes in a row on one task, over which memories last.
      resets: New tasks from scratch, or from a bank that is renewed at every log line.
      network: Settings of the network.
      agent: Sizes and switches of the algorithm.
      hparams: Its hyper-parameters; decay_updates is set to the length of the run.
      sweep: Hyper-parameters to be tried side by side, as name=value,value: a grid, all seeds each.
      probe_episodes: Greedy episodes per seed and log line.
      evaluation_episodes: Greedy episodes per seed at the end.
      evaluation_steps: Steps after which a trial of an evaluation is cut off.
      film_frames: Most frames of the film; 0 for none. The page of the episode has its own.
    """

    env: str = "FrozenLake-v1"
    env_options: tuple[str, ...] = ()
    env_params: tuple[str, ...] = ()
    evaluation_params: tuple[str, ...] = ()
    algo: str = "ppo"
    num_envs: Count = 32
    episodes_per_trial: Count = 1
    resets: Literal["fresh", "bank"] = "fresh"
    network: Any = None
    agent: Any = None
    hparams: Any = None
    sweep: tuple[str, ...] = ()
    checkpoint_every: Count = 10
    probe_episodes: Count = 16
    evaluation_episodes: Count = 100
    evaluation_steps: Count = 1_000
    film_frames: Natural = 150

    def default_name(self) -> str:
        """Returns the preset, the algorithm and the environment."""
        return f"{self.preset}-{self.algo}-{self.env}".replace(":", "-")

    def validate(self) -> None:
        """Refuses what can be refused without a device: names, options, counts, spaces."""
        super().validate()
        least, count = 2 * self.episodes_per_trial, self.evaluation_episodes
        check_config(count >= least, "evaluation_episodes", count, f"an integer >= {least}")
        check_config(self.film_frames != 1, "film_frames", 1, "0, or an integer >= 2")
        for name in ("probe_episodes", "evaluation_episodes"):
            whole = getattr(self, name) % self.episodes_per_trial == 0
            check_config(whole, name, getattr(self, name), "a multiple of episodes_per_trial")
        env = make_env(self)
        make_params(self, env)
        evaluation_params(self, env)
        cells(self)
        spaces = env.observation_space(), env.action_space(), env.num_agents
        reason = agents.get_algorithm(self.algo).refusal(*spaces)
        if reason is not None:
            raise ConfigError(f"algo: {self.algo} does not fit {self.env}: {reason}")


def config_type(algorithm: agents.Algorithm) -> type[Config]:
    """Returns `Config` with the fields of one algorithm, for the command line."""
    kinds = {"network": algorithm.network, "agent": algorithm.config, "hparams": algorithm.hparams}
    summary, _, rest = str(Config.__doc__).partition("\n\n")
    summary = f"{summary}\n\nAlgorithms: {', '.join(agents.CATALOGUE)}."
    return dataclasses.make_dataclass(
        Config.__name__,
        [(name, kind, dataclasses.field(default=kind())) for name, kind in kinds.items()],
        bases=(Config,),
        namespace={"__doc__": f"{summary}\n\n{rest}", "__module__": __name__},
        frozen=True,
    )


def starting_point(argv: Sequence[str]) -> Config:
    """Returns the tuned settings, or general defaults, of the values of `--env` and `--algo`."""
    finder = ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--env", default=Config.env)
    finder.add_argument("--algo")
    finder.add_argument("--network.memory", dest="memory")
    arguments = finder.parse_known_args(argv)[0]
    if arguments.algo is None and arguments.env in OWN_STUDY:
        expected = (
            f"it with --algo NAME, on settings that are not tuned; `gpicljax run "
            f"{OWN_STUDY[arguments.env]}` trains on it as its paper does"
        )
        exit_with_error(refusal("--env", arguments.env, expected))
    algo = arguments.algo or default_algorithm(arguments.env)
    try:
        kind = config_type(agents.get_algorithm(algo))
    except ValueError as error:
        exit_with_error(f"--algo: {error}")
    if arguments.memory is not None and not has_choice_of_memory(algo):
        exit_with_error(f"--network.memory: {refusal(algo, arguments.memory, memories())}")
    return kind(env=arguments.env, algo=algo, **settings(arguments.env, algo))


def build(config: Config) -> Program:
    """Returns the program: environment and trainer."""
    algorithm, env = agents.get_algorithm(config.algo), make_env(config)
    env_params = make_params(config, env)
    episodes = config.episodes_per_trial
    vec = gpicljax.VectorEnv(
        env, config.num_envs, episodes_per_trial=episodes, resets=config.resets, params=env_params
    )
    trainer = algorithm.make(config.agent, vec, config.network)
    hparams = config.hparams
    if hasattr(hparams, "decay_updates"):
        updates = config.updates(trainer.observations)
        hparams = hparams.replace(decay_updates=updates * trainer.optimiser_steps)

    def init(key: jax.Array, cell: Mapping[str, ArrayTree]) -> Any:
        return trainer.init(key, hparams.replace(**cell))

    distributions = {TRAINED: env_params}
    if config.evaluation_params:
        distributions[ELSEWHERE] = evaluation_params(config, env)
    limit, bandit = config.evaluation_steps, is_bandit(env)
    play_some = functools.partial(
        make_evaluator,
        env,
        trials=config.probe_episodes // episodes,
        episodes_per_trial=episodes,
        limit=limit,
        longest=min(limit, max(int(env.horizon(params)) for params in distributions.values())),
        bandit=bandit,
    )
    players = {"greedy": trainer.agent(greedy=True), "random": random_agent(env)}
    groups_of_players = [(players, play_some([*players.values()], look=True))]
    if bandit:
        rules = bandit_rules(env, config.env)
        rules.pop(config.algo, None)
        groups_of_players.append((rules, play_some([*rules.values()], look=False)))
    repeats = math.ceil(config.evaluation_episodes / config.probe_episodes)
    forgets = algorithm.trains and not algorithm.remembers
    tuned = (config.env, config.algo) in SETTINGS
    named = " ".join((*config.env_options, *config.env_params))
    return Program(
        title=f"{config.algo} on {config.env}" + (f" ({named})" if named else ""),
        details={} if tuned else {"settings": "general ones; none are tuned for this pair"},
        init=init,
        update=trainer.update,
        observations=trainer.observations,
        between=functools.partial(renew_tasks, vec),
        cells=cells(config),
        measures={
            distribution: {
                name: Measure(function, (number, params), repeats)
                for group, function in groups_of_players
                for number, name in enumerate(group)
            }
            for distribution, params in distributions.items()
        },
        probe=Probe(
            Measure(groups_of_players[0][1], (0, env_params)), probe_metrics(config.algo, forgets)
        ),
        key_metric="return",
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm=algorithm.name,
            env_id=config.env,
            env_options=env_options(config),
            env_params=env_params,
            num_envs=config.num_envs,
            config=config.agent,
            network=config.network,
            **about,
        ),
        more=env,
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    presets = {"quick": starting_point(arguments)}
    return run_experiment("train_agent", presets, build, report, arguments)
