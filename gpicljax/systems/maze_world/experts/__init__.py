"""Privileged agents, which plan on the part of the maze that they remember."""

from gpicljax.systems.maze_world.experts.privileged import privileged_agent

__all__ = [
    "privileged_agent",
]
