"""Autoencoders of what agents see in mazes: the eyes of Maze World's world models.

The code is in `gpicljax/systems/maze_world/studies/maze_world_autoencoder`.
`--help` lists the flags.
"""

from gpicljax.systems.maze_world.studies.maze_world_autoencoder.program import main

if __name__ == "__main__":
    main()
