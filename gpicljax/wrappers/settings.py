"""Settings by which an environment becomes whole trials, in a form that can be written down."""

from __future__ import annotations

import dataclasses

from gpicljax.checks import Count, check, check_fields
from gpicljax.environment import Environment
from gpicljax.wrappers.padded_spaces import PaddedSpaces
from gpicljax.wrappers.trial import Trial


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """Whole trials, padded or not; saved agents of them are saved with it.

    Attributes:
      actions: of a trial.
      observations: of the larger space that they are padded to; None for none.
      choices: actions of that space.

    Raises:
      ValueError: for numbers below 1, or one of the last two without the other.

    Example:
      >>> import gpicljax
      >>> settings = TrialSettings(actions=200, observations=48, choices=10)
      >>> settings.wrap(gpicljax.make("CliffWalking-v1")).action_space()
      Discrete(n=10)
    """

    actions: Count = 200
    observations: Count | None = None
    choices: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        is_pair = (self.observations is None) == (self.choices is None)
        check(is_pair, "choices", self.choices, "a number where observations is one, else None")

    def wrap(self, env: Environment) -> Environment:
        """Returns trials of an environment."""
        trials = Trial(env, self.actions)
        if self.observations is None or self.choices is None:
            return trials
        return PaddedSpaces(trials, self.observations, self.choices)
