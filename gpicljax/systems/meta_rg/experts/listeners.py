"""Rule-based listeners: programs that bind, and shortcuts that do not (calibration baselines).

All follow the agent contract of `gpicljax.interface` for the listener's view with compact actions:
decision k in 0 .. K says "my stimulus k has the speaker's meaning", K + 1 says "none has". They
have no parameters. A rule that beats 50 % without binding messages to values in context shows what
a learner's score must exceed before it is evidence of binding. A rule that binds needs no training
either: it is told the grammar, which position of a message names which dimension, or finds it out
where every episode has another one (`align`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check, check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.meta_rg.env import messaging, structure
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
      num_support: `int32[]`, how many of them are of the support phase.
      heard: `int32[N_dim]`, the token heard of each dimension in this game. Where there are several
        rounds the message of round r begins with dimension r, and the last that told of it counts.
    """

    stimuli: jax.Array
    messages: jax.Array
    size: jax.Array
    num_support: jax.Array
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
            jnp.zeros(batch, jnp.int32),
            jnp.zeros((batch, env.num_dims), jnp.int32),
        )

    def remember(memory: FeedbackMemory, observation: dict[str, jax.Array]) -> FeedbackMemory:
        arrived = observation["round"] - 1  # the round whose message is heard now
        dimension = jnp.where((arrived >= 0) & (arrived < env.num_rounds), arrived, env.num_dims)
        dimension = dimension + jnp.arange(env.message_length)
        heard = memory.heard.at[dimension].set(observation["message"], mode="drop")
        fed_back = arrived == env.num_rounds
        place = jnp.where(fed_back, memory.size, games)
        return FeedbackMemory(
            memory.stimuli.at[place].set(observation["stimulus"][:features], mode="drop"),
            memory.messages.at[place].set(heard, mode="drop"),
            memory.size + fed_back,
            memory.num_support + (fed_back & (observation["phase"] == 0)),
            heard,
        )

    @jax.vmap
    def decide(key: jax.Array, memory: FeedbackMemory, rule_input: RuleInput) -> jax.Array:
        named = memory if env.rules.positions == "fixed" else align(env, memory)
        decisions = jnp.stack([rule(named, rule_input, key) for rule in rules])
        deciding = rule_input.observation["round"] == env.num_rounds
        return jnp.where(deciding, decisions, wait).astype(jnp.int32)

    def act(keys: jax.Array, params: ArrayTree, carry: FeedbackMemory, timestep: TimeStep) -> Any:
        del params
        size, num_support = (
            jnp.where(timestep.trial_start, 0, x) for x in (carry.size, carry.num_support)
        )
        carry = carry._replace(size=size, num_support=num_support)
        is_filled = jnp.arange(games) < carry.size[:, None]
        carry = carry._replace(stimuli=jnp.where(is_filled[..., None], carry.stimuli, jnp.inf))
        rule_input = RuleInput(timestep.observation, timestep.privileged)
        carry = jax.vmap(remember)(carry, timestep.observation)
        # The rounds of a batch are often the same, and two of three have nothing to decide.
        decisions = jax.lax.cond(
            (timestep.observation["round"] == env.num_rounds).any(),
            decide,
            lambda *_: jnp.full((keys.shape[0], len(rules)), wait, jnp.int32),
            *(keys, carry, rule_input),
        )
        return decisions[:, 0], {"decisions": decisions}, carry

    return Agent(initial_carry, act)


def align(env: MetaRG, memory: FeedbackMemory) -> FeedbackMemory:
    """Returns the memory with the tokens in the order of the dimensions that they name.

    Where a token names a value of a dimension, the stimuli that it was said of lie close together
    there. The order is the one with the smallest variance within tokens, as shares of the variances
    of the dimensions.
    """
    is_filled = jnp.arange(memory.stimuli.shape[0]) < memory.size
    values = jnp.where(is_filled[:, None], memory.stimuli, 0)
    values = values.reshape(len(values), env.num_dims, -1)
    said = jax.nn.one_hot(memory.messages, env.vocab_size + 1) * is_filled[:, None, None]
    count = jnp.maximum(said.sum(0), 1)[..., None, None]  # [position, token, 1, 1]
    explained = (jnp.einsum("gpt,gif->ptif", said, values) ** 2 / count).sum((1, 3))
    total = (values**2).sum((0, 2))
    mean = (values.sum(0) ** 2).sum(-1) / jnp.maximum(memory.size, 1)
    shares = (total - explained) / jnp.maximum(total - mean, 1e-6)  # [position, dimension]
    orders = jnp.asarray(list(itertools.permutations(range(env.num_dims))))
    order = orders[jnp.argmin(shares[orders, jnp.arange(env.num_dims)].sum(-1))]
    return memory._replace(messages=memory.messages[:, order], heard=memory.heard[order])


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


