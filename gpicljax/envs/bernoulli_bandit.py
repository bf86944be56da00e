"""Bernoulli bandits: which arm pays most often has to be found out by pulling.

The shortest whole example of an environment: everything that one needs is in this file.

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
from gpicljax.checks import Size
from gpicljax.environment import Environment, Transition
from gpicljax.envs._bandit import EXPLANATION
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

    num_arms: Size = 10

    # The distribution over tasks -------------------------------------------------------------

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

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """No pull made yet."""
        del key, task
        return State(jnp.zeros((), jnp.int32))

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[]`, uniform in [0, 1): an arm pays if it is below the arm's probability."""
        return jax.random.uniform(key, (), task.probabilities.dtype)

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Pulls arm `action: int32[]`; with `draw_noise` this is the whole of `transition`."""
        pulls = jnp.minimum(state.pulls + 1, task.horizon)
        chance = task.probabilities[action]
        return Transition(
            state=State(pulls),
            reward=(noise < chance).astype(chance.dtype),
            terminated=jnp.zeros((), bool),
            truncated=pulls >= task.horizon,
            info={"regret": task.probabilities.max() - chance},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the elapsed fraction of the episode, float `[1]`."""
        dtype = jnp.result_type(float)
        return (state.pulls.astype(dtype) / task.horizon.astype(dtype))[None]

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the arms."""
        return spaces.Discrete(self.num_arms)

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """Returns one number in [0, 1]."""
        return spaces.Box(0.0, 1.0, (1,))

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return EXPLANATION

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`probabilities`: float `[num_arms]`; `best_arm`: `int32[]`, the first if several."""
        best_arm = jnp.argmax(task.probabilities).astype(jnp.int32)
        return {"probabilities": task.probabilities, "best_arm": best_arm}

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:bandit_match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the pulls made."""
        return f"{int(state.pulls)} of {int(task.horizon)} pulls made"

    def physical_state(self, state: State) -> jax.Array:
        """Pulls made, float `[1]`."""
        return state.pulls.astype(jnp.result_type(float))[None]

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with as many pulls made as float `[1]` says."""
        return State(jnp.asarray(vector)[0].astype(jnp.int32))
