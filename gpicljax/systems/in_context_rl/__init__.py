"""The in-context RL evaluation: trials of reinforcement learning with frozen weights."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(
    __name__, submodules=["data", "measures", "prompts", "studies"]
)
__all__: list[str] = []
