"""Two learning players in Meta-Referential Games: does a language emerge that can be learnt?

    python experiments/meta_rg_players.py

trains a speaker and a listener on the game without shortcuts, and beside them listeners of
speakers that keep the code they were born with: what they reach needs no speaker that learns.
`--preset vdn` trains both as R2D2 agents on a summed value.
"""

__all__: list[str] = []
