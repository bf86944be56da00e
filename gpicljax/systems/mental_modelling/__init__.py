"""Mental modelling (LLM-Xavier): predict what an agent does from its history."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(
    __name__, submodules=["data", "measures", "figures", "prompts", "studies"]
)
__all__: list[str] = []
