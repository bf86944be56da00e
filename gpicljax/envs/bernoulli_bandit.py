"""Bernoulli bandits: which arm pays most often has to be found out by pulling.

Source: the bandit tasks of Duan et al. (2016), "RL²", and Wang et al. (2016), "Learning to
reinforcement learn": success probabilities drawn from a uniform distribution, one for each arm.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.envs._bandit import ManyPullBandit, State
from gpicljax.envs._checks import Count, Probability, check_values


@struct.dataclass
class Params:
    """The distribution over bandits.

    Attributes:
      low: float `[]`, least success probability of an arm.
      high: float `[]`, greatest success probability of an arm.
      horizon: `int32[]`, pulls in an episode.
    """

    low: Probability
    high: Probability
    horizon: Count


@struct.dataclass
class Task:
    """One bandit.

    Attributes:
      probabilities: float `[num_arms]`, the chance that a pull of each arm pays 1.
      horizon: `int32[]`, pulls in an episode.
    """

    probabilities: jax.Array
    horizon: jax.Array


@dataclasses.dataclass(frozen=True)
class BernoulliBandit(ManyPullBandit[Params, Task]):
    """Arms that pay 1 with a fixed unknown probability, else 0; truncated at the horizon.

    The observation is the elapsed fraction of the episode, float `[1]` in [0, 1], as in Wang et
    al. (2016): how much exploration is worth depends on the pulls that are left. What was pulled
    and what it paid are the agent's own last action and reward, which agents receive anyway.

    `info["regret"]` is the expected regret of the pull, float `[]`: the best arm's probability
    minus the pulled arm's. The noise of a pull is one uniform number, see `draw_noise`.

    Args:
      num_arms: arms, a static number.

    Raises:
      ValueError: if `num_arms` is below 1.

    Example:
      >>> import jax
      >>> env = BernoulliBandit(num_arms=2)
      >>> task = env.sample_task(jax.random.key(0), env.make_params(low=0.2, high=0.8))
      >>> task.probabilities.shape
      (2,)
    """

    @property
    def default_params(self) -> Params:
        """Success probabilities uniform in [0, 1], 100 pulls."""
        dtype = jnp.result_type(float)
        return Params(jnp.zeros((), dtype), jnp.ones((), dtype), jnp.full((), 100, jnp.int32))

    def validate(self, params: Params) -> None:
        """Raises ValueError unless 0 <= low <= high <= 1 and horizon >= 1."""
        super().validate(params)
        low, high = np.asarray(params.low), np.asarray(params.high)
        check_values("low, high", (low, high), low <= high, "low <= high")

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws one success probability for each arm."""
        dtype = jnp.result_type(float)
        probabilities = jax.random.uniform(key, (self.num_arms,), dtype, params.low, params.high)
        return Task(probabilities, jnp.asarray(params.horizon, jnp.int32))

    def means(self, task: Task) -> jax.Array:
        """Returns the mean reward of each arm, its probability, float `[num_arms]`."""
        return task.probabilities

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[]`, uniform in [0, 1): an arm pays if it is below the arm's probability."""
        return jax.random.uniform(key, (), task.probabilities.dtype)

    def payment(self, action: jax.Array, noise: jax.Array, task: Task) -> jax.Array:
        """Returns 1 if the noise is below the arm's probability, else 0."""
        chance = task.probabilities[action]
        return (noise < chance).astype(chance.dtype)

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`probabilities`: float `[num_arms]`; `best_arm`: `int32[]`, the first if several."""
        best_arm = jnp.argmax(task.probabilities).astype(jnp.int32)
        return {"probabilities": task.probabilities, "best_arm": best_arm}

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:bandit_match"
