"""Meta-Language: predict the tokens of a random language that was never seen before."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["env", "data", "measures", "studies"])
__all__: list[str] = []
