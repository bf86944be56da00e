"""Figures, tables and pages of in-context RL."""

__all__: list[str] = []
