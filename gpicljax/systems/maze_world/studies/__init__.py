"""The studies of Maze World, one folder each."""

__all__: list[str] = []
