"""What passes between environments, agents and trainers: time steps, agents, trainers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gpicljax.environment import Info


class TimeStep(NamedTuple):
    """What an agent receives; every leaf has a leading batch axis `[B]`.

    Attributes:
      observation: the environment's observation.
      reward: float `[B]` (`[B, A]` with an agent axis), received on arriving here.
      terminated: `bool[B]`, this is the last observation of an episode that ended.
      truncated: `bool[B]`, this is the last observation of an episode that was cut off.
      episode_start: `bool[B]`, this is the first observation of an episode.
      trial_start: `bool[B]`, this is the first observation of a trial: a new task, and the
        moment at which an agent clears its memory.
      info: scalars per instance, as the environment reports them.
      privileged: what `Environment.privileged` tells experts, oracles and teachers; None unless the
        batch was built with `privileged=True`. Learners are never given it.

    Example:
      >>> import gpicljax, jax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=3)
      >>> timestep = jax.eval_shape(vec.init, jax.random.key(0))[1]
      >>> timestep.reward.shape, timestep.trial_start.dtype.name, timestep.privileged
      ((3,), 'bool', None)
    """

    observation: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    episode_start: jax.Array
    trial_start: jax.Array
    info: Info
    privileged: Any = None

    @property
    def last(self) -> jax.Array:
        """`bool[B]`: the episode ends here, so the coming action is ignored."""
        return self.terminated | self.truncated


class Agent(NamedTuple):
    """An agent: pure functions over explicit state, batched.

    Attributes:
      initial_carry: maps a batch size to the memory at the start of a trial.
      act: `(keys, params, carry, timestep) -> (action, aux, carry)`, with a typed key for each
        instance, `[B]`: what an instance's agent chooses depends on no other instance. It clears
        the memory itself where `timestep.trial_start` is set. `aux` is a pytree of what its learner
        or a reader of results needs (Q-values, log-probabilities, ...), an empty dict if nothing.

    Example:
      >>> import gpicljax, jax.numpy as jnp
      >>> def act(keys, params, carry, timestep):
      ...     return jnp.zeros(keys.shape[0], jnp.int32), {}, carry
      >>> always_the_first = gpicljax.Agent(lambda batch: (), act)
    """

    initial_carry: Callable[[int], Any]
    act: Callable[[jax.Array, Any, Any, TimeStep], tuple[Any, Any, Any]]


class Record(NamedTuple):
    """One step of a batch: where it was taken, what was done, where it led.

    Attributes:
      vstate: the batch's state (`VectorState`) before the step.
      timestep: what the agent saw.
      action: what it did; ignored by the environment where `timestep.last`.
      aux: what it noted.
      next_vstate: the environments after the step.
      next_timestep: what it led to, the reward included.
    """

    vstate: Any
    timestep: TimeStep
    action: Any
    aux: Any
    next_vstate: Any
    next_timestep: TimeStep


class ActionRequest:
    """What an instance waits for an action on; leaves without a batch axis.

    Args:
      timestep: what is seen.
      key: makes the key when it is called: most agents in Python need none, and making one takes as
        long as a step.

    Attributes:
      timestep: what is seen.
    """

    def __init__(self, timestep: TimeStep, key: Callable[[], jax.Array]) -> None:
        """Takes what is given; see the class."""
        self.timestep, self._key = timestep, key

    @functools.cached_property
    def key(self) -> jax.Array:
        """Typed key `[]` for the choice."""
        return self._key()


class Trainer(NamedTuple):
    """A learning algorithm on given environments: pure functions, jittable, vmappable over seeds.

    Attributes:
      init: `(key, hparams, env_params=None) -> TrainState`: everything that the next update depends
        on. Every state has `params`, `hparams`, a typed `key` and `updates`; that of a trainer that
        acts also a `rollout`.
      update: `TrainState -> (TrainState, metrics)`.
      agent: `(greedy=False) -> Agent` over `state.params`: as it explores, or at its best.
      observations: environment steps (or tokens) of one update, over all instances.
      optimiser_steps: of one update, in the unit of `hparams.decay_updates`.
      partition: `(batch, whole) -> prefix of TrainState`, with `batch` at what belongs to single
        instances and `whole` at what all of them share, such as partition specs; None where one run
        cannot be spread over devices.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax import agents
      >>> from gpicljax.agents import ppo
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=8, resets="fresh")
      >>> algorithm = agents.get_algorithm("ppo")
      >>> trainer = algorithm.make(ppo.PPOConfig(unroll=16), vec, algorithm.network())
      >>> trainer.observations
      128
      >>> state = jax.eval_shape(trainer.init, jax.random.key(0), algorithm.hparams())
    """

    init: Callable[..., Any]
    update: Callable[[Any], tuple[Any, dict[str, jax.Array]]]
    agent: Callable[..., Agent]
    observations: int
    optimiser_steps: int = 1
    partition: Callable[[Any, Any], Any] | None = None
