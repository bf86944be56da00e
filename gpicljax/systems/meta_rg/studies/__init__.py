"""The studies of Meta-Referential Games, one folder each."""

__all__: list[str] = []
