"""Referential games to be written as symbols."""

from __future__ import annotations

from gpicljax.agents.symbol_lessons import StreamTask
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.rules import SHORTCUT_FREE
from gpicljax.systems.meta_rg.experts import listeners


def listening() -> StreamTask:
    """Returns the games of the study `meta_rg`'s main job; the nearest value shown teaches."""
    env = MetaRG(max_samples=4, rules=SHORTCUT_FREE)
    params = env.make_params(samples=4)
    nearest = listeners.rule_listener(env, listeners.nearest_rule(env))
    told = listeners.rule_listener(env, listeners.partial_rule(env, env.num_dims))
    return StreamTask(
        env,
        params,
        env,
        params,
        nearest,
        200,
        "reward per step",
        {"1-nearest neighbour": nearest},
        (told, "knows the meanings"),
    )
