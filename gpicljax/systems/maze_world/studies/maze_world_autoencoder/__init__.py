"""Autoencoders of what agents see in mazes: the eyes of Maze World's world models.

    python experiments/maze_world_autoencoder.py

trains a small one on frames of 32 x 32 pixels, rendered as they are needed, each maze seen once;
measures what it loses in mazes that it has never seen, beside the error of nothing but a mean image
and of the frame before; and saves it with the statistics of its latents, for
`gpicljax.runs.load_autoencoder`. `--preset paper` is the paper's (section 3.2, Figure 12), of 26
million parameters and 128 x 128 pixels; `--dry-run` says what it would take on the machine at hand.
"""

__all__: list[str] = []
