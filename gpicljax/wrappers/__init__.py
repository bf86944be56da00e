"""Trials as environments: so many actions in a row, in spaces that different tasks share.

Wrappers (see `wrappers`) for agents that learn within a trial: `Trial` makes one episode of a whole
trial, `PaddedSpaces` gives small tasks the spaces of large ones, `TaskMixture` draws each task
from one of several environments, `HeldOutTasks` holds tasks out, and `WithOptimalActions` solves
each task as it is drawn, for teachers and oracles. `TrialSettings` says how, where an agent is
saved.

Example:
  >>> import gpicljax
  >>> lake = PaddedSpaces(Trial(gpicljax.make("FrozenLake-v1"), 200), observations=48, actions=10)
  >>> bandit = gpicljax.make("BanditTwoArmedHighLowFixed-v0")
  >>> env = TaskMixture((lake, PaddedSpaces(Trial(bandit, 200), observations=48, actions=10)))
  >>> env.action_space(), int(env.horizon())
  (Discrete(n=10), 200)
"""

from gpicljax.wrappers.mixture import TaskMixture
from gpicljax.wrappers.padded import PaddedSpaces
from gpicljax.wrappers.part import HeldOutTasks
from gpicljax.wrappers.settings import TrialSettings
from gpicljax.wrappers.solved import WithOptimalActions
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.wrapper import (
    ActionRepeat,
    FrameStackObservation,
    RecordEpisodeStatistics,
    Wrapper,
)

__all__ = [
    "ActionRepeat",
    "FrameStackObservation",
    "HeldOutTasks",
    "PaddedSpaces",
    "RecordEpisodeStatistics",
    "TaskMixture",
    "Trial",
    "TrialSettings",
    "WithOptimalActions",
    "Wrapper",
]
