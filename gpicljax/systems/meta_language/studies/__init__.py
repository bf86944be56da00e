"""The studies of Meta-Language, one folder each."""

__all__: list[str] = []
