"""Trains one agent to learn within trials, for the table of `in_context_rl.py`.

    python experiments/in_context_rl_train.py --family ten-arms
    python experiments/in_context_rl_train.py --family lakes --learner rl2 --preset full
    python experiments/in_context_rl_train.py --family mixture --observations 6_000_000

It is tested, with frozen weights, on tasks that it has never seen, whole and without its memory,
without rewards, or with another trial's context.
"""

__all__: list[str] = []
