"""What goes on in an agent's mind, and whether copying its last action says as much.

The code is in `gpicljax/systems/mental_modelling/studies/mental_modelling`.
`--help` lists the flags.
"""

from gpicljax.systems.mental_modelling.studies.mental_modelling.program import main

if __name__ == "__main__":
    main()
