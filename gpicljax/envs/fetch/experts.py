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


class _Progress(NamedTuple):
    """A rule's phase and its steps in it, `int32[B]`, and the puck's first place."""

    phase: jax.Array
    steps: jax.Array
    block: jax.Array


def script(env: FetchTask, settings: Script | None = None) -> Agent:
    """Returns the rule for the environment's task.

    Returns:
      The agent; it has no parameters.
    """
    settings = settings or Script()
    rule = {"push": _push, "slide": _slide, "pick_and_place": _pick_and_place}[env.task]

    def initial_carry(batch: int) -> _Progress:
        zero = jnp.zeros(batch, jnp.int32)
        return _Progress(zero, zero, jnp.zeros((batch, 3), jnp.result_type(float)))

    def act(keys: jax.Array, params: ArrayTree, carry: _Progress, timestep: TimeStep) -> Any:
        del params
        observation = timestep.observation
        first = timestep.episode_start
        carry = select(first, initial_carry(first.shape[0]), carry)
        carry = carry._replace(block=select(first, observation["achieved_goal"], carry.block))

        def step(key: jax.Array, progress: _Progress, observation: dict[str, jax.Array]) -> Any:
            action, phase = rule(settings, progress, observation)
            noise = jax.random.normal(key, action.shape, action.dtype)
            action = jnp.clip(action + settings.noise * noise, -1, 1)
            steps = jnp.where(phase == progress.phase, progress.steps + 1, 0)
            return action, progress._replace(phase=phase, steps=steps)

        action, carry = jax.vmap(step)(keys, carry, observation)
        return action, {}, carry

    return Agent(initial_carry, act)


def _places(observation: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
    return observation["observation"][:3], observation["achieved_goal"], observation["desired_goal"]


def _towards(
    settings: Script, gripper: jax.Array, target: jax.Array, fingers: float | jax.Array
) -> jax.Array:
    """Returns the action that moves the gripper to the target."""
    moved = jnp.clip(settings.gain * (target - gripper) / _STRIDE, -1, 1)
    return jnp.concatenate([moved, jnp.asarray(fingers, moved.dtype)[None]])


def _direction(start: jax.Array, end: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the way along the table from a place to another: of length 1, and how far it is."""
    way = (end - start) * jnp.array([1.0, 1.0, 0.0], start.dtype)
    far = jnp.linalg.norm(way)
    return way / jnp.maximum(far, 1e-6), far


def _above(place: jax.Array, height: float) -> jax.Array:
    return place.at[2].add(height)


def _level_distance(start: jax.Array, end: jax.Array) -> jax.Array:
    """Returns the distance along the table."""
    return jnp.linalg.norm((start - end)[:2])


def _push(
    settings: Script, progress: _Progress, observation: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(observation)
    way, far = _direction(block, goal)
    behind = block - _BEHIND * way
    side = (gripper - block) - ((gripper - block) * way).sum() * way
    phase = progress.phase
    # From above to the place behind the block, down, along; and up again where the line is lost.
    phase = jnp.where((phase == _OVER) & (_level_distance(gripper, behind) < 0.015), _DOWN, phase)
    phase = jnp.where((phase == _DOWN) & (gripper[2] < block[2] + 0.015), _ACT, phase)
    lost = (_level_distance(side, jnp.zeros(3)) > 0.03) | (((block - gripper) * way).sum() < 0.0)
    phase = jnp.where((phase == _ACT) & lost & (far > 0.03), _OVER, phase)
    phase = jnp.where((phase == _ACT) & (far < 0.02), _AFTER, phase)
    phase = jnp.where((phase == _AFTER) & (far > 0.045), _OVER, phase)
    along = gripper + jnp.minimum(0.5 * far, _STRIDE) * way - 1.5 * side
    along = along.at[2].set(block[2])
    targets = jnp.stack([_above(behind, _ABOVE), behind, along, gripper - 0.02 * way])
    target = jnp.where((phase == _AFTER) & (progress.steps > 1), gripper, targets[phase])
    # While it is still low, it rises before it goes anywhere.
    low = (phase == _OVER) & (gripper[2] < block[2] + 0.5 * _ABOVE)
    target = jnp.where(low, _above(gripper, _ABOVE), target)
    return _towards(settings, gripper, target, 0.0), phase


def _slide(
    settings: Script, progress: _Progress, observation: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(observation)
    way, far = _direction(progress.block, goal)
    behind = progress.block - 0.1 * way
    phase = progress.phase
    phase = jnp.where((phase == _OVER) & (_level_distance(gripper, behind) < 0.01), _DOWN, phase)
    phase = jnp.where((phase == _DOWN) & (gripper[2] < block[2] + 0.01), _ACT, phase)
    hit = _level_distance(block, progress.block) > 0.03
    phase = jnp.where((phase == _ACT) & hit, _AFTER, phase)
    low = (phase == _OVER) & (gripper[2] < block[2] + 0.5 * _ABOVE)
    over = jnp.where(low, _above(gripper, _ABOVE), _above(behind, _ABOVE))
    target = jnp.where(phase == _OVER, over, jnp.where(phase == _DOWN, behind, gripper))
    going = _towards(settings, gripper, target, 0.0)
    side = (gripper - block) - ((gripper - block) * way).sum() * way
    fast = settings.speed * jnp.sqrt(far) * way - 0.5 * side / _STRIDE
    fast = fast.at[2].set(settings.gain * (block[2] - gripper[2]) / _STRIDE)
    hitting = jnp.concatenate([jnp.clip(fast, -1, 1), jnp.zeros(1, fast.dtype)])
    back = jnp.concatenate([-0.5 * way, jnp.zeros(1, way.dtype)])
    action = jnp.where(phase == _ACT, hitting, jnp.where(phase == _AFTER, back, going))
    return action, phase


def _pick_and_place(
    settings: Script, progress: _Progress, observation: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    gripper, block, goal = _places(observation)
    phase = progress.phase
    phase = jnp.where((phase == _OVER) & (_level_distance(gripper, block) < 0.01), _DOWN, phase)
    down = (phase == _DOWN) & (jnp.linalg.norm(gripper - block) < 0.012)
    phase = jnp.where(down, _ACT, phase)
    phase = jnp.where((phase == _ACT) & (progress.steps >= 2), _AFTER, phase)
    phase = jnp.where((phase == _AFTER) & (jnp.linalg.norm(gripper - block) > 0.05), _OVER, phase)
    targets = jnp.stack([_above(block, _ABOVE), block, gripper, gripper + (goal - block)])
    fingers = jnp.where(phase <= _DOWN, 1.0, -1.0)
    return _towards(settings, gripper, targets[phase], fingers), phase
