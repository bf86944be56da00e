"""Biases of a language model's first answer, where nothing of the task can be known yet.

A trial's first question is asked with every action as the example in the form of the answer, and
with none; with the actions listed from the first to the last, and the other way round. All
combinations are asked equally often, so that the name of an action, its place in the list and the
example each stand beside all values of the others. An answer that depends on none of them is as
good as any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from gpicljax.checks import check_at_least
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.llm.chat import ChatModel, Message
from gpicljax.llm.conversations import AskingOptions, Conversations, Series, conversation_seed
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.llm.parsing import WORD, chosen
from gpicljax.llm.prompts import PromptSettings, answer_form
from gpicljax.spaces import Discrete, Space
from gpicljax.systems.in_context_rl.prompts.session import TrialSession

INVALID = -1
_CHANCE_DRAWS = 2_000  # draws of answers that follow nothing


class FirstAnswers(NamedTuple):
    """Answers to the first question of a trial.

    Attributes:
      shown: `int32[A, 2, R]`, action or `INVALID`, by example, order of the list (0 forwards, 1
        backwards) and repetition.
      plain: `int32[2, R]`, answers without an example, by order and repetition.
      tally: replies by outcome.
    """

    shown: np.ndarray
    plain: np.ndarray
    tally: ReplyTally = ReplyTally()


class AnswerBias(NamedTuple):
    """The dependence of answers on examples, names and places in the list.

    Attributes:
      echo: how much more often an action is the answer where it is the example than where another
        one is: 0 if examples have no effect, 1 if they are always repeated.
      label: total variation distance between the answers and a uniform choice, examples and orders
        balanced: 0 if no action is preferred for its name.
      label_plain: that distance where no example is shown.
      label_chance: the value that `label` exceeds in 5 % of the cases with uniform answers.
      favourite: the action that is the answer most often; None without an answer.
      favourite_share: its share.
      first: share of answers that are first in the list less share of those that are last.
      invalid: share of answers that name no action.
      tally: replies by outcome.
    """

    echo: Interval
    label: float
    label_plain: float
    label_chance: float
    favourite: int | None
    favourite_share: float
    first: Interval
    invalid: float
    tally: ReplyTally


def first_questions(
    settings: PromptSettings,
    observations: Space,
    actions: Discrete,
    limit: int,
    explanation: str | None = None,
) -> Iterator[tuple[int | None, bool, list[Message]]]:
    """Yields the first question of a trial in all variants.

    Yields:
      The example (an action, or None), whether the list runs backwards, and the messages.
    """
    session = TrialSession(settings, observations, actions, limit, explanation)
    session.begin(0)
    names = [str(action) for action in range(actions.n)]
    form, listed = answer_form(actions), ", ".join(names)
    for example in (None, *range(actions.n)):
        for backwards in (False, True):
            order = ", ".join(names[::-1]) if backwards else listed
            shown = form if example is None else f"[{WORD}: {example}]"
            yield (
                example,
                backwards,
                [
                    message._replace(
                        content=message.content.replace(f": {listed}.", f": {order}.").replace(
                            form, shown
                        )
                    )
                    for message in session.messages()
                ],
            )


def ask_first_questions(
    questions: Sequence[tuple[int | None, bool, list[Message]]],
    actions: Discrete,
    model: ChatModel,
    folder: str | Path,
    settings: PromptSettings,
    *,
    repeats: int,
    seed: int = 0,
    **options: Unpack[AskingOptions],
) -> FirstAnswers | None:
    """Asks every variant so many times, or goes on where an earlier call was left.

    Args:
      questions: questions that `first_questions` yields.
      actions: the space of actions.
      model: the model.
      folder: of the transcripts; made if it is not there.
      settings: settings of the prompts.
      repeats: R, answers of each variant, each with a seed of its own.
      seed: of everything.
      options: `budget`, `patience`, `max_tokens` (64 by default) and `at_once`; see
        `llm.conversations.AskingOptions`.

    Returns:
      The answers; None where the budget, or the model, ends before all are there.

    Raises:
      SavedError: if the folder has transcripts of another run, or damaged ones.
    """
    check_at_least(1, repeats=repeats)
    run = Conversations(model, folder, **(AskingOptions(max_tokens=64) | options))
    variants = [
        Series(
            f"example_{example}_{'backwards' if backwards else 'forwards'}",
            {"what": "first question", "example": example, "backwards": backwards},
            conversation_seed(seed, number),
            [messages] * repeats,
        )
        for number, (example, backwards, messages) in enumerate(questions)
    ]
    answers = run.ask_series(
        variants,
        lambda reply: chosen(reply.text, actions, settings.parsing),
        answer_form(actions),
    )
    if any(len(variant_answers) < repeats for variant_answers in answers):
        return None
    numbers = [
        [INVALID if answer.value is None else int(answer.value) for answer in variant_answers]
        for variant_answers in answers
    ]
    all_answers = np.asarray(numbers, np.int32).reshape(actions.n + 1, 2, repeats)
    return FirstAnswers(all_answers[1:], all_answers[0], run.tally)


def answer_bias(answers: FirstAnswers) -> AnswerBias:
    """Returns the dependence of answers; intervals are of 95 %, over repetitions."""
    shown, plain = np.asarray(answers.shown), np.asarray(answers.plain)
    count, _, repeats = shown.shape
    names = np.arange(count)
    is_answer = (shown[..., None] == names).astype(float)  # [A, 2, R, A]
    echo_share = np.einsum("aora->r", is_answer) / (2 * count)
    echo_elsewhere = (is_answer.sum((0, 1, 3)) - 2 * count * echo_share) / (2 * count * (count - 1))
    share = is_answer.mean((0, 1, 2))
    ends = (is_answer[..., 0], is_answer[..., -1])
    # The first of the list is action 0 forwards, and the last action backwards.
    first = (ends[0][:, 0] + ends[1][:, 1]).mean(0) / 2
    last = (ends[1][:, 0] + ends[0][:, 1]).mean(0) / 2
    valid = int((shown != INVALID).sum())
    nan = float("nan")
    no_interval = Interval(nan, nan, nan, nan, 0)
    return AnswerBias(
        mean_interval(echo_share - echo_elsewhere) if valid else no_interval,
        _distance_from_uniform(shown[shown != INVALID], count),
        _distance_from_uniform(plain[plain != INVALID], count),
        _chance_distance(valid, count),
        int(share.argmax()) if valid else None,
        float(share.max()) if valid else float("nan"),
        mean_interval(first - last) if valid else no_interval,
        float((shown == INVALID).mean()),
        answers.tally,
    )


def _distance_from_uniform(answers: np.ndarray, count: int) -> float:
    """Returns the total variation distance of answers from a uniform choice; NaN without any."""
    if not answers.size:
        return float("nan")
    share = np.bincount(answers, minlength=count) / answers.size
    return float(np.abs(share - 1 / count).sum() / 2)


def _chance_distance(answers: int, count: int) -> float:
    """Returns the distance that chance exceeds in one case of twenty."""
    if not answers:
        return float("nan")
    draws = np.random.default_rng(0).multinomial(answers, np.full(count, 1 / count), _CHANCE_DRAWS)
    distances = np.abs(draws / answers - 1 / count).sum(1) / 2
    return float(np.quantile(distances, 0.95))
