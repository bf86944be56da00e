"""Tabular Q-learning (Watkins & Dayan, 1992), as an agent and as a trainer.

As an agent it learns while it acts: the table is in its carry and is cleared with the trial, so
that it stands beside agents that learn in context. As a trainer it learns one table from many
environments, and its agent only reads it.

After an episode that terminated there is nothing more to gain; one that was cut off is worth the
value of its last observation. The step after the end, whose action is ignored, teaches nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import replace_pending_action
from gpicljax.agents.algorithm import Algorithm, NoSettings, register_algorithm
from gpicljax.agents.optimisation import add_count
from gpicljax.batching import donatable, select, strip_weak_types
from gpicljax.checks import Count, Number, Rate, Share, check, check_choice, check_fields
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.rollout import RolloutState, agent_step, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]
Variant = Literal["standard", "reference"]
Decay = Literal["episode", "step"]


@struct.dataclass
class TabularHParams:
    """Hyper-parameters of tabular Q-learning. They may be traced, e.g. for a vmapped sweep.

    The exploration rate is `final_epsilon + (epsilon - final_epsilon) * exp(-decay * n)` after n
    finished episodes, or n steps.

    Attributes:
      learning_rate: alpha, in [0, 1].
      discount: gamma.
      epsilon: exploration rate at the start.
      final_epsilon: exploration rate in the end.
      decay: rate of the formula above, per episode or per step.
      initial_value: value of all entries of the table at the start. Where it exceeds what can be
        gained, every action is tried before long.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=4, resets="fresh")
      >>> trainer, optimistic = make(TabularConfig(), vec), TabularHParams(initial_value=2.0)
      >>> state = jax.eval_shape(lambda: trainer.init(jax.random.key(0), optimistic))
      >>> state.params.shape
      (16, 4)
    """

    learning_rate: Share = 0.7
    discount: Share = 0.95
    epsilon: Share = 0.1
    final_epsilon: Share = 0.0
    decay: Rate = 0.1
    initial_value: Number = 1.0


REFERENCE = TabularHParams(
    learning_rate=0.7,
    discount=0.95,
    epsilon=1.0,
    final_epsilon=0.05,
    decay=0.0005,
    initial_value=0.0,
)
"""Those of the Q-learning baseline of the in-context RL evaluation, see `q_learner`."""


TUNED_Q_LEARNING = TabularHParams(
    learning_rate=1.0,
    discount=0.99,
    epsilon=0.0,
    final_epsilon=0.0,
    initial_value=0.1,
)
"""What does best within 200 actions on random lakes that do not slip: curious, and sure of what it
saw."""


def exploration(hparams: TabularHParams, count: jax.Array) -> jax.Array:
    """The exploration rate after so many episodes or steps, float of the shape of `count`."""
    share = jnp.exp(-hparams.decay * count.astype(jnp.result_type(float)))
    return hparams.final_epsilon + (hparams.epsilon - hparams.final_epsilon) * share


def choose(
    keys: jax.Array, values: jax.Array, epsilon: jax.Array | float, first: bool = False
) -> jax.Array:
    """Chooses epsilon-greedily; among equally good actions at random, or the first.

    Args:
      keys: typed keys `[B]`.
      values: float `[B, A]`.
      epsilon: exploration rate, one or `float[B]`.
      first: whether the first of equally good actions is taken.

    Returns:
      `int32[B]`.
    """

    def one(key: jax.Array, values: jax.Array, epsilon: jax.Array) -> jax.Array:
        explore_key, choice_key = jax.random.split(key)
        lots = jax.random.uniform(choice_key, values.shape)
        best = values == values.max()
        # Scores of the greedy choice: lots among the best, or all of those alike.
        greedy = jnp.where(best, 0 if first else lots, -1)
        explore = jax.random.uniform(explore_key) < epsilon
        return jnp.argmax(jnp.where(explore, lots, greedy)).astype(jnp.int32)

    return jax.vmap(one)(keys, values, jnp.broadcast_to(epsilon, keys.shape))


def _sizes(observations: spaces.Space, actions: spaces.Space) -> tuple[int, int]:
    for field, space in (("observations", observations), ("actions", actions)):
        check(isinstance(space, spaces.Discrete), field, space, "Discrete, for a table")
    assert isinstance(observations, spaces.Discrete) and isinstance(actions, spaces.Discrete)
    return observations.n, actions.n


# Learning within a trial --------------------------------------------------------------------------


@struct.dataclass
class TabularCarry:
    """The learner's memory of its trial.

    Attributes:
      table: float `[B, S, A]`, the value of every action.
      observation: `int32[B]`, where the action was taken.
      action: `int32[B]`, the action whose outcome is still to be learnt; -1 if there is none.
      reward: float `[B]`, that of the last time step.
      episodes: `int32[B]`, finished.
      steps: `int32[B]`, actions that counted.
    """

    table: jax.Array
    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    episodes: jax.Array
    steps: jax.Array


def q_learner(
    observations: spaces.Space,
    actions: spaces.Space,
    variant: Variant = "standard",
    decay: Decay = "episode",
) -> Agent:
    """Q-learning within a trial. The agent's `params` are `TabularHParams`.

    `variant="reference"`, with `REFERENCE` as params, is the baseline of the in-context RL
    evaluation, with its flaws: it pairs its last two observations when it is asked for an action,
    and no action is asked for at the end of an episode. So the last step is never learnt; instead
    the first step of the next episode credits its reward to the terminal observation, which it
    continues with the value of where the next episode starts. Among equally good actions it takes
    the first, which with a table of zeros is action 0. And since its exploration rate hardly falls
    in a few hundred steps it is close to random play.

    Args:
      observations: of the environment, discrete.
      actions: of the environment, discrete.
      variant: see above.
      decay: whether exploration falls with finished episodes or with steps.

    Returns:
      The agent; its `aux` is a dictionary with `q_values: float[B, A]` and `epsilon: float[B]`.

    Raises:
      ValueError: for another space, variant or decay.

    Example:
      >>> from gpicljax import spaces
      >>> agent = q_learner(spaces.Discrete(16), spaces.Discrete(4))
      >>> agent.initial_carry(2).table.shape
      (2, 16, 4)
    """
    num_states, num_actions = _sizes(observations, actions)
    check_choice("variant", variant, get_args(Variant))
    check_choice("decay", decay, get_args(Decay))
    reference = variant == "reference"

    def initial_carry(batch: int) -> TabularCarry:
        dtype, none = jnp.result_type(float), jnp.zeros(batch, jnp.int32)
        return TabularCarry(
            table=jnp.zeros((batch, num_states, num_actions), dtype),
            observation=none,
            action=none - 1,
            reward=jnp.zeros(batch, dtype),
            episodes=none,
            steps=none,
        )

    def learn(hparams: TabularHParams, carry: TabularCarry, timestep: TimeStep) -> jax.Array:
        """Returns the table after the outcome of the last action."""
        due, reward = carry.action >= 0, timestep.reward
        if reference:
            due &= ~timestep.last
            reward = jnp.where(timestep.episode_start, carry.reward, reward)
        rows = jnp.arange(carry.action.shape[0])
        best = carry.table[rows, timestep.observation].max(-1)
        if not reference:
            best = jnp.where(timestep.terminated, 0, best)
        value = carry.table[rows, carry.observation, carry.action]
        error = reward + hparams.discount * best - value
        change = jnp.where(due, hparams.learning_rate * error, 0).astype(value.dtype)
        return carry.table.at[rows, carry.observation, carry.action].add(change)

    def act(
        keys: jax.Array, params: TabularHParams, carry: TabularCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, TabularCarry]:
        batch = carry.action.shape[0]
        carry = dataclasses.replace(carry, table=learn(params, carry, timestep))
        blank = initial_carry(batch)
        blank = dataclasses.replace(blank, table=jnp.full_like(blank.table, params.initial_value))
        carry = select(timestep.trial_start, blank, carry)
        episodes = carry.episodes + timestep.last
        epsilon = exploration(params, episodes if decay == "episode" else carry.steps)
        q_values = carry.table[jnp.arange(batch), timestep.observation]
        action = choose(keys, q_values, epsilon, first=reference)
        ignored = carry.action if reference else jnp.full_like(action, -1)
        carry = TabularCarry(
            table=carry.table,
            observation=timestep.observation.astype(jnp.int32),
            action=jnp.where(timestep.last, ignored, action),
            reward=timestep.reward,
            episodes=episodes,
            steps=carry.steps + ~timestep.last,
        )
        return action, {"q_values": q_values, "epsilon": epsilon}, carry

    return Agent(initial_carry, act, replace_pending_action)


# One table for all environments -------------------------------------------------------------------


def table_agent(actions: spaces.Space, epsilons: jax.Array | float = 0.0) -> Agent:
    """Returns an agent that reads a table and does not change it.

    Args:
      actions: of the environment, discrete.
      epsilons: exploration rate, one or `float[B]`; 0 is greedy.

    Returns:
      The agent; `params` is the table, float `[S, A]`, and `aux` a dictionary with the Q-values.
      Equally good actions are drawn from.
    """
    _sizes(spaces.Discrete(1), actions)

    def act(
        keys: jax.Array, params: jax.Array, carry: tuple[()], timestep: TimeStep
    ) -> tuple[jax.Array, Any, tuple[()]]:
        q_values = params[timestep.observation]
        return choose(keys, q_values, epsilons), {"q_values": q_values}, carry

    return Agent(lambda batch: (), act)


@dataclasses.dataclass(frozen=True)
class TabularConfig:
    """Sizes and switches of tabular Q-learning; all are static.

    Attributes:
      unroll: steps of every environment per update; each step is learnt from at once.
      decay: whether exploration falls with finished episodes (`"episode"`) or with steps
        (`"step"`). Both are counted over all environments together.

    Example:
      >>> TabularConfig(unroll=64).decay
      'episode'
      >>> TabularConfig(decay="trial")
      Traceback (most recent call last):
      ValueError: decay: got 'trial'; accepted: episode, step
    """

    unroll: Count = 128
    decay: Decay = "episode"

    def __post_init__(self) -> None:
        check_fields(self)


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: float `[S, A]`, the table.
      rollout: environments and current time step.
      hparams: traced hyper-parameters.
      key: a typed key; choices are drawn from the instances' own.
      updates: `int32[]`, made.
      episodes: `int32[]`, finished, over all environments.
      observations: `int32[]`, actions that counted, over all environments.
    """

    params: jax.Array
    rollout: RolloutState
    hparams: TabularHParams
    key: jax.Array
    updates: jax.Array
    episodes: jax.Array
    observations: jax.Array


