"""World models and policies of Maze World, learnt from demonstrations: what is context worth?

The code is in `gpicljax/systems/maze_world/studies/maze_world`.
`--help` lists the flags.
"""

from gpicljax.systems.maze_world.studies.maze_world.program import main

if __name__ == "__main__":
    main()
