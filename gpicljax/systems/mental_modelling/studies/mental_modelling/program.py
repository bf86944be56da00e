"""How the study `mental_modelling` is built and run."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.llm.budget import Ledger
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import Program, RunResult, named_key, run_experiment
from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers
from gpicljax.systems.mental_modelling.measures.physics import is_lawful, physics_answers
from gpicljax.systems.mental_modelling.measures.questions import Queries
from gpicljax.systems.mental_modelling.measures.reader import (
    Reader,
    answers_of_readers,
    reader_answers,
    train_reader,
)
from gpicljax.systems.mental_modelling.measures.results import (
    Comparison,
    Row,
    best_rule,
    compare,
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

    def measured() -> dict[str, Any]:
        rows: list[Row] = []
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
    """The kind of an agent, by its name.

    Example:
      >>> kind_of("double-dqn expert 0")
      'double-dqn'
    """
    return name.partition(" ")[0]


class Strangers(NamedTuple):
    """Readers that have each seen all kinds of agents but one.

    Attributes:
      readers: one for each kind that is asked about.
      which: `int[N]`, which of them is asked about an episode.
    """

    readers: list[Reader]
    which: np.ndarray


def strangers(config: Config, name: str, known: Episodes, asked: Episodes) -> Strangers | None:
    """Trains them; None where there are no agents of other kinds for one of them."""
    kinds = list(dict.fromkeys(map(kind_of, asked.agents)))
    others = [np.array([kind_of(agent) != kind for agent in known.agents]) for kind in kinds]
    if not all(some.any() for some in others):
        return None
    readers = [
        train_reader(
            named_key(config.seed, f"{name} without {kind}"),
            take_episodes(known, some),
            config.reader,
            decimals=config.decimals,
        )
        for kind, some in zip(kinds, others, strict=True)
    ]
    return Strangers(readers, np.array([kinds.index(kind_of(agent)) for agent in asked.agents]))


def answers_of_all(
    queries: Queries, reader: Reader | None, others: Strangers | None = None
) -> dict[str, Answers]:
    """The answers of everything but language models."""
    found = baseline_answers(queries)
    if is_lawful(queries):
        # With less history than a law needs, what regression says.
        found["physics"] = physics_answers(queries) or found["ridge regression"]
    if reader is not None:
        found["reader"] = reader_answers(reader, queries)
    if others is not None:
        which = others.which[queries.episode]
        found[OTHER_KINDS] = answers_of_readers(others.readers, queries, which)
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
    name: str, sizes: tuple[int, ...], asked: list[Queries], found: list[dict[str, Answers]]
) -> list[ICLRecord]:
    """The reader's accuracy on one question by size of history, beside rules on the same queries.

    Empty for other questions than the next action, or without a reader or a history.
    """
    first = asked[0]
    wanted = first.question == "next_action" and first.form != "absolute"
    if not wanted or len(sizes) < 2 or "reader" not in found[0]:
        return []
    right = {
        answerer: np.stack(
            [
                score_answers(queries, each[answerer]).right
                for queries, each in zip(asked, found, strict=True)
            ],
            1,
        ).astype(np.float64)
        for answerer in ("reader", *baseline_answers(first))
    }
    reader = right.pop("reader")
    return [
        icl_record(
            {
                "agent": reader,
                "memory wiped": np.repeat(reader[:, :1], len(sizes), 1),
                "oracle": np.ones_like(reader),
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
) -> tuple[list[Row], list[Comparison], list[ICLRecord], dict[str, Any]]:
    """Rows, comparisons and records of one task, and what else to report about it."""
    known, asked = split(config, episodes)
    sizes = histories_of(config, asked)
    long = long_enough(asked, sizes)
    reader, others, nats = None, None, float("nan")
    if known is not None:
        key = named_key(config.seed, name)
        reader = train_reader(key, known, config.reader, decimals=config.decimals)
        nats = float(reader.nats[-10:].mean())
        others = strangers(config, name, known, long) if config.other_kinds else None
    about = {
        "agents": len(set(asked.agents)),
        "episodes": len(asked.length),
        "mean_return": float(asked.returns.mean()),
        "agents_read": len(set(known.agents)) if known else 0,
        "reader_nats": nats,
        "histories": list(sizes),
    }
    log_once(
        f"{name}: {about['agents']} unseen agents, {about['episodes']} episodes, nats {nats:.3f}"
    )
    rows: list[Row] = []
    compared: list[Comparison] = []
    records: list[ICLRecord] = []
    nulls = nulls_of(config, known, sizes)
    for asked, null in zip(queries_of(config, long, sizes), nulls, strict=False):
        # With nothing else to choose it on, the rule is the best on these very queries.
        chosen = null or (best_rule(asked) if max(sizes) else "majority")
        answered: dict[tuple[str, str], list[tuple[Queries, Answers, Answers]]] = {}
        echoes: Counter[tuple[str, str]] = Counter()
        answers = [answers_of_all(queries, reader, others) for queries in asked]
        records += icl_of_reader(name, sizes, asked, answers)
        for queries, found in zip(asked, answers, strict=True):
            for answerer, said in found.items():
                answered.setdefault((answerer, ""), []).append((queries, said, found[chosen]))
            for prompt, some, said in told(config, queries, ledger) if config.llm.asks else ():
                rule, asked_so = baseline_answers(some)[chosen], (config.llm.name, prompt)
                answered.setdefault(asked_so, []).append((some, said.answers, rule))
                echoes[asked_so] += said.echoes * (queries.history > 0)
        for (answerer, prompt), triples in answered.items():
            rows += [result_row(queries, answerer, said, prompt) for queries, said, _ in triples]
            repeated = echoes[answerer, prompt]
            compared += filter(None, [compare(triples, answerer, chosen, prompt, repeated)])
    return rows, compared, records, about


def main(argv: list[str] | None = None) -> RunResult | Path | None:
    """Runs the experiment, or what the first argument names."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    kinds = {"collect": collect, "load": load, "review": review}
    if arguments and arguments[0] in kinds:
        return kinds[arguments[0]](arguments[1:])
    return run_experiment("mental_modelling", PRESETS, build, report, arguments)
