"""Two learning players in Meta-Referential Games: does a language emerge that can be learnt?

The code is in `gpicljax/systems/meta_rg/studies/meta_rg_players`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.meta_rg_players.program import main

if __name__ == "__main__":
    main()
