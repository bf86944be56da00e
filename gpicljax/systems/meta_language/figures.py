"""A text on a page, every token in the colour of the surprise that it was; curves of nats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from gpicljax.environment import Environment
from gpicljax.evaluation.icl import ICLCurve
from gpicljax.evaluation.returns import Episode
from gpicljax.play.drawing import Drawing, describe_situations
from gpicljax.play.match import Match
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage, Params
from gpicljax.systems.meta_language.measures.nulls import ORDERS, adaptive_ngrams, mixture
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.text import text_stage


def draw_language(
    env: Environment, episode: Episode, *, last_only: bool = False, **unused: Any
) -> Drawing:
    """Draws a text and what a model expected of it; see `play.drawing.draw_episode`.

    Beside the model stands a program that counts as it goes: adaptive n-grams, mixed.
    """
    del unused
    assert isinstance(env, MetaLanguage)
    length = int(episode.length)
    tokens = np.asarray(episode.states.context)[: length + 1, -1]
    came = tokens[1:]
    chances = np.exp(episode.actions[:length])
    best = np.argsort(-chances, axis=-1)[:, :3]
    predictions = [
        [f"{i} ({row[i]:.0%})" for i in few] for few, row in zip(best, chances, strict=True)
    ]
    speak = jax.jit(jax.vmap(env.next_token_log_probs, (None, 0)))
    true = np.asarray(speak(episode.task, episode.states.context[:length]))
    attainable = true[np.arange(length), came]
    lost = np.cumsum(attainable - episode.rewards[:length])
    counted = mixture(adaptive_ngrams(tokens[None], ORDERS - 1, env.vocab_size))[0]
    nats = {"the model": -episode.rewards[:length], "a program that counts": counted}
    return Drawing(
        words=describe_situations(env, episode, last_only=last_only),
        actions=[few[0] for few in predictions],
        rewards=episode.rewards[:length],
        readings={
            "the model expects": [*(", ".join(few) for few in predictions), "\u2013"],
            "reward of the true distribution": ["\u2013", *(f"{x:+.2f}" for x in attainable)],
            "lost so far, nats": [f"{x:.1f}" for x in np.append(0.0, lost)],
        },
        stage=text_stage(tokens, nats, env.vocab_size),
    )


def match(env: MetaLanguage, params: Params) -> Match:
    """Returns how a language is watched; its readers state chances, which no key can."""
    return Match(env, params, draw_language, shipped="meta_language_online")


def nats_figure(curves: Mapping[str, ICLCurve], title: str) -> Any:
    """Nats by position of the context, a line for each curve."""
    labels: dict[str, Any] = {"xlabel": "tokens of context", "ylabel": "nats per token"}
    return icl_figure(curves, log=True, title=title, **labels)
