"""Meta-Referential Games (S2B), and the Recall task of its appendix E.1."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(
    __name__, submodules=["env", "experts", "measures", "figures", "prompts", "studies"]
)
__all__: list[str] = []
