"""The words of a trial: this project's own, or those of the reference.

The reference's are in `paper.toml`, with their source and licence. Its messages are given as they
are there, but for the explanations of tasks, which are not public: these are this project's.

Source: the in-context RL evaluation of `openai/evals`, commit cdb8ce95.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any, Protocol

from gpicljax import spaces
from gpicljax.checks import check
from gpicljax.llm.parsing import WORD
from gpicljax.llm.prompts import PromptSettings, answer_form, corrective, introduction, pay
from gpicljax.llm.scenarios import SCENARIOS, arm_names

_WHOLE_REWARDS = ("CliffWalking", "Bandit")
"""Environments whose rewards are integers in the reference; others print `1.0`."""


class TrialWords(Protocol):
    """The words of a trial; observations and actions are given as they are written."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Returns the names of the actions, where they have names and not numbers."""
        ...

    def describe_start(self, observation: str) -> list[str]:
        """Describes the start of the trial."""
        ...

    def describe_outcome(
        self, action: str, reached: str, observation: str, reward: float, ended: bool
    ) -> list[str]:
        """Describes the outcome of an action, and the observation after it."""
        ...

    def ask_action(self, taken: int, total: float) -> str:
        """Returns the number of actions so far, and the question."""
        ...

    def introduction(self, explanation: str | None) -> str:
        """Returns the first message to the model."""
        ...

    def corrective(self) -> str:
        """Returns the reply to an answer that names no action."""
        ...


@dataclasses.dataclass
class _OwnWords:
    """This project's own words."""

    settings: PromptSettings
    observations: spaces.Space
    actions: spaces.Space
    limit: int
    names: tuple[str, ...] | None = None

    def introduction(self, explanation: str | None) -> str:
        return introduction(self.settings, self.observations, self.actions, self.limit, explanation)

    def describe_start(self, observation: str) -> list[str]:
        return [f"The game begins. You observe {observation}."]

    def describe_outcome(
        self, action: str, reached: str, observation: str, reward: float, ended: bool
    ) -> list[str]:
        text = f"Action {action} led to observation {reached} and paid {pay(reward)}."
        if ended:
            text += " That was the end of the episode.\n"
            text += f"The next episode begins. You observe {observation}."
        return [text]

    def ask_action(self, taken: int, total: float) -> str:
        limit_text = f" of {self.limit}" if self.settings.tell_limit else ""
        return (
            f"{taken}{limit_text} actions taken; rewards so far add up to {pay(total)}.\n"
            f"Which action do you take? {answer_form(self.actions)}"
        )

    def corrective(self) -> str:
        return corrective(self.actions, self.settings.max_invalid)


@dataclasses.dataclass
class _ScenarioWords(_OwnWords):
    """A bandit as a scenario, see `llm.scenarios`, which is the explanation."""

    def __post_init__(self) -> None:
        check_bandit("scenario", self.observations, self.actions)
        assert isinstance(self.actions, spaces.Discrete)
        self.names = arm_names(self.settings.scenario, self.actions.n)
        self._scenario = SCENARIOS[self.settings.scenario]

    @property
    def _choices(self) -> str:
        assert self.names is not None
        return ", ".join(self.names)

    def introduction(self, explanation: str | None) -> str:
        del explanation
        settings = self.settings
        length = f" You choose {self.limit} times in all." if settings.tell_limit else ""
        thinking = "Think briefly first, then end" if settings.reasons else "Answer"
        return "\n\n".join(
            [
                self._scenario.text.format(names=self._choices),
                "After every choice you are told what it paid. What counts is the sum of what all "
                f"your choices pay.{length}",
                f"{thinking} with your choice in this form, exactly once: [{WORD}: name]",
            ]
        )

    def describe_start(self, observation: str) -> list[str]:
        return []

    def describe_outcome(
        self, action: str, reached: str, observation: str, reward: float, ended: bool
    ) -> list[str]:
        return [f"You chose {action}. It paid {pay(reward)}."]

    def ask_action(self, taken: int, total: float) -> str:
        limit_text = f" of {self.limit}" if self.settings.tell_limit else ""
        return (
            f"{taken}{limit_text} choices made; they have paid {pay(total)} in all.\n"
            f"{self._scenario.question} [{WORD}: name]"
        )

    def corrective(self) -> str:
        return (
            f"No choice could be read from that. You can choose {self._choices}. Name one of them, "
            f"once, in this form: [{WORD}: name] (After {self.settings.max_invalid} such answers "
            "in a row the game is over.)"
        )


