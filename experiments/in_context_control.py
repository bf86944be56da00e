"""Agents that learn the physics of what they control within a trial.

The code is in `gpicljax/systems/in_context_rl/studies/in_context_control`.
`--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_control.program import main

if __name__ == "__main__":
    main()
