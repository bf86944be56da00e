"""`python -m gpicljax.serve`."""

import sys

from gpicljax.serve.command import main

if __name__ == "__main__":
    sys.exit(main())
