"""How a language model is asked in the study `mental_modelling`, and what that comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpicljax.llm.budget import Ledger
from gpicljax.llm.chat import Usage, usage_of
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import check_config
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    pick_queries,
    take_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers
from gpicljax.systems.mental_modelling.prompts.paper import is_published, task_names
from gpicljax.systems.mental_modelling.prompts.questions import answer_schema, question_messages
from gpicljax.systems.mental_modelling.prompts.session import LanguageAnswers, ask_questions
from gpicljax.systems.mental_modelling.prompts.tasks import TASKS, task_text
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import PROMPTS, Config


def asked_in_words(config: Config, tasks: Iterable[str], cells: Iterable[Queries]) -> str:
    """Which language model is asked, and in a dry run how much; else its server is tried first.

    Args:
      config: the configuration; it names a model.
      tasks: ids of environments.
      cells: the queries of each task, question, form and size of history; as many of them are
        built as it takes.

    Raises:
      ValueError: for a server, a key or a model that is not there, or a task without a text.
    """
    instructed = any(PROMPTS[prompt].instructions for prompt in config.llm.prompts)
    published = any(PROMPTS[prompt].wording == "paper" for prompt in config.llm.prompts)
    for name in tasks:
        accepted = f"no-instructions: nothing is told about {name}, only about {', '.join(TASKS)}"
        told = not instructed or task_text(name) is not None
        check_config(told, "llm.prompts", config.llm.prompts, accepted)
        accepted = f"others than paper: nothing is published about {name}, only about "
        accepted += ", ".join(task_names())
        there = not published or is_published(name)
        check_config(there, "llm.prompts", config.llm.prompts, accepted)
    if config.dry_run:
        log_once("counting requests and tokens ...")
        return config.llm.expected(expected_usage(config, cells))
    schema = "{}"
    if config.llm.structured and (first := next(iter(cells), None)) is not None:
        schema = answer_schema(first, PROMPTS[config.llm.prompts[0]])
    config.llm.check(schema)
    return f"{config.llm.name}, {', '.join(config.llm.prompts)}"


def expected_usage(config: Config, cells: Iterable[Queries]) -> Usage:
    """Requests, and an estimate of the tokens read."""
    total = Usage(0, 0, 0)
    for queries in cells:
        some = pick_queries(queries, config.asked, config.seed)
        for prompt in config.llm.prompts:
            for number in range(len(some.truth)):
                total += usage_of(question_messages(some, number, PROMPTS[prompt]), "")
    return total


def cell_name(queries: Queries) -> str:
    """The folder of the replies to queries of one task, question, form and size of history."""
    return f"{queries.environment}-{queries.question}-{queries.form}-{queries.history}"


def told(
    config: Config, queries: Queries, ledger: Ledger
) -> Iterator[tuple[str, Queries, LanguageAnswers]]:
    """What a language model answers to some of the queries, by prompt, while its budget lasts.

    Queries that it was not asked any more, or has no reply to, are left out.
    """
    some = pick_queries(queries, config.asked, config.seed)
    run = config.run_folder("mental_modelling") / "replies"
    for prompt in config.llm.prompts:
        if ledger.exhausted:
            return
        settings = PROMPTS[prompt]
        cell = cell_name(queries)
        said = ask_questions(
            some,
            config.llm.client(answer_schema(some, settings)),
            run / prompt / cell,
            settings,
            budget=ledger,
            max_tokens=config.llm.max_tokens,
            at_once=config.llm.threads,
            seed=config.seed,
        )
        if not said.complete:
            log_once(f"{cell}, {prompt}: {said.in_words()}")
        which = np.flatnonzero([reply is not None for reply in said.replies])
        if len(which):
            answers = Answers(*(np.asarray(x)[which] for x in said.answers))
            yield prompt, take_queries(some, which), said._replace(answers=answers)
