"""Rules that do Fetch's three tasks, from what every agent sees.

Push goes behind the block, lowers the gripper and pushes along the line to the goal; PickAndPlace
goes above it, descends with open fingers, closes them and carries; Slide hits the puck with a speed
that grows with the root of the distance, and stops. What differs from agent to agent of such a kind
are the numbers of a `Script`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.batching import select
from gpicljax.checks import Range, Rate, check_fields
from gpicljax.envs.fetch.env import FetchTask
from gpicljax.interface import Agent, TimeStep
from gpicljax.typing import ArrayTree

# By how much the gripper moves for an action of 1, in metres, when it has been moving for long.
_STRIDE = 0.034
_ABOVE, _BEHIND = 0.06, 0.075
_OVER, _DOWN, _ACT, _AFTER = range(4)


@dataclasses.dataclass(frozen=True)
class Script:
    """The numbers of a rule.

    Attributes:
      gain: how much of the way to where it wants to be it goes in a step.
      speed: of Slide's hit, in units of an action, for each root of a metre to the goal.
      noise: deviation of the normal noise on actions.

    Raises:
      ValueError: unless they are numbers from 0 on, and the gain at most 1.
    """

    gain: Annotated[float, Range(above=0, most=1)] = 0.7
    speed: Rate = 1.3
    noise: Rate = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class _Memory(NamedTuple):
    """What a rule is at, `int32[B]`, for how many steps, and the puck's place at first."""

    phase: jax.Array
    steps: jax.Array
    block: jax.Array


def script(env: FetchTask, settings: Script | None = None) -> Agent:
    """The rule for the environment's task.

    Args:
      env: one of the three.
      settings: the rule's numbers.

    Returns:
      The agent; it has no parameters.
    """
    settings = settings or Script()
    rule = {"push": _push, "slide": _slide, "pick_and_place": _pick_and_place}[env.task]

    def initial_carry(batch: int) -> _Memory:
        zero = jnp.zeros(batch, jnp.int32)
        return _Memory(zero, zero, jnp.zeros((batch, 3), jnp.result_type(float)))

    def act(keys: jax.Array, params: ArrayTree, carry: _Memory, timestep: TimeStep) -> Any:
        del params
        seen = timestep.observation
        first = timestep.episode_start
        carry = select(first, initial_carry(first.shape[0]), carry)
        carry = carry._replace(block=select(first, seen["achieved_goal"], carry.block))

        def one(key: jax.Array, memory: _Memory, seen: dict[str, jax.Array]) -> Any:
            action, phase = rule(settings, memory, seen)
            noise = jax.random.normal(key, action.shape, action.dtype)
            action = jnp.clip(action + settings.noise * noise, -1, 1)
            steps = jnp.where(phase == memory.phase, memory.steps + 1, 0)
            return action, memory._replace(phase=phase, steps=steps)

        action, carry = jax.vmap(one)(keys, carry, seen)
        return action, {}, carry

    return Agent(initial_carry, act)


