"""The old name of `maze_world_data.py`, kept for one release."""

from gpicljax.studies.registry import run_renamed

if __name__ == "__main__":
    run_renamed("maze_data", "maze_world_data")
