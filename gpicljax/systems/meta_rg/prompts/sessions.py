"""One episode of referential games as a conversation, told in this project's own words.

Every question holds the whole transcript so far, so that a reply depends on nothing else; what a
player may not see is not in it. A listener answers in JSON with one of two words, which servers can
be held to (`answer_schema`), and which is read all the same where a server does not.

Source: section 4.4 and appendix B of the Meta-Referential Games paper.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpicljax.checks import check_fields
from gpicljax.llm.chat import Message
from gpicljax.llm.parsing import bracketed_answer
from gpicljax.llm.prompts import format_value, schema_request
from gpicljax.systems.meta_rg.env.game import Stimulus
from gpicljax.systems.meta_rg.env.structure import WORD_LETTERS, word_text

SAME, DIFFERENT = 0, 1
"""Decisions, as `MetaRG` has them without distractors."""
ANSWERS = ("same", "different")
_DECIMALS = 3
_NUMBERS = "a few numbers", "close numbers mean the same value"
_STIMULI: dict[Stimulus, tuple[str, str]] = {
    "scs": _NUMBERS,
    "mhe": _NUMBERS,
    "categorical": ("a letter for each dimension", "several letters may mean the same value"),
    "pseudoword": ("a word for each dimension", "several words may mean the same value"),
}
"""What a stimulus looks like, and how one meaning has many."""


def stimulus_text(stimulus: Any, kind: Stimulus) -> str:
    """Returns a stimulus as a player is told it.

    Args:
      stimulus: `[F]`, as it stands in the observation.
      kind: the representation.
    """
    if kind == "categorical":
        return f"[{', '.join(_letters(int(category) - 1) for category in stimulus)}]"
    if kind == "pseudoword":
        return f"[{', '.join(map(word_text, np.reshape(stimulus, (-1, WORD_LETTERS))))}]"
    return format_value(stimulus, _DECIMALS)


def _letters(number: int) -> str:
    """A, B, .. Z, AA, AB and so on from 0."""
    letter = chr(ord("A") + number % 26)
    return letter if number < 26 else _letters(number // 26 - 1) + letter


@dataclasses.dataclass(frozen=True)
class ListenerSettings:
    """Settings of the questions to a listener.

    Attributes:
      different_first: whether the answers stand in the other order: a model that prefers what it
        reads first then errs the other way.
      reasons: whether it is asked to think before it answers.
      asks_message: whether it is also asked for a message, which is not used, as in the paper.

    Example:
      >>> ListenerSettings(different_first=True).order
      ('different', 'same')
    """

    different_first: bool = False
    reasons: bool = False
    asks_message: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def order(self) -> tuple[str, ...]:
        """The answers as they stand in the question."""
        return ANSWERS[::-1] if self.different_first else ANSWERS


def answer_schema(settings: ListenerSettings | None = None) -> str:
    """Returns the part of a request, as JSON, that holds a server to one of the two answers.

    For `client.OpenAICompatible(..., options=answer_schema())`.
    """
    settings = settings or ListenerSettings()
    answer = {"type": "string", "enum": list(settings.order)}
    return schema_request(answer, settings.reasons, "meaning")


def decision_in(text: str) -> int | None:
    """Returns the decision in a listener's reply; None if it names neither answer."""
    words = re.findall(r'"meaning"\s*:\s*"(\w+)"', text)
    word = words[-1] if words else bracketed_answer(text, "lenient", "ANSWER")
    word = None if word is None else word.strip().lower()
    return ANSWERS.index(word) if word in ANSWERS else None


def message_in(text: str, length: int, vocab_size: int) -> list[int] | None:
    """The tokens in a speaker's reply, filled up with 0; None where a token is not known."""
    inside = bracketed_answer(text, "lenient", "MESSAGE")
    if inside is None:
        return None
    entries = re.split(r"[,\s]+", inside.strip())
    if len(entries) > length or not all(
        re.fullmatch(r"\+?\d{1,3}(?:\.0*)?", entry) for entry in entries
    ):
        return None
    tokens = [int(float(entry)) for entry in entries]
    return tokens + [0] * (length - len(tokens)) if max(tokens) <= vocab_size else None


