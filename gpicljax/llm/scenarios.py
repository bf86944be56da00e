"""Bandits told as something that happens: arms have names, not numbers.

Source: the idea, of Nie et al. (2024), "EVOLvE: evaluating and optimizing LLMs for exploration"
(arXiv 2410.06238); the scenarios are this project's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from gpicljax.checks import check

ScenarioName = Literal["none", "buttons", "cafes"]


class Scenario(NamedTuple):
    """A story that is told of a bandit in place of arms.

    Attributes:
      text: what the task is; `{names}` stands for the names of the choices.
      question: what is asked for every choice.
      names: of choices, in their order; single words.
    """

    text: str
    question: str
    names: tuple[str, ...]


SCENARIOS: Mapping[str, Scenario] = {
    "buttons": Scenario(
        "You stand before a machine with buttons of different colours: {names}. Whenever you press "
        "one, the machine pays. How much it pays varies, and depends on the button. What a button "
        "pays on average never changes.",
        "Which button do you press?",
        (
            *("red", "blue", "green", "yellow", "white", "black", "orange", "brown", "pink"),
            *("purple", "grey", "turquoise", "gold", "silver", "violet", "crimson"),
        ),
    ),
    "cafes": Scenario(
        "You have moved to a new town and have lunch in one of its cafés every day: {names}. "
        "Afterwards you write down how well you liked it. That varies from day to day, and depends "
        "on the café. How good a café is on average never changes.",
        "Which café do you go to?",
        (
            *("Anchor", "Bluebell", "Copper", "Dolphin", "Elm", "Fountain", "Gables", "Harbour"),
            *("Ivy", "Juniper", "Kettle", "Lantern", "Mill", "Orchard", "Peacock", "Quarry"),
        ),
    ),
}
"""By `PromptSettings.scenario`."""
assert set(SCENARIOS) == set(get_args(ScenarioName)) - {"none"}


def arm_names(scenario: str, arms: int) -> tuple[str, ...] | None:
    """Names of a bandit's arms; None without a scenario.

    Args:
      scenario: a name of `SCENARIOS`, or `"none"`.
      arms: how many.

    Raises:
      ValueError: for more arms than there are names.
    """
    if scenario == "none":
        return None
    names = SCENARIOS[scenario].names
    check(arms <= len(names), "arms", arms, f"up to {len(names)}, in the scenario {scenario}")
    return names[:arms]
