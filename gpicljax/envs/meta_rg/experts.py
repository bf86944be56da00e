"""Rule-based listeners: oracles that bind, and shortcuts that do not (calibration baselines).

All follow the agent contract of `gpicljax.rollout` for the listener's view with compact actions:
decision k in 0 .. K says "my stimulus k has the speaker's meaning", K + 1 says "none has". They
have no parameters. A rule that beats 50 % without binding messages to values in context shows what
a learner's score must exceed before it is evidence of binding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.envs.meta_rg import language
from gpicljax.envs.meta_rg.env import MetaRG
from gpicljax.rollout import Agent
from gpicljax.vector import TimeStep

Rule = Callable[[Any, dict[str, jax.Array], jax.Array], jax.Array]


class Memory(NamedTuple):
    """What was fed back in this episode, unbatched.

    Attributes:
      stimuli: float `[G, F]`, the speaker's stimuli shown in feedback steps.
      messages: `int32[G, L]`, the messages heard with them.
      query: `bool[G]`, whether they belong to the query phase.
      count: `int32[]`, how many there are.
    """

    stimuli: jax.Array
    messages: jax.Array
    query: jax.Array
    count: jax.Array


def _check(env: MetaRG) -> None:
    if env.view != "listener" or env.actions != "compact":
        raise ValueError('rule-based listeners need view="listener" and actions="compact"')


def _decide(matches: jax.Array) -> jax.Array:
    """First matching slot of `bool[K + 1]`, or K + 1 if none."""
    return jnp.where(matches.any(), jnp.argmax(matches), matches.shape[0]).astype(jnp.int32)


def _memory_agent(env: MetaRG, rule: Rule) -> Agent:
    """An agent that remembers every feedback and decides by `rule(memory, observation, key)`."""
    _check(env)
    features = env.num_dims * (1 if env.stimulus == "scs" else env.max_values)
    games, wait = env.max_games, env.num_decisions

    def initial_carry(batch: int) -> Memory:
        return Memory(
            jnp.full((batch, games, features), jnp.inf, jnp.result_type(float)),
            jnp.zeros((batch, games, env.message_length), jnp.int32),
            jnp.zeros((batch, games), bool),
            jnp.zeros(batch, jnp.int32),
        )

    def one(key: jax.Array, memory: Memory, observation: Any) -> tuple[jax.Array, Memory]:
        fed_back = observation["round"] == env.num_rounds + 1
        place = jnp.where(fed_back, memory.count, games)
        memory = Memory(
            memory.stimuli.at[place].set(observation["stimulus"][:features], mode="drop"),
            memory.messages.at[place].set(observation["message"], mode="drop"),
            memory.query.at[place].set(observation["phase"] == 1, mode="drop"),
            memory.count + fed_back,
        )
        decision = rule(memory, observation, key)
        return jnp.where(observation["round"] == env.num_rounds, decision, wait), memory

    def act(key: jax.Array, params: Any, carry: Memory, timestep: TimeStep) -> Any:
        del params
        start = timestep.trial_start
        carry = carry._replace(count=jnp.where(start, 0, carry.count))
        known = jnp.arange(games) < carry.count[:, None]
        carry = carry._replace(stimuli=jnp.where(known[..., None], carry.stimuli, jnp.inf))
        observation = dict(timestep.observation)
        if "privileged" in timestep.info:
            observation["privileged"] = timestep.info["privileged"]
        action, carry = jax.vmap(one)(jax.random.split(key, start.shape[0]), carry, observation)
        return action.astype(jnp.int32), {}, carry

    return Agent(initial_carry, act)


def _slots(env: MetaRG, observation: dict[str, jax.Array]) -> jax.Array:
    """The listener's stimuli, float `[K + 1, F]`."""
    return observation["stimulus"].reshape(env.num_distractors + 1, -1)


def random_listener(env: MetaRG) -> Agent:
    """Decides uniformly at random."""

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), 0, env.num_decisions, jnp.int32)

    return _memory_agent(env, rule)


