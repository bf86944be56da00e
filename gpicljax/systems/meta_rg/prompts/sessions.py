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
    """One player's side of an episode of `MetaRG`, in its own view of it.

    Args:
      role: the player's.
      form: of the answer that is asked for.
      vocab_size: tokens besides 0.
      length: of a message.
      stimulus: the representation of stimuli.

    Attributes:
      form: see above.
      is_valid: for each reply, whether it named an answer.
    """

    def __init__(
        self, role: str, form: str, vocab_size: int, length: int, stimulus: Stimulus
    ) -> None:
        self.form, self.is_valid = form, list[bool]()
        self._role, self._vocab_size, self._length = role, vocab_size, length
        self._stimulus: Stimulus = stimulus
        self._lines: list[str] = []
        self._game, self._phase = 0, 0
        self._now = ""

    def _stimulus_text(self, observation: Mapping[str, Any]) -> str:
        """Returns the stimulus in an observation."""
        return stimulus_text(observation["stimulus"], self._stimulus)

    def _rules(self) -> str:
        looks, close = _STIMULI[self._stimulus]
        return (
            f"You play referential games with a partner; you are the {self._role}. In each game "
            f"both of you see a stimulus, {looks}, which stands for a hidden meaning, made of "
            f"values of several dimensions. Meanings have many stimuli: {close}. "
            "Your common goal is to tell whether your two stimuli have the same meaning. The "
            f"speaker sends a message of up to {self._length} symbols from 1 to "
            f"{self._vocab_size}; 0 ends it. What symbols stand for is the same throughout, and "
            "has to be found out. After each decision the listener is shown the speaker's stimulus."
            "\nIn a first phase you get to know the single values. In the second, games begin to "
            "count anew, and values are combined as they were not before."
        )

    def _question(self, observation: Mapping[str, Any], heard: str, request: str) -> list[Message]:
        """Returns the messages to the model: the rules, what has happened, and the question."""
        phase = int(observation["phase"])
        if phase != self._phase:
            self._phase, self._game = phase, 0
        place = f"{('first', 'second')[phase]} phase, game {self._game + 1}"
        self._now = f"{place}: you see {self._stimulus_text(observation)}{heard}."
        past = "\n".join(["What has happened so far:", *self._lines]) + "\n\n"
        question = f"{self._now[0].upper()}{self._now[1:]}\n{request}"
        text = f"{past if self._lines else ''}{question}"
        return [Message("system", self._rules()), Message("user", text)]

    def _add_game(self, outcome: str) -> None:
        """Adds the last game to the transcript."""
        self._lines.append(f"{self._now}{outcome}")
        self._game += 1


class ListenerSession(_Session):
    """The listener's side of an episode of `MetaRG`; see there for the other arguments.

    Args:
      settings: how it is asked.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        vocab_size: int,
        length: int,
        stimulus: Stimulus = "scs",
    ) -> None:
        """See the class."""
        super().__init__("listener", '{"meaning": ...}', vocab_size, length, stimulus)
        self.settings = settings

    def question(self, observation: Mapping[str, Any]) -> list[Message]:
        """Returns the messages to the model in the round in which it decides."""
        heard = f", and hear {format_value(np.asarray(observation['message']), 0)}"
        first, second = self.settings.order
        form = f'{{"meaning": "{first}"}} or {{"meaning": "{second}"}}'
        ask = f"Do your stimulus and the speaker's mean the {first} or {second}?"
        if self.settings.different_first:
            ask = "Do your stimulus and the speaker's mean different things or the same?"
        think = "Think briefly first. " if self.settings.reasons else ""
        extra = " Add a message to the speaker, if you like." if self.settings.asks_message else ""
        return self._question(observation, heard, f"{ask} {think}Answer with {form}.{extra}")

    def answer_in(self, text: str) -> int | None:
        """Returns the decision that a reply names; None if it names none."""
        return decision_in(text)

    def hear(self, decision: int | None) -> int:
        """Returns the decision that is taken: without one in the reply, "different"."""
        self.is_valid.append(decision is not None)
        self._now += f" You said: {'nothing valid' if decision is None else ANSWERS[decision]}"
        return DIFFERENT if decision is None else decision

    def add_outcome(self, observation: Mapping[str, Any]) -> None:
        """Adds the outcome of a game, and the stimulus that the speaker saw."""
        result = "right" if int(observation["previous_result"]) == 2 else "wrong"
        self._add_game(f", which was {result}. The speaker saw {self._stimulus_text(observation)}.")


class SpeakerSession(_Session):
    """The speaker's side of an episode of `MetaRG`."""

    def __init__(self, vocab_size: int, length: int, stimulus: Stimulus = "scs") -> None:
        """See the class."""
        super().__init__("speaker", "[MESSAGE: ...]", vocab_size, length, stimulus)

    def question(self, observation: Mapping[str, Any]) -> list[Message]:
        """Returns the messages to the model in the round in which it speaks."""
        form = ", ".join(["number"] * self._length)
        request = (
            "Which message do you send? Say the same of the same values in all games, so that your "
            "partner can learn from you. End with your message in this form: "
            f"[MESSAGE: {form}]"
        )
        return self._question(observation, "", request)

    def answer_in(self, text: str) -> list[int] | None:
        """Returns the message in a reply; None if it says nothing that can be sent."""
        return message_in(text, self._length, self._vocab_size)

    def hear(self, tokens: list[int] | None) -> list[int]:
        """Returns the message that is sent: without one in the reply, silence."""
        self.is_valid.append(tokens is not None)
        sent = [0] * self._length if tokens is None else tokens
        self._now += f" You said {sent}"
        return sent

    def add_outcome(self, observation: Mapping[str, Any]) -> None:
        """Adds the partner's decision."""
        result = "rightly" if int(observation["previous_result"]) == 2 else "wrongly"
        self._add_game(f"; your partner decided {result}.")
