"""Teaches one task set after the other, and asks what those before are worth, and what is kept.

    python experiments/gradual_learning_lifelong.py

Weights change along the way: an agent is taught a task set by imitation of a guide on its own
streams until, with frozen weights, it clears the set; then comes the next one. Agents that go on
from what they know stand beside agents that begin anew at each set, and plain training beside two
that guard what is known: replay of the earlier sets, and elastic weights.
"""

__all__: list[str] = []
