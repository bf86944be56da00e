"""Programs that need no map, and one that needs none of its own: it is told the whole maze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.experts import planning
from gpicljax.systems.maze_world.experts.privileged import act_towards, navigate
from gpicljax.typing import ArrayTree

Kind = Literal["wall follower", "random walk", "knows the maze"]
# Directions in the order of headings, from +x towards +y, as indices into `planning.NEIGHBOURS`.
_BY_HEADING = np.array([1, 2, 0, 3], np.int32)


class Way(NamedTuple):
    """The way so far, as far as these programs remember it.

    Attributes:
      seen: two of `bool[B, N, N]`, what was in view one and two steps ago.
      cell: `int32[B, 2]`, where it was; (-1, -1) at the start of an episode.
      travel: `int32[B]`, direction of the last move, in quarter turns.
      chosen: `int32[B]`, direction to be gone in from this cell; -1 where none has been chosen.
    """

    seen: tuple[jax.Array, jax.Array]
    cell: jax.Array
    travel: jax.Array
    chosen: jax.Array


def program_agent(env: MazeWorld, kinds: Sequence[Kind]) -> Agent:
    """Returns the agent that acts in each instance of a batch by one of the programs.

    All go straight to their target while they see it, or saw it in the two steps before. Otherwise

    - a wall follower keeps to the wall on its right: at each cell it takes the first way, from
      right to left, that it knows to be free, and turns back where there is none;
    - a random walk takes one of these ways at random, and never turns back where there is another;
    - one that knows the maze always knows where its target is, and the shortest way.

    It has no parameters and reads `privileged`, as far as a view of the surroundings would tell.
    `aux` holds `wanders`, `bool[B]`: whether it does not see its target.

    Args:
      env: the environment in navigation; its batch needs `privileged=True`.
      kinds: of every instance.

    Raises:
      ValueError: for another mode, or an unknown kind.

    Example:
      >>> agent = program_agent(MazeWorld(), ["wall follower", "knows the maze"])
      >>> agent.initial_carry(2).travel.shape
      (2,)
    """
    check_choice("mode", env.mode, ["navigation"])
    for kind in kinds:
        check_choice("kinds", kind, get_args(Kind))
    follows, knows = (
        jnp.asarray([kind == name for kind in kinds])
        for name in ("wall follower", "knows the maze")
    )
    size = env.size

    def initial_carry(batch: int) -> Way:
        nothing = jnp.zeros((batch, size, size), bool)
        none = jnp.full(batch, -1, jnp.int32)
        return Way((nothing, nothing), jnp.stack([none, none], -1), jnp.zeros_like(none), none)

    def act(keys: jax.Array, params: ArrayTree, carry: Way, timestep: TimeStep) -> Any:
        del params
        view: dict[str, jax.Array] = timestep.privileged
        starts = timestep.episode_start | timestep.trial_start
        heading = jnp.round(view["heading"] / (np.pi / 2)).astype(jnp.int32) % 4
        newer, older = (x & ~starts[:, None, None] for x in carry.seen)
        known = view["exposed"] | newer | older | knows[:, None, None]

        cell, directions = view["cell"], jnp.asarray(planning.NEIGHBOURS[_BY_HEADING])
        moved = (cell != carry.cell).any(-1) & ~starts
        gone = (directions == (cell - carry.cell)[:, None]).all(-1).argmax(-1)
        travel = jnp.where(starts, heading, jnp.where(moved, gone, carry.travel))
        around = jnp.clip(cell[:, None] + directions, 0, size - 1)
        row = jnp.arange(len(cell))[:, None]
        free = (known & ~view["walls"])[row, around[..., 0], around[..., 1]]

        # From the right to the left of the way that it came; back comes last.
        order = (travel[:, None] + jnp.asarray([3, 0, 1])) % 4
        is_free = jnp.take_along_axis(free, order, axis=1)
        back = (travel + 2) % 4
        draws = jax.vmap(lambda key: jax.random.uniform(key, (3,)))(keys)
        first = jnp.where(follows, is_free.argmax(-1), jnp.where(is_free, draws, -1).argmax(-1))
        taken = jnp.take_along_axis(order, first[:, None], axis=1)[:, 0]
        anew = jnp.where(is_free.any(-1), taken, back)
        before = jnp.maximum(carry.chosen, 0)
        holds = jnp.take_along_axis(free, before[:, None], axis=1)[:, 0] | (before == back)
        keeps = ~moved & ~starts & (carry.chosen >= 0) & holds
        chosen = jnp.where(keeps, before, anew)

        quarter = None if env.actions == "moves" else heading
        following, target = navigate(known, view, quarter)
        wanders = target < 0
        onwards = planning.place(cell + directions[chosen], size)
        following = jnp.where(wanders, onwards, following)
        action = act_towards(env, view, heading, following)
        chosen = jnp.where(wanders, chosen, -1)
        return (
            action,
            {"wanders": wanders},
            Way((view["exposed"], newer), cell, travel.astype(jnp.int32), chosen),
        )

    return Agent(initial_carry, act, lambda carry, action: carry)
