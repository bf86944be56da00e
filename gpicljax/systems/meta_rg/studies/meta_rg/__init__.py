"""Recurrent R2D2 listeners in Meta-Referential Games: do they learn to bind words to values?

    python experiments/meta_rg.py --seeds 6

trains the seeds side by side in one compiled program, then compares them on fresh episodes with
ablated channels, rules that ignore the messages, and oracles. `--preset paper-table3` is the
paper's grid; `--dry-run` says what it would take on the machine at hand.
"""

__all__: list[str] = []
