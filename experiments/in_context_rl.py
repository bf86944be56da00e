"""One table of agents that learn within 200 actions, with frozen weights, on tasks never seen.

The code is in `gpicljax/systems/in_context_rl/studies/in_context_rl`.
`--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_rl.program import main

if __name__ == "__main__":
    main()
