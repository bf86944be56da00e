"""The language model that a study asks: one group of options for all studies.

A study has it as the field `llm` of its configuration, so that its flags are `--llm.endpoint`,
`--llm.model` and so on everywhere. Which prompts there are is the study's own affair.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Collection
from typing import Annotated, Literal

from gpicljax.checks import Count, Natural, Range, check
from gpicljax.llm.budget import Budget, Ledger, Price
from gpicljax.llm.chat import ChatModel, Message, ModelError, Usage
from gpicljax.llm.conversations import AskingOptions
from gpicljax.llm.weights import serve_weights

_SILENCE = 10.0  # seconds between two lines about the requests so far
_PROBE_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class LanguageModelOptions:
    """The language model that a study asks, and its limits.

    Attributes:
      endpoint: Address of a language model, up to /v1; without one, none is asked.
      local: A small model to be served on this machine in place of an endpoint.
      model: The model's name at the endpoint.
      key_variable: Environment variable with the key; empty where none is needed. An endpoint on
        this machine needs none.
      temperature: How random its choices are; by default the server's own.
      structured: Whether the server holds answers to a JSON schema that is made from what can be
        answered; some servers know none.
      prompts: How it is asked, by the study's names; each is a row.
      max_queries: Requests of the whole run, at most; 0 for no limit.
      budget_tokens: Tokens that the whole run reads and writes, at most; 0 for no limit.
      max_tokens: Tokens of a reply, at most.
      at_once: Requests that are made at the same time.
      timeout: Seconds after which a request is given up.
      price_read: Dollars for a million tokens read; no dollars are told without a price.
      price_written: Dollars for a million tokens written.
    """

    endpoint: str | None = None
    local: Literal["smollm2"] | None = None
    model: str = "gpt-4o-mini"
    key_variable: str = "OPENAI_API_KEY"
    temperature: Annotated[float, Range(0)] | None = None
    structured: bool = False
    prompts: tuple[str, ...] = ()
    max_queries: Natural = 0
    budget_tokens: Natural = 0
    max_tokens: Count = 512
    at_once: Count = 8
    timeout: Annotated[float, Range(above=0)] = 60.0
    price_read: Price | None = None
    price_written: Price | None = None

    def validate(self) -> None:
        """Refuses two models at once."""
        has_both = self.endpoint is not None and self.local is not None
        check(not has_both, "local", self.local, "none beside an endpoint")

    def check_prompts(self, accepted_prompts: Collection[str]) -> None:
        """Refuses prompts that a study does not have.

        Raises:
          ValueError: for none at all, or the first that is not known.
        """
        check(bool(self.prompts), "llm.prompts", self.prompts, ", ".join(accepted_prompts))
        for name in self.prompts:
            check(name in accepted_prompts, "llm.prompts", name, ", ".join(accepted_prompts))

    @property
    def asks(self) -> bool:
        """Whether a language model is asked at all."""
        return self.endpoint is not None or self.local is not None

    @property
    def name(self) -> str:
        """The model's, in tables."""
        return self.local or self.model

    def asking(self, ledger: Ledger) -> AskingOptions:
        """Returns the limits of all conversations; the local server answers them one by one."""
        at_once = 1 if self.local else self.at_once
        return AskingOptions(budget=ledger, max_tokens=self.max_tokens, at_once=at_once)

    def client(self, schema: str = "{}") -> ChatModel:
        """Returns the model.

        Args:
          schema: what holds answers to a form (see `prompts.schema_request`); it is sent where
            answers are to be structured.

        Raises:
          ValueError: for an address that is none, or without what the local model needs.
        """
        from gpicljax.llm.client import OpenAICompatible, is_local

        endpoint = self.endpoint if self.local is None else serve_weights(self.local)
        assert endpoint is not None, "the study asks no language model"
        key: str | None = self.key_variable or None
        if self.local or (is_local(endpoint) and not os.environ.get(self.key_variable)):
            key = None
        return OpenAICompatible(
            endpoint,
            self.name,
            key_variable=key,
            temperature=self.temperature,
            timeout=self.timeout,
            options=schema if self.structured else "{}",
        )

    def check(self, schema: str = "{}") -> None:
        """Refuses, before anything is trained or paid for, what the model's server refuses.

        The list of models costs nothing. Where answers are to be structured, one short request
        shows whether the server accepts schemas.

        Raises:
          ValueError: names the option, what was given and what is accepted.
        """
        if not self.asks:
            return
        model = self.client(schema)
        model.check()
        if not self.structured or schema == "{}":
            return
        try:
            model([Message("user", "Hello")], max_tokens=_PROBE_TOKENS, seed=0)
        except ModelError as error:
            if error.fault in ("refused", "unknown", "broken"):
                accepted_values = f"False, for a server that refuses JSON schemas ({error})"
                check(False, "structured", True, accepted_values)

    def ledger(self, tell: Callable[[str], None] | None = None) -> Ledger:
        """Returns the ledger of the whole run, shared by all of its conversations.

        Args:
          tell: prints a line about the requests so far, at most one in ten seconds; None for none.
        """
        last = time.monotonic()

        def tell_now_and_then(spent: Usage) -> None:
            nonlocal last
            if tell is not None and time.monotonic() - last >= _SILENCE:
                last = time.monotonic()
                tell(f"{self.name}: {spent.in_words}")

        budget = Budget(requests=self.max_queries or None, tokens=self.budget_tokens or None)
        return Ledger(budget, tell_now_and_then)

    def dollars(self, usage: Usage) -> float | None:
        """Returns the dollars that tokens cost; None without a price. Tokens without a price cost
        nothing.
        """
        if self.price_read is None and self.price_written is None:
            return None
        read, written = self.price_read or 0.0, self.price_written or 0.0
        return Budget(prompt_price=read, completion_price=written).cost_of(usage)

    def expected_usage(self, usage: Usage) -> str:
        """Returns the expected requests, tokens and dollars of a run, and whether they are within
        its limits.

        Args:
          usage: requests and the tokens of their prompts; what is written is bounded by the
            options.
        """
        written = usage.requests * self.max_tokens
        text = (
            f"{self.name}: {usage.requests:,} requests, about {usage.prompt:,} tokens read, at "
            f"most {written:,} written"
        )
        least, most = (self.dollars(Usage(usage.prompt, n)) for n in (0, written))
        if least is not None and most is not None:
            text += f", for {_money(least)} to {_money(most)}"
        limits = [
            f"{limit:,} {unit}"
            for limit, unit, need in (
                (self.max_queries, "requests", usage.requests),
                (self.budget_tokens, "tokens", usage.prompt),
            )
            if 0 < limit < need
        ]
        return f"{text}; it stops at {' or '.join(limits)}" if limits else text

    def summarise_spending(self, ledger: Ledger) -> str:
        """Returns the requests, tokens and dollars of a run, and whether its limits stopped it."""
        text = f"{self.name}: {ledger.spent.in_words}"
        cost = self.dollars(ledger.spent)
        text += "." if cost is None else f", for {_money(cost)}."
        if not ledger.exhausted:
            return text
        flags = {"--llm.max-queries": self.max_queries, "--llm.budget-tokens": self.budget_tokens}
        limits = [f"{flag} {limit:,}" for flag, limit in flags.items() if limit]
        return f"{text} Asking stopped at {' or '.join(limits)}: what was not asked is not counted."


def _money(dollars: float) -> str:
    """Returns an amount in cents, or in hundredths of a cent where it is small."""
    return f"${dollars:,.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.4f}"
