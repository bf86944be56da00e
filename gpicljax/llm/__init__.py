"""Language models as agents: prompts, a client, conversations on disk, trials.

`in_context_rl.play_trials` lets a model play trials of reinforcement learning, measured as all
other agents are. Asking, budgets, parsing and transcripts know nothing of that and serve whatever
else is asked of a model.
"""

from typing import TYPE_CHECKING

import lazy_loader

from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.budget import Budget
from gpicljax.llm.chat import ChatModel, FakeModel, Message, ModelError, Reply, Usage
from gpicljax.llm.prompts import PromptSettings

if TYPE_CHECKING:
    from gpicljax.llm.client import OpenAICompatible

# The client needs httpx, which fakes and other models do without.
__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submodules=["conversations", "inspect_model", "local"],
    submod_attrs={"client": ["OpenAICompatible"]},
)

__all__ = [
    "Budget",
    "ChatModel",
    "FakeModel",
    "Message",
    "ModelError",
    "OpenAICompatible",
    "PromptSettings",
    "Reply",
    "RetryPolicy",
    "Usage",
]
