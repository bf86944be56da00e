"""Building and running the study `in_context_rl`."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import Count, Natural, Range, check_choice
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.runs import LoadedAgent, load_agent, shipped_model
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import (
    Program,
    RunResult,
    TrainingConfig,
    check_config,
    fast_jit,
    run_experiment,
)
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.in_context_rl.env import TESTS, Tasks, Test, own_tests
from gpicljax.systems.in_context_rl.learners import MEMORIES, TEMPERATURES
from gpicljax.systems.in_context_rl.measures.playing import (
    CONDITIONS,
    Contender,
    agent_tester,
    learner_contender,
    play_rules,
)
from gpicljax.systems.in_context_rl.prompts.language_rows import (
    PROMPTS,
    expected_usage,
    first_unexplained,
    language_batch,
    language_row,
    language_rows,
    schema_of,
    tiny_language_model,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.report import table_report
from gpicljax.systems.in_context_rl.studies.in_context_rl_train import (
    program as in_context_rl_train,
)

_MIXED: Any = tuple(own_tests("mixture"))
SHIPPED = {"mixture:clone": "in_context_rl_mixture"}
"""The agents that come with the package: folder in `gpicljax/models` by FAMILY:LEARNER."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Compares agents that learn within trials with agents that need no training.

    Attributes:
      agents: FAMILY:LEARNER, as in `in_context_rl_train`; by default those that come with the
        package.
      env: Id, or module:id, of an environment of your own to test on instead: with discrete
        situations and actions, and a `transition_model`, from which the oracle is computed. The
        agent of all families is tested on it where it fits into their space.
      tests: Sets of tasks; by default all that the mixture of families is about.
      actions: Actions of a trial.
      replicas: Trials that each agent is tested in, each on a task of its own.
      controls: Whether trained agents are tested without their memory, without rewards, and with
        another trial's context, too, on their own family; an agent of all families, on lakes.
      conversations: Trials of a language model on each set of tasks; 0 for none of it.
      reading: Updates of the training of a tiny language model, which plays the bandits; 0 for none
        of it.
      llm: The language model that plays all sets of tasks.
    """

    agents: tuple[str, ...] = tuple(SHIPPED)
    env: str | None = None
    tests: tuple[Test, ...] = _MIXED
    actions: Annotated[int, Range(2)] = 200
    replicas: Count = 1000
    controls: bool = True
    conversations: Natural = 4
    reading: Natural = 600
    llm: LanguageModelOptions = LanguageModelOptions(prompts=("explained",))

    def validate(self) -> None:
        """Refuses agents that nothing is known of."""
        super().validate()
        check_config(bool(self.tests), "tests", self.tests, "at least one")
        if self.llm.asks:
            self.llm.check_prompts(PROMPTS)
            expected = "1 or more, where a language model is to play"
            check_config(self.conversations > 0, "conversations", self.conversations, expected)
        for name in self.agents:
            family, colon, learner = name.partition(":")
            check_config(bool(colon), "agents", name, "FAMILY:LEARNER")
            check_choice("agents", family, TEMPERATURES)
            check_choice("agents", learner, MEMORIES)

    def default_name(self) -> str:
        """Returns the preset, and an environment of one's own."""
        return f"{self.preset}-{self.env}".replace(":", "-") if self.env else self.preset


def tests_of(config: Config) -> dict[str, Tasks]:
    """Returns the sets of tasks that agents are tested on, by name."""
    if config.env is None:
        return {test_name: TESTS[test_name] for test_name in config.tests}
    own_tasks = Tasks(config.env)
    own_tasks.trials(config.actions)  # refuses what cannot be solved, or is not discrete
    return {config.env: own_tasks}


PRESETS = {"quick": Config(seeds=1), "full": Config(seeds=3)}


def folders(config: Config, name: str) -> list[Path]:
    """Returns the folders of an agent's seeds: of a run, or shipped; none if it is untrained."""
    family, learner = name.split(":")
    run = config.runs_dir / "in_context_rl_train" / f"{config.preset}-{family}-{learner}" / "agents"
    seed_folders = sorted(run.glob("seed_*"))
    if not seed_folders and config.preset == "quick" and name in SHIPPED:
        return [shipped_model(SHIPPED[name])]
    return seed_folders


def with_agents(config: Config) -> Config:
    """Trains the agents that are missing, each in a run of its own."""
    for name in config.agents:
        if folders(config, name):
            continue
        log_once(f"training {name} ...")
        family, learner = name.split(":")
        training = dataclasses.replace(
            in_context_rl_train.PRESETS[config.preset],
            preset=config.preset,
            family=family,
            learner=learner,
            actions=config.actions,
            seeds=config.seeds,
            runs_dir=config.runs_dir,
            progress=config.progress,
            requeue=True,
        )
        in_context_rl_train.run(training)
    return config


def load_agents(config: Config) -> dict[str, list[LoadedAgent]]:
    """Loads the seeds of each trained agent; its trials are as long as this run's."""
    loaded = {
        name: [load_agent(folder) for folder in folders(config, name)] for name in config.agents
    }
    for name, agents in loaded.items():
        for agent in agents:
            fits = int(agent.env.horizon()) == config.actions
            check_config(fits, "actions", config.actions, f"those of {name}")
    return loaded


