"""Limits of what a run may spend, over all of its conversations at once."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Literal

from gpicljax.checks import Count, Range, check, check_fields
from gpicljax.llm.chat import Usage
from gpicljax.llm.outcomes import WARN_AFTER, Outcome, ReplyTally

Price = Annotated[float, Range(0)]


class Stopped(RuntimeError):
    """No reply for now; the conversation can be gone on with later.

    Attributes:
      status: the reason in two words.
    """

    status: Literal["interrupted", "budget spent"] = "interrupted"


class BudgetSpent(Stopped):
    """The next request could cost more than is left."""

    status = "budget spent"


@dataclasses.dataclass(frozen=True)
class Budget:
    """Limits of a run; None is no limit. What earlier parts of a resumed run have spent counts.

    Attributes:
      requests: the most there may be.
      tokens: the most that are read and written.
      cost: the most that they cost, in the unit of the prices.
      prompt_price: of a million tokens read.
      completion_price: of a million tokens written.

    Raises:
      ValueError: for numbers below 0, or a limit to the cost without prices.

    Example:
      >>> budget = Budget(cost=1.0, prompt_price=0.5, completion_price=1.5)
      >>> round(budget.cost_of(Usage(prompt=1_000_000, completion=100_000)), 2)
      0.65
    """

    requests: Count | None = None
    tokens: Count | None = None
    cost: Price | None = None
    prompt_price: Price = 0.0
    completion_price: Price = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        priced = self.cost is None or self.prompt_price + self.completion_price > 0
        check(priced, "cost", self.cost, "None, unless prompt_price or completion_price is given")

    def cost_of(self, usage: Usage) -> float:
        """Returns the dollars that tokens cost."""
        read, written = usage.prompt * self.prompt_price, usage.completion * self.completion_price
        return (read + written) / 1e6

    @property
    def in_words(self) -> str:
        """The limits in words.

        Example:
          >>> Budget(requests=50, tokens=10_000).in_words
          'the limit of 50 requests and 10,000 tokens'
        """
        named = {"requests": self.requests, "tokens": self.tokens, "in cost": self.cost}
        limits = [f"{limit:,} {name}" for name, limit in named.items() if limit is not None]
        return f"the limit of {' and '.join(limits)}" if limits else "no limit"

    def allows(self, usage: Usage) -> bool:
        """Returns whether so much in all is within all limits."""
        return (
            (self.requests is None or usage.requests <= self.requests)
            and (self.tokens is None or usage.total <= self.tokens)
            and (self.cost is None or self.cost_of(usage) <= self.cost)
        )


UNLIMITED = Budget()
"""No limit at all."""


def _print_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Ledger:
    """The spending of a run, and what is set aside for open requests; safe to use from several
    threads.

    Args:
      budget: the limits.
      tell: called with what has been spent so far after every answer, one call at a time; None for
        silence.
      warn: called once, when none of the first `WARN_AFTER` replies is an answer; prints to
        standard error by default.

    Attributes:
      spent: so far.
      exhausted: whether a request was refused because it could cost more than is left.
      longest: tokens of the longest prompt that was answered; 0 before the first.
      tally: replies by outcome.
    """

    def __init__(
        self,
        budget: Budget,
        tell: Callable[[Usage], None] | None = None,
        warn: Callable[[str], None] = _print_to_stderr,
    ) -> None:
        """Nothing is spent."""
        self.budget, self._tell, self._warn = budget, tell, warn
        self.tally = ReplyTally()
        self.spent = Usage(0, 0, 0)
        self.exhausted = False
        self.longest = 0
        self._reserved = Usage(0, 0, 0)
        self._lock = threading.Lock()

    def reserve(self, most: Usage) -> None:
        """Sets aside what a request may come to.

        Raises:
          BudgetSpent: if that is more than is left.
        """
        with self._lock:
            if not self.budget.allows(self.spent + self._reserved + most):
                self.exhausted = True
                raise BudgetSpent(
                    f"{self.spent.requests} requests, {self.spent.total} tokens are spent; "
                    f"the next could exceed {self.budget.in_words}"
                )
            self._reserved = self._reserved + most

    def settle(self, most: Usage, usage: Usage) -> None:
        """Replaces the tokens that were set aside by those that a request took."""
        with self._lock:
            self._reserved = self._reserved + Usage(*(-x for x in most))
            self.spent = self.spent + usage
            if self._tell is not None:
                self._tell(self.spent)

    def book(self, usage: Usage) -> None:
        """Counts what an earlier part of the run has spent."""
        with self._lock:
            self.spent = self.spent + usage

    def note_answer(self, prompt: int) -> None:
        """Records that a prompt of so many tokens was answered."""
        with self._lock:
            self.longest = max(self.longest, prompt)

    def judge(self, outcome: Outcome, text: str, form: str) -> None:
        """Counts a reply by its outcome; warns while it costs little if none is an answer."""
        with self._lock:
            self.tally.add(outcome, text, form)
            if self.tally.replies == WARN_AFTER and self.tally.is_silent:
                self._warn(f"warning: no reply is an answer so far ({self.tally.in_words()})")
