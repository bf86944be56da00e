"""Sequence models on Meta-Language: do they learn a new language from its context alone?

    python experiments/meta_language.py

trains a model on random n-gram languages, each seen once, then measures on languages it has never
seen how its predictions improve with the context, beside what counting alone can do and the floor
of the languages themselves. `--preset paper-small` is the paper's; `--dry-run` says what it would
take on the machine at hand.
"""

__all__: list[str] = []
