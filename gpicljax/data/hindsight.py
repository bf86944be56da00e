"""Hindsight experience replay: what was reached by chance is taken for what was wanted.

For tasks that give a goal with every observation and a reward only where it is reached. A share of
what is drawn gets another goal, reached later in the same episode, and the reward that goes with
it (the strategy "future"; with k goals for every stored transition the share is k / (k + 1)).

Nothing is kept of episodes but where they end. Transitions are stored in time order, one column for
each environment, and the rest of an episode is found by looking ahead from what was drawn.

Source: Andrychowicz et al. (2017), "Hindsight experience replay", section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.batching import select
from gpicljax.checks import check, refusal
from gpicljax.data.replay import Replay
from gpicljax.data.transitions import NStepTransition
from gpicljax.typing import Observation

Reward = Callable[[jax.Array, jax.Array], jax.Array]
_GOALS = ("achieved_goal", "desired_goal")


@struct.dataclass
class HindsightState:
    """Rings of P rows of B places, and a queue of the places that may be drawn.

    Attributes:
      items: a `NStepTransition` with leaves `[P, B, ...]`.
      valid: `bool[P, B]`, whether a place may be drawn.
      last: `bool[P, B]`, whether its item ends an episode.
      cursor: `int32[]`, next row to write.
      queue: `int32[P * B]`, a ring of places `row * B + column`, oldest first.
      first: `int32[]`, where in it the oldest is.
      size: `int32[]`, how many there are.
    """

    items: Any
    valid: jax.Array
    last: jax.Array
    cursor: jax.Array
    queue: jax.Array
    first: jax.Array
    size: jax.Array


def _remaining(state: HindsightState, row: jax.Array, column: jax.Array, horizon: int) -> jax.Array:
    """Returns the steps from these to the end of the episode, themselves included, `int32[N]`."""
    rows = state.valid.shape[0]
    newer = (state.cursor - 1 - row) % rows
    ahead = jnp.arange(min(horizon, rows), dtype=jnp.int32)
    places = (row[:, None] + ahead) % rows, column[:, None]
    is_stored = state.valid[places] & (ahead <= newer[:, None])
    # Nothing comes after the last step of the episode.
    ended = jnp.cumsum(state.last[places], axis=1) - state.last[places] > 0
    return jnp.cumprod(is_stored & ~ended, axis=1, dtype=jnp.int32).sum(1, dtype=jnp.int32)


def _empty(item: NStepTransition, rows: int, num_envs: int) -> HindsightState:
    """Returns rings without items; each leaf is an array of its own, so that they can be
    donated.
    """
    blank = lambda x: jnp.zeros((rows, num_envs, *x.shape), x.dtype)  # noqa: E731
    false, zero = lambda: jnp.zeros((rows, num_envs), bool), lambda: jnp.zeros((), jnp.int32)
    return HindsightState(
        items=jax.tree.map(blank, item),
        valid=false(),
        last=false(),
        cursor=zero(),
        queue=jnp.zeros(rows * num_envs, jnp.int32),
        first=zero(),
        size=zero(),
    )


def hindsight(
    capacity: int, horizon: int, reward: Reward, share: jax.Array | float = 0.8
) -> Replay:
    """Returns a replay of transitions, a share of which is drawn with another goal.

    Observations are dictionaries with `achieved_goal` and `desired_goal`, as Gymnasium-Robotics
    names them. With another goal, the desired goal of `observation` and of `following` is the
    achieved goal of `following` at a step of the same episode, uniform over the step itself and
    all later ones; the reward is `reward(achieved, desired)` for what `following` achieved. All
    else is as stored. That takes for granted, and cannot check, that transitions are over one step
    (`n_step=1`), and that reaching a goal does not end an episode, for the discount is kept.

    An episode that is not complete counts as far as it is stored. Every step takes a place, also
    those that are not valid.

    Args:
      capacity: places; rounded down to a multiple of the environments.
      horizon: how far to look for the end of an episode, in steps, from a step on and including it;
        the length of an episode covers all of it.
      reward: `(achieved, desired) -> float[]`, of two unbatched goals.
      share: of another goal among what is drawn, 0 for uniform replay; may be traced.

    Returns:
      The replay, behind the interface `Replay`.

    Raises:
      ValueError: if `capacity` or `horizon` is below 1 or `share` beyond [0, 1]; in `init`, if
        observations have no goals of one shape, or `capacity` is less than the environments; in
        `add`, if more steps come at once than there are rows.

    Source: Andrychowicz et al. (2017), algorithm 1 and section 4.5.
    """
    for field, value in (("capacity", capacity), ("horizon", horizon)):
        check(value >= 1, field, value, "an integer >= 1")
    is_valid = not isinstance(share, int | float) or 0 <= share <= 1
    check(is_valid, "share", share, "a number within [0, 1]")

    def init(item: NStepTransition, num_envs: int) -> HindsightState:
        _check_goals(item.observation)
        accepted_values = f"at least the {num_envs} environments"
        check(capacity >= num_envs, "capacity", capacity, accepted_values)
        return _empty(item, capacity // num_envs, num_envs)

    def add(
        state: HindsightState, items: NStepTransition, valid: jax.Array, last: jax.Array
    ) -> HindsightState:
        rows, columns = state.valid.shape
        accepted_values = f"rows of {columns} environments for the {valid.shape[0]} steps added"
        check(valid.shape[0] <= rows, "capacity", capacity, accepted_values)
        places = (state.cursor + jnp.arange(valid.shape[0], dtype=jnp.int32)) % rows
        # What is written over are the oldest rows, so the head of the queue.
        lost = state.valid[places].sum(dtype=jnp.int32)
        first, size = (state.first + lost) % state.queue.size, state.size - lost
        count = jnp.cumsum(valid.ravel(), dtype=jnp.int32)
        ends = jnp.where(
            valid.ravel(), (first + size + count - 1) % state.queue.size, state.queue.size
        )
        indices = (places[:, None] * columns + jnp.arange(columns, dtype=jnp.int32)).ravel()

        def write(old: jax.Array, new: jax.Array) -> jax.Array:
            return old.at[places].set(new.astype(old.dtype))

        return HindsightState(
            items=jax.tree.map(write, state.items, items),
            valid=write(state.valid, valid),
            last=write(state.last, last),
            cursor=(state.cursor + valid.shape[0]) % rows,
            queue=state.queue.at[ends].set(indices, mode="drop"),
            first=first,
            size=size + count[-1],
        )

    def sample(key: jax.Array, state: HindsightState, batch_size: int) -> NStepTransition:
        rows, columns = state.valid.shape
        draw_key, share_key, goal_key = jax.random.split(key, 3)
        drawn = jax.random.randint(
            draw_key, (batch_size,), 0, jnp.maximum(state.size, 1), dtype=jnp.int32
        )
        place = state.queue[(state.first + drawn) % state.queue.size]
        row, column = place // columns, place % columns
        batch: NStepTransition = jax.tree.map(lambda x: x[row, column], state.items)
        if isinstance(share, int | float) and share == 0:
            return batch
        steps = jax.random.randint(
            goal_key,
            (batch_size,),
            0,
            jnp.maximum(_remaining(state, row, column, horizon), 1),
            jnp.int32,
        )
        achieved = state.items.following["achieved_goal"]
        goal = achieved[(row + steps) % rows, column]
        is_relabelled = jax.random.uniform(share_key, (batch_size,)) < share

        def with_goal(observation: dict[str, jax.Array]) -> dict[str, Any]:
            old = observation["desired_goal"]
            return observation | {
                "desired_goal": select(is_relabelled, goal.astype(old.dtype), old)
            }

        earned = jax.vmap(reward)(batch.following["achieved_goal"], goal)
        return batch._replace(
            observation=with_goal(batch.observation),
            following=with_goal(batch.following),
            reward=jnp.where(is_relabelled, earned.astype(batch.reward.dtype), batch.reward),
        )

    return Replay(init, add, sample, lambda state: state.size)


def _check_goals(observation: Observation) -> None:
    if not isinstance(observation, Mapping) or not set(_GOALS) <= set(observation):
        received = list(observation) if isinstance(observation, Mapping) else type(observation)
        raise ValueError(refusal("observation", received, f"a dictionary with {_GOALS}"))
    shapes = [jnp.shape(observation[name]) for name in _GOALS]
    check(shapes[0] == shapes[1], "observation", shapes, f"one shape for the goals {_GOALS}")
