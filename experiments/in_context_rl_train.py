"""Trains one agent to learn within trials, for the table of `in_context_rl.py`.

The code is in `gpicljax/systems/in_context_rl/studies/in_context_rl_train`.
`--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_rl_train.program import main

if __name__ == "__main__":
    main()
