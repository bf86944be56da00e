"""Blind foresight of a model: its predictions beside what happens with its actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check_at_least
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import markdown_table
from gpicljax.interface import Agent
from gpicljax.rollout import Record, RolloutState, agent_step, rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

NULLS_AHEAD = {
    "the last picture": "last_error",
    "mean of other mazes' pictures": "mean_error",
    "mean of this maze's pictures": "own_mean_error",
}
"""Guesses that need no model, by name: the entry of `OpenLoopError` with their error."""
MAP_AHEAD = {"map memory, told its place": "map_error"}
STEPS_AHEAD = (1, 4)
"""Steps ahead that tables show, beside the last."""


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
      own_mean_error: float `[B, K]`, the error of expecting the mean of all pictures so far.
      map_error: float `[B, K]`, the error of a map: it expects the picture last seen in the same
        place, and that mean where it has not been. It is told its place.

    Example:
      >>> error = jnp.array([[0.0, 0.25], [0.0, 0.75]])
      >>> pictures = jnp.zeros((2, 2, 8, 8, 3), jnp.uint8)
      >>> shown = pictures, pictures, pictures[:, 0]
      >>> ahead = OpenLoopError(error, *shown, *[error] * 4)
      >>> ahead.error.mean(0).tolist()  # one step ahead, two steps ahead
      [0.0, 0.5]
    """

    error: jax.Array
    expected: jax.Array
    observed: jax.Array
    last: jax.Array
    last_error: jax.Array
    mean_error: jax.Array
    own_mean_error: jax.Array
    map_error: jax.Array


class Seen(NamedTuple):
    """Pictures and states of B episodes, as far as programs remember them.

    Attributes:
      last: `uint8[B, H, W, 3]`, the last picture.
      total: float `[B, H, W, 3]`, the sum of all pictures.
      states: leaves `[B, P, ...]`, the last state in each place.
      visited: `bool[B, P]`.
    """

    last: jax.Array
    total: jax.Array
    states: Any
    visited: jax.Array


def open_loop_error(
    vec: VectorEnv,
    awake: Agent,
    asleep: Agent,
    params: ArrayTree,
    state: RolloutState,
    context: jax.Array | int,
    steps: int,
    place: Callable[[Any, Any], jax.Array],
    places: int,
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
      place: `(state, task) -> int32[]`, where an episode is: states in one place look alike.
      places: P.

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
      ...     everywhere = lambda state, task: jnp.int32(0)
      ...     inputs = vec, awake, asleep, params, start, context
      ...     return open_loop_error(*inputs, steps=3, place=everywhere, places=1)
      >>> jax.eval_shape(ahead, jax.random.key(0), 10).error.shape
      (4, 3)
    """
    check_at_least(1, steps=steps)
    instances, place_of = jnp.arange(vec.num_envs), jax.vmap(place)
    first, dtype = state.timestep.observation, jnp.result_type(float)
    blank = jax.tree.map(
        lambda x: jnp.zeros((vec.num_envs, places, *x.shape[1:]), x.dtype), state.vstate.state
    )
    visited = jnp.zeros((vec.num_envs, places), bool)
    seen = Seen(first, jnp.zeros(first.shape, dtype), blank, visited)

    def see(_: int, loop: tuple[RolloutState, Seen]) -> tuple[RolloutState, Seen]:
        state, seen = loop
        state, record = agent_step(vec, awake, params, state)
        now, at = record.vstate, (instances, place_of(record.vstate.state, record.vstate.task))
        picture = record.timestep.observation
        states = jax.tree.map(lambda table, x: table.at[at].set(x), seen.states, now.state)
        total = seen.total + picture.astype(dtype)
        return state, Seen(picture, total, states, seen.visited.at[at].set(True))

    state, seen = jax.lax.fori_loop(0, context, see, (state, seen))

    def keep(record: Record) -> tuple[jax.Array, ...]:
        where = place_of(record.vstate.state, record.vstate.task)
        remembered = jax.tree.map(lambda table: table[instances, where], seen.states)
        mapped = jax.vmap(vec.env.observe)(remembered, record.vstate.task)
        is_mapped = seen.visited[instances, where]
        return record.aux["image"], record.timestep.observation, mapped, is_mapped

    _, kept = rollout(vec, asleep, params, state, steps, keep)
    expected, observed, mapped, is_mapped = (x.swapaxes(0, 1) for x in kept)
    came, last, mapped = (x.astype(dtype) / 255 for x in (observed, seen.last, mapped))
    other_mazes = jnp.where(vec.num_envs > 1, vec.num_envs - 1, jnp.nan)
    mean, own_mean = (last.sum(0) - last) / other_mazes, seen.total / (255 * context)
    mapped = jnp.where(is_mapped[..., None, None, None], mapped, own_mean[:, None])

    def error(guess: jax.Array) -> jax.Array:
        return jnp.square(guess - came).mean((-3, -2, -1))

    pictures = jnp.round(expected * 255).astype(jnp.uint8), observed, seen.last
    nulls = last[:, None], mean[:, None], own_mean[:, None], mapped
    return OpenLoopError(error(expected), *pictures, *map(error, nulls))


def foresight_table(ahead: Mapping[int, Mapping[str, OpenLoopError]], horizon: int) -> str:
    """Errors k steps ahead after contexts of several lengths, beside what no model is needed for.

    The null is the last picture, the mean of those in other mazes or the mean of all in this one,
    whichever is closest on average, for the same pictures.

    Args:
      ahead: by pictures of context and name of the model; leaves `[S, B, K, ...]`.
      horizon: K.
    """
    steps = [k for k in STEPS_AHEAD if k < horizon] + [horizon]
    cells = [(k, mark) for k in steps for mark in ahead]
    models = list(next(iter(ahead.values())))
    rows = []
    for model in models:
        row = [model]
        for k, mark in cells:
            measured = ahead[mark][model]
            parts = "error", *NULLS_AHEAD.values()
            error, *nulls = (
                np.asarray(getattr(measured, part)[..., k - 1], np.float64).reshape(-1)
                for part in parts
            )
            lead = mean_interval(error - min(nulls, key=np.mean))
            half = lead.high - lead.mean
            row.append(f"{error.mean():.4f} ({lead.mean:+.4f} ± {half:.4f})")
        rows.append(row)
    for name, part in (NULLS_AHEAD | MAP_AHEAD).items():
        errors = (getattr(ahead[mark][models[0]], part)[..., k - 1] for k, mark in cells)
        rows.append([name, *(f"{error.mean():.4f}" for error in errors)])
    head = [f"k = {k}, after {mark}" for k, mark in cells]
    return markdown_table(["model", *head], rows)
