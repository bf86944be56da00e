"""Asks a language model many questions about agents at once, and stores every reply.

Every question is on disk before the next one is asked; a run that is started again asks only those
without a reply. Replies that cannot be read count as wrong (`Answers.parsed`), never as an
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpicljax.llm.asking import PATIENT, Conversation, Interrupted, RetryPolicy
from gpicljax.llm.budget import UNLIMITED, Budget, BudgetSpent, Ledger
from gpicljax.llm.chat import ChatModel, ModelError, Reply, Usage
from gpicljax.llm.conversations import Conversations, changed_settings
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
        read, wrote, requests = self.usage
        text = (
            f"{reply_count} of {len(self.replies)} questions have a reply "
            f"({self.tally.in_words()}), {self.echoes} repeat the placeholder; "
            f"{requests} requests, {read} tokens read, {wrote} written. "
            + (f"{len(self.faults)} faults, the last: {self.faults[-1]}" if self.faults else "")
        ).rstrip()
        note = "\nNot complete: the same call goes on where it was left."
        return text if self.is_complete else text + note


def ask_questions(
    queries: Queries,
    model: ChatModel,
    folder: str | Path,
    settings: QuestionSettings = DEFAULT,
    *,
    budget: Budget | Ledger = UNLIMITED,
    patience: RetryPolicy = PATIENT,
    max_tokens: int = 512,
    at_once: int = 8,
    seed: int = 0,
) -> LanguageAnswers:
    """Asks a language model all queries, or those that it has not answered yet.

    Args:
      queries: of one question and size of history; `pick_queries` of the evaluation takes some of
        many.
      model: the model.
      folder: of the transcripts, one for each episode; made if it is not there.
      settings: settings of the questions.
      budget: what all may cost, earlier parts of the run included; or a ledger that several calls
        share.
      patience: policy of repeated requests.
      max_tokens: the longest reply.
      at_once: questions that are asked at the same time.
      seed: of the model's choices, where it has a use for one.

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
    run = Conversations(model, folder, budget, patience, max_tokens=max_tokens, at_once=at_once)
    question_messages(queries, 0, settings)
    model.check()
    replies: list[str | None] = [None] * len(queries.truth)

    def ask(conversation: Conversation, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                reply = conversation.ask(question_messages(queries, number, settings))
            except BudgetSpent as error:
                conversation.faults.append(str(error))
                return
            except Interrupted:
                return
            except ModelError as error:  # too long, or refused for good: none is to come
                reply = Reply("", Usage(0, 0, 0), error.fault)
            replies[number] = reply.text
            is_readable = answer_in(reply.text, queries, settings) is not None
            conversation.judge(reply.text, reply.finish, is_readable, f"[{WORD}: ...]")

    with run:
        jobs = []
        for episode in dict.fromkeys(queries.episode.tolist()):
            numbers = np.flatnonzero(queries.episode == episode).tolist()
            about = {
                "what": "mental modelling",
                "environment": queries.environment,
                "question": queries.question,
                "form": queries.form,
                "history": queries.history,
                "decimals": queries.decimals,
                "episode": episode,
                "steps": queries.step[numbers].tolist(),
                "settings": changed_settings(settings),
                "seed": seed,
            }
            jobs.append(
                (run.open(f"episode_{episode:04d}", about, seed * 100_003 + episode), numbers)
            )
        running = [run.submit(ask, *job) for job in jobs]
        for job in running:
            job.result()
    read = [None if reply is None else answer_in(reply, queries, settings) for reply in replies]
    echoes = sum(reply is not None and is_echo(reply, queries, settings) for reply in replies)
    answers = answers_of(queries, read)
    return LanguageAnswers(answers, tuple(replies), run.usage, run.faults, echoes, run.tally)
