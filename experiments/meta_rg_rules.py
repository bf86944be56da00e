"""Programs that need no training in Meta-Referential Games, on the same games.

The code is in `gpicljax/systems/meta_rg/studies/meta_rg_rules`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.meta_rg_rules.program import main

if __name__ == "__main__":
    main()
