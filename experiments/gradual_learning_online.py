"""An agent whose weights change while it plays: one stream, one life, beside nulls.

The code is in `gpicljax/systems/gradual_learning/studies/gradual_learning_online`.
`--help` lists the flags.
"""

from gpicljax.systems.gradual_learning.studies.gradual_learning_online.program import main

if __name__ == "__main__":
    main()
