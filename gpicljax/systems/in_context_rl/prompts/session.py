"""One trial of reinforcement learning as a conversation, and a table of what it has shown so far.

It knows nothing of models, files or environments; `in_context_rl.play_trials` does.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Literal

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.interface import TimeStep
from gpicljax.llm.chat import Message
from gpicljax.llm.parsing import chosen
from gpicljax.llm.prompts import PromptSettings, pay, written
from gpicljax.systems.in_context_rl.prompts.wording import words_of

Status = Literal[
    "playing",
    "finished",
    "invalid answers",
    "context full",
    "unanswered",
    "budget spent",
    "interrupted",
]


class TrialSession:
    """One trial as a conversation: what is seen becomes messages, replies become actions.

    It knows nothing of models, files or environments. A caller with a time step of a `trials.Trial`
    calls `see`, asks with `messages`, and hands the reply to `hear`.

    Args:
      settings: how the trial is told.
      observations: the space of `now`.
      actions: the space of actions.
      limit: actions of the trial.
      explanation: what the task is, where it is explained.
      seed: of the numbers that a bandit's arms have, see `PromptSettings.permute_arms`.
      name: of the environment.

    Attributes:
      status: `"playing"`, or why it is over.
      replies: answers heard.
      invalid: those of them that named no action.
      invalid_strict: those that name none read strictly, whatever the settings say.
    """

    def __init__(
        self,
        settings: PromptSettings,
        observations: spaces.Space,
        actions: spaces.Space,
        limit: int,
        explanation: str | None = None,
        seed: int = 0,
        name: str = "",
    ) -> None:
        """See the class."""
        self._arms: np.ndarray | None = None
        bandit = observations == spaces.Discrete(1) and isinstance(actions, spaces.Discrete)
        if bandit and settings.permute_arms:
            order = np.random.default_rng(seed).permutation(actions.n)  # type: ignore[attr-defined]
            self._arms = order.astype(np.int32)
        self.settings, self.actions, self.limit = settings, actions, limit
        told = explanation if settings.explanations else None
        self._words = words_of(settings, observations, actions, limit, name)
        self._said = [Message("system", self._words.introduction(told))]
        self._news: list[str] = []
        self._asks: list[Message] = []
        self._table = _Summary(settings.decimals, settings.recent)
        self._action: np.ndarray | None = None
        self._now: Any = None
        self._in_a_row = 0
        self.status: Status = "playing"
        self.replies = self.invalid = self.invalid_strict = 0
        self.taken = 0
        self.total = 0.0

    # What happens ------------------------------------------------------------------------------

    def see(self, timestep: TimeStep) -> None:
        """What has become of the last action, or the trial's start: an unbatched time step."""
        seen = jax.tree.map(np.asarray, timestep.observation)
        if self._action is None:
            self.begin(seen["now"])
            return
        ended = bool(seen["terminated"]) or bool(seen["truncated"])
        self.went(seen["reached"], seen["now"], float(np.asarray(timestep.reward)), ended)

    def begin(self, now: Any) -> None:
        """The trial begins here."""
        self._now = now
        self._news = self._words.begins(self._written(now))
        self._ask()

    def went(self, reached: Any, now: Any, reward: float, ended: bool) -> None:
        """The last action led there, for a reward, and ended an episode or not."""
        assert self._action is not None
        action = self._written(self._action)
        self.taken += 1
        self.total += reward
        led, after = self._written(reached), self._written(now)
        self._table.add(self._written(self._now), action, led, reward, ended)
        self._now = now
        self._news = self._words.went(action, led, after, reward, ended)
        if self.taken >= self.limit:
            self.status = "finished"
        self._ask()

    def _ask(self) -> None:
        count = self._words.asks(self.taken, self.total)
        self._asks = [Message("user", "\n\n".join([*self._news, count]))]
        if self.settings.history == "full":
            self._said += self._asks

    def _written(self, value: Any) -> str:
        return written(value, self.settings.decimals)

    # The conversation --------------------------------------------------------------------------

    def messages(self) -> list[Message]:
        """What the model is to be asked with now."""
        if self.settings.history == "full":
            return list(self._said)
        first, *corrections = self._asks
        if table := self._table.text(self._written(self._now)):
            first = Message("user", f"{table}\n\n{first.content}")
        return [self._said[0], first, *corrections]

    def hear(self, text: str) -> np.ndarray | None:
        """The action that a reply names; None if it names none: then ask again, unless it is over.

        After `max_invalid` such replies in a row, the trial is over.
        """
        self.replies += 1
        action = chosen(text, self.actions, self.settings.parsing)
        self.invalid_strict += chosen(text, self.actions, "strict") is None
        answer = Message("assistant", text)
        if action is None:
            self.invalid += 1
            self._in_a_row += 1
            if self._in_a_row >= self.settings.max_invalid:
                self.status = "invalid answers"
            exchange = [answer, Message("user", self._words.corrective())]
            self._asks += exchange
            if self.settings.history == "full":
                self._said += exchange
            return None
        self._in_a_row = 0
        if self.settings.history == "full":
            self._said.append(answer)
        self._action = action
        return action if self._arms is None else self._arms[action]


class _Summary:
    """What a trial has shown so far, in a table; observations and actions as they are written."""

    def __init__(self, decimals: int, recent: int) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._sums: Counter[tuple[str, str]] = Counter()
        self._led: dict[tuple[str, str], Counter[str]] = {}
        self._recent: deque[str] = deque(maxlen=recent)

    def add(self, seen: str, action: str, reached: str, reward: float, ended: bool) -> None:
        """One more step."""
        pair = seen, action
        self._counts[pair] += 1
        self._sums[pair] += reward  # type: ignore[assignment]
        where = f"{reached} (end)" if ended else reached
        self._led.setdefault(pair, Counter())[where] += 1
        self._recent.append(f"at {seen}, action {action}: to {where}, paid {pay(reward)}")

    def text(self, now: str) -> str:
        """The table, what was tried here first; empty before the first step."""
        if not self._counts:
            return ""
        # Where nothing recurs (numbers that vary), a table of everything would say nothing.
        pairs = sorted(self._counts, key=lambda pair: (pair[0] != now, pair))[:200]
        lines = ["What you have found out so far:"]
        for pair in pairs:
            count = self._counts[pair]
            led = ", ".join(f"{to} x{n}" for to, n in self._led[pair].most_common(3))
            mean = pay(self._sums[pair] / count)
            times = "once" if count == 1 else f"{count} times"
            lines.append(
                f"- at {pair[0]}, action {pair[1]} ({times}): paid {mean} on average; to {led}"
            )
        lines.append("The last steps:")
        lines += [f"- {step}" for step in self._recent]
        return "\n".join(lines)
