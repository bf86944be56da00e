"""Measures what a language model's answers follow before it knows anything: echo and label bias.

    python experiments/in_context_rl_bias.py --llm.local smollm2 --llm.structured

The first question of a trial is asked with every action as the example of an answer's form and with
none, and with the actions listed in both directions. Replies are kept; a run that is started again
with the same flags asks for what it lacks.
"""

__all__: list[str] = []
