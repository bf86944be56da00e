"""How disentangled are the stimuli of Meta-Referential Games, by three measures?

The code is in `gpicljax/systems/meta_rg/studies/meta_rg_stimuli`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_rg.studies.meta_rg_stimuli.program import main

if __name__ == "__main__":
    main()
