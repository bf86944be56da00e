"""Replies of language models by what came of them: answered, unreadable, refused or cut off.

A refusal and a reply that was cut off say nothing about what a model knows. They stay wrong in
every score, so that silence is never rewarded, and are counted apart, so that a table shows them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Literal

Outcome = Literal["answered", "unreadable", "refused", "cut off"]
OUTCOMES: tuple[Outcome, ...] = ("answered", "unreadable", "refused", "cut off")
SILENT: tuple[Outcome, ...] = ("refused", "cut off")
"""Outcomes of replies that do not attempt an answer."""
_CUT_OFF = ("length", "max_tokens", "model_length", "context", "useless")
_REFUSED = ("refusal", "content_filter", "unanswered", "refused")
_QUOTED = 60  # characters of an unreadable answer that are repeated
OUTCOME_LEGEND = (
    "`answered`, `unreadable`, `refused`, `cut off`: replies in % by what came of them; those that "
    "were refused, or cut off before an answer, count as wrong like unreadable ones. A dash: no "
    "reply is an answer."
)
WARN_AFTER = 20
"""Replies without one readable answer after which a run warns."""


def outcome_of(finish: str, is_readable: bool) -> Outcome:
    """Returns what came of a reply.

    Args:
      finish: why the reply ends, as `Reply.finish`, or the fault of a `ModelError`.
      is_readable: whether the reply names an answer; then its end does not matter.
    """
    if is_readable:
        return "answered"
    if finish in _CUT_OFF:
        return "cut off"
    return "refused" if finish in _REFUSED else "unreadable"


@dataclasses.dataclass(repr=False)
class ReplyTally:
    """Counts replies by outcome.

    Attributes:
      counts: replies by outcome.
      first: the first unreadable answer, with the form that was asked for; empty without one.
    """

    counts: Counter[Outcome] = dataclasses.field(default_factory=Counter)
    first: str = ""

    @property
    def replies(self) -> int:
        """Number of replies."""
        return sum(self.counts.values())

    def add(self, outcome: Outcome, text: str, form: str) -> None:
        """Counts one reply to a question that asked for an answer of this form."""
        self.counts[outcome] += 1
        if outcome == "unreadable" and not self.first:
            shown = repr(text[:_QUOTED]) + (" ..." if len(text) > _QUOTED else "")
            self.first = f"first unreadable answer: {shown}; asked for {form}"

    def __repr__(self) -> str:
        return f"ReplyTally({self.in_words()})"

    def __add__(self, added: ReplyTally) -> ReplyTally:
        """Returns the counts of both."""
        return ReplyTally(self.counts + added.counts, self.first or added.first)

    def share(self, outcome: Outcome) -> float:
        """Returns the share of an outcome in all replies; NaN without a reply."""
        return self.counts[outcome] / self.replies if self.replies else float("nan")

    @property
    def is_silent(self) -> bool:
        """Whether there are replies, and none of them is an answer."""
        return self.replies > 0 and not self.counts["answered"]

    def cells(self) -> list[str]:
        """Returns the shares in per cent, in the order of `OUTCOMES`; dashes without a reply."""
        shares = map(self.share, OUTCOMES)
        return ["-" if share != share else f"{100 * share:.0f}" for share in shares]

    def in_words(self) -> str:
        """Returns the counts in one line, with remedies and the first unreadable answer."""
        named = [f"{self.counts['answered']:,} answered"]
        if count := self.counts["unreadable"]:
            named.append(f"{count:,} unreadable")
        if count := self.counts["refused"]:
            named.append(f"{count:,} refused")
        if count := self.counts["cut off"]:
            named.append(f"{count:,} cut off before an answer (max_tokens)")
        noun = "reply" if self.replies == 1 else "replies"
        text = f"{self.replies:,} {noun}: {', '.join(named)}"
        return f"{text}; {self.first}" if self.first else text


def silence_notes(tallies: Mapping[str, ReplyTally]) -> list[str]:
    """Returns a paragraph for each row of a table in which some replies are no answers."""
    lacking = {name: x for name, x in tallies.items() if x.counts["answered"] < x.replies}
    return [f"{name}: {tally.in_words()}." for name, tally in lacking.items()]
