"""Agents for bandits: UCB1, Thompson sampling and Gittins indices; LinUCB where there is a context.

What they know of the arms is how often each was pulled in this trial and what it paid, however many
episodes the trial has. A payment arrives with the time step after the pull; the action at the last
time step of an episode is ignored, and no pull. Arms that are illegal (`action_mask`) are left
alone; of equally good ones a random one is pulled.

None of them has parameters: `params` is ignored. What is set (`exploration`, priors) may
be traced where the agent is built within a jitted or vmapped function.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import random, spaces
from gpicljax.agents.acting import replace_pending_action
from gpicljax.agents.algorithm import algorithm_from_agent, register_algorithm
from gpicljax.batching import select
from gpicljax.checks import Rate, check
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.policies import legal_actions
from gpicljax.typing import ArrayTree

Number = jax.Array | float


@struct.dataclass
class Pulls:
    """Statistics of a trial's pulls.

    Attributes:
      counts: `int32[B, K]`, pulls of each arm, up to 2**31 - 1.
      sums: float `[B, K]`, what they paid together.
      action: `int32[B]`, the pull whose payment comes with the next time step; -1 if none does.
    """

    counts: jax.Array
    sums: jax.Array
    action: jax.Array

    @property
    def means(self) -> jax.Array:
        """The mean payment of each arm, float `[B, K]`; 0 without a pull."""
        return self.sums / jnp.maximum(self.counts, 1)


def no_pulls(batch: int, num_arms: int) -> Pulls:
    """Returns the start of a trial."""
    dtype, shape = jnp.result_type(float), (batch, num_arms)
    return Pulls(
        counts=jnp.zeros(shape, jnp.int32),
        sums=jnp.zeros(shape, dtype),
        action=jnp.full(batch, -1, jnp.int32),
    )


def count(pulls: Pulls, reward: jax.Array) -> Pulls:
    """Books what the last pull paid, float `[B]`, where there was one."""
    pulled = pulls.action[:, None] == jnp.arange(pulls.counts.shape[1])
    counts = pulls.counts + pulled
    sums = pulls.sums + jnp.where(pulled, reward[:, None], 0)
    return Pulls(counts, sums, jnp.full_like(pulls.action, -1))


def best_arm(key: jax.Array, scores: jax.Array, legal: jax.Array) -> jax.Array:
    """Returns a legal arm of highest score, at random if there are several.

    Args:
      key: a typed key.
      scores: float `[K]`.
      legal: `bool[K]`.

    Returns:
      `int32[]`.
    """
    scores = jnp.where(legal, scores, -jnp.inf)
    best = legal & (scores == scores.max())
    lots = jax.random.uniform(key, scores.shape)
    return jnp.argmax(jnp.where(best, lots, -1)).astype(jnp.int32)


def arm_puller(
    space: spaces.Space, score: Callable[[jax.Array, Pulls], jax.Array], name: str = "arm_puller"
) -> Agent:
    """Returns an agent that pulls the arm of highest score.

    Args:
      space: of actions: the arms.
      score: `(key, pulls) -> float[K]`, of one instance: the leaves of `pulls` are `[...]`, `[K]`.
      name: for the error message.

    Returns:
      The agent; its `aux` is a dictionary with the `scores`, float `[B, K]`.

    Raises:
      ValueError: if the space is not discrete.
    """
    accepted_values = f"Discrete: {name} chooses from arms"
    check(isinstance(space, spaces.Discrete), "space", space, accepted_values)
    num_arms: int = space.n  # type: ignore[attr-defined]

    def pull(key: jax.Array, pulls: Pulls, legal: jax.Array) -> tuple[jax.Array, jax.Array]:
        score_key, choice_key = jax.random.split(key)
        scores = score(score_key, pulls)
        return best_arm(choice_key, scores, legal), scores

    def act(
        keys: jax.Array, params: ArrayTree, carry: Pulls, timestep: TimeStep
    ) -> tuple[jax.Array, Any, Pulls]:
        del params
        batch = carry.action.shape[0]
        pulls = count(carry, timestep.reward)
        pulls = select(timestep.trial_start, no_pulls(batch, num_arms), pulls)
        legal = jnp.broadcast_to(legal_actions(timestep.observation, num_arms), (batch, num_arms))
        action, scores = jax.vmap(pull)(keys, pulls, legal)
        pulls = dataclasses.replace(pulls, action=jnp.where(timestep.last, -1, action))
        return action, {"scores": scores}, pulls

    return Agent(lambda batch: no_pulls(batch, num_arms), act, replace_pending_action)


def ucb1(space: spaces.Space, exploration: Number = 2.0) -> Agent:
    """UCB1: every arm once, then the one of highest mean + sqrt(exploration ln(n) / n_i).

    n_i are the pulls of arm i and n those of all arms. The bound of the source is for payments
    in [0, 1].

    Args:
      space: of actions.
      exploration: 2 in the source.

    Returns:
      The agent.

    Source: Auer, Cesa-Bianchi & Fischer (2002), figure 1.

    Example:
      >>> from gpicljax import spaces
      >>> agent = ucb1(spaces.Discrete(10))
      >>> agent.initial_carry(4).counts.shape
      (4, 10)
    """

    def index(key: jax.Array, pulls: Pulls) -> jax.Array:
        del key
        pulled = jnp.maximum(pulls.counts, 1)
        total = jnp.maximum(pulls.counts.astype(pulls.sums.dtype).sum(), 1)  # beyond 2**31 in all
        index = pulls.means + jnp.sqrt(exploration * jnp.log(total) / pulled)
        return jnp.where(pulls.counts == 0, jnp.inf, index)

    return arm_puller(space, index, "ucb1")


def thompson_bernoulli(
    space: spaces.Space, successes: Number = 1.0, failures: Number = 1.0
) -> Agent:
    """Thompson sampling for payments of 0 or 1, with a beta prior for every arm.

    A payment in between counts as that share of a success; beyond [0, 1] it is clipped, summed over
    an arm's pulls.

    Args:
      space: of actions.
      successes: of the prior; 1 and 1 is uniform.
      failures: of the prior.

    Returns:
      The agent.

    Source: Thompson (1933); Chapelle & Li (2011).

    Example:
      >>> from gpicljax import spaces
      >>> agent = thompson_bernoulli(spaces.Discrete(10))
      >>> agent.initial_carry(4).counts.shape
      (4, 10)
    """

    def draw(key: jax.Array, pulls: Pulls) -> jax.Array:
        paid = jnp.clip(pulls.sums, 0, pulls.counts)
        return random.beta(key, successes + paid, failures + pulls.counts - paid)

    return arm_puller(space, draw, "thompson_bernoulli")


GITTINS_GRID = 100
"""Payments of the sure arm that arms are compared with."""
MOST_PULLS = 400
"""Of a trial with Gittins indices: their table grows with the third power, to 64 MB."""


@functools.cache
def gittins_table(pulls: int) -> np.ndarray:
    """Returns the finite-horizon Gittins index of an arm that pays 0 or 1, with a uniform prior.

    It is the greatest sure payment per pull at which the arm is still worth a try, where one may
    change to that payment for good after any pull.

    Args:
      pulls: of a trial, N.

    Returns:
      `uint8[N + 1, N + 1, N + 1]`, by pulls left, successes and failures; in 100ths.

    Source: Gittins (1979); for a known number of pulls, Berry & Fristedt (1985), chapter 5, by
    backward induction over a grid of sure payments (Kaufmann, 2018).
    """
    size = pulls + 1
    table = np.zeros((size, size, size), np.uint8)
    successes, failures = np.arange(size)[:, None], np.arange(size)[None]
    chance = (successes + 1) / (successes + failures + 2)
    for level in range(1, GITTINS_GRID + 1):
        sure = level / GITTINS_GRID
        value = np.zeros((size + 1, size + 1))
        for left in range(1, size):
            k = size - left  # more successes or failures than that there cannot be
            p = chance[:k, :k]
            arm = p * (1 + value[1 : k + 1, :k]) + (1 - p) * value[:k, 1 : k + 1]
            table[left, :k, :k][arm >= sure * left - 1e-12] = level
            value[:k, :k] = np.maximum(arm, sure * left)
    return table


def gittins_bernoulli(space: spaces.Space, pulls: int) -> Agent:
    """The arm of the highest Gittins index, for payments of 0 or 1 and a known number of pulls.

    Every arm has a uniform prior. No rule that is told no more is much better: the index is optimal
    where later payments count less by a fixed factor, and nearly so for a known number of pulls.

    Args:
      space: of actions.
      pulls: of a trial, up to `MOST_PULLS`; after these, the index is that of the last pull.

    Returns:
      The agent.

    Raises:
      ValueError: for another number of pulls.

    Source: see `gittins_table`.

    Example:
      >>> from gpicljax import spaces
      >>> agent = gittins_bernoulli(spaces.Discrete(10), pulls=20)
      >>> agent.initial_carry(4).counts.shape
      (4, 10)
    """
    check(1 <= pulls <= MOST_PULLS, "pulls", pulls, f"1 to {MOST_PULLS}")
    table = gittins_table(pulls)

    def index(key: jax.Array, counts: Pulls) -> jax.Array:
        del key
        left = jnp.clip(pulls - counts.counts.sum(), 1, pulls)
        paid = jnp.round(jnp.clip(counts.sums, 0, counts.counts)).astype(jnp.int32)
        places = (jnp.minimum(x, pulls) for x in (paid, counts.counts - paid))
        return jnp.asarray(table)[(left, *places)].astype(counts.sums.dtype)

    return arm_puller(space, index, "gittins_bernoulli")


def thompson_gaussian(
    space: spaces.Space,
    mean: Number = 0.0,
    variance: Number = 1.0,
    noise: Number = 1.0,
) -> Agent:
    """Thompson sampling for payments with normal noise.

    An arm's average payment is normal a priori; the standard deviation of the noise is known.

    Args:
      space: of actions.
      mean: of an arm's average, a priori.
      variance: of an arm's average, a priori.
      noise: standard deviation of a payment.

    Returns:
      The agent.

    Raises:
      ValueError: unless `variance` and `noise` are positive.

    Source: Gelman et al. (2013), "Bayesian data analysis", section 2.5.

    Example:
      >>> from gpicljax import spaces
      >>> agent = thompson_gaussian(spaces.Discrete(10), noise=0.3)
      >>> thompson_gaussian(spaces.Discrete(10), noise=-0.3)
      Traceback (most recent call last):
      ValueError: noise: got -0.3; accepted: a number above 0
    """
    for field, value in (("variance", variance), ("noise", noise)):
        is_number = isinstance(value, int | float)
        check(not is_number or value > 0, field, value, "a number above 0")

    def draw(key: jax.Array, pulls: Pulls) -> jax.Array:
        _, mean_key = jax.random.split(key)  # the draws that results were measured with
        # In payments: how much the prior knows of an arm's average.
        weight = noise**2 / variance
        precision = weight + pulls.counts
        expected = (weight * mean + pulls.sums) / precision
        normal = jax.random.normal(mean_key, pulls.sums.shape, pulls.sums.dtype)
        return expected + jnp.sqrt(noise**2 / precision) * normal

    return arm_puller(space, draw, "thompson_gaussian")


# Bandits with a context ---------------------------------------------------------------------------


@struct.dataclass
class LinearPulls:
    """Statistics of a trial's pulls of arms with payments linear in a context of D numbers.

    Attributes:
      inverse: float `[B, K, D, D]`, of the ridge times the identity plus the contexts' products.
      sums: float `[B, K, D]`, contexts of an arm's pulls, times what they paid.
      context: float `[B, D]`, that of the last pull.
      action: `int32[B]`, the pull whose payment comes with the next time step; -1 if none does.
    """

    inverse: jax.Array
    sums: jax.Array
    context: jax.Array
    action: jax.Array


def linucb(
    observations: spaces.Space, space: spaces.Space, alpha: Number = 1.0, ridge: float = 1.0
) -> Agent:
    """LinUCB: the arm of highest estimated payment in this context + alpha times its uncertainty.

    With A the ridge times the identity plus the sum of x x^T over an arm's pulls, and b the sum of
    r x, the estimate in context x is b^T A^-1 x, and its uncertainty sqrt(x^T A^-1 x). Each arm has
    weights of its own ("disjoint" in the source).

    Args:
      observations: of the environment: a Box of one axis, the context.
      space: of actions.
      alpha: how much uncertainty counts; may be traced.
      ridge: 1 in the source; above 0.

    Returns:
      The agent; its `aux` is a dictionary with the `scores`, float `[B, K]`.

    Raises:
      ValueError: for other spaces, or a ridge of 0 or less.

    Source: Li et al. (2010), algorithm 1.
    """
    vector = isinstance(observations, spaces.Box) and len(observations.shape) == 1
    check(vector, "observations", observations, "a Box of one axis: linucb reads a context")
    check(isinstance(space, spaces.Discrete), "space", space, "Discrete: linucb chooses from arms")
    check(ridge > 0, "ridge", ridge, "a number above 0")
    (size,), num_arms = observations.shape, space.n  # type: ignore[attr-defined]

    def start(batch: int) -> LinearPulls:
        dtype = jnp.result_type(float)
        unit = jnp.broadcast_to(jnp.eye(size, dtype=dtype) / ridge, (batch, num_arms, size, size))
        return LinearPulls(
            inverse=unit,
            sums=jnp.zeros((batch, num_arms, size), dtype),
            context=jnp.zeros((batch, size), dtype),
            action=jnp.full(batch, -1, jnp.int32),
        )

    def pull(key: jax.Array, pulls: LinearPulls, context: jax.Array, legal: jax.Array) -> Any:
        reach = jnp.matmul(pulls.inverse, context, precision="highest")
        spread = jnp.sqrt(jnp.maximum((reach * context).sum(-1), 0))
        scores = (pulls.sums * reach).sum(-1) + alpha * spread
        return best_arm(key, scores, legal), scores

    def act(
        keys: jax.Array, params: ArrayTree, carry: LinearPulls, timestep: TimeStep
    ) -> tuple[jax.Array, Any, LinearPulls]:
        del params
        batch = carry.action.shape[0]
        pulls = _counted_with_context(carry, timestep.reward)
        pulls = select(timestep.trial_start, start(batch), pulls)
        context = jnp.asarray(timestep.observation, pulls.context.dtype)
        legal = jnp.ones((batch, num_arms), bool)
        action, scores = jax.vmap(pull)(keys, pulls, context, legal)
        booked = jnp.where(timestep.last, -1, action)
        return (
            action,
            {"scores": scores},
            dataclasses.replace(pulls, context=context, action=booked),
        )

    return Agent(start, act, replace_pending_action)


def _counted_with_context(pulls: LinearPulls, reward: jax.Array) -> LinearPulls:
    """Books what the last pull paid, float `[B]`, where there was one."""
    pulled = pulls.action[:, None] == jnp.arange(pulls.sums.shape[1])
    context = pulls.context[:, None, :]
    sums = pulls.sums + jnp.where(pulled[..., None], reward[:, None, None] * context, 0)
    # The inverse after one more product (Sherman & Morrison, 1950): no system is solved.
    reach = jnp.matmul(pulls.inverse, context[..., None], precision="highest")[..., 0]
    growth = 1 + (reach * context).sum(-1)
    change = reach[..., :, None] * reach[..., None, :] / growth[..., None, None]
    inverse = pulls.inverse - jnp.where(pulled[..., None, None], change, 0)
    return LinearPulls(inverse, sums, pulls.context, jnp.full_like(pulls.action, -1))


@dataclasses.dataclass(frozen=True)
class UCB1Config:
    """Configuration of UCB1.

    Attributes:
      exploration: factor in the confidence bound, see `ucb1`.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=4, resets="fresh")
      >>> trainer = gpicljax.agents.make("ucb1", vec, UCB1Config(exploration=0.5))
      >>> trainer.agent().initial_carry(4).counts.shape
      (4, 10)
    """

    exploration: Rate = 2.0


@dataclasses.dataclass(frozen=True)
class ThompsonConfig:
    """Configuration of Thompson sampling.

    Attributes:
      payments: an arm's payments, 0 or 1 (`bernoulli`) or with normal noise (`gaussian`).

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("GaussianBandit-v0"), num_envs=4, resets="fresh")
      >>> trainer = gpicljax.agents.make("thompson", vec, ThompsonConfig(payments="gaussian"))
      >>> trainer.agent().initial_carry(4).counts.shape
      (4, 10)
    """

    payments: Literal["bernoulli", "gaussian"] = "bernoulli"


def _need_arms(observations: spaces.Space, actions: spaces.Space) -> str | None:
    """Returns why there are no arms; rules are blind to observations, and fit any of them."""
    del observations
    is_discrete = isinstance(actions, spaces.Discrete)
    return None if is_discrete else f"discrete actions are needed, not {actions}"


def _ucb1(config: UCB1Config, env: Environment) -> Agent:
    return ucb1(env.action_space(), config.exploration)


def _thompson(config: ThompsonConfig, env: Environment) -> Agent:
    rule = thompson_gaussian if config.payments == "gaussian" else thompson_bernoulli
    return rule(env.action_space())


register_algorithm(algorithm_from_agent("ucb1", _ucb1, _need_arms, UCB1Config))
register_algorithm(algorithm_from_agent("thompson", _thompson, _need_arms, ThompsonConfig))
