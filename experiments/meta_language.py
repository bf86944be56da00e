"""Sequence models on Meta-Language: do they learn a new language from its context alone?

The code is in `gpicljax/systems/meta_language/studies/meta_language`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_language.studies.meta_language.program import main

if __name__ == "__main__":
    main()
