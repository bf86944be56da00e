"""Language models as agents."""

__all__: list[str] = []
