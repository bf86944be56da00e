"""Gradual learning on streams of bytes: how fast, does what came before help, is it kept?

The code is in `gpicljax/systems/gradual_learning/studies/gradual_learning`.
`--help` lists the flags.
"""

from gpicljax.systems.gradual_learning.studies.gradual_learning.program import main

if __name__ == "__main__":
    main()
