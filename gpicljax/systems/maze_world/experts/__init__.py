"""Privileged agents, which plan on the part of the maze that they remember."""

__all__: list[str] = []
