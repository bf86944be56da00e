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

from gpicljax import spaces
from gpicljax.environment import Environment, Transition


@struct.dataclass
class Params:
    """The distribution over bandits.

    Attributes:
      low: float `[]`, least success probability of an arm.
      high: float `[]`, greatest success probability of an arm.
      horizon: `int32[]`, pulls in an episode.
    """

    low: jax.Array
    high: jax.Array
    horizon: jax.Array


@struct.dataclass
class Task:
    """One bandit.

    Attributes:
      probabilities: float `[num_arms]`, the chance that a pull of each arm pays 1.
      horizon: `int32[]`, pulls in an episode.
    """

    probabilities: jax.Array
    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      pulls: `int32[]`, pulls made so far.
    """

    pulls: jax.Array


@dataclasses.dataclass(frozen=True)
class BernoulliBandit(Environment[Params, Task, State]):
    """Arms that pay 1 with a fixed unknown probability, else 0; truncated at the horizon.

    The observation is the elapsed fraction of the episode, float `[1]` in [0, 1], as in Wang et
    al. (2016): how much exploration is worth depends on the pulls that are left. What was pulled
    and what it paid are the agent's own last action and reward, which agents receive anyway.

    `info["regret"]` is the expected regret of the pull, float `[]`: the best arm's probability
    minus the pulled arm's.

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

    num_arms: int = 10

    def __post_init__(self) -> None:
        if self.num_arms < 1:
            raise ValueError(f"num_arms = {self.num_arms}: at least 1 is needed")

    @property
    def default_params(self) -> Params:
        """Success probabilities uniform in [0, 1], 100 pulls."""
        dtype = jnp.result_type(float)
        return Params(jnp.zeros((), dtype), jnp.ones((), dtype), jnp.full((), 100, jnp.int32))

    def validate(self, params: Params) -> None:
        """Raises ValueError unless 0 <= low <= high <= 1 and horizon >= 1."""
        low, high, horizon = (np.asarray(x) for x in (params.low, params.high, params.horizon))
        if not np.all((low >= 0) & (low <= high) & (high <= 1)):
            raise ValueError(f"low = {low}, high = {high}: 0 <= low <= high <= 1 is needed")
        if not np.all(horizon >= 1):
            raise ValueError(f"horizon = {horizon}: at least 1 pull is needed")

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws one success probability for each arm."""
        dtype = jnp.result_type(float)
        probabilities = jax.random.uniform(key, (self.num_arms,), dtype, params.low, params.high)
        return Task(probabilities, jnp.asarray(params.horizon, jnp.int32))

    def initial(self, key: jax.Array, task: Task) -> State:
        """No pull made yet."""
        del key, task
        return State(jnp.zeros((), jnp.int32))

    def transition(self, key: jax.Array, state: State, action: jax.Array, task: Task) -> Transition:
        """Pulls arm `action: int32[]`."""
        chance = task.probabilities[action]
        reward = jax.random.bernoulli(key, chance).astype(chance.dtype)
        pulls = jnp.minimum(state.pulls + 1, task.horizon)
        info = {"regret": task.probabilities.max() - chance}
        return Transition(State(pulls), reward, jnp.zeros((), bool), pulls >= task.horizon, info)

    def observe(self, state: State, task: Task) -> jax.Array:
        """The elapsed fraction of the episode, float `[1]`."""
        dtype = jnp.result_type(float)
        return (state.pulls.astype(dtype) / task.horizon.astype(dtype))[None]

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """The arms."""
        return spaces.Discrete(self.num_arms)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """One number in [0, 1]."""
        return spaces.Box(0.0, 1.0, (1,))

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`probabilities`: float `[num_arms]`; `best_arm`: `int32[]`, the first if several."""
        best_arm = jnp.argmax(task.probabilities).astype(jnp.int32)
        return {"probabilities": task.probabilities, "best_arm": best_arm}

    def describe(self, state: State, task: Task) -> str:
        """The pulls made and every arm's success probability, in one line."""
        arms = ", ".join(f"{p:.2f}" for p in np.asarray(task.probabilities))
        return f"{int(state.pulls)} of {int(task.horizon)} pulls made; arms pay with chance {arms}"
