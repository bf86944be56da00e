"""Language models listen in Meta-Referential Games: Table 4, with what it lacks.

The code is in `gpicljax/systems/meta_rg/studies/meta_rg_language_models`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.meta_rg_language_models.program import main

if __name__ == "__main__":
    main()
