"""Playing an environment by hand: `python -m gpicljax.play ID`."""
