"""How the study `in_context_rl_bias` is built and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gpicljax.checks import Count
from gpicljax.llm.chat import Message, Usage, usage_of
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.prompts import explanation_of
from gpicljax.runs.config import as_config_error, exit_with_error
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import RunConfig, check_config, parse
from gpicljax.runtime.failures import failures_reported
from gpicljax.spaces import Discrete
from gpicljax.storage import SavedError
from gpicljax.storage.lock import LockedError
from gpicljax.systems.in_context_rl.prompts.bias import (
    AnswerBias,
    answer_bias,
    ask_first_questions,
    first_questions,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.language import (
    PROMPTS,
    schema_of,
    unexplained,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import TESTS, Tasks, Test
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
        strange = unexplained({name: TESTS[name] for name in self.tests}, self.llm.prompts)
        accepted = f"raw: nothing is known that explains {strange}"
        check_config(strange is None, "llm.prompts", self.llm.prompts, accepted)


PRESETS = {"quick": Config(repeats=4), "full": Config()}


def questions_of(each: Tasks, prompt: str, actions: int) -> tuple[Discrete, list[Question]]:
    """The actions of tasks, and the first question about them in all variants."""
    env = each.env
    space, seen = env.action_space(), env.observation_space()
    assert isinstance(space, Discrete)
    told = explanation_of(env.name)
    return space, [*first_questions(PROMPTS[prompt], seen, space, actions, told)]


def _cells(config: Config) -> Iterator[tuple[str, str, Discrete, list[Question]]]:
    for where in config.tests:
        for prompt in config.llm.prompts:
            yield where, prompt, *questions_of(TESTS[where], prompt, config.actions)


def expected_usage(config: Config) -> Usage:
    """Requests and tokens read."""
    total = Usage(0, 0, 0)
    for *_, questions in _cells(config):
        for *_, messages in questions:
            total += Usage(*(config.repeats * count for count in usage_of(messages, "")))
    return total


def main(argv: list[str] | None = None) -> dict[tuple[str, str], AnswerBias]:
    """Asks, and prints and writes the table; returns it by tasks and prompt.

    After a dry run there is none.
    """
    config = parse(PRESETS, argv, prog="gpicljax run in_context_rl_bias")
    if config.dry_run:
        log_once(f"language model: {config.llm.expected(expected_usage(config))}")
        return {}
    try:
        config.llm.check(schema_of(TESTS[config.tests[0]], config.llm.prompts[0]))
    except ValueError as error:
        exit_with_error(as_config_error(error, config))
    folder = config.runs_dir / "in_context_rl_bias" / config.run_name
    ledger = config.llm.ledger(log_once if config.progress else None)
    found: dict[tuple[str, str], AnswerBias] = {}
    with failures_reported(SavedError, LockedError, ValueError):
        for where, prompt, space, questions in _cells(config):
            if ledger.exhausted:
                break
            answers = ask_first_questions(
                questions,
                space,
                config.llm.client(schema_of(TESTS[where], prompt)),
                folder / "conversations" / f"{where}-{prompt}",
                PROMPTS[prompt],
                repeats=config.repeats,
                budget=ledger,
                max_tokens=config.llm.max_tokens,
                at_once=config.llm.threads,
                seed=config.seed,
            )
            if answers is None:
                log_once(f"{where}, {prompt}: not all answers are there; the same command goes on")
                continue
            found[where, prompt] = answer_bias(answers)
            log_once(f"{where}, {prompt}: done")
        spent = config.llm.spent(ledger)
        log_once(report(folder, config.llm.name, config.repeats, found, spent))
    return found
