"""Listeners that need no training: oracles, shortcut rules and a memoryless classifier."""

__all__: list[str] = []
