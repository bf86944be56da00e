"""The variants of Maze World in one picture (Figure 19 of the paper).

    python experiments/maze_world_variants.py docs/manual/images/maze_world.png

draws it from fixed seeds.
"""

__all__: list[str] = []
