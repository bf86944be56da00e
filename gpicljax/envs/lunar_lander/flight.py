"""A step of the world in free flight: joints, motion, and which bodies come near the ground.

Leaves of worlds are `[..., B]`: see `scene`.

Source: the order of events of Box2D 2.3's world step with 180 velocity and 60 position iterations.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs._stages import run_kernel
from gpicljax.envs.lunar_lander import contact, joint, scene
from gpicljax.envs.lunar_lander.contact import Edges, Triple, column, frame_of, least
from gpicljax.envs.lunar_lander.scene import STEP, World
from gpicljax.typing import ArrayTree

VELOCITY_ITERATIONS, POSITION_ITERATIONS = 180, 60
_MOST_SHIFT, _MOST_ROTATION = 2.0, 0.5 * np.pi
_BOX_MARGIN, _BOX_LEAD = 0.1, 2.0
_MARGIN = 0.03  # beyond the skin: a body farther away cannot touch
_ORDER = (1, 0)  # the joints, in the order of solution


def stack_bodies(triples: list[Triple]) -> Triple:
    """Stacks per-body triples `[B]` to one triple `[3, B]`."""
    x, y, z = (jnp.stack(component) for component in zip(*triples, strict=True))
    return x, y, z


def bodies_of(triple: Triple) -> list[Triple]:
    """Returns the inverse of `stack_bodies`."""
    return [(triple[0][i], triple[1][i], triple[2][i]) for i in range(3)]


def slot_of(tree: ArrayTree, slot: int) -> Any:
    """Returns one entry of the leaves' first axis."""
    return jax.tree.map(lambda leaf: leaf[slot], tree)


def joint_rows(world: World) -> tuple[list[joint.Row], jax.Array, jax.Array]:
    """Returns the joints' constraints, their limit states, and their impulses to start from."""
    limit = joint.limit_states(world.pose[2])
    constraints = joint.rows(world.pose[2], limit)
    stop = jnp.where((limit == world.limit) & (limit != 0), world.joint[2], 0)
    impulses = jax.lax.dynamic_update_index_in_dim(world.joint, stop, 2, 0)
    return [slot_of(constraints, leg) for leg in range(2)], limit, impulses


def warm(
    rows: list[joint.Row], bodies: list[Triple], impulses: list[joint.Impulses]
) -> list[Triple]:
    """Returns the velocities with which the impulses of the last step leave bodies."""
    for leg in _ORDER:
        bodies[0], bodies[leg + 1] = joint.push(
            leg, bodies[0], bodies[leg + 1], rows[leg].arms, impulses[leg]
        )
    return bodies


def joint_sweep(
    rows: list[joint.Row], bodies: list[Triple], impulses: list[joint.Impulses]
) -> tuple[list[Triple], list[joint.Impulses]]:
    """Runs one iteration over the joints: the velocities and the impulses."""
    bodies, impulses = list(bodies), list(impulses)
    for leg in _ORDER:
        bodies[0], bodies[leg + 1], impulses[leg] = joint.solve(
            leg, rows[leg], bodies[0], bodies[leg + 1], impulses[leg]
        )
    return bodies, impulses


def integrate(pose: Triple, velocity: Triple, time: jax.Array | float) -> tuple[Triple, Triple]:
    """Returns poses after a time, and the velocities, which have upper limits."""
    vx, vy, spin = velocity
    shift = time * jnp.sqrt(vx * vx + vy * vy)
    slower = jnp.where(shift > _MOST_SHIFT, _MOST_SHIFT / jnp.where(shift > 0, shift, 1), 1)
    turn = time * jnp.abs(spin)
    slow = jnp.where(turn > _MOST_ROTATION, _MOST_ROTATION / jnp.where(turn > 0, turn, 1), 1)
    vx, vy, spin = vx * slower, vy * slower, spin * slow
    x, y, angle = pose
    return (x + time * vx, y + time * vy, angle + time * spin), (vx, vy, spin)


