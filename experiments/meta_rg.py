"""Recurrent R2D2 listeners in Meta-Referential Games: do they learn to bind words to values?

The code is in `gpicljax/systems/meta_rg/studies/meta_rg`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.meta_rg.program import main

if __name__ == "__main__":
    main()
