"""One table of agents that learn within 200 actions, with frozen weights, on tasks never seen.

    python experiments/in_context_rl.py
    python experiments/in_context_rl.py --agents lakes:dpt ten-arms:rl2-lstm --tests lakes ten-arms
    python experiments/in_context_rl.py --preset full
    python experiments/in_context_rl.py --llm.endpoint http://127.0.0.1:8080/v1 --llm.model NAME

Trained agents (some come with the package), a tiny language model, bandit rules, tables, random
play and an oracle act on the same tasks with the same noise; scores are scaled so that random play
is 0 and the oracle 1. Agents that are neither among the runs of `in_context_rl_train.py` nor
shipped are trained first. With the preset full all of them are trained anew, with three seeds.
"""

__all__: list[str] = []
