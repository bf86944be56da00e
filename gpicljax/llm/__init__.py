"""Language models as agents: prompts, a client, conversations on disk, trials, a small server.

`in_context_rl.play_trials` lets a model play trials of reinforcement learning, measured as all
other agents are. Asking, budgets, parsing and transcripts know nothing of that and serve whatever
else is asked of a model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "asking",
        "budget",
        "chat",
        "client",
        "conversations",
        "inspect_model",
        "local",
        "parsing",
        "prompts",
        "serving",
    ],
)
