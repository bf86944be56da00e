"""`gpicljax play`."""

import sys

from gpicljax.play.command import main

if __name__ == "__main__":
    sys.exit(main())
