"""The game as a page in the browser, served on this machine only."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpicljax.play.game import Picture, PlaySession
from gpicljax.viz.episode_page import STYLE

_NAMES = ("127.0.0.1", "localhost", "::1")
_REFUSAL = f"This page answers requests for {', '.join(_NAMES)} alone, from the page itself."


def server(game: PlaySession, title: str, port: int = 0) -> ThreadingHTTPServer:
    """Returns a web server on this machine only, which shows the game and takes its keys.

    Returns:
      The server, listening; `serve_forever` runs it.

    Raises:
      OSError: if the port is taken.
    """
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    values = {"title": html.escape(title), "base": STYLE.read_text(encoding="utf-8")}
    page = re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], template).encode()
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_local():
                self.send_error(403, explain=_REFUSAL)
            elif self.path in ("/", "/index.html"):
                self._answer(page, "text/html; charset=utf-8")
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self.path != "/key" or not length.isdigit() or int(length) > 32:
                self.send_error(400)
                return
            key = self.rfile.read(int(length)).decode(errors="replace")
            if not self._is_local():
                self.send_error(403, explain=_REFUSAL)
                return
            with turn:
                game.press(key)
                content = json.dumps(situation(game)).encode()
            self._answer(content, "application/json")

        def _is_local(self) -> bool:
            # Other sites' pages, too, may send requests here, under names that lead here. Ports do
            # not matter: a tunnel forwards this one under another number.
            host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
            try:
                is_known = urlsplit(f"//{host}").hostname in _NAMES
            except ValueError:
                return False
            return is_known and (origin is None or origin.partition("://")[2] == host)

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Keeps the terminal quiet."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def situation(game: PlaySession) -> dict[str, Any]:
    """Everything that the page shows, for JSON."""
    return {
        "pictures": {
            name: {"uri": _data_uri(picture), "width": picture.shape[1]}
            for name, picture in game.pictures().items()
        },
        "facts": game.facts(),
        "said": game.words() if game.map_shown else "",  # it may tell what the map shows
        "over": game.over,
        "keys": game.names,
    }


def _data_uri(picture: Picture) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
