"""Kinds of agents: how they are trained, and rules that need no training."""

__all__: list[str] = []
