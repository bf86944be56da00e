"""The study of mental modelling."""

__all__: list[str] = []
