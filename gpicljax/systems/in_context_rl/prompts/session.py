"""One trial of reinforcement learning as a conversation, and a table of what it has shown so far.

It knows nothing of models, files or environments; `in_context_rl.play_trials` does.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.interface import TimeStep
from gpicljax.llm.chat import Message
from gpicljax.llm.outcomes import Outcome, outcome_of
from gpicljax.llm.parsing import WORD, Parsing, chosen, chosen_name
from gpicljax.llm.prompts import PromptSettings, answer_form, format_value, pay
from gpicljax.systems.in_context_rl.prompts.wording import check_bandit, words_of

Status = Literal[
    "playing",
    "finished",
    "invalid answers",
    "refused",
    "cut off",
    "context full",
    "unanswered",
    "budget spent",
    "interrupted",
]
_ENDS_BY: dict[Outcome, Status] = {
    "unreadable": "invalid answers",
    "refused": "refused",
    "cut off": "cut off",
}
"""The status of a trial that ends by replies with one outcome."""


class Decision(NamedTuple):
    """One decision of an expert.

    Attributes:
      observation: the observation before the action.
      action: the action.
      reached: the observation after the action.
      reward: float, the action's reward.
      ended: whether an episode ended there.
      after: the next observation, of the next episode if one ended.
    """

    observation: Any
    action: Any
    reached: Any
    reward: float
    ended: bool
    after: Any


class TrialSession:
    """One trial as a conversation: observations become messages, and replies actions.

    It knows nothing of models, files or environments. A caller with a time step of a `trials.Trial`
    calls `see`, asks with `messages`, and hands the reply to `hear`.

    Args:
      settings: settings of the prompts.
      observations: the space of `now`.
      actions: the space of actions.
      limit: actions of the trial.
      explanation: description of the task, where it is explained.
      seed: of the numbers that a bandit's arms have, see `PromptSettings.permute_arms`.
      name: of the environment.
      demonstration: decisions of an expert in another task, of which the first
        `settings.demonstrations` are told.

    Raises:
      ValueError: for guidance or a scenario where the task is no bandit, and for spaces that the
        published wording does not know.

    Attributes:
      status: `"playing"`, or why it is over.
      replies: answers heard.
      invalid: number of replies that named no action.
      invalid_strict: number of replies that name none read strictly, whatever the settings.
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
        demonstration: Sequence[Decision] = (),
    ) -> None:
        """See the class."""
        self._arms: np.ndarray | None = None
        bandit = observations == spaces.Discrete(1) and isinstance(actions, spaces.Discrete)
        if bandit and settings.permute_arms:
            order = np.random.default_rng(seed).permutation(actions.n)  # type: ignore[attr-defined]
            self._arms = order.astype(np.int32)
        self.settings, self.actions, self.limit = settings, actions, limit
        explanation_or_none = explanation if settings.explanations else None
        self._words = words_of(settings, observations, actions, limit, name)
        if settings.guidance:
            check_bandit("guidance", observations, actions)
        shown = self._demonstration_text(demonstration[: settings.demonstrations], seed)
        text = "\n\n".join([self._words.introduction(explanation_or_none), *shown])
        self._messages = [Message("system", text)]
        self._question = 1  # the place of the last time step's message
        choices = None
        if settings.guidance or settings.scenario != "none":
            choices = [self._format_action(n) for n in range(actions.n)]  # type: ignore[attr-defined]
        self._table = _TrialTable(settings, choices)
        self._action: np.ndarray | None = None
        self._now: Any = None
        self._in_a_row = 0
        self.status: Status = "playing"
        self.replies = self.invalid = self.invalid_strict = 0
        self.taken = 0
        self.total = 0.0

    def _demonstration_text(self, demonstration: Sequence[Decision], seed: int) -> list[str]:
        """Returns an expert's decisions in words, with arms numbered apart from the trial's."""
        if not demonstration:
            return []
        labels = None
        if self._arms is not None:
            labels = np.random.default_rng([seed, 1]).permutation(len(self._arms))
        scenario = self.settings.scenario != "none"
        lines = ["This is how an expert began another game of the same kind, with other values:"]
        for observation, action, reached, reward, ended, after in demonstration:
            action_name = self._format_action(action if labels is None else labels[int(action)])
            outcome_texts = self._format_value(reached), self._format_value(after)
            (line, *_) = self._words.describe_outcome(action_name, *outcome_texts, reward, ended)
            observed = "" if scenario else f"You observe {self._format_value(observation)}. "
            # The next line says what is observed in the next episode.
            lines.append(
                f"- {observed}[{WORD}: {action_name.strip('[]')}] {line.partition(chr(10))[0]}"
            )
        lines.append("Now your own game begins.")
        return ["\n".join(lines)]

    # What happens ------------------------------------------------------------------------------

    def observe(self, timestep: TimeStep) -> None:
        """Records the outcome of the last action, or the start, from an unbatched time step."""
        observation = jax.tree.map(np.asarray, timestep.observation)
        if self._action is None:
            self.begin(observation["now"])
            return
        ended = bool(observation["terminated"]) or bool(observation["truncated"])
        self.record_outcome(
            observation["reached"], observation["now"], float(np.asarray(timestep.reward)), ended
        )

    def begin(self, observation: Any) -> None:
        """Begins the trial at this observation."""
        self._add_question(observation, self._words.describe_start(self._format_value(observation)))

    def record_outcome(self, reached: Any, observation: Any, reward: float, ended: bool) -> None:
        """Records the outcome of the last action."""
        assert self._action is not None
        action = self._format_action(self._action)
        self.taken += 1
        self.total += reward
        reached_text = self._format_value(reached)
        self._table.add(self._format_value(self._now), action, reached_text, reward, ended)
        if self.taken >= self.limit:
            self.status = "finished"
        outcome = self._words.describe_outcome(
            action, reached_text, self._format_value(observation), reward, ended
        )
        self._add_question(observation, outcome)

    def _add_question(self, observation: Any, news: Sequence[str]) -> None:
        self._now, self._question = observation, len(self._messages)
        text = "\n\n".join([*news, self._words.ask_action(self.taken, self.total)])
        self._messages.append(Message("user", text))

    def _format_value(self, value: Any) -> str:
        return format_value(value, self.settings.decimals)

    def _format_action(self, action: Any) -> str:
        """Returns an action as it is written."""
        names = self._words.names
        return self._format_value(action) if names is None else names[int(action)]

    def _parse_action(self, text: str, parsing: Parsing) -> np.ndarray | None:
        """Returns the action that a reply names."""
        names = self._words.names
        if names is None:
            return chosen(text, self.actions, parsing)
        return chosen_name(text, names, parsing)

    @property
    def form(self) -> str:
        """Returns the form of answers that is asked for."""
        return answer_form(self.actions)

    # The conversation --------------------------------------------------------------------------

    def messages(self) -> list[Message]:
        """Returns the messages to ask the model with."""
        if self.settings.history == "full":
            return list(self._messages)
        first, *corrections = self._messages[self._question :]
        if table := self._table.text(self._format_value(self._now)):
            first = Message("user", f"{table}\n\n{first.content}")
        return [self._messages[0], first, *corrections]

    def read_reply(self, text: str, finish: str = "stop") -> np.ndarray | None:
        """Returns the action that a reply names; None if it names none.

        After `max_invalid` such replies in a row, the trial is over.

        Args:
          text: the reply.
          finish: why the reply ends; see `outcomes.outcome_of`.
        """
        self.replies += 1
        action = self._parse_action(text, self.settings.parsing)
        self.invalid_strict += self._parse_action(text, "strict") is None
        self._messages.append(Message("assistant", text))
        if action is None:
            self.invalid += 1
            self._in_a_row += 1
            if self._in_a_row >= self.settings.max_invalid:
                self.status = _ENDS_BY[outcome_of(finish, False)]
            self._messages.append(Message("user", self._words.corrective()))
            return None
        self._in_a_row = 0
        self._action = action
        return action if self._arms is None else self._arms[action]


