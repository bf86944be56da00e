"""Language models as agents in trials of reinforcement learning."""

__all__: list[str] = []