def _places(seen: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
    return seen["observation"][:3], seen["achieved_goal"], seen["desired_goal"]


def _towards(
    settings: Script, here: jax.Array, there: jax.Array, fingers: float | jax.Array
) -> jax.Array:
    """The action that goes there, and holds the fingers so."""
    moved = jnp.clip(settings.gain * (there - here) / _STRIDE, -1, 1)
    return jnp.concatenate([moved, jnp.asarray(fingers, moved.dtype)[None]])


def _direction(start: jax.Array, end: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The way along the table from a place to another: of length 1, and how far it is."""
    way = (end - start) * jnp.array([1.0, 1.0, 0.0], start.dtype)
    far = jnp.linalg.norm(way)
    return way / jnp.maximum(far, 1e-6), far


def _above(place: jax.Array, height: float) -> jax.Array:
    return place.at[2].add(height)


def _level(place: jax.Array, other: jax.Array) -> jax.Array:
    """How far it is along the table."""
    return jnp.linalg.norm((place - other)[:2])


def _push(
    settings: Script, memory: _Memory, seen: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(seen)
    way, far = _direction(block, goal)
    behind = block - _BEHIND * way
    side = (gripper - block) - ((gripper - block) * way).sum() * way
    phase = memory.phase
    # From above to the place behind the block, down, along; and up again where the line is lost.
    phase = jnp.where((phase == _OVER) & (_level(gripper, behind) < 0.015), _DOWN, phase)
    phase = jnp.where((phase == _DOWN) & (gripper[2] < block[2] + 0.015), _ACT, phase)
    lost = (_level(side, jnp.zeros(3)) > 0.03) | (((block - gripper) * way).sum() < 0.0)
    phase = jnp.where((phase == _ACT) & lost & (far > 0.03), _OVER, phase)
    phase = jnp.where((phase == _ACT) & (far < 0.02), _AFTER, phase)
    phase = jnp.where((phase == _AFTER) & (far > 0.045), _OVER, phase)
    along = gripper + jnp.minimum(0.5 * far, _STRIDE) * way - 1.5 * side
    along = along.at[2].set(block[2])
    targets = jnp.stack([_above(behind, _ABOVE), behind, along, gripper - 0.02 * way])
    there = jnp.where((phase == _AFTER) & (memory.steps > 1), gripper, targets[phase])
    # While it is still low, it rises before it goes anywhere.
    low = (phase == _OVER) & (gripper[2] < block[2] + 0.5 * _ABOVE)
    there = jnp.where(low, _above(gripper, _ABOVE), there)
    return _towards(settings, gripper, there, 0.0), phase


def _slide(
    settings: Script, memory: _Memory, seen: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(seen)
    way, far = _direction(memory.block, goal)
    behind = memory.block - 0.1 * way
    phase = memory.phase
    phase = jnp.where((phase == _OVER) & (_level(gripper, behind) < 0.01), _DOWN, phase)
    phase = jnp.where((phase == _DOWN) & (gripper[2] < block[2] + 0.01), _ACT, phase)
    hit = _level(block, memory.block) > 0.03
    phase = jnp.where((phase == _ACT) & hit, _AFTER, phase)
    low = (phase == _OVER) & (gripper[2] < block[2] + 0.5 * _ABOVE)
    over = jnp.where(low, _above(gripper, _ABOVE), _above(behind, _ABOVE))
    there = jnp.where(phase == _OVER, over, jnp.where(phase == _DOWN, behind, gripper))
    going = _towards(settings, gripper, there, 0.0)
    side = (gripper - block) - ((gripper - block) * way).sum() * way
    fast = settings.speed * jnp.sqrt(far) * way - 0.5 * side / _STRIDE
    fast = fast.at[2].set(settings.gain * (block[2] - gripper[2]) / _STRIDE)
    hitting = jnp.concatenate([jnp.clip(fast, -1, 1), jnp.zeros(1, fast.dtype)])
    back = jnp.concatenate([-0.5 * way, jnp.zeros(1, way.dtype)])
    action = jnp.where(phase == _ACT, hitting, jnp.where(phase == _AFTER, back, going))
    return action, phase


def _pick_and_place(
    settings: Script, memory: _Memory, seen: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(seen)
    phase = memory.phase
    phase = jnp.where((phase == _OVER) & (_level(gripper, block) < 0.01), _DOWN, phase)
    down = (phase == _DOWN) & (jnp.linalg.norm(gripper - block) < 0.012)
    phase = jnp.where(down, _ACT, phase)
    phase = jnp.where((phase == _ACT) & (memory.steps >= 2), _AFTER, phase)
    phase = jnp.where((phase == _AFTER) & (jnp.linalg.norm(gripper - block) > 0.05), _OVER, phase)
    targets = jnp.stack([_above(block, _ABOVE), block, gripper, gripper + (goal - block)])
    fingers = jnp.where(phase <= _DOWN, 1.0, -1.0)
    return _towards(settings, gripper, targets[phase], fingers), phase