class _Session:
    """The common parts of both roles: a transcript, and the text before it."""

    def __init__(self, vocab_size: int, length: int, stimulus: Stimulus) -> None:
        self.vocab_size, self.length = vocab_size, length
        self._stimulus: Stimulus = stimulus
        self._lines: list[str] = []
        self._game, self._phase = 0, 0
        self.invalid = 0

    def _stimulus_text(self, observation: Mapping[str, Any]) -> str:
        """Returns the stimulus in an observation."""
        return stimulus_text(observation["stimulus"], self._stimulus)

    def _rules(self, role: str) -> str:
        looks, close = _STIMULI[self._stimulus]
        return (
            f"You play referential games with a partner; you are the {role}. In each game both of "
            f"you see a stimulus, {looks}, which stands for a hidden meaning, made of values "
            f"of several dimensions. Meanings have many stimuli: {close}. "
            "Your common goal is to tell whether your two stimuli have the same meaning. The "
            f"speaker sends a message of up to {self.length} symbols from 1 to {self.vocab_size}; "
            "0 ends it. What symbols stand for is the same throughout, and has to be found out. "
            "After each decision the listener is shown the speaker's stimulus.\n"
            "In a first phase you get to know the single values. In the second, games begin to "
            "count anew, and values are combined as they were not before."
        )

    def _place(self, observation: Mapping[str, Any]) -> str:
        """Returns the number of the game, by phase."""
        phase = int(observation["phase"])
        if phase != self._phase:
            self._phase, self._game = phase, 0
        return f"{('first', 'second')[phase]} phase, game {self._game + 1}"

    def _over(self) -> None:
        self._game += 1

    def _messages(self, role: str, question: str) -> list[Message]:
        past = "\n".join(["What has happened so far:", *self._lines]) + "\n\n"
        text = f"{past if self._lines else ''}{question}"
        return [Message("system", self._rules(role)), Message("user", text)]


class ListenerSession(_Session):
    """The listener's side of an episode of `MetaRG`, in its own view of it.

    Args:
      settings: how it is asked.
      vocab_size: tokens besides 0.
      length: of a message.
      stimulus: the representation of stimuli.

    Attributes:
      invalid: replies that named neither answer.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        vocab_size: int,
        length: int,
        stimulus: Stimulus = "scs",
    ) -> None:
        """See the class."""
        super().__init__(vocab_size, length, stimulus)
        self.settings = settings
        self._now = ""

    def question(self, observation: Mapping[str, Any]) -> list[Message]:
        """Returns the messages to the model in the round in which it decides."""
        self._now = (
            f"{self._place(observation)}: you see {self._stimulus_text(observation)}, "
            f"and hear {format_value(np.asarray(observation['message']), 0)}."
        )
        first, second = self.settings.order
        form = f'{{"meaning": "{first}"}} or {{"meaning": "{second}"}}'
        ask = f"Do your stimulus and the speaker's mean the {first} or {second}?"
        if self.settings.different_first:
            ask = "Do your stimulus and the speaker's mean different things or the same?"
        think = "Think briefly first. " if self.settings.reasons else ""
        extra = " Add a message to the speaker, if you like." if self.settings.asks_message else ""
        question = f"{self._now[0].upper()}{self._now[1:]}\n{ask} {think}Answer with {form}.{extra}"
        return self._messages("listener", question)

    def hear(self, text: str) -> int | None:
        """Returns the decision that a reply names; None if it names none, which counts as wrong."""
        decision = decision_in(text)
        self.invalid += decision is None
        self._now += f" You said: {'nothing valid' if decision is None else ANSWERS[decision]}"
        return decision

    def feedback(self, observation: Mapping[str, Any]) -> None:
        """Adds the feedback to the transcript after the listener has decided."""
        right = int(observation["previous_result"]) == 2
        shown = self._stimulus_text(observation)
        self._lines.append(
            f"{self._now}, which was {'right' if right else 'wrong'}. The speaker saw {shown}."
        )
        self._over()


class SpeakerSession(_Session):
    """The speaker's side of an episode of `MetaRG`, in its own view of it.

    Args:
      vocab_size: tokens besides 0.
      length: of a message.
      stimulus: the representation of stimuli.

    Attributes:
      invalid: replies that said nothing that can be sent.
    """

    def __init__(self, vocab_size: int, length: int, stimulus: Stimulus = "scs") -> None:
        """See the class."""
        super().__init__(vocab_size, length, stimulus)
        self._now = ""

    def question(self, observation: Mapping[str, Any]) -> list[Message]:
        """Returns the messages to the model in the round in which it speaks."""
        place = self._place(observation)
        self._now = f"{place}: you see {self._stimulus_text(observation)}."
        form = ", ".join(["number"] * self.length)
        question = (
            f"{self._now[0].upper()}{self._now[1:]}\n"
            "Which message do you send? Say the same of the same values in all games, so that your "
            "partner can learn from you. End with your message in this form: "
            f"[MESSAGE: {form}]"
        )
        return self._messages("speaker", question)

    def hear(self, text: str) -> list[int]:
        """Returns the message of a reply; silence if it says nothing that can be sent."""
        tokens = message_in(text, self.length, self.vocab_size)
        self.invalid += tokens is None
        sent = [0] * self.length if tokens is None else tokens
        self._now += f" You said {sent}"
        return sent

    def add_decision(self, observation: Mapping[str, Any]) -> None:
        """Adds the partner's decision to the transcript of the speaker."""
        right = int(observation["previous_result"]) == 2
        self._lines.append(
            f"{self._now}; your partner decided {'rightly' if right else 'wrongly'}."
        )
        self._over()
