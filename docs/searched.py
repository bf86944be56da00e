"""Checks that the manual's search finds something when a page is opened from disk.

python docs/searched.py docs/site
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

site = Path(sys.argv[1]).resolve()
browser = shutil.which("chromium") or shutil.which("google-chrome")
if browser is None:
    print("no browser: the search is not tried")
    raise SystemExit(0)
with tempfile.TemporaryDirectory() as profile:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    flags += [
        "--virtual-time-budget=20000",
        "--dump-dom",
        f"file://{site}/index.html?q=referential",
    ]
    page = subprocess.run([browser, *flags], capture_output=True, timeout=120, check=True).stdout
found = re.search(r"(\d+) matching document", page.decode())
print(f"found from disk: {found.group(0) if found else 'nothing'}")
raise SystemExit(not found)
