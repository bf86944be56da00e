"""Playing an environment by hand: in the browser, or in the terminal.

    gpicljax play MazeWorld-v0
    gpicljax play MazeWorld-v0 --set size=21 mode=survival --params density=0.2
    gpicljax play FrozenLake-v1 --terminal
    gpicljax play ByteStream-v0 --terminal

Any environment will do that one agent acts in with a Discrete action space. What is shown is an
observation that is a picture, `render`, or else words. A stream of bytes is played in a terminal.
Time stands still between two keys.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import webbrowser
from collections.abc import Sequence

from gpicljax.play.browser import server
from gpicljax.play.game import PlaySession
from gpicljax.play.stream import Stream, is_stream, play_stream
from gpicljax.play.terminal import keys_at_once, play_in_terminal
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.runtime.mesh import enable_compilation_cache


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="gpicljax play", description="Play an environment by hand."
    )
    add_environment_arguments(parser, "MazeWorld-v0")
    parser.add_argument("--terminal", action="store_true", help="play in this terminal")
    parser.add_argument("--port", type=int, default=0, help="of the page; 0 takes a free one")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    options = parser.parse_args(argv)
    if options.terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("error: --terminal: input and output must be a terminal", file=sys.stderr)
        return 2
    enable_compilation_cache()
    try:
        env, params = make_environment(options)
        print("compiling ...", flush=True)
        if options.terminal and is_stream(env):
            stream = Stream(env, params, options.seed)
            with contextlib.suppress(KeyboardInterrupt), keys_at_once() as read:
                play_stream(stream, read, _write)
            return 0
        game = PlaySession(env, params, options.seed)
        game.pictures()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    title = " ".join([options.env_id, *options.set, *options.params])
    if options.terminal:
        true_colour = os.environ.get("COLORTERM") in ("truecolor", "24bit")

        with contextlib.suppress(KeyboardInterrupt), keys_at_once() as read:
            play_in_terminal(game, read, _write, true_colour=true_colour)
        return 0
    try:
        web = server(game, title, options.port)
    except (OSError, OverflowError) as error:
        print(f"error: --port {options.port}: {error}", file=sys.stderr)
        return 2
    address = f"http://127.0.0.1:{web.server_address[1]}/"
    print(f"{title}: {address} (Ctrl-C ends)", flush=True)
    if not options.no_browser:
        webbrowser.open(address)
    with web, contextlib.suppress(KeyboardInterrupt):
        web.serve_forever()
    return 0