def nth_tuple_rule(env: MetaRG) -> Rule:
    """Message-free: counts the query games, and expects the tuples in lexicographic order.

    With the reference's rules a short query list is each tuple once, in that order. Where the list
    is a sample, this is the any-feedback rule. What is needed to count tuples is in the feedback of
    the support phase where O = 1: the number of values of each dimension, their order, and S.
    """
    fallback, dims = any_feedback_rule(env), env.num_dims

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        shown = memory.stimuli[: env.max_support].reshape(-1, dims)
        is_support = (jnp.arange(shown.shape[0]) < memory.num_support)[:, None]
        equal = (shown[:, None] == shown[None]) & is_support
        # A value that was shown n times counts as n parts of one.
        part = jnp.where(is_support, 1 / jnp.maximum(equal.sum(1), 1), 0)
        num_values = jnp.round(part.sum(0)).astype(jnp.int32)
        shots = jnp.round(1 / jnp.maximum(part.max(), 1e-6)).astype(jnp.int32)
        below = shown < _slots(env, rule_input.observation)[:, None]
        place = jnp.round((below * part).sum(1)).astype(jnp.int32)  # [K + 1, N]

        is_query = structure.phase_masks(num_values, env.max_values)[1]
        is_due = is_query & (jnp.cumsum(is_query) == memory.size - memory.num_support + 1)
        tuples = jnp.asarray(structure.combinations(dims, env.max_values))
        due = (is_due[:, None] * tuples).sum(0)
        expected = _decide((place == due).all(-1))
        is_list = shots * num_values.sum() > is_query.sum()
        in_order = is_list & (rule_input.observation["phase"] == 1)
        return jnp.where(in_order, expected, fallback(memory, rule_input, key))

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
    """Infers each dimension's sections from what was heard and shown.

    The number of distinct symbols heard at a position is d(i), which cuts [-1, 1] into equal
    sections; a stimulus matches a symbol if it lies in the section of the centroid of what that
    symbol was said of. A symbol never heard before may mean anything; where a value is withheld,
    there is one section more, and the new symbol means a section without a centroid. Not
    privileged.

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
        known = count > 0
        num_values = jnp.maximum(known.sum(-1) + env.rules.withheld, 1)

        def section(value: jax.Array) -> jax.Array:
            return jnp.clip(jnp.floor((value + 1) / 2 * num_values), 0, num_values - 1)

        place, symbol = jnp.arange(dims), memory.heard
        meant = section(centroid.T)  # [V + 1, N]
        shown = section(_slots(env, rule_input.observation))
        is_new = jnp.ones(shown.shape, bool)
        if env.rules.withheld:
            is_new = ~((shown[:, None] == meant) & known.T).any(1)
        agrees = jnp.where(known[place, symbol], shown == meant[symbol, place], is_new)
        return _decide(agrees.all(-1))

    return rule


def nearest_rule(env: MetaRG) -> Rule:
    """1-nearest neighbour: per dimension, the nearest value fed back must carry the symbol heard.

    With multi-hot stimuli it is the same value, and with names the same name, where it has been fed
    back.
    """

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        nearest = jnp.argmin(_distances(env, memory, rule_input), axis=1)  # [K + 1, N]
        carried = memory.messages[nearest, jnp.arange(env.num_dims)]
        return _decide((carried == memory.heard).all(-1))

    return rule


def tolerance_rule(
    env: MetaRG, tolerance: float, to: Literal["nearest", "mean"] = "nearest"
) -> Rule:
    """Per dimension, the value must lie within a tolerance of what the symbol heard was said of.

    That is the nearest such value or their mean. A symbol never heard before means a value that is
    farther than that from all values fed back. A tolerance of 0 is a dictionary of numbers.

    Raises:
      ValueError: if a mean is asked for of stimuli that are not continuous.
    """
    check(to == "nearest" or env.stimulus == "scs", "to", to, '"nearest"; "mean" of numbers')

    def rule(memory: FeedbackMemory, rule_input: RuleInput, key: jax.Array) -> jax.Array:
        distance = _distances(env, memory, rule_input)
        is_filled = jnp.arange(memory.messages.shape[0]) < memory.size
        carries = is_filled[:, None] & (memory.messages == memory.heard)
        nearest = jnp.where(carries, distance, jnp.inf).min(1)  # [K + 1, N]
        if to == "mean":
            total = jnp.where(carries, memory.stimuli, 0).sum(0)
            mean = total / jnp.maximum(carries.sum(0), 1)
            nearest = jnp.abs(_slots(env, rule_input.observation) - mean)
        is_new = distance.min(1) > tolerance
        return _decide(jnp.where(carries.any(0), nearest <= tolerance, is_new).all(-1))

    return rule


def _distances(env: MetaRG, memory: FeedbackMemory, rule_input: RuleInput) -> jax.Array:
    """Returns how far the values fed back lie from the listener's, float `[K + 1, G, N_dim]`."""
    distance = jnp.abs(_slots(env, rule_input.observation)[:, None] - memory.stimuli[None])
    return distance.reshape(*distance.shape[:2], env.num_dims, -1).sum(-1)


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
      12
    """
    sections = {"section oracle": section_rule(env)} if env.stimulus == "scs" else {}
    counting = {}
    if env.stimulus == "scs" and env.rules.query_targets != "iid":
        counting = {"n-th tuple (message-free)": nth_tuple_rule(env)}
    return {
        "random": random_rule(env),
        "always same": constant_rule(env, 0),
        "always different": constant_rule(env, env.num_decisions - 1),
        "leak rule (message-free)": leak_rule(env),
        "any-feedback rule (message-free)": any_feedback_rule(env),
        **counting,
        "whole messages for whole stimuli": holistic_rule(env),
        **{
            f"{dims} of {env.num_dims} dimensions without an error": partial_rule(env, dims)
            for dims in range(1, env.num_dims)
        },
        "equality": tolerance_rule(env, 0.0),
        **sections,
        "1-nearest neighbour": nearest_rule(env),
    }


TOLERANCES = (*(n / 50 for n in range(1, 11)), 0.24, 0.28, 0.32, 0.36, 0.4, 0.48)
"""Candidates for a tolerance that is the same in every episode."""


def tolerance_rules(env: MetaRG) -> dict[str, Rule]:
    """Returns the fixed tolerances, by the name to print; none without continuous stimuli.

    The best of them is to be chosen on other games than it is judged on (`measures.rules`).
    """
    kinds: tuple[Literal["nearest", "mean"], ...] = ("nearest", "mean")
    return {
        f"within {tolerance} of the {to}": tolerance_rule(env, tolerance, to)
        for to in kinds
        for tolerance in TOLERANCES
        if env.stimulus == "scs"
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
