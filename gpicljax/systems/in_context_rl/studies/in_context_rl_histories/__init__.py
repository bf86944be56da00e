"""Learning histories of agents that learn within trials, written to a folder.

    python experiments/in_context_rl_histories.py --family dark-room --out histories
    python experiments/in_context_rl_train.py --family dark-room --learner ad --histories histories

Each history is one task, one algorithm (Q-learning; on bandits the Gittins index, or UCB1 for more
than 400 pulls) and the whole way from its first action to its last, as Algorithm Distillation
imitates it. An interrupted collection goes on when it is started again with the same flags.
"""

__all__: list[str] = []
