"""What goes on in an agent's mind, and whether copying its last action says as much.

python experiments/mental_modelling.py collect
python experiments/mental_modelling.py load a.npz b.npz --env MountainCar-v0 --agent mine ...
"""

from __future__ import annotations

import sys
from typing import Any

from mental_modelling_data import collect, load


def main(argv: list[str] | None = None) -> Any:
    """Runs what the first argument names."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    kinds = {"collect": collect, "load": load}
    if arguments and arguments[0] in kinds:
        return kinds[arguments[0]](arguments[1:])
    raise SystemExit("mental_modelling.py: collect or load")


if __name__ == "__main__":
    main()
