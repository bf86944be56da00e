"""Privileged agents: they remember what they saw of the maze, explore, and go to known targets.

What is in view is known, and so is what was in view in the two steps before (short-term memory).
What drops out of that is kept for the episode, cell by cell, with a given probability (long-term
memory). An agent heads for its target if it knows the target's cell, and for the nearest cell that
it does not know otherwise.

`rule="reference"` makes the reference simulator's choices. It goes to the cheapest unknown cell,
the first by row and column, along a path on which costs fall from the target back to the agent.
That path need not be a shortest one, so that a step may lead no closer to anything unknown, and the
next one back, for ever.

What it scores agrees with the reference's where memory is perfect or absent. At partial memory our
means lie lower in 10 of 12 cases, each within 1.9 combined standard errors; all twelve together are
2.7 below (fewer, as those of one size share their mazes). This is unexplained: memory, costs, paths
and actions follow the written rules exactly (tested), and a view that reaches one cell farther
closes a third of the gap at n = 15. Arrivals in 2,000 steps, over 512, 256 and 128 mazes of size
15, 25 and 35, and the reference's over half as many, with standard errors:

| memory | n = 15 | reference | n = 25 | reference | n = 35 | reference |
|---|---|---|---|---|---|---|
| 5 % | 8.6 ± 0.5 | 9.1 ± 0.6 | 1.6 ± 0.1 | 1.8 ± 0.3 | 1.0 ± 0.2 | 1.3 ± 0.3 |
| 10 % | 35.7 ± 0.6 | 37.3 ± 0.9 | 5.3 ± 0.4 | 6.8 ± 0.7 | 2.5 ± 0.3 | 2.9 ± 0.5 |
| 25 % | 59.2 ± 0.6 | 60.2 ± 0.7 | 46.1 ± 1.2 | 45.2 ± 1.6 | 13.9 ± 1.4 | 17.5 ± 2.3 |
| 50 % | 64.7 ± 0.5 | 66.4 ± 0.8 | 70.1 ± 1.2 | 70.7 ± 1.4 | 60.2 ± 2.1 | 57.2 ± 2.8 |

`rule="default"` takes the first step of a shortest path, of those the one that needs the fewest
turns. As long as the map stays the same, each action from cell to cell lowers the cost from the
agent to its goal or, at the same cost, the number of turns ahead, and both are whole numbers: so
the goal is reached or the map changes. An unknown cell is seen at the latest when the agent stands
before it and looks at it, so exploring always changes the map. With a perfect long-term memory that
happens at most once per cell; with a positive probability, each cell is kept sooner or later.

Source: section 3.1 and appendix A.3 of the GPICL paper, and Xenoverse's MazeWorld v1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gpicljax.checks import check, check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.experts import planning
from gpicljax.typing import ArrayTree

Rule = Literal["default", "reference"]

# Instances that plan together.
TILE = 64
# Survival's costs, which include landmarks' values, in whole numbers of thousandths.
_SCALE = 1000
# What a landmark's value is taken to be before it was visited.
_CURIOSITY = 0.5
# The offsets that count as a cell's neighbourhood where there is nothing left to explore.
_AROUND = [(0, 0)] + [
    (sign * dx, sign * dy)
    for sign in (1, -1)
    for dx, dy in ((1, 1), (1, 0), (0, 1), (1, 2), (2, 1), (2, 2), (0, 2), (2, 0))
]


class Memory(NamedTuple):
    """An agent's memory of its episode.

    Attributes:
      kept: `bool[B, N, N]`, long-term memory.
      recent: three of `bool[B, N, N]`, short-term memory: what was in view now, one and two steps
        ago.
      visited: `bool[B, L]`, landmarks in whose cells it has been.
    """

    kept: jax.Array
    recent: tuple[jax.Array, jax.Array, jax.Array]
    visited: jax.Array


def remember(keys: jax.Array, memory: Memory, exposed: jax.Array, probability: jax.Array) -> Memory:
    """Moves on by one step.

    Args:
      keys: typed keys `[B]`.
      memory: what is remembered so far.
      exposed: `bool[B, N, N]`, what is in view now.
      probability: float `[]` or `[B]`, with which a cell that drops out of short-term memory is
        kept, drawn anew each time; in steps of 2^-16.
    """
    shape = exposed.shape[1:]
    draws = jax.vmap(lambda key: jax.random.bits(key, shape, jnp.uint16))(keys).astype(jnp.uint32)
    limit = jnp.round(jnp.clip(probability, 0, 1) * 2**16).astype(jnp.uint32)
    lucky = draws < limit.reshape(-1, 1, 1)
    newest, middle, oldest = memory.recent
    return memory._replace(kept=memory.kept | (oldest & lucky), recent=(exposed, newest, middle))


def _inside(walls: jax.Array) -> jax.Array:
    """`bool[B, N, N]`: what is not beyond the outer wall of a maze smaller than the array."""

    def beyond(solid: jax.Array) -> jax.Array:  # no inner row or column is solid wall
        return jnp.pad(solid[:, 1:] & solid[:, :-1], ((0, 0), (1, 0)))

    return ~beyond(walls.all(2))[:, :, None] & ~beyond(walls.all(1))[:, None, :]


# Where to go next: the place of a neighbouring cell, or of one's own ---------------------------


def navigate(
    known_cells: jax.Array,
    view: dict[str, jax.Array],
    quarter: jax.Array | None,
    rule: Rule = "default",
) -> tuple[jax.Array, jax.Array]:
    """Returns the next place, `int32[B]`, and the target's, -1 for "whatever is unknown"."""
    batch, size = known_cells.shape[:2]
    agent_place = planning.place(view["cell"], size)
    instance = jnp.arange(batch)
    target_cell = view["landmarks"][instance, view["command"]]
    target = planning.place(target_cell, size)
    sure = known_cells[instance, target_cell[:, 0], target_cell[:, 1]]

    free = planning.packed_cells(known_cells & ~view["walls"])
    unknown = planning.packed_cells(~known_cells & _inside(view["walls"]))
    goal = planning.mark_cells(target, sure, size) | (unknown & ~planning.pack_batch(sure))
    agent = planning.mark_cells(agent_place, jnp.ones_like(sure), size)
    if rule == "default":
        costs = planning.step_costs(free, unknown, goal, agent, size)
        steps = jnp.asarray(planning.steps_to_neighbours(size), jnp.int32)
        around = planning.cost_at(costs, agent_place + steps[:, None], size)
        chosen = agent_place + steps[planning.best_neighbour(around, quarter)]
        stay = (sure & (agent_place == target)) | (around.min(0) >= planning.FAR)
        return jnp.where(stay, agent_place, chosen), jnp.where(sure, target, -1)
    costs = planning.step_costs(free, unknown, agent, goal, size)
    everywhere = planning.all_costs(costs, batch, size)
    explored = _cheapest_unknown(everywhere, ~known_cells & _inside(view["walls"]))
    target = jnp.where(sure, target, explored)
    return planning.descend(everywhere, target, size), target


