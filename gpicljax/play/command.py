"""Playing an environment by hand, in the browser or in the terminal, and watching agents in it.

    gpicljax play MetaRG-v1
    gpicljax play MazeWorld-v0 --set size=21 mode=survival --params density=0.2 --alone
    gpicljax play FrozenLake-v1 --terminal
    gpicljax watch meta_rg_exact
    gpicljax watch in_context_rl_mixture in_context_rl_mixture:wiped program --in FrozenLake-v1

Any environment can be played that one agent acts in with a Discrete action space. A shipped agent
and the best program play the same episode beside the person, where there are any; afterwards one
page shows all of them. Time stands still between two keys. What is watched is a shipped or a saved
agent, the same with its memory wiped, or the program; several play the same episode, on one page.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gpicljax.agents.combinators import with_memory_reset
from gpicljax.play.browser import server
from gpicljax.play.game import PlaySession
from gpicljax.play.match import Match, Player, find_match, watch_episode
from gpicljax.play.terminal import keys_at_once, play_in_terminal
from gpicljax.runs.arguments import user_path, whole_number
from gpicljax.runs.saved_agents import load_agent, shipped_model, shipped_models
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.runtime.mesh import enable_compilation_cache
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import write_atomically
from gpicljax.viz.episode_page import side_by_side
from gpicljax.wrappers.wrapper import innermost

PROGRAM = "program"
"""Stands for the best program of an environment, beside the names and folders of agents."""
_WIPED = ":wiped"


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


def find_agent(name: str) -> Path:
    """Returns the folder of a shipped agent, or of a saved one."""
    return shipped_model(name) if name in shipped_models() else user_path(name)


def load_player(match: Match, name: str) -> Player:
    """Returns the player of a name, in an environment.

    Args:
      match: the environment.
      name: a shipped agent's, or the folder of a saved one, `:wiped` behind it for the same without
        a memory; or `program`.

    Raises:
      ValueError: if there is no program, and as `load_agent`.
    """
    if name == PROGRAM:
        if match.program is None:
            raise ValueError(f"{PROGRAM}: {match.env.name} has none; accepted: agents")
        return match.program
    loaded = load_agent(find_agent(name.removesuffix(_WIPED)), match.env)
    network = loaded.network()
    player = Player(loaded.agent, loaded.params, network and network.attention)
    if name.endswith(_WIPED):
        player = player._replace(agent=with_memory_reset(player.agent, match.forgets))
    return player


def choose_players(match: Match, options: Namespace) -> dict[str, Player]:
    """Returns the other players: those asked for, or else a shipped agent and a program."""
    if options.alone:
        return {}
    players = {name: load_player(match, name) for name in options.beside}
    if not players:
        if match.shipped:
            # Other options may make an environment that it was not trained for.
            with contextlib.suppress(SavedError):
                players[match.shipped] = load_player(match, match.shipped)
        players |= {PROGRAM: match.program} if match.program else {}
    return {match.program_name if name == PROGRAM else name: x for name, x in players.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `gpicljax play`; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="gpicljax play", description="Play an environment by hand."
    )
    add_environment_arguments(parser, "MazeWorld-v0")
    text = "agents that play beside you: names of shipped ones, folders of saved ones, or program"
    parser.add_argument("--beside", nargs="+", default=[], metavar="AGENT", help=text)
    parser.add_argument("--alone", action="store_true", help="no agent plays beside you")
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
            match = find_match(*make_environment(options))
            print("compiling ...", flush=True)
            players = {} if options.terminal else choose_players(match, options)
            game = PlaySession(
                match.env, match.params, options.seed, players, match.draw, match.skip
            )
            game.compile()
    except (ValueError, SavedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.terminal:
        true_colour = os.environ.get("COLORTERM") in ("truecolor", "24bit")
        with contextlib.suppress(KeyboardInterrupt), keys_at_once() as read:
            play_in_terminal(game, read, _write, true_colour=true_colour)
        return 0
    title = " ".join([options.env_id, *options.set, *options.params])
    try:
        web = server(game, title, options.port, match.rules)
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


def watch(argv: Sequence[str] | None = None) -> int:
    """Runs `gpicljax watch`; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="gpicljax watch", description="Watch agents: the page of an episode, without training."
    )
    text = "a shipped agent's name, or the folder of a saved one; NAME:wiped; or program"
    parser.add_argument("agents", nargs="+", metavar="AGENT", help=text)
    add_environment_arguments(parser, "FrozenLake-v1", flag="--in")
    parser.add_argument("--out", type=user_path, metavar="FILE", help="of the page")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    options = parser.parse_args(argv)
    enable_compilation_cache()
    try:
        with _interrupted_at_once():
            match = watched_match(options)
            page = watch_page(match, options.agents, options.seed)
    except (ValueError, SavedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.out is None:
        descriptor, name = tempfile.mkstemp(prefix="gpicljax-", suffix=".html")
        os.close(descriptor)
        options.out = Path(name)
    write_atomically(options.out, page.encode())
    print(options.out)
    if not options.no_browser:
        webbrowser.open(options.out.resolve().as_uri())
    return 0


def watched_match(options: Namespace) -> Match:
    """Returns the environment that is asked for, or else that of the first agent's training."""
    agents = [name.removesuffix(_WIPED) for name in options.agents if name != PROGRAM]
    if options.env_id is not None:
        return find_match(*make_environment(options))
    if not agents or options.set or options.params:
        raise ValueError("--in: got none; accepted: the id of an environment")
    loaded = load_agent(find_agent(agents[0]))
    # What learns within whole trials plays those of the environment inside.
    match = find_match(innermost(loaded.env), loaded.env_params)
    fits = match.env.observation_space() == loaded.env.observation_space()
    return match if fits else Match(loaded.env, loaded.env_params)


def watch_page(match: Match, names: Sequence[str], seed: int) -> str:
    """Returns the page of an episode of an agent, or of several that play the same one."""
    pages = {}
    for name in names:
        player = load_player(match, name)
        drawing = match.draw(match.env, watch_episode(match, player, seed), player=player)
        steps, total = f"{len(drawing.actions):,}", f"{np.sum(drawing.rewards):,.2f}"
        about = {"in": innermost(match.env).name, "seed": seed, "steps": steps, "return": total}
        title = match.program_name if name == PROGRAM else Path(name).name
        pages[name] = drawing.page(title, about)
    return pages[names[0]] if len(pages) == 1 else side_by_side(", ".join(names), pages)
