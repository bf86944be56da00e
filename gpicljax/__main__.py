"""`python -m gpicljax` is the command `gpicljax`."""

import sys

from gpicljax.runtime.command import main

if __name__ == "__main__":
    sys.exit(main())