def _cheapest(totals: jax.Array) -> jax.Array:
    """Returns the place of the lowest of `int32[P^2, B]`, the first by row and column."""
    lowest = totals.min(0)
    places = jnp.arange(totals.shape[0], dtype=jnp.int32)[:, None]
    return jnp.where(totals == lowest, places, totals.shape[0]).min(0)


def _cheapest_unknown(costs: jax.Array, unknown: jax.Array) -> jax.Array:
    is_unknown = planning.add_border(unknown)
    return _cheapest(jnp.where(is_unknown, costs, jnp.iinfo(jnp.int32).max))


def _count_known_around(known_cells: jax.Array) -> jax.Array:
    """Returns how many of a cell and 16 around it are known, `int32[B, N, N]`."""
    padded = jnp.pad(known_cells, ((0, 0), (2, 2), (2, 2))).astype(jnp.int32)
    size = known_cells.shape[1]
    return sum(
        (padded[:, 2 + dx : 2 + dx + size, 2 + dy : 2 + dy + size] for dx, dy in _AROUND),
        jnp.zeros(known_cells.shape, jnp.int32),
    )


def _survive(
    known_cells: jax.Array,
    visited: jax.Array,
    view: dict[str, jax.Array],
    quarter: jax.Array | None,
    rule: Rule,
) -> tuple[jax.Array, jax.Array]:
    """Returns the next place and the target's, as `navigate`, towards the most promising
    landmark.
    """
    batch, size = known_cells.shape[:2]
    instance, agent_place = jnp.arange(batch), planning.place(view["cell"], size)
    cells, rewards, active = view["landmarks"], view["landmark_rewards"], view["active"]
    landmarks = planning.place(cells, size).T  # [L, B]
    aware = known_cells[instance[:, None], cells[..., 0], cells[..., 1]] & (cells[..., 0] >= 0)
    inside = _inside(view["walls"])

    # A landmark's value in steps: what it is worth divided by what a step costs.
    steps_worth = rewards / view["step_reward"][:, None]
    harm = jnp.where(aware & active & (rewards < 0), steps_worth, 0) * _SCALE
    entry = jnp.where(known_cells, _SCALE, planning.UNKNOWN * _SCALE)
    entry = jnp.where((known_cells & view["walls"]) | ~inside, 0, entry)  # 0: cannot be entered
    entry = planning.add_border(entry)
    extra = jnp.round(jnp.clip(harm, 0, 1e8)).astype(jnp.int32).T
    entry = entry.at[landmarks, instance].add(extra)  # absent ones lie in the added ring
    entry = jnp.where(entry > 0, entry, planning.FAR_AWAY)
    places = jnp.arange(entry.shape[0], dtype=jnp.int32)[:, None]
    costs = planning.sweep_costs(entry, places == agent_place, size)

    worth = jnp.where(
        visited, steps_worth + view["countdown"], _CURIOSITY / view["step_reward"][:, None]
    )
    worthwhile = aware & (~visited | (rewards > 0))
    totals = costs[landmarks, instance].T + jnp.round(worth * _SCALE).astype(jnp.int32)
    totals = jnp.where(worthwhile, totals, planning.FAR_AWAY)
    best = jnp.argmin(totals, axis=1)
    sure = totals.min(1) < -0.01 * _SCALE
    target = landmarks[best, instance]
    if rule == "reference":
        survey = 10_000 - 3 * planning.add_border(_count_known_around(known_cells))
        explored = costs + jnp.where(planning.add_border(known_cells), survey * _SCALE, 0)
        explored = _cheapest(
            jnp.where(planning.add_border(inside), explored, 2 * planning.FAR_AWAY)
        )
        target = jnp.where(sure, target, explored)
        return planning.descend(costs, target, size), target
    unexplored = planning.add_border(~known_cells & inside)
    goal = jnp.where(sure, places == target, unexplored)
    costs = planning.sweep_costs(entry, goal, size)
    steps = jnp.asarray(planning.steps_to_neighbours(size), jnp.int32)
    around = costs[agent_place + steps[:, None], instance]
    chosen = agent_place + steps[planning.best_neighbour(around, quarter)]
    stay = (sure & (agent_place == target)) | (around.min(0) >= planning.FAR_AWAY)
    return jnp.where(stay, agent_place, chosen), jnp.where(sure, target, -1)


