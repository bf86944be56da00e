"""Gradual learning with weights that change: one task set after the other, and what is kept.

The code is in `gpicljax/systems/gradual_learning/studies/gradual_learning_lifelong`.
`--help` lists the flags.
"""

from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.program import main

if __name__ == "__main__":
    main()
