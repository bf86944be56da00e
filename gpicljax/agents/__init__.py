"""Learning algorithms and generic agents; none knows a concrete environment."""
