"""Refuses pages that load anything from elsewhere: `python docs/external.py docs/site`."""

import re
import sys
from pathlib import Path

LOADS = (
    # Links to other sites are fine; what a browser fetches by itself is not.
    r"<script[^>]*\ssrc=[\"']?((?:https?:)?//[^\"'\s>]*)",
    r"<(?:img|iframe|source|video|audio|embed)[^>]*\ssrc=[\"']?((?:https?:)?//[^\"'\s>]*)",
    r"<link[^>]*\shref=[\"']?((?:https?:)?//[^\"'\s>]*)",
    r"@import\s+(?:url\()?[\"']?((?:https?:)?//[^\"')\s]*)",
    r"url\([\"']?((?:https?:)?//[^\"')\s]*)",
)


def external(site):
    """What the pages and styles below a folder load from elsewhere, as `(file, address)`."""
    for path in sorted(Path(site).rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(errors="replace")
            for pattern in LOADS:
                for address in re.findall(pattern, text):
                    yield path, address


if __name__ == "__main__":
    found = list(external(sys.argv[1]))
    for path, address in found:
        print(f"{path} loads {address}")
    sys.exit(bool(found))
