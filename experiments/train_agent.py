"""Trains one agent per seed on any registered environment, evaluates, saves and films it.

The code is in `gpicljax/studies/train_agent`.
`--help` lists the flags.
"""

from gpicljax.studies.train_agent.program import main

if __name__ == "__main__":
    main()
