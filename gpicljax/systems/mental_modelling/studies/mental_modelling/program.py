"""Building and running the study `mental_modelling`."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.llm.budget import Ledger
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.runs.distributed import log_once
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, RunResult, named_key, run_experiment
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.mental_modelling.data.episodes import Episodes
from gpicljax.systems.mental_modelling.measures.other_kinds import (
    OtherKindReaders,
    kind_of,
    leads_by_amount,
    train_other_kind_readers,
)
from gpicljax.systems.mental_modelling.measures.physics import answers_of_rules
from gpicljax.systems.mental_modelling.measures.questions import Queries
from gpicljax.systems.mental_modelling.measures.reader import (
    TrainedReader,
    answers_of_readers,
    reader_answers,
    train_readers,
)
from gpicljax.systems.mental_modelling.measures.results import (
    NULL,
    OTHER_KINDS,
    Comparison,
    QuestionResult,
    answers_of_chosen,
    choose_rules,
    compare,
    pool_readers,
    result_row,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import PRESETS, Config
from gpicljax.systems.mental_modelling.studies.mental_modelling.language_answers import (
    describe_language_model,
    language_model_answers,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling.queries import (
    cells_of,
    episodes_of,
    histories_of,
    queries_of,
    split_episodes,
    take_long_enough,
    tasks_of,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling.report import report
from gpicljax.systems.mental_modelling.studies.mental_modelling_data.program import collect, load
from gpicljax.systems.mental_modelling.studies.mental_modelling_review.program import review


def build(config: Config) -> Program:
    """Returns the program; only readers are trained, which are no agents."""
    tasks = tasks_of(config)
    details = {"language model": "none"}
    if config.llm.asks:
        details = {
            "language model": describe_language_model(config, tasks, cells_of(config, tasks))
        }

    def measure(run: RunDirectory) -> dict[str, Any]:
        rows: list[QuestionResult] = []
        comparisons: list[Comparison] = []
        records: list[ICLRecord] = []
        readers: dict[str, Any] = {}
        ledger = config.llm.ledger(log_once if config.progress else None)
        for name, folders in tasks.items():
            task_rows, task_comparisons, task_records, about = _measure_task(
                config, name, episodes_of(folders), ledger
            )
            rows += task_rows
            comparisons += task_comparisons
            records += task_records
            readers[name] = about
        spent = config.llm.summarise_spending(ledger) if config.llm.asks else ""
        return {
            "rows": rows,
            "compared": comparisons,
            "icl": records,
            "about": {"tasks": readers, "language_model": spent},
        }

    return Program(
        title=f"Mental modelling of agents in {', '.join(tasks)}",
        details=details,
        host_measures=measure,
    )


def train_seeds(
    config: Config, name: str, episodes: Episodes, seeds: Sequence[int] | None = None
) -> list[TrainedReader]:
    """Trains a reader for each seed, by default those of the study; see `other_kinds.Train`."""
    root = named_key(config.seed, name)
    return train_readers(
        [jax.random.fold_in(root, np.uint32(seed)) for seed in seeds or range(config.seeds)],
        episodes,
        config.reader,
        decimals=config.decimals,
        jit=lambda function: within_memory(jax.jit(function), "the training of a reader"),
    )


def answers_of_all(
    queries: Queries,
    rule_answers: Mapping[str, Answers],
    rules: Sequence[str],
    readers: Sequence[TrainedReader] = (),
    other_kind_readers: OtherKindReaders | None = None,
) -> dict[str, list[Answers]]:
    """Returns the answers of rules and the null, one each, and of readers, one for each seed."""
    answers_by_name = {name: [answers] for name, answers in rule_answers.items()}
    answers_by_name[NULL] = [answers_of_chosen(queries, rule_answers, rules)]
    if readers:
        answers_by_name["reader"] = [reader_answers(reader, queries) for reader in readers]
    if other_kind_readers is not None:
        reader_numbers = other_kind_readers.reader_numbers[queries.episode]
        answers_by_name[OTHER_KINDS] = [
            answers_of_readers(seed_readers, queries, reader_numbers)
            for seed_readers in other_kind_readers.readers
        ]
    return answers_by_name


def icl_of_reader(
    name: str,
    sizes: tuple[int, ...],
    sized_queries: list[Queries],
    answers_by_size: list[dict[str, list[Answers]]],
) -> list[ICLRecord]:
    """Returns the reader's accuracy on one question by size of history, beside rules.

    Empty for other questions than the next action, or without a reader or a history.
    """
    first = sized_queries[0]
    is_reported = first.question == "next_action" and first.form != "absolute"
    if not is_reported or len(sizes) < 2 or "reader" not in answers_by_size[0]:
        return []
    right = {
        answerer: np.array(
            [
                [score_answers(queries, answers).right for answers in size_answers[answerer]]
                for queries, size_answers in zip(sized_queries, answers_by_size, strict=True)
            ],
            np.float64,
        ).transpose(1, 2, 0)
        for answerer in sorted(answers_by_size[0].keys() - {OTHER_KINDS})
    }
    reader = right.pop("reader")
    return [
        icl_record(
            {
                "agent": reader,
                "memory wiped": np.repeat(reader[..., :1], len(sizes), 2),
                "oracle": np.ones_like(reader[0]),
            },
            right,
            system="Mental modelling",
            task=f"{name}, next action",
            agent="reader of agents",
            measure="accuracy",
            context="steps of history",
            oracle="every answer right",
            positions=sizes,
        )
    ]


def _measure_task(
    config: Config, name: str, episodes: Episodes, ledger: Ledger
) -> tuple[list[QuestionResult], list[Comparison], list[ICLRecord], dict[str, Any]]:
    """Returns rows, comparisons and records of one task, and other facts about it."""
    training_episodes, test_episodes = split_episodes(config, episodes)
    sizes = histories_of(config, test_episodes)
    long = take_long_enough(test_episodes, sizes)
    readers, other_kind_readers, nats = [], None, float("nan")
    train = functools.partial(train_seeds, config)
    if training_episodes is not None:
        readers = train(name, training_episodes)
        nats = float(np.mean([reader.nats[-10:] for reader in readers]))
        other_kind_readers = (
            train_other_kind_readers(train, name, training_episodes, long)
            if config.other_kinds
            else None
        )
    kinds = np.array([kind_of(agent) for agent in test_episodes.agents])
    about = {
        "agents": len(set(test_episodes.agents)),
        "episodes": len(test_episodes.length),
        "mean_return": float(test_episodes.returns.mean()),
        "returns": {
            kind: float(test_episodes.returns[kinds == kind].mean())
            for kind in dict.fromkeys(kinds)
        },
        "agents_read": len(set(training_episodes.agents)) if training_episodes else 0,
        "readers": len(readers),
        "reader_nats": nats,
        "histories": list(sizes),
    }
    log_once(
        f"{name}: {about['agents']} unseen agents, {about['episodes']} episodes, nats {nats:.3f}"
    )
    rows: list[QuestionResult] = []
    comparisons: list[Comparison] = []
    records: list[ICLRecord] = []
    asked: list[tuple[Queries, Answers]] = []
    for sized_queries in queries_of(config, long, sizes):
        sized_rules = [answers_of_rules(queries) for queries in sized_queries]
        rules = choose_rules(sized_queries, sized_rules, long.agents)
        null = ", ".join(rule for rule, _ in Counter(rules).most_common())
        answers = [
            answers_of_all(*asked, rules, readers, other_kind_readers)
            for asked in zip(sized_queries, sized_rules, strict=True)
        ]
        asked += [
            (queries, size_answers[NULL][0])
            for queries, size_answers in zip(sized_queries, answers, strict=True)
            if queries.history > 0 and queries.form != "absolute"
        ]
        records += icl_of_reader(name, sizes, sized_queries, answers)
        for answerer, answerer_answers in answers[0].items():
            triples = _pair_answers(sized_queries, answers, answerer, NULL)
            rows += _rows(triples, answerer, len(answerer_answers))
            comparisons += _comparisons(triples, answerer, null, readers=len(answerer_answers))
            if answerer == OTHER_KINDS:
                reader_triples = _pair_answers(sized_queries, answers, answerer, "reader")
                comparisons += _comparisons(
                    reader_triples, answerer, "reader", readers=len(answerer_answers)
                )
        if config.llm.asks:
            model_rows, model_comparisons = _measure_language_model(
                config, sized_queries, rules, null, ledger
            )
            rows += model_rows
            comparisons += model_comparisons
    if config.amounts and training_episodes is not None:
        seeds = range(config.seeds)
        leads = leads_by_amount(train, name, seeds, training_episodes, long.agents, asked)
        about["amounts"] = [*leads]
    return rows, comparisons, records, about


Triple = tuple[Queries, Answers, Answers]
"""Queries of one size of history, the answers to them, and those of what they are compared with."""


def _pair_answers(
    sized_queries: Sequence[Queries],
    answers: Sequence[Mapping[str, Sequence[Answers]]],
    answerer: str,
    opponent: str,
) -> list[Triple]:
    """Returns two answerers side by side, for each size of history."""
    pairs = zip(sized_queries, answers, strict=True)
    return [
        pool_readers(queries, size_answers[answerer], size_answers[opponent])
        for queries, size_answers in pairs
    ]


def _measure_language_model(
    config: Config,
    sized_queries: Sequence[Queries],
    rules: Sequence[str],
    null: str,
    ledger: Ledger,
) -> tuple[list[QuestionResult], list[Comparison]]:
    """Returns rows and comparisons of a language model with one question, by prompt."""
    answered: dict[str, list[Triple]] = {}
    echoes: Counter[str] = Counter()
    tallies: defaultdict[str, ReplyTally] = defaultdict(ReplyTally)
    for queries in sized_queries:
        for prompt, answered_queries, language_answers in language_model_answers(
            config, queries, ledger
        ):
            rule = answers_of_chosen(answered_queries, answers_of_rules(answered_queries), rules)
            answered.setdefault(prompt, []).append(
                (answered_queries, language_answers.answers, rule)
            )
            if queries.history > 0:
                echoes[prompt] += language_answers.echoes
                tallies[prompt] += language_answers.tally
    rows: list[QuestionResult] = []
    comparisons: list[Comparison] = []
    for prompt, triples in answered.items():
        rows += _rows(triples, config.llm.name, prompt=prompt)
        counts = tallies[prompt].counts
        options = {"prompt": prompt, "echoes": echoes[prompt]}
        options |= {"refused": counts["refused"], "cut_off": counts["cut off"]}
        comparisons += _comparisons(triples, config.llm.name, null, **options)
    return rows, comparisons


def _rows(
    triples: Sequence[Triple], answerer: str, readers: int = 1, prompt: str = ""
) -> Iterator[QuestionResult]:
    for queries, answers, _ in triples:
        row = result_row(queries, answerer, answers, prompt)
        yield dataclasses.replace(row, queries=row.queries // readers)


def _comparisons(
    triples: Sequence[Triple], answerer: str, null: str, **options: Any
) -> Iterator[Comparison]:
    if (comparison := compare(triples, answerer, null, **options)) is not None:
        yield comparison


def main(argv: list[str] | None = None) -> RunResult | Path | None:
    """Runs the experiment, or the command that the first argument names."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    kinds = {"collect": collect, "load": load, "review": review}
    if arguments and arguments[0] in kinds:
        return kinds[arguments[0]](arguments[1:])
    return run_experiment("mental_modelling", PRESETS, build, report, arguments)
