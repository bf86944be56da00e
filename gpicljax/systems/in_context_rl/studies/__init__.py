"""The studies of in-context RL, one folder each."""

__all__: list[str] = []