def learn_together(
    table: jax.Array,
    hparams: TabularHParams,
    timestep: TimeStep,
    action: jax.Array,
    following: TimeStep,
) -> tuple[jax.Array, jax.Array]:
    """Runs one step of Q-learning for a table that all instances share.

    All targets are computed from the table as it was. An entry that n instances visited at once
    moves by `1 - (1 - alpha)**n` of the way to the mean of their targets: what n updates one after
    the other, in random order, amount to on average. A lone visit is the ordinary update.

    Args:
      table: float `[S, A]`.
      hparams: hyper-parameters.
      timestep: where the actions were taken, leaves `[B]`.
      action: `int32[B]`.
      following: the time step after them.

    Returns:
      The table, and the temporal-difference errors float `[B]`, 0 where the action was ignored.
    """
    due = ~timestep.last & ~following.trial_start
    best = jnp.where(following.terminated, 0, table[following.observation].max(-1))
    place = timestep.observation, action
    error = following.reward + hparams.discount * best - table[place]
    error = jnp.where(due, error, 0).astype(table.dtype)
    visits = jnp.zeros_like(table).at[place].add(due.astype(table.dtype))
    share = (1 - (1 - hparams.learning_rate) ** visits) / jnp.maximum(visits, 1)
    return table + share * jnp.zeros_like(table).at[place].add(error), error