class _TrialTable:
    """A table of a trial's steps so far; observations and actions as they are written.

    Args:
      settings: settings of the prompts.
      choices: a bandit's arms as they are written, to be listed whether they were pulled or not;
        None for other tasks.
    """

    def __init__(self, settings: PromptSettings, choices: Sequence[str] | None) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._sums: Counter[tuple[str, str]] = Counter()
        self._led: dict[tuple[str, str], Counter[str]] = {}
        self._recent: deque[str] = deque(maxlen=settings.recent)
        self._settings, self._choices = settings, choices

    def add(self, observation: str, action: str, reached: str, reward: float, ended: bool) -> None:
        """Adds one more step."""
        pair = observation, action
        self._counts[pair] += 1
        self._sums[pair] += reward  # type: ignore[assignment]
        destination = f"{reached} (end)" if ended else reached
        self._led.setdefault(pair, Counter())[destination] += 1
        if self._settings.scenario != "none":
            self._recent.append(f"{action} paid {pay(reward)}")
        else:
            self._recent.append(
                f"at {observation}, action {action}: to {destination}, paid {pay(reward)}"
            )

    def text(self, observation: str) -> str:
        """Returns the table, with this observation's entries first; empty before the first step."""
        if not self._counts:
            return ""
        lines = ["What you have found out so far:"]
        if self._choices is not None:
            lines += self._arm_lines(observation)
        else:
            # If situations do not recur (real numbers), a full table has no information.
            pairs = sorted(self._counts, key=lambda pair: (pair[0] != observation, pair))[:200]
            for pair in pairs:
                destinations = ", ".join(f"{to} x{n}" for to, n in self._led[pair].most_common(3))
                lines.append(
                    f"- at {pair[0]}, action {pair[1]} ({self._format_count(pair)}): "
                    f"{self._format_mean(pair)}; to {destinations}"
                )
        lines.append("The last steps:")
        lines += [f"- {step}" for step in self._recent]
        return "\n".join(lines)

    def _arm_lines(self, observation: str) -> list[str]:
        """Returns a line for each arm, with the parts of its UCB1 index."""
        assert self._choices is not None
        lines, total = [], sum(self._counts.values())
        prefix = "" if self._settings.scenario != "none" else "action "
        for choice in self._choices:
            pair = observation, choice
            count = self._counts[pair]
            facts = [self._format_mean(pair)] if count else []
            if self._settings.guidance:
                value, bonus = ucb1_parts(count, self._sums[pair], total)
                bonus_text = "without limit" if math.isinf(bonus) else pay(round(bonus, 2))
                facts = [
                    f"exploitation value {pay(round(value, 2))}, exploration bonus {bonus_text}"
                ]
            line = ": ".join([f"- {prefix}{choice} ({self._format_count(pair)})", *facts])
            lines.append(line)
        if self._settings.guidance:
            lines.append(
                "The exploitation value is what a choice has paid on average. The exploration "
                "bonus is the greater the less often it was made. To choose the greatest sum of "
                "both is a rule that loses little in the long run."
            )
        return lines

    def _format_count(self, pair: tuple[str, str]) -> str:
        count = self._counts[pair]
        return {0: "never", 1: "once"}.get(count, f"{count} times")

    def _format_mean(self, pair: tuple[str, str]) -> str:
        return f"paid {pay(self._sums[pair] / self._counts[pair])} on average"


def ucb1_parts(count: int, total_paid: float, total: int) -> tuple[float, float]:
    """Returns the two parts of UCB1's index of an arm, as `agents.bandits.ucb1` adds them.

    Args:
      count: pulls of the arm.
      total_paid: sum of their rewards.
      total: pulls of all arms.

    Returns:
      The mean payment, 0 without a pull; and the bonus, infinite without one.
    """
    if count == 0:
        return 0.0, math.inf
    return total_paid / count, math.sqrt(2.0 * math.log(total) / count)
