"""Agents that learn to control systems of unknown physics within a trial.

    python experiments/in_context_control.py --env Pendulum-v1 --seeds 3

trains a recurrent agent on pendulums of random gravity, mass and length, and compares it with a
controller that is told the physics of each, one that is told those of the average pendulum, and
itself without memory.
"""

__all__: list[str] = []
