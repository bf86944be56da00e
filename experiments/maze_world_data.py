"""Demonstrations in Maze World, written to a folder: the data of appendix A.3.

The code is in `gpicljax/systems/maze_world/studies/maze_world_data`.
`--help` lists the flags.
"""

from gpicljax.systems.maze_world.studies.maze_world_data.program import main

if __name__ == "__main__":
    main()
