"""Agents that recall as well as can be, with and without being told names.

Agents of the contract of `gpicljax.interface`, without parameters. They read
`timestep.privileged`, which a batch with `privileged=True` fills: the stimulus asked for, and,
after the answer, what was right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.batching import select
from gpicljax.checks import check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.meta_rg.env import structure as _structure
from gpicljax.systems.meta_rg.env.recall import Recall, Task
from gpicljax.typing import ArrayTree

CELLS = 256
"""Into how many the range of values is cut to learn what they stand for."""


class Memory(NamedTuple):
    """The stimuli of a trial's games so far, the current one included.

    Attributes:
      stimuli: float `[B, G, F]`, infinite where there are none yet.
      latents: `int32[B, G, N_dim]`, what they meant.
      size: `int32[B]`, how many there are.
    """

    stimuli: jax.Array
    latents: jax.Array
    size: jax.Array


def _initial_carry(env: Recall, batch: int) -> Memory:
    features = env.num_dims * (1 if env.stimulus == "scs" else env.max_values)
    shape = batch, env.max_games
    return Memory(
        jnp.full((*shape, features), jnp.inf, jnp.result_type(float)),
        jnp.zeros((*shape, env.num_dims), jnp.int32),
        jnp.zeros(batch, jnp.int32),
    )


def _remember(env: Recall, memory: Memory, timestep: TimeStep) -> Memory:
    """The memory with the stimulus that is shown; a new trial starts from nothing."""
    blank = _initial_carry(env, memory.size.shape[0])
    memory = select(timestep.trial_start, blank, memory)
    shown = ~timestep.privileged["asking"]
    rows = jnp.arange(memory.size.shape[0])
    # Beyond the cap (of several episodes in a trial) the oldest ones make room.
    place = jnp.where(shown, memory.size % env.max_games, env.max_games)
    return Memory(
        memory.stimuli.at[rows, place].set(timestep.observation["stimulus"], mode="drop"),
        memory.latents.at[rows, place].set(timestep.privileged["latents"], mode="drop"),
        memory.size + shown,
    )


def nearest(env: Recall) -> Agent:
    """The 1-NN oracle: the index of the nearest value seen in earlier games, which it was told.

    Right wherever the value was seen before, so always in the second shot with the paper's rules;
    in a first game it answers 0.
    """

    def act(keys: jax.Array, params: ArrayTree, carry: Memory, timestep: TimeStep) -> Any:
        del keys, params
        carry = _remember(env, carry, timestep)
        privileged = timestep.privileged
        rows = jnp.arange(carry.size.shape[0])
        current_slot = (carry.size - 1) % env.max_games
        current = carry.stimuli[rows, current_slot]
        apart = jnp.abs(carry.stimuli - current[:, None])
        per_dim = apart.reshape(*apart.shape[:2], env.num_dims, -1).sum(-1)
        per_dim = jnp.take_along_axis(per_dim, privileged["dimension"][:, None, None], -1)[..., 0]
        earlier = jnp.isfinite(carry.stimuli[..., 0]).at[rows, current_slot].set(False)
        nearest_slot = jnp.argmin(jnp.where(earlier, per_dim, jnp.inf), axis=-1)
        value = carry.latents[rows, nearest_slot, privileged["dimension"]]
        value = jnp.where(earlier.any(-1), value, 0)
        return jnp.where(privileged["asking"], value, env.wait).astype(jnp.int32), {}, carry

    return Agent(lambda batch: _initial_carry(env, batch), act)


def ranking(env: Recall) -> Agent:
    """The oracle that is told no names: how many different values seen are below the current one.

    Values are ordered like their indices, so that it is right as soon as all that lie below have
    been seen: always in the second shot with the paper's rules. It reads only two
    privileged entries, the step and the dimension asked for, which the observation holds as well.

    Raises:
      ValueError: unless stimuli are continuous.
    """
    check_choice("stimulus", env.stimulus, ["scs"])

    def act(keys: jax.Array, params: ArrayTree, carry: Memory, timestep: TimeStep) -> Any:
        del keys, params
        carry = _remember(env, carry, timestep)
        privileged = timestep.privileged
        rows = jnp.arange(carry.size.shape[0])
        values = jnp.take_along_axis(carry.stimuli, privileged["dimension"][:, None, None], -1)[
            ..., 0
        ]
        current = values[rows, (carry.size - 1) % env.max_games]
        ordered = jnp.sort(jnp.where(values < current[:, None], values, jnp.inf), axis=-1)
        new = jnp.isfinite(ordered[:, 1:]) & (ordered[:, 1:] != ordered[:, :-1])
        below = jnp.isfinite(ordered[:, 0]) + new.sum(-1)
        return jnp.where(privileged["asking"], below, env.wait).astype(jnp.int32), {}, carry

    return Agent(lambda batch: _initial_carry(env, batch), act)


def single(env: Recall, tasks: Task) -> Agent:
    """Answers with the index that a value like the current one has most often.

    It knows the distribution over tasks and remembers the game's stimulus, but no earlier ones.
    It reads the same privileged entries as `ranking`.

    Args:
      env: the environment.
      tasks: leaves `[N, ...]`, some thousand tasks, from which it has learnt.

    Raises:
      ValueError: unless stimuli are continuous.
    """
    check_choice("stimulus", env.stimulus, ["scs"])
    # In how many games of a shot each task shows each value.
    tuples = jnp.asarray(_structure.combinations(env.num_dims, env.max_values))
    shown, values = jax.vmap(env.occurring_tuples)(tasks), jnp.arange(env.max_values)
    counts = jnp.einsum("nm,mdv->ndv", shown.astype(float), (tuples[..., None] == values) * 1.0)
    votes = jnp.zeros((CELLS, env.max_values)).at[_cell(tasks.values), values].add(counts)
    answers = jnp.argmax(votes, axis=-1).astype(jnp.int32)

    def act(keys: jax.Array, params: ArrayTree, carry: jax.Array, timestep: TimeStep) -> Any:
        del keys, params
        privileged = timestep.privileged
        carry = select(privileged["asking"], carry, timestep.observation["stimulus"])
        value = jnp.take_along_axis(carry, privileged["dimension"][:, None], -1)[:, 0]
        return jnp.where(privileged["asking"], answers[_cell(value)], env.wait), {}, carry

    return Agent(lambda batch: jnp.zeros((batch, env.num_dims), jnp.result_type(float)), act)


def _cell(values: jax.Array) -> jax.Array:
    return jnp.clip(((values + 1) / 2 * CELLS).astype(jnp.int32), 0, CELLS - 1)
