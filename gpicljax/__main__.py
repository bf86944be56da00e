"""`python -m gpicljax` is the command `gpicljax`."""

import sys

from gpicljax.cli import main

if __name__ == "__main__":
    sys.exit(main())
