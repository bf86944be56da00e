"""Recurrent R2D2 agents in the Recall task: do they find out what continuous values mean?

The code is in `gpicljax/systems/meta_rg/studies/recall`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.recall.program import main

if __name__ == "__main__":
    main()
