"""`gpicljax serve`."""

import sys

from gpicljax.serve.command import main, one_thread

if __name__ == "__main__":
    one_thread()
    sys.exit(main())
