"""Learners that live in byte streams: one whose weights change at every step, and whole lives."""

__all__: list[str] = []
