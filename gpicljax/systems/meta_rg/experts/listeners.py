"""Rule-based listeners: oracles that bind, and shortcuts that do not (calibration baselines).

All follow the agent contract of `gpicljax.interface` for the listener's view with compact actions:
decision k in 0 .. K says "my stimulus k has the speaker's meaning", K + 1 says "none has". They
have no parameters. A rule that beats 50 % without binding messages to values in context shows what
a learner's score must exceed before it is evidence of binding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check, check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.meta_rg.env import messaging
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.typing import ArrayTree

Rule = Callable[["FeedbackMemory", "RuleInput", jax.Array], jax.Array]
"""`(memory, rule_input, key) -> int32[]`, a decision; unbatched."""


class RuleInput(NamedTuple):
    """The input of a rule, unbatched: the observation, and `timestep.privileged`."""

    observation: dict[str, jax.Array]
    privileged: Any


class FeedbackMemory(NamedTuple):
    """The feedback of this episode and the tokens heard in this game; unbatched.

    Attributes:
      stimuli: float `[G, F]`, the speaker's stimuli shown in feedback steps.
      messages: `int32[G, N_dim]`, the token heard of each of their dimensions.
      size: `int32[]`, how many there are.
      heard: `int32[N_dim]`, the token heard of each dimension in this game. Where there are several
        rounds the message of round r begins with dimension r, and the last that told of it counts.
    """

    stimuli: jax.Array
    messages: jax.Array
    size: jax.Array
    heard: jax.Array


def _decide(matches: jax.Array) -> jax.Array:
    """First matching slot of `bool[K + 1]`, or K + 1 if none."""
    return jnp.where(matches.any(), jnp.argmax(matches), matches.shape[0]).astype(jnp.int32)


def rule_panel(env: MetaRG, rules: Sequence[Rule]) -> Agent:
    """Returns an agent that remembers every feedback and decides by the first of its rules.

    What all of them decide is reported in `aux["decisions"]`, `int32[B, R]`. No decision changes
    what an episode shows, so `play_games` compares all of them on the same games.
    """
    check_choice("view", env.view, ["listener"])
    check_choice("actions", env.actions, ["compact"])
    features = env.stimulus_size
    games, wait = env.max_games, env.num_decisions

    def initial_carry(batch: int) -> FeedbackMemory:
        return FeedbackMemory(
            jnp.full((batch, games, features), jnp.inf, jnp.result_type(float)),
            jnp.zeros((batch, games, env.num_dims), jnp.int32),
            jnp.zeros(batch, jnp.int32),
            jnp.zeros((batch, env.num_dims), jnp.int32),
        )

    def decide_one(
        key: jax.Array, memory: FeedbackMemory, rule_input: RuleInput
    ) -> tuple[jax.Array, FeedbackMemory]:
        observation = rule_input.observation
        arrived = observation["round"] - 1  # the round whose message is heard now
        dimension = jnp.where((arrived >= 0) & (arrived < env.num_rounds), arrived, env.num_dims)
        dimension = dimension + jnp.arange(env.message_length)
        heard = memory.heard.at[dimension].set(observation["message"], mode="drop")
        fed_back = arrived == env.num_rounds
        place = jnp.where(fed_back, memory.size, games)
        memory = FeedbackMemory(
            memory.stimuli.at[place].set(observation["stimulus"][:features], mode="drop"),
            memory.messages.at[place].set(heard, mode="drop"),
            memory.size + fed_back,
            heard,
        )
        decisions = jnp.stack([rule(memory, rule_input, key) for rule in rules])
        deciding = observation["round"] == env.num_rounds
        return jnp.where(deciding, decisions, wait).astype(jnp.int32), memory

    def act(keys: jax.Array, params: ArrayTree, carry: FeedbackMemory, timestep: TimeStep) -> Any:
        del params
        carry = carry._replace(size=jnp.where(timestep.trial_start, 0, carry.size))
        is_filled = jnp.arange(games) < carry.size[:, None]
        carry = carry._replace(stimuli=jnp.where(is_filled[..., None], carry.stimuli, jnp.inf))
        rule_input = RuleInput(timestep.observation, timestep.privileged)
        decisions, carry = jax.vmap(decide_one)(keys, carry, rule_input)
        return decisions[:, 0], {"decisions": decisions}, carry

    return Agent(initial_carry, act)


def _slots(env: MetaRG, observation: dict[str, jax.Array]) -> jax.Array:
    """Returns the listener's stimuli, float `[K + 1, F]`."""
    return observation["stimulus"].reshape(env.num_distractors + 1, -1)


def random_rule(env: MetaRG) -> Rule:
    """Decides uniformly at random."""

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), 0, env.num_decisions, jnp.int32)

    return rule


def constant_rule(env: MetaRG, decision: int) -> Rule:
    """Always decides the same: 0 is "always same" with K = 0, K + 1 "always different".

    Raises:
      ValueError: if there is no such decision.
    """
    fine = 0 <= decision < env.num_decisions
    check(fine, "decision", decision, f"0 .. {env.num_decisions - 1}")
    return lambda memory, seen, key: jnp.int32(decision)


def leak_rule(env: MetaRG) -> Rule:
    """Message-free: "different" in a query game iff the first stimulus is of the support kind.

    With the reference's rules a matching stimulus of a query game always is a query combination
    and a non-matching one often is not. Reads the privileged latents, so that it bounds what any
    message-free rule of this kind can reach: it needs a batch with `privileged=True`.
    """

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        latents = rule_input.privileged["listener_latents"]
        support_kind = (latents % 2 == 1).sum(-1) < 2
        return _decide((rule_input.observation["phase"] == 0) | ~support_kind)

    return rule


