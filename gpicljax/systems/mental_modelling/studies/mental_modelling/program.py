"""How the study `mental_modelling` is built and run."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.llm.budget import Ledger
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.runs.distributed import log_once
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, RunResult, named_key, run_experiment
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers
from gpicljax.systems.mental_modelling.measures.physics import is_lawful, physics_answers
from gpicljax.systems.mental_modelling.measures.questions import Queries
from gpicljax.systems.mental_modelling.measures.reader import (
    Reader,
    answers_of_readers,
    reader_answers,
    train_readers,
)
from gpicljax.systems.mental_modelling.measures.results import (
    Comparison,
    QuestionResult,
    best_rule,
    compare,
    pooled,
    result_row,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers, score_answers
from gpicljax.systems.mental_modelling.studies.mental_modelling.collect import collect, load
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import PRESETS, Config
from gpicljax.systems.mental_modelling.studies.mental_modelling.language import (
    asked_in_words,
    told,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling.queries import (
    cells_of,
    episodes_of,
    histories_of,
    long_enough,
    queries_of,
    split,
    tasks_of,
)
from gpicljax.systems.mental_modelling.studies.mental_modelling.report import OTHER_KINDS, report
from gpicljax.systems.mental_modelling.studies.mental_modelling.review import review


def build(config: Config) -> Program:
    """Nothing but readers is trained, and these are no agents."""
    tasks = tasks_of(config)
    details = {"language model": "none"}
    if config.llm.asks:
        details = {"language model": asked_in_words(config, tasks, cells_of(config, tasks))}

    def measured(run: RunDirectory) -> dict[str, Any]:
        rows: list[QuestionResult] = []
        compared: list[Comparison] = []
        records: list[ICLRecord] = []
        readers: dict[str, Any] = {}
        ledger = config.llm.ledger(log_once if config.progress else None)
        for name, folders in tasks.items():
            some, beside, learning, about = _task(config, name, episodes_of(folders), ledger)
            rows += some
            compared += beside
            records += learning
            readers[name] = about
        spent = config.llm.spent(ledger) if config.llm.asks else ""
        return {
            "rows": rows,
            "compared": compared,
            "icl": records,
            "about": {"tasks": readers, "language_model": spent},
        }

    return Program(
        title=f"Mental modelling of agents in {', '.join(tasks)}",
        details=details,
        host_measures=measured,
    )


def kind_of(name: str) -> str:
    """The kind of an agent, by its name."""
    return name.partition(" ")[0]


def keys_of(config: Config, name: str) -> list[jax.Array]:
    """A key for each seed's reader."""
    root = named_key(config.seed, name)
    return [jax.random.fold_in(root, np.uint32(n)) for n in range(config.seeds)]


def _jit_within_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    return within_memory(jax.jit(function), "the training of a reader")


class Strangers(NamedTuple):
    """Readers that have each seen all kinds of agents but one.

    Attributes:
      readers: of each seed, one for each kind that is asked about.
      which: `int[N]`, which of them is asked about an episode.
    """

    readers: list[list[Reader]]
    which: np.ndarray


def strangers(config: Config, name: str, known: Episodes, asked: Episodes) -> Strangers | None:
    """Trains them; None where there are no agents of other kinds for one of them."""
    kinds = list(dict.fromkeys(map(kind_of, asked.agents)))
    others = [np.array([kind_of(agent) != kind for agent in known.agents]) for kind in kinds]
    if not all(some.any() for some in others):
        return None
    trained = [
        train_readers(
            keys_of(config, f"{name} without {kind}"),
            take_episodes(known, some),
            config.reader,
            decimals=config.decimals,
            jit=_jit_within_memory,
        )
        for kind, some in zip(kinds, others, strict=True)
    ]
    readers = [list(each) for each in zip(*trained, strict=True)]
    return Strangers(readers, np.array([kinds.index(kind_of(agent)) for agent in asked.agents]))


def answers_of_all(
    queries: Queries, readers: Sequence[Reader] = (), others: Strangers | None = None
) -> dict[str, list[Answers]]:
    """The answers of everything but language models: of rules one, of readers one for each seed."""
    rules = baseline_answers(queries)
    if is_lawful(queries):
        # With less history than a law needs, what regression says.
        rules["physics"] = physics_answers(queries) or rules["ridge regression"]
    found = {name: [answers] for name, answers in rules.items()}
    if readers:
        found["reader"] = [reader_answers(reader, queries) for reader in readers]
    if others is not None:
        which = others.which[queries.episode]
        found[OTHER_KINDS] = [answers_of_readers(each, queries, which) for each in others.readers]
    return found


def nulls_of(
    config: Config, known: Episodes | None, sizes: tuple[int, ...]
) -> Iterator[str | None]:
    """The best rule for each question and form, chosen on the agents that are not asked about.

    None for all where there are no such agents.
    """
    long = long_enough(known, sizes) if known is not None else None
    if long is None or not len(long.length) or max(sizes) == 0:
        yield from itertools.repeat(None)
    else:
        yield from map(best_rule, queries_of(config, long, sizes))


