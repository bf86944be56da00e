"""Language models in the study `mental_modelling`: requests, replies and their number."""

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


def describe_language_model(config: Config, tasks: Iterable[str], cells: Iterable[Queries]) -> str:
    """Returns the language model in words, in a dry run with its usage; else tries its server.

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
        expected = f"no-instructions: nothing is told about {name}, only about {', '.join(TASKS)}"
        has_text = not instructed or task_text(name) is not None
        check_config(has_text, "llm.prompts", config.llm.prompts, expected)
        expected = f"others than paper: nothing is published about {name}, only about "
        expected += ", ".join(task_names())
        has_publication = not published or is_published(name)
        check_config(has_publication, "llm.prompts", config.llm.prompts, expected)
    if config.dry_run:
        log_once("counting requests and tokens ...")
        return config.llm.expected_usage(expected_usage(config, cells))
    schema = "{}"
    if config.llm.structured and (first := next(iter(cells), None)) is not None:
        schema = answer_schema(first, PROMPTS[config.llm.prompts[0]])
    config.llm.check(schema)
    return f"{config.llm.name}, {', '.join(config.llm.prompts)}"


def expected_usage(config: Config, cells: Iterable[Queries]) -> Usage:
    """Returns the number of requests, and an estimate of the tokens read."""
    total = Usage(0, 0, 0)
    for queries in cells:
        picked = pick_queries(queries, config.asked, config.seed)
        for prompt in config.llm.prompts:
            for number in range(len(picked.truth)):
                total += usage_of(question_messages(picked, number, PROMPTS[prompt]), "")
    return total


def cell_name(queries: Queries) -> str:
    """Returns the folder of the replies to one task, question, form and size of history."""
    return f"{queries.environment}-{queries.question}-{queries.form}-{queries.history}"


def language_model_answers(
    config: Config, queries: Queries, ledger: Ledger
) -> Iterator[tuple[str, Queries, LanguageAnswers]]:
    """Yields a language model's answers to some of the queries, by prompt, while its budget lasts.

    Queries that it was not asked any more, or has no reply to, are left out.
    """
    picked = pick_queries(queries, config.asked, config.seed)
    run = config.run_folder("mental_modelling") / "replies"
    for prompt in config.llm.prompts:
        if ledger.exhausted:
            return
        settings = PROMPTS[prompt]
        cell = cell_name(queries)
        language_answers = ask_questions(
            picked,
            config.llm.client(answer_schema(picked, settings)),
            run / prompt / cell,
            settings,
            seed=config.seed,
            **config.llm.asking(ledger),
        )
        if not language_answers.is_complete:
            log_once(f"{cell}, {prompt}: {language_answers.in_words()}")
        indices = np.flatnonzero([reply is not None for reply in language_answers.replies])
        if len(indices):
            answers = Answers(*(np.asarray(x)[indices] for x in language_answers.answers))
            yield prompt, take_queries(picked, indices), language_answers._replace(answers=answers)
