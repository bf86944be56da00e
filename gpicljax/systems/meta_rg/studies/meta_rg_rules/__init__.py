"""Programs that need no training in Meta-Referential Games: what a learner has to be ahead of.

    python experiments/meta_rg_rules.py

plays all rules on the same games, by cell of shots and samples: accuracy in the query phase, and on
minimal pairs of as many values as in training and of one more. `--preset sections` plays
`MetaRG-v2`, and `--preset table2` the game of the paper's Table 2.
"""

__all__: list[str] = []
