"""Language models as agents in trials of reinforcement learning."""

from gpicljax.systems.in_context_rl.prompts.trials import play_trials

__all__ = [
    "play_trials",
]
