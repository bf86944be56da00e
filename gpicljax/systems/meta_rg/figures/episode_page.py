"""Drawn data of an episode's games: stimuli, tokens, decisions and attention."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from gpicljax.evaluation.returns import Episode
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import LISTENER, SPEAKER, State, Task
from gpicljax.viz.episode_page import Stage


def games_stage(
    env: MetaRG,
    episode: Episode,
    attention: np.ndarray | None = None,
    *,
    revealed: bool = True,
) -> Stage:
    """Returns the games of an episode, as `games.html` draws them.

    Args:
      env: the environment, with one player or with two.
      episode: the episode, arrays on the host.
      attention: float `[G, H, G]`, the share of each of H heads that every game has when the
        listener decides in another one, G the most games of an episode; None where the listener's
        network does not say.
      revealed: whether is drawn what the listener does not see: the structure, and of games without
        feedback what the speaker sees, the answer and the result.
    """
    length, states = int(episode.length), episode.states
    index, stage = (x[: length + 1] for x in (states.index, states.round))
    games, first = np.unique(index, return_index=True)
    task = episode.task
    heard = [_heard(env, states, task, step) for step in range(length + 1)]
    listener = {name: x for name, x in episode.aux.items() if np.ndim(x) == 2}
    support, total = (int(x[0]) for x in (states.skeleton.num_support, states.skeleton.num_games))
    played = []
    for game, start in zip(games.tolist(), first.tolist(), strict=True):
        game_state = jax.tree.map(lambda x, start=start: x[start], states.game)
        step = start + env.num_rounds
        is_played, query = step < length, game >= support
        is_told = revealed or (is_played and env.tells_results(query))
        right = (
            bool(np.reshape(episode.rewards[step], -1)[0] > 0) if is_played and is_told else None
        )
        is_shown = revealed or (env.feedback and is_told)
        speaker = game_state.speaker[: _num_speaker_stimuli(env)] if is_shown else []
        expected = listener["feedback"][step] if is_played and "feedback" in listener else []
        played.append(
            {
                "query": int(query),
                "number": game - support * query + 1,
                "speaker": _values(env, speaker, task),
                "listener": _values(env, game_state.listener, task),
                "answer": int(game_state.answer) if is_told else None,
                "decision": decision(env, episode.actions[step]) if is_played else None,
                "right": right,
                "expected": _values(env, expected, task),
            }
        )
    data = {
        "game": index.tolist(),
        "round": stage.tolist(),
        "rounds": env.num_rounds,
        "sections": task.num_values.tolist() if revealed else [],
        "choices": env.decisions,
        "counts": [support, total - support] if revealed else None,
        "sent": states.channel[: length + 1, SPEAKER].tolist() if revealed else None,
        "heard": heard,
        "reply": states.channel[: length + 1, LISTENER].tolist() if env.listener_speaks else None,
        "expects": "feedback" in listener,
        "feedback": env.feedback,
        "games": played,
        **_pack_attention(attention, len(games)),
    }
    return Stage(Path(__file__).with_name("games.html"), data, first.tolist(), "game")


def decision(env: MetaRG, action: np.ndarray) -> int:
    """Returns the index in `decisions` of an action of the listener's view, or of both players."""
    return int(action[LISTENER, 0] if env.num_agents else action // sentences(env))


def sentences(env: MetaRG) -> int:
    """Returns the number of actions of the listener's view that stand for one decision."""
    actions: Any = env.action_space()
    return 1 if env.actions == "compact" else (actions.n - 1) // env.num_decisions


def _num_speaker_stimuli(env: MetaRG) -> int:
    """Returns the number of stimuli that the speaker sees."""
    hides = env.num_agents is not None and env.rules.observability == "partial"
    return 1 if hides else env.num_distractors + 1


def _values(env: MetaRG, stimuli: ArrayLike | Sequence[float], task: Task) -> list[list[float]]:
    """A number in [-1, 1] for each dimension: the stimulus itself, or the middle of a section."""
    if env.stimulus == "scs":
        return np.round(np.reshape(stimuli, (-1, env.num_dims)), 3).astype(float).tolist()
    latents = np.reshape(stimuli, (-1, env.num_dims, env.max_values)).argmax(-1)
    return np.round((2 * latents + 1) / task.num_values - 1, 3).tolist()


def _heard(env: MetaRG, states: State, task: Task, step: int) -> list[int]:
    """Returns the tokens that the listener hears at a step."""
    state = jax.tree.map(lambda x: x[step], states)
    arrives = np.asarray(env.channel(state, task))
    received = arrives[np.arange(env.message_length), state.channel[SPEAKER]]
    return received[np.asarray(task.positions)].tolist()


def _pack_attention(attention: np.ndarray | None, games: int) -> dict[str, Any]:
    """Returns a text for each game: bytes of every head, over the games up to it."""
    if attention is None:
        return {"heads": 0, "attention": None}
    shares: NDArray[Any] = np.clip(np.round(255 * np.asarray(attention)), 0, 255).astype(np.uint8)
    rows = [shares[game, :, : game + 1].tobytes() for game in range(games)]
    texts = [base64.b64encode(row).decode() for row in rows]
    return {"heads": shares.shape[1], "attention": texts}
