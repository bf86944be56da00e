"""The old name of `maze_world_autoencoder.py`, kept for one release."""

from gpicljax.studies.registry import run_renamed

if __name__ == "__main__":
    run_renamed("maze_autoencoder", "maze_world_autoencoder")