def joint_corrections(limit: jax.Array, bodies: list[Triple]) -> tuple[list[Triple], jax.Array]:
    """Returns one pass of corrections over both joints, and whether both were fine beforehand."""
    bodies = list(bodies)
    fine = jnp.ones(limit.shape[1:], bool)
    for leg in _ORDER:
        bodies[0], bodies[leg + 1], okay = joint.correct(
            leg, limit[leg], bodies[0], bodies[leg + 1]
        )
        fine = fine & okay
    return bodies, fine


def split_joints(joints: jax.Array) -> list[joint.Impulses]:
    """Impulses `[4, 2, B]` by joint."""
    return [(joints[0, leg], joints[1, leg], joints[2, leg], joints[3, leg]) for leg in range(2)]


def stack_joints(impulses: list[joint.Impulses]) -> jax.Array:
    """Returns the inverse of `split_joints`."""
    return jnp.stack([jnp.stack(row) for row in zip(*impulses, strict=True)])


def fly(world: World, heights: jax.Array, patience: int) -> tuple[World, jax.Array]:
    """Runs a step without contacts. Leaves `[..., B]`; forces have changed the velocities already.

    Args:
      world: the world.
      heights: float `[11, B]`.
      patience: passes of position corrections that are made for everyone.

    Returns:
      The world after the step, and whether it holds, `bool[B]`: not for instances near the ground
      or in need of more passes.
    """
    start = (world.pose[0], world.pose[1], world.pose[2])

    def velocities() -> tuple:
        rows, limit, joints = joint_rows(world)
        impulses = split_joints(joints)
        velocity = (world.velocity[0], world.velocity[1], world.velocity[2])
        loop = (warm(rows, bodies_of(velocity), impulses), impulses)
        bodies, impulses = jax.lax.fori_loop(
            0, VELOCITY_ITERATIONS, lambda _, loop: joint_sweep(rows, *loop), loop
        )
        pose, velocity = integrate(start, stack_bodies(bodies), STEP)
        return pose, velocity, impulses, limit

    pose, velocity, impulses, limit = run_kernel(velocities)

    def positions() -> tuple:
        near = _near_ground(world, pose, heights)

        def correct(loop: tuple) -> tuple:
            bodies, fine, count = loop
            moved, now_fine = joint_corrections(limit, bodies)
            bodies = jax.tree.map(lambda new, old: jnp.where(fine, old, new), moved, bodies)
            return bodies, fine | now_fine, count + 1

        bodies, fine, _ = jax.lax.while_loop(
            lambda loop: ~loop[1].all() & (loop[2] < patience),
            correct,
            (bodies_of(pose), near, jnp.zeros((), jnp.int32)),
        )
        return stack_bodies(bodies), fine & ~near

    end, holds = run_kernel(positions)
    boxes = move_boxes(Boxes(world.box, world.nearby, world.order), start, end, heights)
    flown = dataclasses.replace(
        world,
        pose=jnp.stack(end),
        velocity=jnp.stack(velocity),
        joint=stack_joints(impulses),
        limit=limit,
        box=boxes.box,
        nearby=boxes.nearby,
        order=boxes.order,
        touching=jnp.zeros_like(world.touching),
        feature=jnp.full_like(world.feature, -1),
        rest_time=jnp.zeros_like(world.rest_time),
    )
    return flown, holds


def edges_near(heights: jax.Array, pose: jax.Array, velocity: jax.Array) -> tuple[jax.Array, Edges]:
    """The two edges nearest to where each body will be half a step later: numbers and ends."""
    middle = pose[0] + 0.5 * STEP * velocity[0]
    lower = jnp.floor(middle / scene.EDGE - 0.5).astype(jnp.int32)
    lower = jnp.clip(lower, 0, scene.NUM_EDGES - 2)
    odd = lower % 2 == 1
    number = jnp.stack([jnp.where(odd, lower + 1, lower), jnp.where(odd, lower, lower + 1)])
    left, right = number, number + 1
    batch = jnp.arange(heights.shape[1])
    ends = (scene.EDGE * left, heights[left, batch], scene.EDGE * right, heights[right, batch])
    return number, Edges(*(jnp.asarray(x, heights.dtype) for x in ends))


