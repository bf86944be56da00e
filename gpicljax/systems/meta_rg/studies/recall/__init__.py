"""Recurrent R2D2 agents in the Recall task: do they find out what continuous values mean?

    python experiments/recall.py --stimulus scs
    python experiments/recall.py --stimulus ohe

each trains its seeds side by side in one compiled program, then compares them, in the second shot
and in the course of the first, with what a guess from a single stimulus is worth and with oracles.
`--network.memory dnc` changes the memory; `--preset paper-figure8` is the paper's Figure 8.
"""

__all__: list[str] = []
