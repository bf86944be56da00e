"""The game as a page in the browser, served on this machine only."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from gpicljax.play.drawing import Drawing
from gpicljax.play.game import PlaySession
from gpicljax.viz.episode_page import fill_page, side_by_side

_LIVE = Path(__file__).with_name("live.html")
_NAMES = ("127.0.0.1", "localhost", "::1")
_REFUSAL = f"This page answers requests for {', '.join(_NAMES)} alone, from the page itself."


def server(game: PlaySession, title: str, port: int = 0, rules: str = "") -> ThreadingHTTPServer:
    """Returns a web server on this machine only, which shows the game and takes its keys.

    Args:
      game: the game.
      title: of the page.
      port: 0 takes a free one.
      rules: what is to be done, in words, below the title.

    Returns:
      The server, listening; `serve_forever` runs it.

    Raises:
      OSError: if the port is taken.
    """
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_local():
                self.send_error(403, explain=_REFUSAL)
            elif self.path in _PAGES:
                with turn:
                    page = _PAGES[self.path](game, title, rules)
                self._answer(page.encode(), "text/html; charset=utf-8")
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
    """Returns everything that the page shows, for JSON."""
    return _live_content(game, game.drawing())


def _live_content(game: PlaySession, drawing: Drawing) -> dict[str, Any]:
    others = {name: game.drawing(name) for name in game.others}
    live = {
        "keys": game.names,
        "over": game.over,
        "takes": "".join(game.actions) if game.is_stream else "",
        "players": [
            {"name": name, "last": _latest(drawn)}
            for name, drawn in {"you": drawing, **others}.items()
        ],
    }
    rewards = [
        {"name": name, "reward": np.asarray(drawn.rewards, float).tolist()}
        for name, drawn in others.items()
    ]
    return drawing.content() | {"live": live, "others": rewards}


def _latest(drawing: Drawing) -> dict[str, str]:
    """Returns the score of a player: rewards so far, and the latest readings."""
    readings = {name: str(texts[-1]) for name, texts in drawing.readings.items()}
    return {"so far": f"{np.sum(drawing.rewards):+.4g}", **readings}


def play_page(game: PlaySession, title: str, rules: str) -> str:
    """Returns the page on which the game is played."""
    drawing = game.drawing()
    more = {"picture_title": drawing.picture_title, "stage": drawing.stage, "live": _LIVE}
    return fill_page(
        title, _live_content(game, drawing), about={rules: ""} if rules else {}, **more
    )


def replay_page(game: PlaySession, title: str, rules: str) -> str:
    """Returns the episodes of everyone beside each other, with all that was hidden."""
    del rules
    pages = {
        name or "you": game.drawing(name, whole=True).page(name or "you")
        for name in ("", *game.others)
    }
    return side_by_side(title, pages)


_PAGES = {"/": play_page, "/index.html": play_page, "/replay": replay_page}