def icl_of_reader(
    name: str, sizes: tuple[int, ...], asked: list[Queries], found: list[dict[str, list[Answers]]]
) -> list[ICLRecord]:
    """The reader's accuracy on one question by size of history, beside rules on the same queries.

    Empty for other questions than the next action, or without a reader or a history.
    """
    first = asked[0]
    wanted = first.question == "next_action" and first.form != "absolute"
    if not wanted or len(sizes) < 2 or "reader" not in found[0]:
        return []
    right = {
        answerer: np.array(
            [
                [score_answers(queries, said).right for said in each[answerer]]
                for queries, each in zip(asked, found, strict=True)
            ],
            np.float64,
        ).transpose(1, 2, 0)
        for answerer in ("reader", *baseline_answers(first))
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


def _task(
    config: Config, name: str, episodes: Episodes, ledger: Ledger
) -> tuple[list[QuestionResult], list[Comparison], list[ICLRecord], dict[str, Any]]:
    """Rows, comparisons and records of one task, and what else to report about it."""
    known, asked = split(config, episodes)
    sizes = histories_of(config, asked)
    long = long_enough(asked, sizes)
    readers, others, nats = [], None, float("nan")
    if known is not None:
        keys = keys_of(config, name)
        readers = train_readers(
            keys, known, config.reader, decimals=config.decimals, jit=_jit_within_memory
        )
        nats = float(np.mean([reader.nats[-10:] for reader in readers]))
        others = strangers(config, name, known, long) if config.other_kinds else None
    kinds = np.array([kind_of(agent) for agent in asked.agents])
    about = {
        "agents": len(set(asked.agents)),
        "episodes": len(asked.length),
        "mean_return": float(asked.returns.mean()),
        "returns": {
            kind: float(asked.returns[kinds == kind].mean()) for kind in dict.fromkeys(kinds)
        },
        "agents_read": len(set(known.agents)) if known else 0,
        "readers": len(readers),
        "reader_nats": nats,
        "histories": list(sizes),
    }
    log_once(
        f"{name}: {about['agents']} unseen agents, {about['episodes']} episodes, nats {nats:.3f}"
    )
    rows: list[QuestionResult] = []
    compared: list[Comparison] = []
    records: list[ICLRecord] = []
    nulls = nulls_of(config, known, sizes)
    for asked, null in zip(queries_of(config, long, sizes), nulls, strict=False):
        # With nothing else to choose it on, the rule is the best on these very queries.
        chosen = null or (best_rule(asked) if max(sizes) else "majority")
        answers = [answers_of_all(queries, readers, others) for queries in asked]
        records += icl_of_reader(name, sizes, asked, answers)
        for answerer, said in answers[0].items():
            triples = _beside(asked, answers, answerer, chosen)
            rows += _rows(triples, answerer, len(said))
            compared += _compared(triples, answerer, chosen, readers=len(said))
            if answerer == OTHER_KINDS:
                usual = _beside(asked, answers, answerer, "reader")
                compared += _compared(usual, answerer, "reader", readers=len(said))
        if config.llm.asks:
            some, more = _language(config, asked, chosen, ledger)
            rows += some
            compared += more
    return rows, compared, records, about


Triple = tuple[Queries, Answers, Answers]
"""Queries of one size of history, the answers to them, and those of what they are compared with."""


def _beside(
    asked: Sequence[Queries],
    answers: Sequence[Mapping[str, Sequence[Answers]]],
    answerer: str,
    other: str,
) -> list[Triple]:
    """Two answerers side by side, for each size of history."""
    both = zip(asked, answers, strict=True)
    return [pooled(queries, each[answerer], each[other]) for queries, each in both]


def _language(
    config: Config, asked: Sequence[Queries], null: str, ledger: Ledger
) -> tuple[list[QuestionResult], list[Comparison]]:
    """Rows and comparisons of a language model with one question, by prompt."""
    answered: dict[str, list[Triple]] = {}
    echoes: Counter[str] = Counter()
    tallies: defaultdict[str, ReplyTally] = defaultdict(ReplyTally)
    for queries in asked:
        for prompt, some, said in told(config, queries, ledger):
            rule = baseline_answers(some)[null]
            answered.setdefault(prompt, []).append((some, said.answers, rule))
            if queries.history > 0:
                echoes[prompt] += said.echoes
                tallies[prompt] += said.tally
    rows: list[QuestionResult] = []
    compared: list[Comparison] = []
    for prompt, triples in answered.items():
        rows += _rows(triples, config.llm.name, prompt=prompt)
        counts = tallies[prompt].counts
        more = {"prompt": prompt, "echoes": echoes[prompt]}
        more |= {"refused": counts["refused"], "cut_off": counts["cut off"]}
        compared += _compared(triples, config.llm.name, null, **more)
    return rows, compared


def _rows(
    triples: Sequence[Triple], answerer: str, readers: int = 1, prompt: str = ""
) -> Iterator[QuestionResult]:
    for queries, said, _ in triples:
        row = result_row(queries, answerer, said, prompt)
        yield dataclasses.replace(row, queries=row.queries // readers)


def _compared(
    triples: Sequence[Triple], answerer: str, null: str, **more: Any
) -> Iterator[Comparison]:
    if (found := compare(triples, answerer, null, **more)) is not None:
        yield found


def main(argv: list[str] | None = None) -> RunResult | Path | None:
    """Runs the experiment, or what the first argument names."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    kinds = {"collect": collect, "load": load, "review": review}
    if arguments and arguments[0] in kinds:
        return kinds[arguments[0]](arguments[1:])
    return run_experiment("mental_modelling", PRESETS, build, report, arguments)
