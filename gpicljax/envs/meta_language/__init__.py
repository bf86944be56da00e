"""Meta-Language: predict the tokens of a random language that was never seen before.

`MetaLanguage-v0` is an environment and, through `MetaLanguage.sample_sequences`, a stream of
training sequences generated on the device.
"""

from gpicljax.envs.meta_language.env import MetaLanguage, Params, State, Task
from gpicljax.envs.meta_language.language import Theta, parameter_count

__all__ = ["MetaLanguage", "Params", "State", "Task", "Theta", "parameter_count"]
