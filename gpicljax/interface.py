"""The interface between environments, agents and trainers: time steps, agents, trainers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import jax

from gpicljax.environment import Info

T = TypeVar("T")


class TrainingState(Protocol):
    """The state of a trainer; its other fields are the algorithm's."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def params(self) -> Any:
        """The parameters of the agent."""
        ...


def prefix_of(kind: Callable[..., T], *values: object, **fields: object) -> T:
    """Returns a prefix of a state: its class with partition specs or the like for fields."""
    return kind(*values, **fields)


class TimeStep(NamedTuple):
    """An agent's input; every leaf has a leading batch axis `[B]`.

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
      record_action: `(carry, action [B]) -> carry`, the memory after another action was played than
        the one chosen, as a student's in place of its teacher's; None if the agent with a memory
        cannot be told.

    Example:
      >>> import gpicljax, jax.numpy as jnp
      >>> def act(keys, params, carry, timestep):
      ...     return jnp.zeros(keys.shape[0], jnp.int32), {}, carry
      >>> always_the_first = gpicljax.Agent(lambda batch: (), act)
    """

    initial_carry: Callable[[int], Any]
    act: Callable[[jax.Array, Any, Any, TimeStep], tuple[Any, Any, Any]]
    record_action: Callable[[Any, jax.Array], Any] | None = None


class Record(NamedTuple):
    """One step of a batch: what the agent saw, what it did, and what followed.

    Attributes:
      vstate: the batch's state (`VectorState`) before the step.
      timestep: what the agent saw.
      action: the agent's action; ignored by the environment where `timestep.last`.
      aux: the agent's other outputs.
      next_vstate: the batch's state after the step.
      next_timestep: the time step after it, with the reward of the action.

    Example:
      >>> def seen(place, reward):
      ...     return TimeStep(place, reward, False, False, False, False, info={})
      >>> keep = lambda record: (record.action, record.next_timestep.reward)
      >>> keep(Record(None, seen(0, 0.0), 2, {}, None, seen(1, 5.0)))
      (2, 5.0)
    """

    vstate: Any
    timestep: TimeStep
    action: Any
    aux: Any
    next_vstate: Any
    next_timestep: TimeStep


class ActionRequest:
    """A request for an instance's next action; leaves have no batch axis.

    Args:
      timestep: the time step to act on.
      key: makes the random key when `key` is first read. Most agents in Python need no key, and
        making one takes as long as a step.

    Attributes:
      timestep: the time step to act on.

    Example:
      >>> first = TimeStep(
      ...     observation=3,
      ...     reward=0.0,
      ...     terminated=False,
      ...     truncated=False,
      ...     episode_start=True,
      ...     trial_start=True,
      ...     info={},
      ... )
      >>> request = ActionRequest(first, lambda: jax.random.key(0))
      >>> request.timestep.observation, request.key.shape
      (3, ())
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
