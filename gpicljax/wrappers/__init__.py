"""Environments around other environments: repeated actions, frame stacks, whole trials.

`ActionRepeat`, `FrameStackObservation` and `RecordEpisodeStatistics` change one environment. The
others are for agents that learn within a trial: `Trial` makes one episode of a whole trial,
`PaddedSpaces` gives small tasks the spaces of large ones, `TaskMixture` draws each task from one of
several environments, `HeldOutTasks` holds tasks out for a test, and `WithOptimalActions` solves
each task as it is drawn, for teachers and oracles. `TrialSettings` stores these choices with an
agent.

Example:
  >>> import gpicljax
  >>> lake = PaddedSpaces(Trial(gpicljax.make("FrozenLake-v1"), 200), observations=48, actions=10)
  >>> bandit = gpicljax.make("BanditTwoArmedHighLowFixed-v0")
  >>> env = TaskMixture((lake, PaddedSpaces(Trial(bandit, 200), observations=48, actions=10)))
  >>> env.action_space(), int(env.horizon())
  (Discrete(n=10), 200)
"""

from gpicljax.wrappers.held_out_tasks import HeldOutTasks
from gpicljax.wrappers.padded_spaces import PaddedSpaces
from gpicljax.wrappers.settings import TrialSettings
from gpicljax.wrappers.task_mixture import TaskMixture
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions
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
