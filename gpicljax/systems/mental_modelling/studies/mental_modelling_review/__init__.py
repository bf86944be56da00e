"""Makes and scores sheets on which reviewers judge replies: `mental_modelling.py review`."""

__all__: list[str] = []
