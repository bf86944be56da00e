"""A page that replays an episode of Meta-Referential Games, with one player or with two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpicljax.evaluation.returns import Episode
from gpicljax.play.replay import write_replay
from gpicljax.runtime import RunResult
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import LISTENER, SPEAKER
from gpicljax.typing import ArrayTree


def replay(outcome: RunResult, env: MetaRG) -> str:
    """Writes the page of a greedy episode of the first sound seed; says so in words."""
    whose, episode = outcome.first_sound(outcome.measured.episode)
    actions, more = moves(env, episode), readings(env, episode)
    return write_replay(outcome, env, episode, whose, actions=actions, readings=more)


def choices(env: MetaRG) -> list[str]:
    """The listener's decisions in words, and what it does when there is nothing to decide."""
    if env.descriptive and not env.num_distractors:
        return ["same", "different", "wait"]
    places = [f"place {i + 1}" for i in range(env.num_distractors + 1)]
    return [*places, *["absent"] * env.descriptive, "wait"]


def moves(env: MetaRG, episode: Episode) -> list[str]:
    """What is done at every step: a learning speaker's message, or the listener's decision."""
    names, done = choices(env), []
    for step, action in enumerate(episode.actions[: episode.length]):
        stage = episode.states.round[step]
        if env.num_agents and stage < env.num_rounds:
            message = action[SPEAKER, 1 : 1 + env.message_length]
            done.append(f"say {' '.join(map(str, message))}")
        elif stage == env.num_rounds:
            chosen = action[LISTENER, 0] if env.num_agents else action // _sentences(env)
            done.append(names[chosen])
        else:
            done.append(names[-1])
    return done


def readings(env: MetaRG, episode: Episode) -> dict[str, list[str]]:
    """What is seen, what the listener makes of it when it decides, and how often it was right."""
    length, states = int(episode.length), episode.states
    # Only for the listener: where both players learn alike, they say these things of both.
    aux = {name: said for name, said in episode.aux.items() if np.ndim(said) == 2}
    moments = slice(length + 1)
    stage = states.round[moments]
    deciding, shown = stage == env.num_rounds, (stage > env.num_rounds)[:, None, None]
    stimuli = np.where(shown, states.game.speaker[moments], states.game.listener[moments])

    def when_deciding(words: Callable[[int], str]) -> list[str]:
        return [words(t) if deciding[t] else "\u2013" for t in range(length + 1)]

    def values(t: int) -> str:
        each = aux["q_values"][t, :: _sentences(env)][: env.num_decisions]
        pairs = zip(choices(env)[:-1], each, strict=True)
        return ", ".join(f"{name} {value:+.2f}" for name, value in pairs)

    found = {"the listener sees": [_numbers(stimulus) for stimulus in stimuli]}
    if "feedback" in aux:
        found["it expects"] = when_deciding(lambda t: _numbers(aux["feedback"][t]))
    if "q_values" in aux:
        found["values"] = when_deciding(values)
    right = episode.rewards[:length].reshape(length, -1)[:, 0] > 0
    query = (states.index >= states.skeleton.num_support)[moments]
    for name, phase in (("support", ~query), ("query", query)):
        asked = (deciding & phase)[:length]
        counts = np.stack([asked & right, asked], axis=1).cumsum(0)
        found[f"right, {name}"] = ["0 of 0", *(f"{hits} of {games}" for hits, games in counts)]
    return found


def _numbers(values: ArrayTree) -> str:
    return " ".join(f"{x:+.2f}" for x in np.ravel(values))


def _sentences(env: MetaRG) -> int:
    """How many actions of the listener's view stand for one decision."""
    actions: Any = env.action_space()
    return 1 if env.actions == "compact" else (actions.n - 1) // env.num_decisions
