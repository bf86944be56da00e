"""Sheets on which replies are judged, and Tables 1 and 2: `mental_modelling.py review`.

    python experiments/mental_modelling.py review --run runs/mental_modelling/quick
    python experiments/mental_modelling.py review --scored anna.json bert.json

The first makes a page from the replies that a run has stored; a reviewer judges them there, and the
page saves a file. The second scores such files, beside the paper's numbers.

Source: section 5.3 of Lu et al. (2024), "Mental modelling of reinforcement learning agents by
language models": the replies that are reviewed there judge an action that is proposed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpicljax.checks import Count, Natural, check
from gpicljax.data.transcripts import read_transcript
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.llm.chat import Message
from gpicljax.runs.arguments import read_arguments
from gpicljax.runs.config_json import from_json
from gpicljax.runs.distributed import log_once
from gpicljax.runtime.failures import failures_reported
from gpicljax.storage import SavedError
from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.folders import with_folder
from gpicljax.storage.reading import read_json
from gpicljax.systems.mental_modelling.figures.review import (
    Reply,
    agreement_figure,
    errors_figure,
    review_page,
)
from gpicljax.systems.mental_modelling.measures.published import ERRORS, TABLE_1, TABLE_2
from gpicljax.systems.mental_modelling.measures.questions import Queries, pick_queries
from gpicljax.systems.mental_modelling.measures.reviews import (
    Review,
    compare_judgements,
    load_review,
    pairs_of,
)
from gpicljax.systems.mental_modelling.measures.scoring import answers_of, score_answers
from gpicljax.systems.mental_modelling.prompts.questions import answer_in, question_messages
from gpicljax.systems.mental_modelling.studies.mental_modelling.config import PROMPTS, Config
from gpicljax.systems.mental_modelling.studies.mental_modelling.language_answers import cell_name
from gpicljax.systems.mental_modelling.studies.mental_modelling.queries import cells_of, tasks_of
from gpicljax.viz.style import save_figure


@dataclasses.dataclass(frozen=True)
class ReviewConfig:
    """Makes a sheet for judging a language model's replies, or scores filled sheets.

    Attributes:
      run: Folder of a run that asked a language model.
      data: Folder with the episodes that it asked about; by default the one in its configuration.
      task: Id of an environment.
      question: One of the questions; the paper's reviewers judged `argue`.
      prompt: The prompt; by default the first of the run.
      history: Size of history.
      replies: Replies on the sheet, at most.
      scored: Files that the sheet saved, to be scored.
      out: Folder to write to; by default `review` in the run's folder, or that of the first file.
    """

    run: Path | None = None
    data: Path | None = None
    task: str = "MountainCar-v0"
    question: str = "argue"
    prompt: str | None = None
    history: Natural = 3
    replies: Count = 50
    scored: tuple[Path, ...] = ()
    out: Path | None = None


def review(argv: Sequence[str] | None = None) -> Path:
    """Makes a sheet or scores filled ones; returns the written page or tables."""
    config = read_arguments(ReviewConfig, args=argv, prog="gpicljax run mental_modelling review")
    with failures_reported(ValueError):
        has_one_source = (config.run is None) != (not config.scored)
        check(
            has_one_source,
            "run",
            config.run,
            "a run's folder to make a sheet of, or --scored FILES",
        )
        return _write_scores(config) if config.scored else _write_sheet(config)


# The sheet ---------------------------------------------------------------------------------------


def _write_sheet(config: ReviewConfig) -> Path:
    """Writes the page about the replies of one cell of a run."""
    assert config.run is not None
    run = _read_run_config(config.run)
    if config.data is not None:
        run = dataclasses.replace(run, data=config.data)
    prompt = config.prompt or run.llm.prompts[0]
    check(prompt in run.llm.prompts, "prompt", prompt, ", ".join(run.llm.prompts))
    queries = _cell_queries(run, config)
    folder = config.run / "replies" / prompt / cell_name(queries)
    replies = stored_replies(folder, queries, prompt)
    name = f"{prompt}-{cell_name(queries)}"
    check(len(replies) > 0, "run", str(config.run), f"one with replies in {folder}")
    if len(replies) > config.replies:
        indices = np.random.default_rng(run.seed).permutation(len(replies))[: config.replies]
        replies = [replies[n] for n in np.sort(indices)]
    words = f"{config.task}, {config.question.replace('_', ' ')}, history {config.history}"
    page = review_page(f"{run.llm.name}: {words}", run.llm.name, replies)
    target = (config.out or config.run / "review") / f"{name}.html"
    write_atomically(with_folder(target), page)
    right = sum(reply.automatic for reply in replies)
    log_once(f"{target}: {len(replies)} replies, {right} of them right by the agent's actions")
    return target


def _read_run_config(run: Path) -> Config:
    """Returns the configuration of a run that asked a language model."""
    path = run / "config.json"
    try:
        stored = read_json(path)
        stored.pop("experiment", None)
        config = from_json(Config, stored)
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise SavedError(f"{path} is damaged, or of another study ({error})") from error
    check(config.llm.asks, "run", str(run), "a run that asked a language model (--llm.endpoint)")
    return config


def _cell_queries(run: Config, config: ReviewConfig) -> Queries:
    """Returns the queries of one cell; of its first form where there are several."""
    check(config.question in run.questions, "question", config.question, ", ".join(run.questions))
    cell_config = dataclasses.replace(run, questions=(config.question,), tasks=(config.task,))
    sizes = []
    for queries in cells_of(cell_config, tasks_of(cell_config)):
        if queries.history == config.history:
            return pick_queries(queries, run.asked, run.seed)
        sizes.append(queries.history)
    raise ValueError(f"history: got {config.history}; accepted: {', '.join(map(str, sizes))}")


def stored_replies(folder: Path, queries: Queries, prompt: str) -> list[Reply]:
    """Returns the stored replies to queries, with their questions, in order.

    Queries without a reply are left out.

    Raises:
      SavedError: for a damaged transcript, or one of other queries.
    """
    replies: list[Reply] = []
    settings = PROMPTS[prompt]
    for episode in dict.fromkeys(queries.episode.tolist()):
        path = folder / f"episode_{episode:04d}.jsonl"
        if not path.exists():
            continue
        numbers = np.flatnonzero(queries.episode == episode).tolist()
        turns = [turn for turn in read_transcript(path)[1] if "reply" in turn]
        for number, turn in zip(numbers, turns, strict=False):
            messages = question_messages(queries, number, settings)
            try:
                is_same = [Message(*message) for message in turn["asked"]] == messages
                text = str(turn["reply"])
            except (KeyError, TypeError) as error:
                raise SavedError(f"{path} is damaged ({error})") from error
            if not is_same:
                raise SavedError(
                    f"{path} has other questions than the run's data make now: "
                    f"--data FOLDER names the episodes that were asked about"
                )
            if not text:
                continue
            answers: list[list[float] | None] = [None] * len(queries.truth)
            answers[number] = answer_in(text, queries, settings)
            right = score_answers(queries, answers_of(queries, answers)).right[number]
            about = f"episode {episode}, step {queries.step[number]}"
            question = "\n\n".join(message.content for message in messages)
            replies.append(Reply(question, text, bool(right), about))
    return replies


# The tables --------------------------------------------------------------------------------------


def _write_scores(config: ReviewConfig) -> Path:
    """Writes the tables and figures of filled sheets."""
    reviews = [load_review(path) for path in config.scored]
    out = config.out or config.scored[0].parent
    text = review_tables(reviews)
    log_once(text)
    target = out / "review.md"
    write_atomically(with_folder(target), text + "\n")
    save_figure(errors_figure(reviews), out / "errors.png")
    save_figure(agreement_figure(reviews), out / "agreement.png")
    return target


def review_tables(reviews: Sequence[Review]) -> str:
    """Returns Tables 1 and 2 of filled sheets, beside the paper's.

    Raises:
      ValueError: if two of them are of one reviewer and sheet.
    """
    names = [f"{review.model} ({review.judge}), of {len(review.errors)}" for review in reviews]
    names += [f"{model}, paper, of 50" for model in TABLE_1]
    counts = [*(review.error_counts for review in reviews), *TABLE_1.values()]
    errors = [[error, *(column[n] for column in counts)] for n, error in enumerate(ERRORS)]
    judged, compared = [], []
    for review in reviews:
        agreed = compare_judgements(
            review.right, np.where(review.is_judged, review.automatic, np.nan)
        )
        shares = review.manual_accuracy, review.automatic_accuracy, agreed.share
        cells = [review.model, review.judge, agreed.replies, *map(_percent, shares)]
        judged.append([*cells, _number(agreed.kappa)])
    for model, (manual, automatic) in TABLE_2.items():
        shares = _percent(manual), _percent(automatic)
        judged.append([model, "paper", 50, *shares, "not printed", "not printed"])
    for first, second in pairs_of(reviews):
        agreed = compare_judgements(first.right, second.right)
        cells = [first.model, f"{first.judge}, {second.judge}", agreed.replies]
        compared.append([*cells, _percent(agreed.share), _number(agreed.kappa)])
    head = ["model", "reviewer", "judged", "manual", "automatic", "agree", "kappa"]
    pair_head = ["model", "reviewers", "judged by both", "agree", "kappa"]
    pairs = ["Two reviewers of the same replies:", markdown_table(pair_head, compared)]
    return join_paragraphs(
        "# Replies as reviewers judge them",
        "Replies with an error of each type:",
        markdown_table(["error", *names], errors),
        "Right answers, in % of the replies judged: in a reviewer's eyes and by the agent's "
        "actions; on how many both agree, and kappa, the agreement beyond chance:",
        markdown_table(head, judged),
        *(pairs if compared else []),
    )


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.0f}"


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.2f}"
