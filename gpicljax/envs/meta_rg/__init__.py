"""Meta-Referential Games (S2B): learn a language and the space it speaks about, within an episode.

`MetaRG-v0` follows the paper and, where the paper is silent, its reference environment.
`MetaRG-v1` is the same game without the shortcuts by which a message-free or memoryless rule beats
chance (`shortcut_free`).
"""

from gpicljax.envs.meta_rg.env import CHANNELS, MetaRG, Params, State, Task, shortcut_free

__all__ = ["CHANNELS", "MetaRG", "Params", "State", "Task", "shortcut_free"]