def check_bandit(name: str, observations: spaces.Space, actions: spaces.Space) -> None:
    """Refuses environments that are no bandits; `name` is that of the setting which wants one.

    Raises:
      ValueError: for more than one situation, or actions that are not discrete.
    """
    bandit = observations == spaces.Discrete(1) and isinstance(actions, spaces.Discrete)
    expected = "bandits: one situation, and discrete actions"
    check(bandit, name, f"{observations}, {actions}", expected)


class _PaperWords:
    """The words of the reference."""

    def __init__(self, observations: spaces.Space, actions: spaces.Space, name: str = "") -> None:
        for field, space in (("observations", observations), ("actions", actions)):
            expected = "Discrete, for the published wording"
            check(isinstance(space, spaces.Discrete), field, space, expected)
        assert isinstance(observations, spaces.Discrete) and isinstance(actions, spaces.Discrete)
        self._observations, self._actions = observations.n, actions.n
        self.names = None
        self._whole = any(part in name for part in _WHOLE_REWARDS)

    def introduction(self, explanation: str | None) -> str:
        return _fill_text(
            "task",
            explanations=explanation or _texts()["raw"],
            action_space=self._actions,
            actions=[str(n) for n in range(self._actions)],
            observation_space=self._observations,
            observations=[_observation_text(n) for n in range(self._observations)],
        )

    def describe_start(self, observation: str) -> list[str]:
        return [_fill_text("reset", observation=_observation_text(observation))]

    def describe_outcome(
        self, action: str, reached: str, observation: str, reward: float, ended: bool
    ) -> list[str]:
        reward_text = self._reward(reward)
        fields = {
            "action": action,
            "next_observation": _observation_text(reached),
            "reward": reward_text,
        }
        if not ended:
            return [_fill_text("result", **fields)]
        return [_fill_text("result_reset", **fields), *self.describe_start(observation)]

    def ask_action(self, taken: int, total: float) -> str:
        total_text = "0" if taken == 0 else _format_decimal(total)
        return "\n".join(
            [_fill_text("steps", step_count=taken), _fill_text("rewards", reward_count=total_text)]
        )

    def corrective(self) -> str:
        return _texts()["invalid"]

    def _reward(self, reward: float) -> str:
        whole = self._whole and float(reward).is_integer()
        return str(int(reward)) if whole else _format_decimal(reward)


def words_of(
    settings: PromptSettings,
    observations: spaces.Space,
    actions: spaces.Space,
    limit: int,
    name: str = "",
) -> TrialWords:
    """Returns the words that settings ask for.

    Args:
      settings: settings of the prompts.
      observations: the space of what is seen.
      actions: the space of actions.
      limit: actions of the trial.
      name: of the environment.

    Raises:
      ValueError: for the published wording, if a space is not Discrete; for a scenario, if the task
        is no bandit or has more arms than there are names.
    """
    if settings.wording == "paper":
        return _PaperWords(observations, actions, name)
    if settings.scenario != "none":
        return _ScenarioWords(settings, observations, actions, limit)
    return _OwnWords(settings, observations, actions, limit)


@functools.cache
def _texts() -> Mapping[str, str]:
    with Path(__file__).with_name("paper.toml").open("rb") as file:
        return tomllib.load(file)


def _fill_text(text: str, **values: Any) -> str:
    return Template(_texts()[text]).substitute(**values)


def _observation_text(number: object) -> str:
    return _fill_text("observation", number=number)


def _format_decimal(value: float) -> str:
    """Returns a number as Python prints it, without the noise of single precision."""
    return str(float(f"{float(value):.6g}"))
