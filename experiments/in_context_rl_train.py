"""Trains one agent to learn within trials, for the table of `incontext_rl.py`.

The study is in `gpicljax/systems/in_context_rl/studies/in_context_rl_train`; `--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_rl_train.program import main

if __name__ == "__main__":
    main()
