"""Gaussian bandits: every arm pays on average its own amount, with normal noise.

Source: the ten-armed testbed of Sutton & Barto (2018), section 2.3: means from a standard normal
distribution, noise of standard deviation 1. With uniform means and less noise, the bandits of Lee
et al. (2023), "Supervised pretraining can learn in-context reinforcement learning".
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.envs._bandit import ManyPullBandit, State
from gpicljax.envs._checks import Count, NotNegative, Real, check_values


@struct.dataclass
class Params:
    """The distribution over bandits: an arm's mean is uniform in [low, high], plus a normal number.

    Attributes:
      low: float `[]`, see above.
      high: float `[]`, see above.
      spread: float `[]`, standard deviation of the normal part of an arm's mean.
      noise: float `[]`, standard deviation of a pull's payment.
      horizon: `int32[]`, pulls in an episode.
    """

    low: Real
    high: Real
    spread: NotNegative
    noise: NotNegative
    horizon: Count


@struct.dataclass
class Task:
    """One bandit.

    Attributes:
      averages: float `[num_arms]`, what a pull of each arm pays on average.
      noise: float `[]`, standard deviation of a pull's payment.
      horizon: `int32[]`, pulls in an episode.
    """

    averages: jax.Array
    noise: jax.Array
    horizon: jax.Array


@dataclasses.dataclass(frozen=True)
class GaussianBandit(ManyPullBandit[Params, Task]):
    """Arms with unknown average payments; truncated at the horizon.

    The observation is the elapsed fraction of the episode, float `[1]` in [0, 1]. What was pulled
    and what it paid are the agent's own last action and reward. `info["regret"]` is the best arm's
    average minus the pulled arm's, float `[]`. The noise of a pull is one standard normal number,
    see `draw_noise`.

    Args:
      num_arms: arms, a static number.

    Raises:
      ValueError: if `num_arms` is below 1.

    Example:
      >>> import jax
      >>> env = GaussianBandit(num_arms=5)
      >>> params = env.make_params(high=1.0, spread=0.0, noise=0.3, horizon=500)
      >>> env.sample_task(jax.random.key(0), params).averages.shape
      (5,)
    """

    @property
    def default_params(self) -> Params:
        """Standard normal averages, noise 1, 100 pulls."""
        zero, unit = (jnp.asarray(x, jnp.result_type(float)) for x in (0.0, 1.0))
        return Params(zero, zero, unit, unit, jnp.full((), 100, jnp.int32))

    def validate(self, params: Params) -> None:
        """Raises ValueError unless low <= high, deviations are not negative, and horizon >= 1."""
        super().validate(params)
        low, high = np.asarray(params.low), np.asarray(params.high)
        check_values("low, high", (low, high), low <= high, "low <= high")

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws an average for each arm."""
        dtype, shape = jnp.result_type(float), (self.num_arms,)
        uniform_key, normal_key = jax.random.split(key)
        averages = jax.random.uniform(uniform_key, shape, dtype, params.low, params.high)
        averages += params.spread * jax.random.normal(normal_key, shape, dtype)
        return Task(
            averages, jnp.asarray(params.noise, dtype), jnp.asarray(params.horizon, jnp.int32)
        )

    def means(self, task: Task) -> jax.Array:
        """Returns the averages."""
        return task.averages

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[]`, standard normal: by how many standard deviations a payment is off."""
        return jax.random.normal(key, (), task.averages.dtype)

    def payment(self, action: jax.Array, noise: jax.Array, task: Task) -> jax.Array:
        """Returns the arm's average plus noise."""
        return task.averages[action] + task.noise * noise

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`averages`: float `[num_arms]`; `best_arm`: `int32[]`, the first if several."""
        best_arm = jnp.argmax(task.averages).astype(jnp.int32)
        return {"averages": task.averages, "best_arm": best_arm}
