"""Contextual bandits: what an arm pays depends on a vector that is seen before the pull.

Every arm has weights of its own, and pays on average their product with the context (linear
payments, with normal noise) or pays 1 with the logistic function of it as its chance, else 0.

Source: linear payments with a weight vector for each arm, Li et al. (2010), "A contextual-bandit
approach to personalized news article recommendation", section 3; logistic ones, Chapelle & Li
(2011), "An empirical evaluation of Thompson sampling", section 4.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Size
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count, NotNegative


@struct.dataclass
class Params:
    """The distribution over bandits: weights are normal numbers around 0.

    Attributes:
      spread: float `[]`, standard deviation of an arm's weights.
      noise: float `[]`, standard deviation of a linear payment.
      horizon: `int32[]`, pulls in an episode.
    """

    spread: NotNegative
    noise: NotNegative
    horizon: Count


@struct.dataclass
class Task:
    """One bandit.

    Attributes:
      weights: float `[num_arms, context_size]`.
      noise: float `[]`, standard deviation of a linear payment.
      horizon: `int32[]`, pulls in an episode.
    """

    weights: jax.Array
    noise: jax.Array
    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      pulls: `int32[]`, pulls made so far.
      context: float `[context_size]`, what is seen before the coming pull.
    """

    pulls: jax.Array
    context: jax.Array


@struct.dataclass
class Noise:
    """All that is random in a pull.

    Attributes:
      payment: float `[]`; of linear payments standard normal, of logistic ones uniform in [0, 1).
      context: float `[context_size]`, that of the next pull, uniform in [-1, 1).
    """

    payment: jax.Array
    context: jax.Array


@dataclasses.dataclass(frozen=True)
class ContextualBandit(Environment[Params, Task, State]):
    """Arms whose payments depend on the context of each pull; truncated at the horizon.

    The observation is the context of the coming pull, float `[context_size]`, each entry uniform in
    [-1, 1] and independent of all else. What was pulled and what it paid are the agent's own last
    action and reward. `info["regret"]` is what the best arm for this context pays on average minus
    what the pulled arm does, float `[]`. `agents.bandits.linucb` is a rule for it.

    Args:
      num_arms: arms, a static number.
      context_size: entries of a context, a static number.
      payoff: `"linear"`, or `"logistic"` for payments of 0 or 1.

    Raises:
      ValueError: for numbers below 1, or another payoff.
    """

    num_arms: Size = 5
    context_size: Size = 5
    payoff: Literal["linear", "logistic"] = "linear"

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Standard normal weights, noise 0.1, 100 pulls."""
        dtype = jnp.result_type(float)
        unit, tenth = jnp.ones((), dtype), jnp.full((), 0.1, dtype)
        return Params(unit, tenth, jnp.full((), 100, jnp.int32))

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws the weights of each arm."""
        dtype, shape = jnp.result_type(float), (self.num_arms, self.context_size)
        weights = params.spread * jax.random.normal(key, shape, dtype)
        return Task(
            weights, jnp.asarray(params.noise, dtype), jnp.asarray(params.horizon, jnp.int32)
        )

    def means(self, context: jax.Array, task: Task) -> jax.Array:
        """Returns the mean reward of each arm in a context, float `[num_arms]`."""
        products = (task.weights * context).sum(-1)
        return jax.nn.sigmoid(products) if self.payoff == "logistic" else products

    # One episode -----------------------------------------------------------------------------

    def _context(self, key: jax.Array) -> jax.Array:
        return jax.random.uniform(key, (self.context_size,), jnp.result_type(float), -1.0, 1.0)

    def initial(self, key: jax.Array, task: Task) -> State:
        """No pull made yet; a context is drawn."""
        del task
        return State(jnp.zeros((), jnp.int32), self._context(key))

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> Noise:
        """See `Noise`."""
        payment_key, context_key = jax.random.split(key)
        draw = jax.random.uniform if self.payoff == "logistic" else jax.random.normal
        payment = draw(payment_key, (), task.weights.dtype)
        return Noise(payment, self._context(context_key))

    def move(self, state: State, action: jax.Array, noise: Noise, task: Task) -> Transition:
        """Pulls arm `action: int32[]`; the next context is part of the noise."""
        means = self.means(state.context, task)
        mean = means[action]
        if self.payoff == "logistic":
            reward = (noise.payment < mean).astype(mean.dtype)
        else:
            reward = mean + task.noise * noise.payment
        pulls = jnp.minimum(state.pulls + 1, task.horizon)
        return Transition(
            state=State(pulls, noise.context),
            reward=reward,
            terminated=jnp.zeros((), bool),
            truncated=pulls >= task.horizon,
            info={"regret": means.max() - mean},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the context of the coming pull, float `[context_size]`."""
        return state.context

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the arms."""
        return spaces.Discrete(self.num_arms)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Returns numbers in [-1, 1]."""
        return spaces.Box(-1.0, 1.0, (self.context_size,))

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You stand before a row of slot machines, and before each pull you see some numbers. "
            "Every action pulls the arm of one machine. What it pays depends on the machine and on "
            "the numbers, in a way that stays the same."
        )

    def privileged(self, state: State, task: Task) -> dict[str, Any]:
        """Returns the mean reward of each arm in this context, and the best arms.

        `means`: float `[num_arms]`; `optimal`: `bool[num_arms]`, for `agents.optimal_agent`;
        `weights`: float `[num_arms, context_size]`.
        """
        means = self.means(state.context, task)
        return {"means": means, "optimal": means == means.max(), "weights": task.weights}

    def describe(self, state: State, task: Task) -> str:
        """Returns the pulls made and the context of the next one, in one line."""
        context = ", ".join(f"{x:.2f}" for x in state.context.tolist())
        return f"{int(state.pulls)} of {int(task.horizon)} pulls made; the context is {context}"

    def physical_state(self, state: State) -> jax.Array:
        """Pulls made and the context, float `[1 + context_size]`."""
        return jnp.concatenate([state.pulls.astype(state.context.dtype)[None], state.context])

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """The state with the pulls and the context of a vector float `[1 + context_size]`."""
        vector = jnp.asarray(vector, state.context.dtype)
        return State(vector[0].astype(jnp.int32), vector[1:])