def _distance2(pose: Triple | jax.Array, edges: Edges) -> jax.Array:
    """Squared distance of each body's centre of mass to its edges, `[2, 3, B]`."""
    x, y = pose[0], pose[1]
    ex, ey = edges.bx - edges.ax, edges.by - edges.ay
    share = ((x - edges.ax) * ex + (y - edges.ay) * ey) / (ex * ex + ey * ey)
    share = jnp.clip(share, 0, 1)
    return (x - edges.ax - share * ex) ** 2 + (y - edges.ay - share * ey) ** 2


def _near_ground(before: World, after: Triple, heights: jax.Array) -> jax.Array:
    """Returns whether an instance may touch the ground on the way to given poses. `bool[B]`."""
    _, edges = edges_near(heights, before.pose, before.velocity)
    least = jnp.minimum(_distance2(before.pose, edges), _distance2(after, edges))
    reach = column(scene.RADIUS + contact.SKIN + _MARGIN, heights)
    return (least < reach * reach).any((0, 1)) | before.touching.any((0, 1))


class Boxes(NamedTuple):
    """See `World.box`, `World.nearby` and `World.order`."""

    box: jax.Array
    nearby: jax.Array
    order: jax.Array


def _bounds(pose: Triple) -> tuple[jax.Array, jax.Array]:
    """Returns the tight boxes around bodies, lowest x, y and highest x, y, each `[2, 3, B]`."""
    x, y = contact.corners(frame_of(pose))
    low, high = (jnp.concatenate([least(sign * x)[0], least(sign * y)[0]]) for sign in (1, -1))
    return low - contact.SKIN / 2, contact.SKIN / 2 - high


def move_boxes(boxes: Boxes, start: Triple, end: Triple, heights: jax.Array) -> Boxes:
    """Moves the boxes; the contact that begins first is also solved differently."""
    (low0, high0), (low1, high1) = _bounds(start), _bounds(end)
    low, high = jnp.minimum(low0, low1), jnp.maximum(high0, high1)
    left = ((low < boxes.box[:2]) | (high > boxes.box[2:])).any(0)
    rise = column(scene.RISE, heights)
    ahead = _BOX_LEAD * jnp.stack(
        [
            end[0] - start[0] + rise * (jnp.sin(end[2]) - jnp.sin(start[2])),
            end[1] - start[1] - rise * (jnp.cos(end[2]) - jnp.cos(start[2])),
        ]
    )
    new = jnp.concatenate(
        [
            low - _BOX_MARGIN + jnp.minimum(ahead, 0),
            high + _BOX_MARGIN + jnp.maximum(ahead, 0),
        ]
    )
    box = jnp.where(left, new, boxes.box)
    spread = contact.SKIN / 2 + _BOX_MARGIN
    nearby = jnp.zeros_like(boxes.nearby)
    for k in range(scene.NUM_EDGES):
        a, b = heights[k], heights[k + 1]
        over = (box[0] <= scene.EDGE * (k + 1) + spread) & (box[2] >= scene.EDGE * k - spread)
        over &= (box[1] <= jnp.maximum(a, b) + spread) & (box[3] >= jnp.minimum(a, b) - spread)
        nearby = nearby | (over.astype(jnp.int32) << k)
    nearby = jnp.where(left, nearby, boxes.nearby)
    came = nearby & ~boxes.nearby
    return Boxes(box, nearby, (boxes.order & ~came) | (came >> 1))


def first_slot(order: jax.Array, number: jax.Array) -> jax.Array:
    """Returns the slot whose contact is newer and comes first in everything, `int32[3, B]`."""
    lower = number.min(0)
    return (lower + ((order >> lower) & 1)) % 2
