"""Recall: name a value of a stimulus that was shown a step ago, in a space never seen before."""

from gpicljax.envs.recall.env import Params, Recall, State, Task

__all__ = ["Params", "Recall", "State", "Task"]