# From the next cell to an action ----------------------------------------------------------------


def _turn_or_go(step: jax.Array, quarter: jax.Array) -> jax.Array:
    """Returns the discrete action that goes by `int32[B, 2]`, one of `NEIGHBOURS` or nothing."""
    heading = jnp.where(step[:, 0] != 0, 1 - step[:, 0], 2 - step[:, 1])
    action = jnp.asarray([4, 2, 2, 1], jnp.int32)[(heading - quarter) % 4]
    return jnp.where((step == 0).all(1), 0, action)


def _move(step: jax.Array) -> jax.Array:
    """Returns the action in two dimensions that goes by `int32[B, 2]`."""
    action = jnp.where(step[:, 0] != 0, 1 + (step[:, 0] > 0), 3 + (step[:, 1] > 0))
    return jnp.where((step == 0).all(1), 0, action).astype(jnp.int32)


def _drive(
    following: jax.Array, staying: jax.Array, position: jax.Array, heading: jax.Array
) -> jax.Array:
    """Turn and speed, float `[B, 2]`, towards the middle of a cell, `int32[B, 2]`."""
    away = following + 0.5 - position
    distance = jnp.sqrt((away**2).sum(1))
    error = (jnp.arctan2(away[:, 1], away[:, 0]) - heading) / (np.pi / 2)  # in quarter turns
    error = 2 - (2 - error) % 4
    speed = jnp.minimum(distance, 1)
    size = jnp.abs(error)
    speed = jnp.where(size < 0.5, speed, jnp.where(size > 1.95, -speed, 0))
    action = jnp.stack([jnp.clip(error, -1, 1), speed], axis=-1)
    return jnp.where((staying & (distance < 0.2))[:, None], 0, action)


