"""Opens pages in a browser without a screen."""

import shutil
import subprocess

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def browse(text, folder, script="", fragment="", flags=("--dump-dom",)):
    """Opens the page in a browser without a screen; `script` runs when it is ready."""
    probe = f"""<pre id="probe"></pre><script>
      const say = (x) => document.getElementById("probe").append(x + "\\n");
      const wait = setInterval(() => {{
        if (document.body.dataset.ready !== "true") return;
        clearInterval(wait);
        {script}
      }}, 20);
    </script></body>"""
    file = folder / "page.html"
    file.write_text(text.replace("</body>", probe) if script else text, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=3000",
        "--window-size=1100,1000",
        *flags,
        f"file://{file}{fragment}",
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return done.stdout.decode()


in_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium or google-chrome")
