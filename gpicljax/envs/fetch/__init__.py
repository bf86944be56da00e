"""Fetch: a robot's arm brings a block to a goal; Gymnasium-Robotics' three tasks, on MuJoCo."""

from gpicljax.envs.fetch.env import Fetch, Params, State, Task, pick_and_place, push, slide
from gpicljax.envs.fetch.experts import Script, script

__all__ = [
    "Fetch",
    "Params",
    "Script",
    "State",
    "Task",
    "pick_and_place",
    "push",
    "script",
    "slide",
]
