"""Runs of `meta_language.py` side by side: sizes, kinds of models, numbers of languages.

    python experiments/meta_language.py --name transformer
    python experiments/meta_language.py --name linear --model.kind linear
    python experiments/meta_language_compare.py transformer linear

draws every run's nats by position on the same unseen languages in one figure for each kind of
language (Figures 4, 10 and 15 of the paper), their training losses in another (Figure 14), and
prints a table.
"""

__all__: list[str] = []