def constant_listener(env: MetaRG, decision: int) -> Agent:
    """Always decides the same: 0 is "always same" with K = 0, K + 1 "always different".

    Raises:
      ValueError: if there is no such decision.
    """
    if not 0 <= decision < env.num_decisions:
        raise ValueError(f"decision = {decision}: choose from 0 .. {env.num_decisions - 1}")
    return _memory_agent(env, lambda memory, observation, key: jnp.int32(decision))


def leak_listener(env: MetaRG) -> Agent:
    """Message-free: "different" in a query game iff the first stimulus is of the support kind.

    With the reference's rules a matching stimulus of a query game always is a query combination
    and a non-matching one often is not. Reads the privileged latents (`play_games` gives them), so
    that it bounds what any message-free rule of this kind can reach.
    """

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        latents = observation["privileged"]["listener_latents"]
        support_kind = (latents % 2 == 1).sum(-1) < 2
        return _decide((observation["phase"] == 0) | ~support_kind)

    return _memory_agent(env, rule)


def any_feedback_listener(env: MetaRG) -> Agent:
    """Message-free: "different" iff this very stimulus was fed back before (targets rarely repeat).

    Meaningful for O = 1, where a meaning has one stimulus.
    """

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        seen = (_slots(env, observation)[:, None] == memory.stimuli[None]).all(-1).any(-1)
        return _decide(~seen)

    return _memory_agent(env, rule)


def section_listener(env: MetaRG) -> Agent:
    """The section oracle: infers each dimension's sections from what was heard and shown.

    The number of distinct symbols heard at a position is d(i); their centroids' ranks tell which
    of the d(i) equal sections each symbol means. Not privileged.
    """
    dims = env.num_dims

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        heard = jax.nn.one_hot(memory.messages[:, :dims], env.vocab_size + 1)
        known = (jnp.arange(heard.shape[0]) < memory.count)[:, None, None]
        heard = heard * known
        values = jnp.where(known[..., 0], memory.stimuli, 0)
        count = heard.sum(0)  # [N, V + 1]
        centroid = (heard * values[..., None]).sum(0) / jnp.maximum(count, 1)
        present = count > 0
        num_values = present.sum(-1)
        below = present[:, None, :] & (centroid[:, None, :] < centroid[:, :, None])
        rank = below.sum(-1)
        slots = _slots(env, observation)
        section = jnp.floor((slots + 1) / 2 * num_values)
        section = jnp.clip(section, 0, jnp.maximum(num_values - 1, 0))
        symbol = observation["message"][:dims]
        place = jnp.arange(dims)
        agrees = (section == rank[place, symbol]) | ~present[place, symbol]
        return _decide(agrees.all(-1))

    return _memory_agent(env, rule)


def nearest_listener(env: MetaRG) -> Agent:
    """The 1-NN oracle: per dimension, the nearest value fed back must carry the symbol heard."""
    dims = env.num_dims

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        distance = jnp.abs(_slots(env, observation)[:, None] - memory.stimuli[None])
        nearest = jnp.argmin(distance, axis=1)  # [K + 1, N]
        carried = memory.messages[nearest, jnp.arange(dims)]
        return _decide((carried == observation["message"][:dims]).all(-1))

    return _memory_agent(env, rule)


def digitising_listener(env: MetaRG) -> Agent:
    """The cheating listener of appendix D: compares its own stimuli's bins with the message.

    Needs no memory and no semantics; a permuted channel defeats it.
    """

    def rule(memory: Memory, observation: Any, key: jax.Array) -> jax.Array:
        bins = language.digitise(_slots(env, observation), env.vocab_size, env.message_length)
        return _decide((bins == observation["message"]).all(-1))

    return _memory_agent(env, rule)


def calibration_listeners(env: MetaRG) -> dict[str, Agent]:
    """The rules that put a learner's score into proportion, by the name to print."""
    return {
        "random": random_listener(env),
        "always same": constant_listener(env, 0),
        "always different": constant_listener(env, env.num_decisions - 1),
        "leak rule (message-free)": leak_listener(env),
        "any-feedback rule (message-free)": any_feedback_listener(env),
        "section oracle": section_listener(env),
        "1-NN oracle": nearest_listener(env),
    }