def make(config: TabularConfig, vec: VectorEnv) -> Trainer:
    """Builds the trainer of one table for all environments and all their tasks.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, discrete observations and actions.

    Returns:
      The trainer. Unless greedy, its agent explores at a rate of 0.05. Its metrics are `reward`
      (mean per action that counted), `episodes` (ended in this update), `epsilon` (the last) and
      `error` (mean size of the temporal-difference errors).
    """
    actions = vec.env.action_space()
    sizes = _sizes(vec.env.observation_space(), actions)

    def agent(greedy: bool = False) -> Agent:
        return table_agent(actions, 0.0 if greedy else 0.05)

    def step(state: TrainState, _: None) -> tuple[TrainState, Metrics]:
        counter = state.episodes if config.decay == "episode" else state.observations
        epsilon = exploration(state.hparams, counter)
        explorer = table_agent(actions, epsilon)
        rollout, record = agent_step(vec, explorer, state.params, state.rollout)
        before, following = record.timestep, record.next_timestep
        params, error = learn_together(
            state.params, state.hparams, before, record.action, following
        )
        ended, acted = (x.sum(dtype=jnp.int32) for x in (following.last, ~before.last))
        metrics = {
            "reward": following.reward.sum(),
            "error": jnp.abs(error).sum(),
            "episodes": ended,
            "acted": acted,
            "epsilon": epsilon,
        }
        return dataclasses.replace(
            state,
            params=params,
            rollout=rollout,
            episodes=add_count(state.episodes, ended),
            observations=add_count(state.observations, acted),
        ), metrics

    @donatable
    def init(key: jax.Array, hparams: TabularHParams, env_params: ArrayTree = None) -> TrainState:
        hparams = strip_weak_types(hparams)
        env_key, key = jax.random.split(key)
        count = lambda: jnp.zeros((), jnp.int32)  # noqa: E731
        return TrainState(
            params=jnp.full(sizes, hparams.initial_value, jnp.result_type(float)),
            rollout=start_rollout(env_key, vec, agent(), env_params),
            hparams=hparams,
            key=key,
            updates=count(),
            episodes=count(),
            observations=count(),
        )

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        state = dataclasses.replace(state, updates=state.updates + 1)
        state, metrics = jax.lax.scan(step, state, None, config.unroll)
        acted = jnp.maximum(metrics["acted"].sum(), 1)
        return state, {
            "reward": metrics["reward"].sum() / acted,
            "episodes": metrics["episodes"].sum(dtype=jnp.int32),
            "epsilon": metrics["epsilon"][-1],
            "error": metrics["error"].sum() / acted,
        }

    return Trainer(init, update, agent, config.unroll * vec.num_envs)


def fits(observation_space: spaces.Space, action_space: spaces.Space) -> str | None:
    """Returns why a table does not fit these spaces; None if it does."""
    for kind, space in (("observations", observation_space), ("actions", action_space)):
        if not isinstance(space, spaces.Discrete):
            return f"discrete {kind} are needed, not {space}"
    return None


def _make(config: TabularConfig, vec: VectorEnv, network: NoSettings) -> Trainer:
    del network
    return make(config, vec)


register_algorithm(Algorithm("q-learning", _make, fits, TabularConfig, TabularHParams))
