"""The variants of Maze World in one picture (Figure 19 of the paper).

The code is in `gpicljax/systems/maze_world/studies/maze_world_variants`.
`--help` lists the flags.
"""

from gpicljax.systems.maze_world.studies.maze_world_variants.program import main

if __name__ == "__main__":
    main()