def act_towards(
    env: MazeWorld, view: dict[str, jax.Array], heading: jax.Array, following: jax.Array
) -> jax.Array:
    """Returns the action towards a neighbouring cell, or that of staying.

    Args:
      env: the environment.
      view: what is privileged.
      heading: `int32[B]`, in quarter turns.
      following: `int32[B]`, the place of a neighbour, or that of the agent.
    """
    following_cell = planning.cell_at(following, env.size)
    step = following_cell - view["cell"]
    if env.actions == "continuous":
        staying = (step == 0).all(1)
        return _drive(following_cell, staying, view["position"], view["heading"])
    return _move(step) if env.actions == "moves" else _turn_or_go(step, heading)


def privileged_agent(env: MazeWorld, probability: Any, rule: Rule = "default") -> Agent:
    """Returns the agent that sees what is in its field of view on a map, and forgets some of it.

    It has no parameters. `aux` holds `known`, `bool[B, N, N]`: what it remembers and sees, and
    `target`, `int32[B, 2]`: the cell it heads for, (-1, -1) for the default rule's "whatever is
    not known yet".

    Args:
      env: the environment, with any view; its batch needs `privileged=True`.
      probability: float `[]` or `[B]`, p(STM -> LTM) of the paper: how likely a cell that drops
        out of short-term memory is to be kept; drawn again each time it does. May be traced.
      rule: "default", or "reference" for that of the reference simulator; see above.

    Raises:
      ValueError: for an unknown rule, or a probability outside [0, 1].

    Example:
      >>> env = MazeWorld()
      >>> agent = privileged_agent(env, probability=0.5)
      >>> jax.eval_shape(lambda: agent.initial_carry(4)).kept.shape
      (4, 15, 15)
    """
    check_choice("rule", rule, get_args(Rule))
    if not isinstance(probability, Tracer):
        values = np.asarray(probability, float)
        fine = values.ndim <= 1 and ((values >= 0) & (values <= 1)).all()
        check(fine, "probability", probability, "one in [0, 1], or one per instance")
    size, landmarks = env.size, env.max_landmarks

    def initial_carry(batch: int) -> Memory:
        nothing = jnp.zeros((batch, size, size), bool)
        return Memory(nothing, (nothing, nothing, nothing), jnp.zeros((batch, landmarks), bool))

    def decide(arguments: Any) -> tuple[jax.Array, jax.Array]:
        known_cells, visited, view, quarter = arguments
        if env.mode == "survival":
            return _survive(known_cells, visited, view, quarter, rule)
        return navigate(known_cells, view, quarter, rule)

    def in_tiles(*arguments: Any) -> tuple[jax.Array, jax.Array]:
        """Tiles stay in cache, and only one of them waits for the longest search."""
        batch = arguments[0].shape[0]
        if batch <= TILE or batch % TILE:
            return decide(arguments)
        tiles = jax.tree.map(lambda x: x.reshape(-1, TILE, *x.shape[1:]), arguments)
        return jax.tree.map(lambda x: x.reshape(batch), jax.lax.map(decide, tiles))

    def act(keys: jax.Array, params: ArrayTree, carry: Memory, timestep: TimeStep) -> Any:
        del params
        view: dict[str, jax.Array] = timestep.privileged
        starts = timestep.episode_start | timestep.trial_start

        def clear_at_start(x: jax.Array) -> jax.Array:
            return x & ~starts.reshape(-1, *(1,) * (x.ndim - 1))

        carry = jax.tree.map(clear_at_start, carry)
        carry = remember(keys, carry, view["exposed"], jnp.asarray(probability))
        newest, middle, oldest = carry.recent
        known_cells = carry.kept | newest | middle | oldest
        heading = jnp.round(view["heading"] / (np.pi / 2)).astype(jnp.int32) % 4
        quarter = None if env.actions == "moves" else heading
        if env.mode == "survival":
            at_landmark = (view["landmarks"] == view["cell"][:, None]).all(-1)
            carry = carry._replace(visited=carry.visited | at_landmark)
        following, target = in_tiles(known_cells, carry.visited, view, quarter)
        action = act_towards(env, view, heading, following)
        goal = jnp.where(target[:, None] < 0, -1, planning.cell_at(target, size))
        return action, {"known": known_cells, "target": goal}, carry

    return Agent(initial_carry, act, lambda carry, action: carry)  # it sees where it is
