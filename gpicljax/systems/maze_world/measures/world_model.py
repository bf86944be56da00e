"""Blind foresight of a model: its predictions beside what happens with its actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check_at_least
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import Record, RolloutState, rollout
from gpicljax.rollout.traced import advance
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class OpenLoopError(NamedTuple):
    """The next K pictures of B episodes, as the model expected them and as they were.

    Attributes:
      error: float `[B, K]`, mean squared difference of values in [0, 1].
      expected: `uint8[B, K, H, W, 3]`.
      observed: `uint8[B, K, H, W, 3]`.
      last: `uint8[B, H, W, 3]`, the last picture that the model was shown.
      last_error: float `[B, K]`, the error of expecting that picture again.
      mean_error: float `[B, K]`, the error of expecting the mean of the last pictures that the
        other episodes were shown; NaN if there is no other.

    Example:
      >>> error = jnp.array([[0.0, 0.25], [0.0, 0.75]])
      >>> pictures = jnp.zeros((2, 2, 8, 8, 3), jnp.uint8)
      >>> shown = {"expected": pictures, "observed": pictures, "last": pictures[:, 0]}
      >>> ahead = OpenLoopError(error, **shown, last_error=error, mean_error=error)
      >>> ahead.error.mean(0).tolist()  # one step ahead, two steps ahead
      [0.0, 0.5]
    """

    error: jax.Array
    expected: jax.Array
    observed: jax.Array
    last: jax.Array
    last_error: jax.Array
    mean_error: jax.Array


def open_loop_error(
    vec: VectorEnv,
    awake: Agent,
    asleep: Agent,
    params: ArrayTree,
    state: RolloutState,
    context: jax.Array | int,
    steps: int,
) -> OpenLoopError:
    """Lets a model see and act for a while, then act on what it expects to see.

    Args:
      vec: the environments, with pictures for observations.
      awake: the agent.
      asleep: the same, blind: its carry is that of `awake`, and its `aux` has the `image` float
        `[B, H, W, 3]` in [0, 1] that it expects now.
      params: of both.
      state: from `start_rollout` with `awake`.
      context: `int32[]`, pictures that it is shown, at least 1; may be traced.
      steps: K.

    Raises:
      ValueError: if K is below 1.

    Source: section 3.3, Figures 9 and 18 of the GPICL paper.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import agent_input
      >>> from gpicljax.agents.causal_model import causal_agent, imagined_agent
      >>> from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder
      >>> from gpicljax.networks.causal_model import CausalModelSettings, causal_model
      >>> from gpicljax.rollout import start_rollout
      >>> env = gpicljax.make("MazeWorld-v0", size=7, resolution=(16, 16))
      >>> vec = gpicljax.VectorEnv(env, 4, resets="synchronous", steps_per_trial=64)
      >>> pictures = autoencoder(AutoencoderSettings("patches", latent=8, width=8), (16, 16))
      >>> settings, actions = CausalModelSettings(layers=1), env.action_space()
      >>> network = causal_model(settings, pictures, actions, capacity=32)
      >>> awake = causal_agent(network, settings.policy(actions))
      >>> asleep = imagined_agent(network, settings.policy(actions), pictures.latent)
      >>> def ahead(key, context):
      ...     start = start_rollout(key, vec, awake)
      ...     params = network.init(key, agent_input(actions, start.carry.agent, start.timestep))
      ...     return open_loop_error(vec, awake, asleep, params, start, context, steps=3)
      >>> jax.eval_shape(ahead, jax.random.key(0), 10).error.shape
      (4, 3)
    """
    check_at_least(1, steps=steps)

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, jax.Array], timestep: TimeStep
    ) -> Any:
        action, aux, after = awake.act(keys, params, carry[0], timestep)
        return action, aux, (after, timestep.observation)

    noting = Agent(lambda batch: (awake.initial_carry(batch), None), act)
    begun = state._replace(carry=(state.carry, state.timestep.observation))
    state = advance(vec, noting, params, begun, context)
    carry, shown = state.carry
    state = state._replace(carry=carry)

    def keep(record: Record) -> tuple[jax.Array, jax.Array]:
        return record.aux["image"], record.timestep.observation

    _, (expected, observed) = rollout(vec, asleep, params, state, steps, keep)
    expected, observed = expected.swapaxes(0, 1), observed.swapaxes(0, 1)
    came, last = (x.astype(expected.dtype) / 255 for x in (observed, shown))
    other_mazes = jnp.where(vec.num_envs > 1, vec.num_envs - 1, jnp.nan)
    mean = (last.sum(0) - last) / other_mazes

    def error(guess: jax.Array) -> jax.Array:
        return jnp.square(guess - came).mean((-3, -2, -1))

    pictures = jnp.round(expected * 255).astype(jnp.uint8), observed, shown
    return OpenLoopError(error(expected), *pictures, error(last[:, None]), error(mean[:, None]))
