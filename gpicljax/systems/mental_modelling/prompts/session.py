"""Asks a language model many questions about agents at once, and stores every reply.

Every question is on disk before the next one is asked; a run that is started again asks only those
without a reply. Replies that cannot be read count as wrong (`Answers.parsed`), never as an
error.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from gpicljax.llm.chat import ChatModel, Usage
from gpicljax.llm.conversations import (
    AskingOptions,
    Conversations,
    Series,
    changed_settings,
    conversation_seed,
    summarise_run,
)
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.systems.mental_modelling.measures.questions import Queries
from gpicljax.systems.mental_modelling.measures.scoring import Answers, answers_of
from gpicljax.systems.mental_modelling.prompts.questions import (
    DEFAULT,
    WORD,
    QuestionSettings,
    answer_in,
    is_echo,
    question_messages,
)


class LanguageAnswers(NamedTuple):
    """A language model's answers to Q queries.

    Attributes:
      answers: the answers in the replies.
      replies: Q raw texts; None where there is none yet.
      usage: tokens, earlier parts of the run included.
      faults: messages of the faults.
      echoes: number of replies that repeat the placeholder as an answer.
      tally: replies by outcome.
    """

    answers: Answers
    replies: tuple[str | None, ...]
    usage: Usage
    faults: tuple[str, ...]
    echoes: int
    tally: ReplyTally

    @property
    def is_complete(self) -> bool:
        """Returns whether every query has a reply; else the same call asks for the rest."""
        return None not in self.replies

    def in_words(self) -> str:
        """Returns a summary in a line or two."""
        reply_count = sum(reply is not None for reply in self.replies)
        text = (
            f"{reply_count} of {len(self.replies)} questions have a reply "
            f"({self.tally.in_words()}), {self.echoes} repeat the placeholder."
        )
        return summarise_run(text, self.usage, self.faults, self.is_complete)


def ask_questions(
    queries: Queries,
    model: ChatModel,
    folder: str | Path,
    settings: QuestionSettings = DEFAULT,
    *,
    seed: int = 0,
    **options: Unpack[AskingOptions],
) -> LanguageAnswers:
    """Asks a language model all queries, or those that it has not answered yet.

    Args:
      queries: of one question and size of history; `pick_queries` of the evaluation takes some of
        many.
      model: the model.
      folder: of the transcripts, one for each episode; made if it is not there.
      settings: settings of the questions.
      seed: of the model's choices, where it has a use for one.
      options: `budget`, `patience`, `max_tokens` (512 by default) and `at_once`; see
        `llm.conversations.AskingOptions`.

    Returns:
      Answers and replies.

    Raises:
      ValueError: before anything is asked, for a task without a text where one is wanted, and what
        `model.check` refuses.
      SavedError: if the folder has transcripts of another run, or damaged ones.
      LockedError: if another process uses the folder.

    Example:
      >>> import tempfile
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries, score_answers
      >>> from gpicljax.llm.chat import FakeModel
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0, 1]), "next_action", history=2)
      >>> model = FakeModel("It has done so before: [ANSWER: 1]")
      >>> said = ask_questions(
      ...     asked, model, tempfile.mkdtemp(), QuestionSettings(instructions=False)
      ... )
      >>> score_answers(asked, said.answers).accuracy, said.usage.requests
      (0.6666666666666666, 3)
    """
    run = Conversations(model, folder, **(AskingOptions(max_tokens=512) | options))
    question_messages(queries, 0, settings)
    model.check()
    episodes = {
        episode: np.flatnonzero(queries.episode == episode).tolist()
        for episode in dict.fromkeys(queries.episode.tolist())
    }
    about = {
        "what": "mental modelling",
        "environment": queries.environment,
        "question": queries.question,
        "form": queries.form,
        "history": queries.history,
        "decimals": queries.decimals,
        "settings": changed_settings(settings),
        "seed": seed,
    }
    all_series = [
        Series(
            f"episode_{episode:04d}",
            {**about, "episode": episode, "steps": queries.step[numbers].tolist()},
            conversation_seed(seed, episode),
            [question_messages(queries, number, settings) for number in numbers],
        )
        for episode, numbers in episodes.items()
    ]
    answered = run.ask_series(
        all_series, lambda reply: answer_in(reply.text, queries, settings), f"[{WORD}: ...]"
    )
    replies: list[str | None] = [None] * len(queries.truth)
    values: list[list[float] | None] = [None] * len(queries.truth)
    for numbers, answers in zip(episodes.values(), answered, strict=True):
        for number, answer in zip(numbers, answers, strict=False):
            replies[number], values[number] = answer.text, answer.value
    echoes = sum(reply is not None and is_echo(reply, queries, settings) for reply in replies)
    return LanguageAnswers(
        answers_of(queries, values), tuple(replies), run.usage, run.faults, echoes, run.tally
    )
