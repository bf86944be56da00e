"""The study of gradual learning."""

__all__: list[str] = []
