"""LunarLander-v3: land a craft with three engines between two flags."""

from gpicljax.envs.lunar_lander.env import LunarLander, Params, State, Task

__all__ = ["LunarLander", "Params", "State", "Task"]
