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

from gpicljax.envs._stages import run_kernel
from gpicljax.envs.lunar_lander import contact, joint
from gpicljax.envs.lunar_lander.contact import Edges, Manifold, Triple, frame_of, pick
from gpicljax.envs.lunar_lander.flight import (
    POSITION_ITERATIONS,
    VELOCITY_ITERATIONS,
    Boxes,
    bodies_of,
    edges_near,
    first_slot,
    integrate,
    joint_corrections,
    joint_rows,
    joint_sweep,
    move_boxes,
    slot_of,
    split_joints,
    stack_bodies,
    stack_joints,
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
    """Contacts, and the flags that their events set."""

    touching: jax.Array
    feature: jax.Array
    impulse: jax.Array
    legs: jax.Array
    crashed: jax.Array


def _by_slot(tree: ArrayTree, slot: jax.Array) -> Any:
    """Leaves `[2, 3, B]` -> `[3, B]`: those of the given slot, `int32[3, B]`."""
    return jax.tree.map(lambda leaf: jnp.where(slot == 0, leaf[0], leaf[1]), tree)


def _order_slots(tree: ArrayTree, first: jax.Array) -> Any:
    """Puts slot `first`, `int32[3, B]`, of leaves `[2, ..., 3, B]` in front; its own inverse."""
    return jax.tree.map(lambda leaf: jnp.where(first == 0, leaf, leaf[::-1]), tree)


def _update_contacts(touch: _Touch, fresh: Manifold, selected: jax.Array) -> _Touch:
    """Returns contacts after a look at the poses: impulses that persist, events, flags.

    Args:
      touch: as they were; slots in the order of events.
      fresh: as they are.
      selected: `bool[2, 3, B]`, the contacts looked at; the others stay.
    """
    feature = jnp.stack(fresh.feature, 1)
    was_touching = touch.touching
    # A point that is not there has the feature number -1, which no new one has.
    same = feature[:, :, None] == touch.feature[:, None]  # slot, new point, old point
    old = touch.impulse[:, :, None]
    impulse = jnp.where(
        same[:, None, :, 0], old[..., 0, :, :], jnp.where(same[:, None, :, 1], old[..., 1, :, :], 0)
    )
    impulse = jnp.where(was_touching[:, None, None], impulse, 0)
    touching = fresh.size > 0
    present = jnp.stack([touching, fresh.size == 2], 1)
    starts, ends = selected & touching & ~was_touching, selected & was_touching & ~touching
    legs = touch.legs
    for slot in range(2):
        legs = (legs | starts[slot, 1:]) & ~ends[slot, 1:]
    return _Touch(
        touching=jnp.where(selected, touching, was_touching),
        feature=jnp.where(selected[:, None], jnp.where(present, feature, -1), touch.feature),
        impulse=jnp.where(selected[:, None, None], impulse, touch.impulse),
        legs=legs,
        crashed=touch.crashed | starts[:, 0].any(0),
    )


def _order_contacts(touch: _Touch, first: jax.Array) -> _Touch:
    """Orders contacts as `_order_slots` does; their flags have no slots."""
    slots = (touch.touching, touch.feature, touch.impulse)
    touching, feature, impulse = _order_slots(slots, first)
    return touch._replace(touching=touching, feature=feature, impulse=impulse)


def _split_impulses(impulse: jax.Array) -> contact.Impulses:
    """Impulses, `[2, 2, 2, 3, B]`, as four arrays `[2, 3, B]`."""
    return impulse[:, 0, 0], impulse[:, 0, 1], impulse[:, 1, 0], impulse[:, 1, 1]


def land(world: World, heights: jax.Array) -> World:
    """Runs a step with contacts. Leaves `[..., B]`; forces have changed the velocities already."""
    number, edges = run_kernel(edges_near, heights, world.pose, world.velocity)
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
    constraints, limit, joints = run_kernel(joint_rows, world)
    zero, false = jnp.zeros_like(start[0]), jnp.zeros(same_edge.shape[1:], bool)
    loop = _Passes(
        number=jnp.zeros((), jnp.int32),
        start=start,
        pose=start,
        velocity=(world.velocity[0], world.velocity[1], world.velocity[2]),
        joints=split_joints(joints),
        alpha=zero,
        boxes=Boxes(world.box, world.nearby, world.order),
        touch=touch,
        enabled=jnp.ones_like(same_edge),
        counts=jnp.zeros(same_edge.shape, jnp.int32),
        rest_time=world.rest_time,
        asleep=jnp.zeros(limit.shape[1:], bool),
        slot=first,
        share=zero,
        when=zero,
        event=false,
    )

    def is_unfinished(loop: _Passes) -> jax.Array:
        return (loop.number == 0) | loop.event.any()

    def run_pass(loop: _Passes) -> _Passes:
        return _find_impact(_solve_pass(loop, constraints, limit, heights, edges), number, edges)

    loop = jax.lax.while_loop(is_unfinished, run_pass, loop)
    return World(
        pose=jnp.stack(loop.pose),
        velocity=jnp.stack(loop.velocity),
        joint=stack_joints(loop.joints),
        limit=limit,
        edge=number,
        box=loop.boxes.box,
        nearby=loop.boxes.nearby,
        order=loop.boxes.order,
        touching=loop.touch.touching,
        feature=loop.touch.feature,
        impulse=loop.touch.impulse,
        rest_time=loop.rest_time,
        legs=loop.touch.legs,
        crashed=loop.touch.crashed,
        asleep=loop.asleep,
    )


class _Passes(NamedTuple):
    """The state of the passes of a step with contacts.

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
      rest_time: see `World`.
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
    rest_time: jax.Array
    asleep: jax.Array
    slot: jax.Array
    share: jax.Array
    when: jax.Array
    event: jax.Array


def _find_impact(loop: _Passes, number: jax.Array, edges: Edges) -> _Passes:
    """Returns each body's next impact: its slot, its time, and whether there is one."""
    active = loop.enabled & (loop.counts <= _MOST_IMPACTS) & ~loop.asleep
    first = first_slot(loop.boxes.order, number)
    share, hit = run_kernel(time_of_impact, Sweep(loop.start, loop.pose), edges, active)
    alpha = loop.alpha
    when = jnp.where(hit, jnp.minimum(alpha + (1 - alpha) * share, 1), 1)
    first_earlier, second_earlier = when[0] < when[1], when[1] < when[0]
    slot = jnp.where(first_earlier, 0, jnp.where(second_earlier, 1, first))
    share, when = _by_slot((share, when), slot)
    event = when <= 1 - 10 * jnp.finfo(when.dtype).eps
    return loop._replace(slot=slot, share=share, when=when, event=event)


def _solve_pass(
    loop: _Passes,
    constraints: list[joint.Row],
    limit: jax.Array,
    heights: jax.Array,
    edges: Edges,
) -> _Passes:
    """Solves one pass: contacts, their impulses, and the motion that follows."""
    step = loop.number == 0  # the step itself, with joints; otherwise impacts
    contact_pose, fresh, meets, touch = run_kernel(_find_contacts, loop, edges)
    solid = step | (loop.event & meets)

    def separate() -> Triple:
        def push_out(turn: tuple) -> tuple:
            pose, fine, count = turn
            moved, least = contact.correct(pose, fresh, ~fine, _IMPACT_STIFFNESS)
            return moved, fine | (least >= -1.5 * contact.SLOP), count + 1

        start = (contact_pose, step | ~solid, jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(
            lambda turn: ~turn[1].all() & (turn[2] < _IMPACT_ITERATIONS), push_out, start
        )[0]

    safe = run_kernel(separate)
    rows = run_kernel(contact.rows, frame_of(safe), fresh)
    bodies, joints, impulse = run_kernel(
        lambda: _velocities(step, loop, constraints, rows, jnp.where(step, touch.impulse, 0))
    )
    touch = touch._replace(impulse=jnp.where(step, impulse, touch.impulse))
    touch = _order_contacts(touch, loop.slot)

    def positions() -> tuple[Triple, Triple, jax.Array]:
        pose, velocity = integrate(safe, stack_bodies(bodies), (1 - loop.when) * STEP)

        def correct(turn: tuple) -> tuple:
            pose, fine, count = turn
            moved, least = contact.correct(pose, fresh, ~fine, _STIFFNESS)
            shallow = (least >= -3 * contact.SLOP).all(0)
            bodies, okay = joint_corrections(limit, bodies_of(moved))
            pose = pick(fine, pose, stack_bodies(bodies))
            return pose, fine | (okay & shallow), count + 1

        start = (pose, jnp.broadcast_to(~step, limit.shape[1:]), jnp.zeros((), jnp.int32))
        pose, settled, _ = jax.lax.while_loop(
            lambda turn: ~turn[1].all() & (turn[2] < POSITION_ITERATIONS), correct, start
        )
        return pose, velocity, settled

    pose, velocity, settled = run_kernel(positions)
    boxes = move_boxes(loop.boxes, safe, pose, heights)

    def result() -> _Passes:
        vx, vy, spin = velocity
        moving = (vx * vx + vy * vy > _REST_SPEED**2) | (spin * spin > _REST_SPIN**2)
        rest_time = jnp.where(step, jnp.where(moving, 0, loop.rest_time + STEP), loop.rest_time)
        rest = (rest_time >= _REST_TIME).all(0) & settled
        asleep = jnp.where(step, rest, loop.asleep)
        chosen = jnp.stack([loop.slot == 0, loop.slot == 1])

        def update(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(solid, a, b), new, old)

        return loop._replace(
            number=loop.number + 1,
            start=update(safe, loop.start),
            pose=update(pose, loop.pose),
            velocity=update(pick(step & asleep, (0, 0, 0), velocity), loop.velocity),
            joints=jax.tree.map(lambda new, old: jnp.where(step, new, old), joints, loop.joints),
            alpha=update(loop.when, loop.alpha),
            boxes=update(boxes, loop.boxes),
            touch=touch,
            # A look at a contact enables it, and one that turns out to be none is disabled.
            enabled=(loop.enabled | (solid & ~chosen)) & ~(chosen & loop.event & ~meets),
            counts=loop.counts + (chosen & loop.event),
            rest_time=rest_time,
            asleep=asleep,
        )

    return run_kernel(result)


def _find_contacts(loop: _Passes, edges: Edges) -> tuple[Triple, Manifold, jax.Array, _Touch]:
    """Returns the poses to look at, the contacts there, whether the first is one, and `_Touch`.

    Slots are in the order of solution.
    """
    step, slot, share = loop.number == 0, loop.slot, loop.share
    x, y, z = ((1 - share) * a + share * b for a, b in zip(loop.start, loop.pose, strict=True))
    fresh = contact.find_manifold(frame_of((x, y, z)), _order_slots(edges, slot))
    meets = fresh.size[0] > 0
    selected = jnp.stack([step | loop.event, step | (loop.event & meets)])
    touch = _update_contacts(_order_contacts(loop.touch, slot), fresh, selected)
    return (x, y, z), fresh, meets, touch


def _velocities(
    step: jax.Array, loop: _Passes, constraints: list[joint.Row], rows: contact.Rows, old: jax.Array
) -> tuple[list[Triple], list[joint.Impulses], jax.Array]:
    """Velocities that satisfy joints and contacts, and the impulses to which that takes."""
    present = jnp.stack([rows.single[0] > 0, rows.pair], 1)
    started = _split_impulses(jnp.where(present[:, None], old, 0))
    velocity, of_slots = loop.velocity, [slot_of(rows, slot) for slot in range(2)]
    for slot in range(2):
        velocity = contact.push(velocity, of_slots[slot], slot_of(started, slot))
    joints = jax.tree.map(lambda x: jnp.where(step, x, 0), loop.joints)

    def iterate(_: jax.Array, turn: tuple) -> tuple:
        bodies, joints, impulses = turn
        bodies, joints = jax.lax.cond(
            step, lambda *old: joint_sweep(constraints, *old), lambda *old: old, bodies, joints
        )
        velocity, impulses = stack_bodies(bodies), list(impulses)
        for slot in range(2):
            velocity, impulses[slot] = contact.solve(of_slots[slot], velocity, impulses[slot])
        return bodies_of(velocity), joints, impulses

    bodies = warm(constraints, bodies_of(velocity), joints)
    start = (bodies, joints, [slot_of(_split_impulses(old), slot) for slot in range(2)])
    bodies, joints, impulses = jax.lax.fori_loop(0, VELOCITY_ITERATIONS, iterate, start)
    impulse_pairs = [jnp.stack(four).reshape(2, 2, *four[0].shape) for four in impulses]
    return bodies, joints, jnp.stack(impulse_pairs)