def any_feedback_rule(env: MetaRG) -> Rule:
    """Message-free: "different" iff this very stimulus was fed back before (targets rarely repeat).

    Meaningful for O = 1, where a meaning has one stimulus.
    """

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        stimuli = _slots(env, rule_input.observation)
        return _decide(~(stimuli[:, None] == memory.stimuli[None]).all(-1).any(-1))

    return rule


def holistic_rule(env: MetaRG) -> Rule:
    """Knows whole messages of whole stimuli: "different" iff what was fed back says so.

    It does where this very stimulus came with another message, or this very message with another
    stimulus. The parts of a message mean nothing to it.
    """

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        is_filled = jnp.arange(memory.messages.shape[0]) < memory.size
        stimuli = _slots(env, rule_input.observation)
        same_stimulus = (stimuli[:, None] == memory.stimuli[None]).all(-1)
        same_message = (memory.messages == memory.heard).all(-1)
        return _decide(~(is_filled & (same_stimulus != same_message)).any(-1))

    return rule


def partial_rule(env: MetaRG, dims: int) -> Rule:
    """Knows the values of the first dimensions, and nothing of the others.

    What an agent that binds so many dimensions without an error can reach. Reads the privileged
    latents.

    Raises:
      ValueError: unless `dims` is within 1 .. N_dim.
    """
    check(1 <= dims <= env.num_dims, "dims", dims, f"1 .. {env.num_dims}")

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        listener_latents = rule_input.privileged["listener_latents"][:, :dims]
        return _decide(
            (listener_latents == rule_input.privileged["speaker_latents"][0, :dims]).all(-1)
        )

    return rule


def section_rule(env: MetaRG) -> Rule:
    """Returns the section oracle: infers each dimension's sections from what was heard and shown.

    The number of distinct symbols heard at a position is d(i), which cuts [-1, 1] into equal
    sections; a stimulus matches a symbol if it lies in the section of the centroid of what that
    symbol was said of. A symbol never heard before may mean anything. Not privileged.

    Raises:
      ValueError: unless stimuli are continuous.
    """
    check_choice("stimulus", env.stimulus, ["scs"])
    dims = env.num_dims

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        heard = jax.nn.one_hot(memory.messages, env.vocab_size + 1)
        is_filled = (jnp.arange(heard.shape[0]) < memory.size)[:, None, None]
        heard = heard * is_filled
        values = jnp.where(is_filled[..., 0], memory.stimuli, 0)
        count = heard.sum(0)  # [N, V + 1]
        centroid = (heard * values[..., None]).sum(0) / jnp.maximum(count, 1)
        num_values = jnp.maximum((count > 0).sum(-1), 1)

        def section(value: jax.Array) -> jax.Array:
            return jnp.clip(jnp.floor((value + 1) / 2 * num_values), 0, num_values - 1)

        place, symbol = jnp.arange(dims), memory.heard
        meant = section(centroid[place, symbol])
        agrees = (section(_slots(env, rule_input.observation)) == meant) | (
            count[place, symbol] == 0
        )
        return _decide(agrees.all(-1))

    return rule


def nearest_rule(env: MetaRG) -> Rule:
    """The 1-NN oracle: per dimension, the nearest value fed back must carry the symbol heard.

    With multi-hot stimuli it is the same value, and with names the same name, where it has been fed
    back.
    """
    dims = env.num_dims

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        distance = jnp.abs(_slots(env, rule_input.observation)[:, None] - memory.stimuli[None])
        distance = distance.reshape(*distance.shape[:2], dims, -1).sum(-1)
        nearest = jnp.argmin(distance, axis=1)  # [K + 1, N]
        carried = memory.messages[nearest, jnp.arange(dims)]
        return _decide((carried == memory.heard).all(-1))

    return rule


def digitising_rule(env: MetaRG) -> Rule:
    """The cheating listener of appendix D: compares its own stimuli's bins with the message.

    Needs no memory and no semantics; a permuted channel defeats it.
    """

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        bins = messaging.digitise(
            _slots(env, rule_input.observation), env.vocab_size, env.message_length
        )
        return _decide((bins == rule_input.observation["message"]).all(-1))

    return rule


def rule_listener(env: MetaRG, rule: Rule) -> Agent:
    """Returns the agent that decides by one rule.

    Raises:
      ValueError: unless `env` shows the listener's view with compact actions.
    """
    return rule_panel(env, [rule])


def baseline_rules(env: MetaRG) -> dict[str, Rule]:
    """Returns the rules that put a learner's score into proportion, by the name to print.

    Sections are found in continuous stimuli only.

    Example:
      >>> len(baseline_rules(MetaRG()))
      10
    """
    sections = {"section oracle": section_rule(env)} if env.stimulus == "scs" else {}
    return {
        "random": random_rule(env),
        "always same": constant_rule(env, 0),
        "always different": constant_rule(env, env.num_decisions - 1),
        "leak rule (message-free)": leak_rule(env),
        "any-feedback rule (message-free)": any_feedback_rule(env),
        "whole messages for whole stimuli": holistic_rule(env),
        **{
            f"{dims} of {env.num_dims} dimensions without an error": partial_rule(env, dims)
            for dims in range(1, env.num_dims)
        },
        **sections,
        "1-NN oracle": nearest_rule(env),
    }


def baseline_panel(env: MetaRG) -> Agent:
    """All calibration rules at once, for `evaluation.games.play_games`: it judges each of them.

    No decision changes what an episode shows, so one pass compares them on the same games.

    Example:
      >>> agent = baseline_panel(MetaRG())
      >>> agent.initial_carry(4).size.shape
      (4,)
    """
    return rule_panel(env, list(baseline_rules(env).values()))
