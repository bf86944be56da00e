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
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence

from gpicljax.play.browser import server
from gpicljax.play.game import PlaySession
from gpicljax.play.stream import Stream, is_stream, play_stream
from gpicljax.play.terminal import keys_at_once, play_in_terminal
from gpicljax.runs.arguments import whole_number
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.runtime.mesh import enable_compilation_cache


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@contextlib.contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Ctrl-C ends the process at once: there is nothing to be saved.

    As an exception in the midst of a compilation, it would leave the compiler's threads running
    while Python shuts down, which crashes now and then.
    """
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="gpicljax play", description="Play an environment by hand."
    )
    add_environment_arguments(parser, "MazeWorld-v0")
    parser.add_argument("--terminal", action="store_true", help="play in this terminal")
    parser.add_argument(
        "--port", type=whole_number, default=0, help="of the page; 0 takes a free one"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    options = parser.parse_args(argv)
    if options.terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("error: --terminal: input and output must be a terminal", file=sys.stderr)
        return 2
    enable_compilation_cache()
    try:
        with _interrupted_at_once():
            env, params = make_environment(options)
            print("compiling ...", flush=True)
            words = options.terminal and is_stream(env)
            game = (Stream if words else PlaySession)(env, params, options.seed)
            game.compile()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.terminal:
        true_colour = os.environ.get("COLORTERM") in ("truecolor", "24bit")
        with contextlib.suppress(KeyboardInterrupt), keys_at_once() as read:
            if isinstance(game, Stream):
                play_stream(game, read, _write)
            else:
                play_in_terminal(game, read, _write, true_colour=true_colour)
        return 0
    assert isinstance(game, PlaySession)
    title = " ".join([options.env_id, *options.set, *options.params])
    try:
        web = server(game, title, options.port)
    except (OSError, OverflowError) as error:
        print(f"error: --port {options.port}: {error}", file=sys.stderr)
        return 2
    address = f"http://127.0.0.1:{web.server_address[1]}/"
    with _interrupted_at_once(), web:
        print(f"{title}: {address} (Ctrl-C ends)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        web.serve_forever()
    return 0
