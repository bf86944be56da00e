"""How the study `in_context_rl` is built and run."""

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
from gpicljax.systems.in_context_rl.studies.in_context_rl.language import (
    PROMPTS,
    expected_usage,
    language_batch,
    language_row,
    language_rows,
    schema_of,
    tiny_language_model,
    unexplained,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.playing import (
    CONDITIONS,
    Contender,
    agent_tester,
    learner_contender,
    play_rules,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.report import table_report
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import TESTS, Tasks, Test, own_tests
from gpicljax.systems.in_context_rl.studies.in_context_rl_train import (
    program as in_context_rl_train,
)

_MIXED: Any = tuple(own_tests("mixture"))
SHIPPED = {"mixture:dpt": "in_context_rl_mixture"}
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
            accepted = "1 or more, where a language model is to play"
            check_config(self.conversations > 0, "conversations", self.conversations, accepted)
        for name in self.agents:
            family, colon, learner = name.partition(":")
            check_config(bool(colon), "agents", name, "FAMILY:LEARNER")
            check_choice("agents", family, in_context_rl_train.TEMPERATURES)
            check_choice("agents", learner, in_context_rl_train.MEMORIES)

    def default_name(self) -> str:
        """The preset, and an environment of one's own."""
        return f"{self.preset}-{self.env}".replace(":", "-") if self.env else self.preset


def tests_of(config: Config) -> dict[str, Tasks]:
    """What agents are tested on, by name."""
    if config.env is None:
        return {where: TESTS[where] for where in config.tests}
    own = Tasks(config.env)
    own.trials(config.actions)  # refuses what cannot be solved, or is not discrete
    return {config.env: own}


PRESETS = {"quick": Config(seeds=1), "full": Config(seeds=3)}


def folders(config: Config, name: str) -> list[Path]:
    """The folders of an agent's seeds: of a run, or shipped; none where it is not trained yet."""
    family, learner = name.split(":")
    run = config.runs_dir / "in_context_rl_train" / f"{config.preset}-{family}-{learner}" / "agents"
    found = sorted(run.glob("seed_*"))
    if not found and config.preset == "quick" and name in SHIPPED:
        return [shipped_model(SHIPPED[name])]
    return found


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


def loaded_agents(config: Config) -> dict[str, list[LoadedAgent]]:
    """The seeds of each agent that is trained already; its trials are as long as this run's."""
    loaded = {name: [load_agent(each) for each in folders(config, name)] for name in config.agents}
    for name, seeds in loaded.items():
        for each in seeds:
            fits = int(each.env.horizon()) == config.actions
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
    known = own_tests(family)
    for where, each in tests_of(config).items():
        if where not in known and not (padded and where == config.env):
            continue
        try:
            env, env_params = each.trials(config.actions, padded)
        except ValueError as error:
            log_once(f"note: {name} is not tested on {where}: {error}")
            continue
        controls = {"": 0}
        if config.controls:
            whole = where in (family, "lakes")
            controls = CONDITIONS if whole else {"": 0, "memory wiped": CONDITIONS["memory wiped"]}
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
        contenders[where] = {agent.full_name: agent for agent in agents}
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

    def done(what: str) -> None:
        log_once(f"{time.monotonic() - began:6.0f} s: {what}")

    sets = tests_of(config)
    for where in sets:
        tests[where] = play_rules(sets[where], config.actions, config.replicas, config.seed)
        done(f"rules on {where}")
    for name, seeds in loaded.items():
        for where, agents in evaluate_learner(config, name, seeds).items():
            tests[where] |= agents
        done(name)
    bandits = [where for where in ("two-arms", "ten-arms") if where in sets]
    if config.conversations and config.reading and bandits:
        model = tiny_language_model(folder / "teacher", config.actions, config.seed, config.reading)
        size = sum(x.size for x in jax.tree.leaves(model.params))
        for where in bandits:
            best = tests[where]["oracle"].seeds[0].best
            batch = language_batch(sets[where], config.actions, config.conversations)
            row, _ = language_row(model, folder / where, batch, config.seed, best)
            if row is not None:
                agent = Contender(f"language model of {size:,} parameters", "learner", [row])
                tests[where][agent.full_name] = agent
        done("a tiny language model")
    return Comparison(tests, ask_model(config, folder, tests, done) if config.llm.asks else ())


def ask_model(
    config: Config,
    folder: Path,
    tests: dict[str, dict[str, Contender]],
    done: Callable[[str], None],
) -> tuple[str, ...]:
    """Adds the trials of the language model behind an endpoint; returns notes for the report."""
    ledger = config.llm.ledger(log_once if config.progress else None)
    best = {where: agents["oracle"].seeds[0].best for where, agents in tests.items()}
    sizes = config.actions, config.conversations, config.seed
    notes = []
    for where, agent, note in language_rows(
        config.llm, ledger, folder, tests_of(config), best, *sizes
    ):
        if agent is not None:
            tests[where][agent.full_name] = agent
        notes += [note] if note else []
        done(f"{config.llm.name} on {where}")
    return config.llm.spent(ledger), *notes


def asked_in_words(config: Config) -> dict[str, str]:
    """Which language model is asked, and in a dry run how much; else its server is tried first.

    Raises:
      ValueError: for a server, a key or a model that is not there, or a task without explanation.
    """
    if not config.llm.asks:
        return {}
    sets, prompts = tests_of(config), config.llm.prompts
    strange = unexplained(sets, prompts)
    accepted = f"raw or summary: what the others tell does not fit {strange}"
    check_config(strange is None, "llm.prompts", prompts, accepted)
    if config.dry_run:
        log_once("counting requests and tokens ...")
        usage = expected_usage(sets, prompts, config.actions, config.conversations, config.seed)
        return {"language model": config.llm.expected(usage)}
    first = next(iter(sets.values()))
    config.llm.check(schema_of(first, prompts[0]))
    return {"language model": f"{config.llm.name}, {', '.join(prompts)}"}


def build(config: Config) -> Program:
    """Nothing is trained here: `with_agents` has trained what was missing."""
    details = asked_in_words(config)
    loaded = loaded_agents(config)
    return Program(
        title=f"{len(config.agents)} trained agents, on {', '.join(tests_of(config))}",
        details=details,
        host_measures=lambda run: compare(config, run.path / "conversations", loaded),
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns the outcome, None after a dry run."""
    return run_experiment("in_context_rl", PRESETS, build, table_report, argv, first=with_agents)
