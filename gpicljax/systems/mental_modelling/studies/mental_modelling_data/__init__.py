"""Records what `mental_modelling` asks about: `mental_modelling.py collect` and `load`."""

__all__: list[str] = []
