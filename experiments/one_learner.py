"""Trains one network on trials of all systems: `python experiments/one_learner.py --help`."""

from gpicljax.studies.one_learner.program import main

if __name__ == "__main__":
    main()
