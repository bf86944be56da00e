"""Trials as environments: so many actions in a row, in spaces that different tasks share.

Wrappers (see `wrappers`) for agents that learn within a trial: `Trial` makes one episode of a whole
trial, `Padded` gives small tasks the spaces of large ones, `Mixture` draws each task from one of
several environments, `Part` holds tasks out, and `Solved` solves each task as it is drawn, for
teachers and oracles. `TrialSettings` says how, where an agent is saved.

Example:
  >>> import gpicljax
  >>> lake = Padded(Trial(gpicljax.make("FrozenLake-v1"), 200), observations=48, actions=10)
  >>> bandit = gpicljax.make("BanditTwoArmedHighLowFixed-v0")
  >>> env = Mixture((lake, Padded(Trial(bandit, 200), observations=48, actions=10)))
  >>> env.action_space(), int(env.horizon())
  (Discrete(n=10), 200)
"""

from gpicljax.wrappers.mixture import Mixture
from gpicljax.wrappers.padded import Padded
from gpicljax.wrappers.part import Part
from gpicljax.wrappers.settings import TrialSettings
from gpicljax.wrappers.solved import Solved, action_values
from gpicljax.wrappers.trial import Trial, trial_space

__all__ = [
    "Mixture",
    "Padded",
    "Part",
    "Solved",
    "Trial",
    "TrialSettings",
    "action_values",
    "trial_space",
]
