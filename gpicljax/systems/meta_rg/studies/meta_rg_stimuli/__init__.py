"""Disentanglement of the stimuli of Meta-Referential Games, by three measures.

    python experiments/meta_rg_stimuli.py

draws semantic structures and compares continuous (SCS) with multi-hot stimuli by FactorVAE score,
mutual information gap and modularity (appendix E.2 of the paper), for several numbers of
object-centric samples and of stimuli measured: the last two depend on them.
"""

__all__: list[str] = []
