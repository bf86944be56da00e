"""A step of the world with contacts, for those near the ground.

Leaves of worlds are `[..., B]`: see `scene`. What can be is a kernel; those of a moderate size take
the least time to compile.

Source: the order of events of Box2D 2.3's world step with 180 velocity and 60 position iterations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs._stages import kernel
from gpicljax.envs.lunar_lander import contact, joint
from gpicljax.envs.lunar_lander.contact import Edges, Manifold, Triple, frame_of, pick
from gpicljax.envs.lunar_lander.flight import (
    POSITION_ITERATIONS,
    VELOCITY_ITERATIONS,
    Boxes,
    bodies_of,
    edges_near,
    first_slot,
    followed,
    integrated,
    joint_corrections,
    joint_rows,
    joint_sweep,
    restacked,
    slot_of,
    stacked,
    unstacked,
    warm,
)
from gpicljax.envs.lunar_lander.impact import Sweep, time_of_impact
from gpicljax.envs.lunar_lander.scene import STEP, World
from gpicljax.typing import ArrayTree

_IMPACT_ITERATIONS = 20
_STIFFNESS, _IMPACT_STIFFNESS = 0.2, 0.75
_MOST_IMPACTS = 8  # of one contact within a step
_REST_SPEED, _REST_SPIN, _REST_TIME = 0.01, np.deg2rad(2.0), 0.5


class _Touch(NamedTuple):
    """Contacts as they are found, and what the detector has heard."""

    touching: jax.Array
    feature: jax.Array
    impulse: jax.Array
    legs: jax.Array
    crashed: jax.Array


def _by_slot(tree: ArrayTree, slot: jax.Array) -> Any:
    """Leaves `[2, 3, B]` -> `[3, B]`: those of the given slot, `int32[3, B]`."""
    return jax.tree.map(lambda leaf: jnp.where(slot == 0, leaf[0], leaf[1]), tree)


def _ordered(tree: ArrayTree, first: jax.Array) -> Any:
    """Leaves `[2, ..., 3, B]` with slot `first`, `int32[3, B]`, in front; its own inverse."""
    return jax.tree.map(lambda leaf: jnp.where(first == 0, leaf, leaf[::-1]), tree)


def _updated(touch: _Touch, fresh: Manifold, which: jax.Array) -> _Touch:
    """Contacts after a look at the poses: impulses of points that persist, events, flags.

    Args:
      touch: as they were; slots in the order of events.
      fresh: as they are.
      which: `bool[2, 3, B]`, the contacts looked at; the others stay.
    """
    feature = jnp.stack(fresh.feature, 1)
    known = touch.touching
    # A point that is not there has the feature number -1, which no new one has.
    same = feature[:, :, None] == touch.feature[:, None]  # slot, new point, old point
    old = touch.impulse[:, :, None]
    impulse = jnp.where(
        same[:, None, :, 0], old[..., 0, :, :], jnp.where(same[:, None, :, 1], old[..., 1, :, :], 0)
    )
    impulse = jnp.where(known[:, None, None], impulse, 0)
    touching = fresh.size > 0
    there = jnp.stack([touching, fresh.size == 2], 1)
    begins, ends = which & touching & ~known, which & known & ~touching
    legs = touch.legs
    for slot in range(2):
        legs = (legs | begins[slot, 1:]) & ~ends[slot, 1:]
    return _Touch(
        touching=jnp.where(which, touching, known),
        feature=jnp.where(which[:, None], jnp.where(there, feature, -1), touch.feature),
        impulse=jnp.where(which[:, None, None], impulse, touch.impulse),
        legs=legs,
        crashed=touch.crashed | begins[:, 0].any(0),
    )


def _turned(touch: _Touch, first: jax.Array) -> _Touch:
    """`_ordered` for contacts, whose flags have no slots."""
    slots = (touch.touching, touch.feature, touch.impulse)
    touching, feature, impulse = _ordered(slots, first)
    return touch._replace(touching=touching, feature=feature, impulse=impulse)


def _four(impulse: jax.Array) -> contact.Impulses:
    """Impulses, `[2, 2, 2, 3, B]`, as four arrays `[2, 3, B]`."""
    return impulse[:, 0, 0], impulse[:, 0, 1], impulse[:, 1, 0], impulse[:, 1, 1]


def land(world: World, heights: jax.Array) -> World:
    """A step with contacts. Leaves `[..., B]`; forces have changed the velocities already."""
    number, edges = kernel(edges_near, heights, world.pose, world.velocity)
    start = (world.pose[0], world.pose[1], world.pose[2])
    same_edge = number == world.edge
    first = first_slot(world.order, number)

    # Contacts with other edges than before end.
    left = world.touching & ~same_edge
    touch = _Touch(
        touching=world.touching & same_edge,
        feature=world.feature,
        impulse=world.impulse,
        legs=world.legs & ~left.any(0)[1:],
        crashed=world.crashed,
    )
    constraints, limit, joints = kernel(joint_rows, world)
    zero, no = jnp.zeros_like(start[0]), jnp.zeros(same_edge.shape[1:], bool)
    loop = _Passes(
        number=jnp.zeros((), jnp.int32),
        start=start,
        pose=start,
        velocity=(world.velocity[0], world.velocity[1], world.velocity[2]),
        joints=unstacked(joints),
        alpha=zero,
        boxes=Boxes(world.box, world.nearby, world.order),
        touch=touch,
        enabled=jnp.ones_like(same_edge),
        counts=jnp.zeros(same_edge.shape, jnp.int32),
        still=world.still,
        asleep=jnp.zeros(limit.shape[1:], bool),
        slot=first,
        share=zero,
        when=zero,
        event=no,
    )

    def going(loop: _Passes) -> jax.Array:
        return (loop.number == 0) | loop.event.any()

    def one(loop: _Passes) -> _Passes:
        return _look(_solved(loop, constraints, limit, heights, edges), number, edges)

    loop = jax.lax.while_loop(going, one, loop)
    return World(
        pose=jnp.stack(loop.pose),
        velocity=jnp.stack(loop.velocity),
        joint=restacked(loop.joints),
        limit=limit,
        edge=number,
        box=loop.boxes.box,
        nearby=loop.boxes.nearby,
        order=loop.boxes.order,
        touching=loop.touch.touching,
        feature=loop.touch.feature,
        impulse=loop.touch.impulse,
        still=loop.still,
        legs=loop.touch.legs,
        crashed=loop.touch.crashed,
        asleep=loop.asleep,
    )


class _Passes(NamedTuple):
    """What goes round in a step with contacts.

    Its first pass is the step itself; each further one stops the bodies that hit the ground on
    their way, and moves them on from there. Both are one program, for compiling it takes as long as
    a thousand steps.

    Attributes:
      number: `int32[]`, of the pass.
      start: pose from which bodies move.
      pose: to which they move.
      velocity: afterwards.
      joints: impulses.
      alpha: float `[3, B]`, share of the step that is over at `start`.
      boxes: see `Boxes`.
      touch: see `_Touch`.
      enabled: `bool[2, 3, B]`, contacts at which impacts are looked for.
      counts: `int32[2, 3, B]`, impacts so far.
      still: see `World`.
      asleep: `bool[B]`.
      slot: `int32[3, B]`, the contact that comes first.
      share: float `[3, B]`, where between start and pose the impact is,
      when: and when within the step.
      event: `bool[3, B]`, there is one.
    """

    number: jax.Array
    start: Triple
    pose: Triple
    velocity: Triple
    joints: list[joint.Impulses]
    alpha: jax.Array
    boxes: Boxes
    touch: _Touch
    enabled: jax.Array
    counts: jax.Array
    still: jax.Array
    asleep: jax.Array
    slot: jax.Array
    share: jax.Array
    when: jax.Array
    event: jax.Array


def _look(loop: _Passes, number: jax.Array, edges: Edges) -> _Passes:
    """The next impact of each body: its slot, its time, and whether there is one."""
    active = loop.enabled & (loop.counts <= _MOST_IMPACTS) & ~loop.asleep
    first = first_slot(loop.boxes.order, number)
    share, hit = kernel(time_of_impact, Sweep(loop.start, loop.pose), edges, active)
    alpha = loop.alpha
    when = jnp.where(hit, jnp.minimum(alpha + (1 - alpha) * share, 1), 1)
    sooner, later = when[0] < when[1], when[1] < when[0]
    slot = jnp.where(sooner, 0, jnp.where(later, 1, first))
    share, when = _by_slot((share, when), slot)
    event = when <= 1 - 10 * jnp.finfo(when.dtype).eps
    return loop._replace(slot=slot, share=share, when=when, event=event)


def _solved(
    loop: _Passes,
    constraints: list[joint.Row],
    limit: jax.Array,
    heights: jax.Array,
    edges: Edges,
) -> _Passes:
    """One pass: contacts where bodies are, their impulses, and the motion that follows."""
    step = loop.number == 0  # the step itself, with joints; otherwise impacts
    here, fresh, meets, touch = kernel(_met, loop, edges)
    solid = step | (loop.event & meets)

    def freed() -> Triple:
        def part(turn: tuple) -> tuple:
            pose, fine, count = turn
            moved, least = contact.correct(pose, fresh, ~fine, _IMPACT_STIFFNESS)
            return moved, fine | (least >= -1.5 * contact.SLOP), count + 1

        start = (here, step | ~solid, jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(
            lambda turn: ~turn[1].all() & (turn[2] < _IMPACT_ITERATIONS), part, start
        )[0]

    safe = kernel(freed)
    rows = kernel(contact.rows, frame_of(safe), fresh)
    bodies, joints, impulse = kernel(
        lambda: _velocities(step, loop, constraints, rows, jnp.where(step, touch.impulse, 0))
    )
    touch = _turned(touch._replace(impulse=jnp.where(step, impulse, touch.impulse)), loop.slot)

    def positions() -> tuple[Triple, Triple, jax.Array]:
        pose, velocity = integrated(safe, stacked(bodies), (1 - loop.when) * STEP)

        def correct(turn: tuple) -> tuple:
            pose, fine, count = turn
            moved, least = contact.correct(pose, fresh, ~fine, _STIFFNESS)
            shallow = (least >= -3 * contact.SLOP).all(0)
            bodies, okay = joint_corrections(limit, bodies_of(moved))
            pose = pick(fine, pose, stacked(bodies))
            return pose, fine | (okay & shallow), count + 1

        start = (pose, jnp.broadcast_to(~step, limit.shape[1:]), jnp.zeros((), jnp.int32))
        pose, settled, _ = jax.lax.while_loop(
            lambda turn: ~turn[1].all() & (turn[2] < POSITION_ITERATIONS), correct, start
        )
        return pose, velocity, settled

    pose, velocity, settled = kernel(positions)
    boxes = followed(loop.boxes, safe, pose, heights)

    def result() -> _Passes:
        vx, vy, spin = velocity
        moving = (vx * vx + vy * vy > _REST_SPEED**2) | (spin * spin > _REST_SPIN**2)
        still = jnp.where(step, jnp.where(moving, 0, loop.still + STEP), loop.still)
        rest = (still >= _REST_TIME).all(0) & settled
        asleep = jnp.where(step, rest, loop.asleep)
        chosen = jnp.stack([loop.slot == 0, loop.slot == 1])

        def changed(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(solid, a, b), new, old)

        return loop._replace(
            number=loop.number + 1,
            start=changed(safe, loop.start),
            pose=changed(pose, loop.pose),
            velocity=changed(pick(step & asleep, (0, 0, 0), velocity), loop.velocity),
            joints=jax.tree.map(lambda new, old: jnp.where(step, new, old), joints, loop.joints),
            alpha=changed(loop.when, loop.alpha),
            boxes=changed(boxes, loop.boxes),
            touch=touch,
            # A look at a contact enables it, and one that turns out to be none is disabled.
            enabled=(loop.enabled | (solid & ~chosen)) & ~(chosen & loop.event & ~meets),
            counts=loop.counts + (chosen & loop.event),
            still=still,
            asleep=asleep,
        )

    return kernel(result)


def _met(loop: _Passes, edges: Edges) -> tuple[Triple, Manifold, jax.Array, _Touch]:
    """Where bodies are to be looked at, their contacts there, whether the first is one, `_Touch`.

    Slots are in the order of solution.
    """
    step, slot, share = loop.number == 0, loop.slot, loop.share
    x, y, z = ((1 - share) * a + share * b for a, b in zip(loop.start, loop.pose, strict=True))
    fresh = contact.manifold(frame_of((x, y, z)), _ordered(edges, slot))
    meets = fresh.size[0] > 0
    which = jnp.stack([step | loop.event, step | (loop.event & meets)])
    return (x, y, z), fresh, meets, _updated(_turned(loop.touch, slot), fresh, which)


def _velocities(
    step: jax.Array, loop: _Passes, constraints: list[joint.Row], rows: contact.Rows, old: jax.Array
) -> tuple[list[Triple], list[joint.Impulses], jax.Array]:
    """Velocities that satisfy joints and contacts, and the impulses to which that takes."""
    there = jnp.stack([rows.one[0] > 0, rows.pair], 1)
    started = _four(jnp.where(there[:, None], old, 0))
    velocity, of_slots = loop.velocity, [slot_of(rows, slot) for slot in range(2)]
    for slot in range(2):
        velocity = contact.push(velocity, of_slots[slot], slot_of(started, slot))
    joints = jax.tree.map(lambda x: jnp.where(step, x, 0), loop.joints)

    def one(_: jax.Array, turn: tuple) -> tuple:
        bodies, joints, impulses = turn
        bodies, joints = jax.lax.cond(
            step, lambda *old: joint_sweep(constraints, *old), lambda *old: old, bodies, joints
        )
        velocity, impulses = stacked(bodies), list(impulses)
        for slot in range(2):
            velocity, impulses[slot] = contact.solve(of_slots[slot], velocity, impulses[slot])
        return bodies_of(velocity), joints, impulses

    bodies = warm(constraints, bodies_of(velocity), joints)
    start = (bodies, joints, [slot_of(_four(old), slot) for slot in range(2)])
    bodies, joints, impulses = jax.lax.fori_loop(0, VELOCITY_ITERATIONS, one, start)
    both = [jnp.stack(four).reshape(2, 2, *four[0].shape) for four in impulses]
    return bodies, joints, jnp.stack(both)
