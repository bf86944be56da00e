"""Runs of `meta_language.py` side by side: sizes, kinds of models, numbers of languages.

The code is in `gpicljax/systems/meta_language/studies/meta_language_compare`.
`--help` lists the flags.
"""

from gpicljax.systems.meta_language.studies.meta_language_compare.program import main

if __name__ == "__main__":
    main()
