"""Learning histories of agents that learn within trials, written to a folder.

The code is in `gpicljax/systems/in_context_rl/studies/in_context_rl_histories`.
`--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_rl_histories.program import main

if __name__ == "__main__":
    main()
