"""Trains one network on trials of all systems, written as streams of symbols.

    python experiments/one_learner.py
    python experiments/one_learner.py --systems lakes

Programs that need no training, and oracles, play the same trials as the network.
"""

__all__: list[str] = []
