"""Random languages to be written as symbols."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import with_params
from gpicljax.agents.language_agent import language_agent
from gpicljax.agents.symbol_lessons import StreamTask
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.typing import ArrayTree

CONTEXT = 512


def languages() -> StreamTask:
    """Returns languages of three to six tokens of memory; what is said teaches by itself."""
    env = MetaLanguage()
    params = env.make_params(horizon=2 * CONTEXT)
    memory = language_model(LanguageModelSettings("online"), env.vocab_size)
    untrained = memory.init(jax.random.key(0), jnp.zeros(1, jnp.int32))
    null = with_params(language_agent(memory, env.action_space()), untrained)

    def tell(keys: jax.Array, params: ArrayTree, carry: Any, timestep: TimeStep) -> Any:
        del keys, params
        return timestep.privileged["log_probs"], {}, carry

    return StreamTask(
        env,
        params,
        env,
        params,
        random_agent(env),
        2 * CONTEXT,
        "log-probability of the token, nats",
        {"untrained online memory": null},
        (Agent(lambda batch: (), tell), "the language itself"),
    )
