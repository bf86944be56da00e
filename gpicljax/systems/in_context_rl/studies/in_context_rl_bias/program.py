"""Building and running the study `in_context_rl_bias`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from gpicljax.checks import Count
from gpicljax.llm.chat import Message, Usage, usage_of
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.runs.distributed import log_once
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, RunConfig, check_config, run_experiment
from gpicljax.runtime.failures import failures_reported
from gpicljax.spaces import Discrete
from gpicljax.systems.in_context_rl.env import TESTS, Tasks, Test
from gpicljax.systems.in_context_rl.prompts.bias import (
    AnswerBias,
    answer_bias,
    ask_first_questions,
    first_questions,
)
from gpicljax.systems.in_context_rl.prompts.language_rows import (
    PROMPTS,
    first_unexplained,
    schema_of,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl_bias.report import report

Question = tuple[int | None, bool, list[Message]]


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Asks a language model the first question of trials in all variants.

    Attributes:
      tests: Sets of tasks.
      actions: Actions of a trial, as the model is told.
      repeats: Answers of each variant.
      llm: The language model.
    """

    free: ClassVar[tuple[str, ...]] = ("preset", "tests", "repeats", "llm.prompts")

    seeds: Count = 1
    tests: tuple[Test, ...] = ("two-arms", "ten-arms", "4x4", "CliffWalking")
    actions: Count = 200
    repeats: Count = 8
    llm: LanguageModelOptions = LanguageModelOptions(prompts=("raw", "explained"), max_tokens=64)

    def validate(self) -> None:
        """Refuses what cannot be asked."""
        super().validate()
        check_config(self.seeds == 1, "seeds", self.seeds, "1: intervals are over repetitions")
        check_config(bool(self.tests), "tests", self.tests, "at least one")
        self.llm.check_prompts(PROMPTS)
        asks = self.llm.asks or self.dry_run
        check_config(asks, "llm.endpoint", None, "an endpoint, or --llm.local")
        unfit_test = first_unexplained({name: TESTS[name] for name in self.tests}, self.llm.prompts)
        expected = f"raw: nothing is known that explains {unfit_test}"
        check_config(unfit_test is None, "llm.prompts", self.llm.prompts, expected)


PRESETS = {"quick": Config(repeats=4), "full": Config()}


def questions_of(task_set: Tasks, prompt: str, actions: int) -> tuple[Discrete, list[Question]]:
    """Returns the actions of tasks, and the first question about them in all variants."""
    env = task_set.env
    space, observations = env.action_space(), env.observation_space()
    assert isinstance(space, Discrete)
    explanation = env.explanation
    return space, [*first_questions(PROMPTS[prompt], observations, space, actions, explanation)]


def _cells(config: Config) -> Iterator[tuple[str, str, Discrete, list[Question]]]:
    for test_name in config.tests:
        for prompt in config.llm.prompts:
            yield test_name, prompt, *questions_of(TESTS[test_name], prompt, config.actions)


def expected_usage(config: Config) -> Usage:
    """Returns the number of requests and tokens read."""
    total = Usage(0, 0, 0)
    for *_, questions in _cells(config):
        for *_, messages in questions:
            total += Usage(*(config.repeats * count for count in usage_of(messages, "")))
    return total


def ask(run: RunDirectory, config: Config) -> tuple[dict[tuple[str, str], AnswerBias], str]:
    """Returns the answers by tasks and prompt, and their cost; replies are stored as they come."""
    ledger = config.llm.ledger(log_once if config.progress else None)
    biases: dict[tuple[str, str], AnswerBias] = {}
    for test_name, prompt, space, questions in _cells(config):
        if ledger.exhausted:
            break
        answers = ask_first_questions(
            questions,
            space,
            config.llm.client(schema_of(TESTS[test_name], prompt)),
            run.path / "conversations" / f"{test_name}-{prompt}",
            PROMPTS[prompt],
            repeats=config.repeats,
            seed=config.seed,
            **config.llm.asking(ledger),
        )
        if answers is None:
            log_once(f"{test_name}, {prompt}: not all answers are there; the same command goes on")
            continue
        biases[test_name, prompt] = answer_bias(answers)
        log_once(f"{test_name}, {prompt}: done")
    return biases, config.llm.summarise_spending(ledger)


def build(config: Config) -> Program:
    """Returns the program, which asks a language model and trains nothing."""
    words = config.llm.name
    if config.dry_run:
        words = config.llm.expected_usage(expected_usage(config))
    else:
        config.llm.check(schema_of(TESTS[config.tests[0]], config.llm.prompts[0]))
    return Program(
        title=f"first questions of {', '.join(config.tests)}",
        details={"language model": words},
        host_measures=lambda run: ask(run, config),
    )


def main(argv: list[str] | None = None) -> dict[tuple[str, str], AnswerBias]:
    """Asks, and prints and writes the table; returns it by tasks and prompt.

    After a dry run there is none.
    """
    with failures_reported(ValueError):
        outcome = run_experiment("in_context_rl_bias", PRESETS, build, report, argv)
    return {} if outcome is None else outcome.host_measured[0]