def evaluate_learner(
    config: Config, name: str, loaded: list[LoadedAgent]
) -> dict[str, dict[str, Contender]]:
    """Returns the trials of a trained agent's seeds, whole and under the conditions, by tasks."""
    family: Any = name.split(":")[0]
    padded, env = family == "mixture", loaded[0].env

    @functools.cache
    def program(env: Any) -> Any:
        test = agent_tester(loaded[0].agent, env, config.replicas, config.seed)
        return within_memory(fast_jit(test), f"{config.replicas:,} trials of {name}")

    contenders: dict[str, dict[str, Contender]] = {}
    family_tests = own_tests(family)
    for test_name, task_set in tests_of(config).items():
        if test_name not in family_tests and not (padded and test_name == config.env):
            continue
        try:
            env, env_params = task_set.trials(config.actions, padded)
        except ValueError as error:
            log_once(f"note: {name} is not tested on {test_name}: {error}")
            continue
        controls = {"": 0}
        if config.controls:
            wiped = {name: CONDITIONS[name] for name in ("", "memory wiped")}
            controls = CONDITIONS if test_name in (family, "lakes") else wiped
        agents = [
            learner_contender(
                name,
                condition,
                [
                    jax.device_get(program(env)(seed.params, env_params, jnp.int32(number)))
                    for seed in loaded
                ],
            )
            for condition, number in controls.items()
        ]
        contenders[test_name] = {agent.full_name: agent for agent in agents}
    return contenders


class Comparison(NamedTuple):
    """The results of the study.

    Attributes:
      tests: The agents with their trials, by name of the tasks and full name.
      notes: Remarks on the language model, a paragraph each.
    """

    tests: dict[str, dict[str, Contender]]
    notes: tuple[str, ...] = ()


def compare(config: Config, folder: Path, loaded: dict[str, list[LoadedAgent]]) -> Comparison:
    """Returns the trials of all agents on the same tasks."""
    tests: dict[str, dict[str, Contender]] = {}
    began = time.monotonic()

    def log_progress(step: str) -> None:
        log_once(f"{time.monotonic() - began:6.0f} s: {step}")

    sets = tests_of(config)
    for test_name in sets:
        tests[test_name] = play_rules(sets[test_name], config.actions, config.replicas, config.seed)
        log_progress(f"rules on {test_name}")
    for name, seeds in loaded.items():
        for test_name, agents in evaluate_learner(config, name, seeds).items():
            tests[test_name] |= agents
        log_progress(name)
    bandits = [test_name for test_name in ("two-arms", "ten-arms") if test_name in sets]
    if config.conversations and config.reading and bandits:
        model = tiny_language_model(folder / "teacher", config.actions, config.seed, config.reading)
        size = sum(x.size for x in jax.tree.leaves(model.params))
        for test_name in bandits:
            best = tests[test_name]["oracle"].seeds[0].best
            batch = language_batch(sets[test_name], config.actions, config.conversations)
            row, _ = language_row(model, folder / test_name, batch, config.seed, best)
            if row is not None:
                agent = Contender(f"language model of {size:,} parameters", "learner", [row])
                tests[test_name][agent.full_name] = agent
        log_progress("a tiny language model")
    return Comparison(
        tests, ask_model(config, folder, tests, log_progress) if config.llm.asks else ()
    )


def ask_model(
    config: Config,
    folder: Path,
    tests: dict[str, dict[str, Contender]],
    log_progress: Callable[[str], None],
) -> tuple[str, ...]:
    """Adds the trials of the language model behind an endpoint; returns notes for the report."""
    ledger = config.llm.ledger(log_once if config.progress else None)
    best = {test_name: agents["oracle"].seeds[0].best for test_name, agents in tests.items()}
    sizes = config.actions, config.conversations, config.seed
    notes = []
    for test_name, agent, note in language_rows(
        config.llm, ledger, folder, tests_of(config), best, *sizes
    ):
        if agent is not None:
            tests[test_name][agent.full_name] = agent
        notes += [note] if note else []
        log_progress(f"{config.llm.name} on {test_name}")
    return config.llm.summarise_spending(ledger), *notes


def describe_language_model(config: Config) -> dict[str, str]:
    """Returns the language model in words, in a dry run with its usage; else tries its server.

    Raises:
      ValueError: for a server, a key or a model that is not there, or a task without explanation.
    """
    if not config.llm.asks:
        return {}
    sets, prompts = tests_of(config), config.llm.prompts
    unfit_test = first_unexplained(sets, prompts)
    expected = f"raw or summary: what the others tell does not fit {unfit_test}"
    check_config(unfit_test is None, "llm.prompts", prompts, expected)
    if config.dry_run:
        log_once("counting requests and tokens ...")
        usage = expected_usage(sets, prompts, config.actions, config.conversations, config.seed)
        return {"language model": config.llm.expected_usage(usage)}
    first = next(iter(sets.values()))
    config.llm.check(schema_of(first, prompts[0]))
    return {"language model": f"{config.llm.name}, {', '.join(prompts)}"}


def build(config: Config) -> Program:
    """Returns the program, which trains nothing: `with_agents` has trained what was missing."""
    details = describe_language_model(config)
    loaded = load_agents(config)
    return Program(
        title=f"{len(config.agents)} trained agents, on {', '.join(tests_of(config))}",
        details=details,
        host_measures=lambda run: compare(config, run.path / "conversations", loaded),
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns the outcome, None after a dry run."""
    return run_experiment("in_context_rl", PRESETS, build, table_report, argv, first=with_agents)
