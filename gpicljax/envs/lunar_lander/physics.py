"""One step of the world: free flight for everyone, contacts for those near the ground.

`advance` takes one world. Under `vmap` the whole batch flies first; then the instances that touch
the ground, or come close to it, are gathered in groups and only these pay for contacts.

Source: the order of events of Box2D 2.3's world step with 180 velocity and 60 position iterations.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import batch_last
from gpicljax.envs._stages import kernel, stage
from gpicljax.envs.lunar_lander import contact, joint, scene
from gpicljax.envs.lunar_lander.contact import Edges, Manifold, Triple, column, frame_of
from gpicljax.envs.lunar_lander.impact import Sweep, time_of_impact
from gpicljax.envs.lunar_lander.scene import STEP, World

_VELOCITY_ITERATIONS, _POSITION_ITERATIONS, _IMPACT_ITERATIONS = 180, 60, 20
_STIFFNESS, _IMPACT_STIFFNESS = 0.2, 0.75
_MOST_SHIFT, _MOST_ROTATION = 2.0, 0.5 * np.pi
_MOST_IMPACTS = 8  # of one contact within a step
_REST_SPEED, _REST_SPIN, _REST_TIME = 0.01, np.deg2rad(2.0), 0.5
_BOX_MARGIN, _BOX_LEAD = 0.1, 2.0
_MARGIN = 0.03  # beyond the skin: who is farther away cannot touch
_PATIENCE = 4
_ORDER = (1, 0)  # the joints, in the order of solution


def _stack(triples: list[Triple]) -> Triple:
    """Per-body triples `[B]` as one triple `[3, B]`."""
    x, y, z = (jnp.stack(component) for component in zip(*triples, strict=True))
    return x, y, z


def _bodies(triple: Triple) -> list[Triple]:
    """The inverse of `_stack`."""
    return [(triple[0][i], triple[1][i], triple[2][i]) for i in range(3)]


def _slot(tree: Any, slot: int) -> Any:
    """One entry of the leaves' first axis."""
    return jax.tree.map(lambda leaf: leaf[slot], tree)


def _joint_rows(world: World) -> tuple[list[joint.Row], jax.Array, jax.Array]:
    """The joints' constraints, their limit states, and their impulses to start from."""
    limit = joint.limit_states(world.pose[2])
    both = joint.rows(_always(world), world.pose[2], limit)
    stop = jnp.where((limit == world.limit) & (limit != 0), world.joint[2], 0)
    return [_slot(both, leg) for leg in range(2)], limit, world.joint.at[2].set(stop)


def _warm(
    rows: list[joint.Row], bodies: list[Triple], impulses: list[joint.Impulses]
) -> list[Triple]:
    for leg in _ORDER:
        bodies[0], bodies[leg + 1] = joint.push(
            leg, bodies[0], bodies[leg + 1], rows[leg].arms, impulses[leg]
        )
    return bodies


def _joint_sweep(
    rows: list[joint.Row], bodies: list[Triple], impulses: list[joint.Impulses]
) -> tuple[list[Triple], list[joint.Impulses]]:
    """One iteration over the joints: the velocities and the impulses."""
    bodies, impulses = list(bodies), list(impulses)
    for leg in _ORDER:
        bodies[0], bodies[leg + 1], impulses[leg] = joint.solve(
            leg, rows[leg], bodies[0], bodies[leg + 1], impulses[leg]
        )
    return bodies, impulses


def _integrated(pose: Triple, velocity: Triple, time: jax.Array | float) -> tuple[Triple, Triple]:
    """Poses after a time, and the velocities, which have upper limits."""
    vx, vy, spin = velocity
    shift = time * jnp.sqrt(vx * vx + vy * vy)
    slower = jnp.where(shift > _MOST_SHIFT, _MOST_SHIFT / jnp.where(shift > 0, shift, 1), 1)
    turn = time * jnp.abs(spin)
    slow = jnp.where(turn > _MOST_ROTATION, _MOST_ROTATION / jnp.where(turn > 0, turn, 1), 1)
    vx, vy, spin = vx * slower, vy * slower, spin * slow
    x, y, angle = pose
    return (x + time * vx, y + time * vy, angle + time * spin), (vx, vy, spin)


def _joint_corrections(
    always: jax.Array, limit: jax.Array, bodies: list[Triple]
) -> tuple[list[Triple], jax.Array]:
    """One pass of corrections over both joints, and whether both were fine beforehand."""
    bodies = list(bodies)
    fine = jnp.ones(limit.shape[1:], bool)
    for leg in _ORDER:
        bodies[0], bodies[leg + 1], okay = stage(
            always, functools.partial(joint.correct, leg), limit[leg], bodies[0], bodies[leg + 1]
        )
        fine = fine & okay
    return bodies, fine


def _unstacked(joints: jax.Array) -> list[joint.Impulses]:
    return [(joints[0, leg], joints[1, leg], joints[2, leg], joints[3, leg]) for leg in range(2)]


def fly(world: World, heights: jax.Array, patience: int) -> tuple[World, jax.Array]:
    """A step without contacts. Leaves `[..., B]`; forces have changed the velocities already.

    Args:
      world: the world.
      heights: float `[11, B]`.
      patience: passes of position corrections that are made for everyone.

    Returns:
      The world after the step, and whether it holds, `bool[B]`: not for instances near the ground
      or in need of more passes.
    """
    always = _always(world)
    rows, limit, joints = _joint_rows(world)
    impulses = _unstacked(joints)
    velocity = (world.velocity[0], world.velocity[1], world.velocity[2])
    bodies = _warm(rows, _bodies(velocity), impulses)

    def iterations(bodies: list[Triple], impulses: list[joint.Impulses]) -> tuple:
        def one(_: jax.Array, loop: tuple) -> tuple:
            return _joint_sweep(rows, *loop)

        return jax.lax.fori_loop(0, _VELOCITY_ITERATIONS, one, (bodies, impulses))

    bodies, impulses = kernel(iterations, bodies, impulses)
    start = (world.pose[0], world.pose[1], world.pose[2])
    pose, velocity = _integrated(start, _stack(bodies), STEP)
    near = _near_ground(world, jnp.stack(pose), heights)

    def correct(loop: tuple) -> tuple:
        bodies, fine, count = loop
        moved, now_fine = _joint_corrections(always, limit, bodies)
        bodies = jax.tree.map(lambda new, old: jnp.where(fine, old, new), moved, bodies)
        return bodies, fine | now_fine, count + 1

    bodies, fine, _ = jax.lax.while_loop(
        lambda loop: ~loop[1].all() & (loop[2] < patience),
        correct,
        (_bodies(pose), near, jnp.zeros((), jnp.int32)),
    )
    end = _stack(bodies)
    boxes = _followed(_Boxes(world.box, world.nearby, world.order), start, end, heights)
    flown = dataclasses.replace(
        world,
        pose=jnp.stack(end),
        velocity=jnp.stack(velocity),
        joint=jnp.stack([jnp.stack(row) for row in zip(*impulses, strict=True)]),
        limit=limit,
        box=boxes.box,
        nearby=boxes.nearby,
        order=boxes.order,
        touching=jnp.zeros_like(world.touching),
        feature=jnp.full_like(world.feature, -1),
        still=jnp.zeros_like(world.still),
    )
    return flown, fine & ~near


def _always(world: World) -> jax.Array:
    """True, as only we know: see `stage`."""
    return world.limit[0, 0] >= -1


def _edges(heights: jax.Array, pose: jax.Array, velocity: jax.Array) -> tuple[jax.Array, Edges]:
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


def _distance2(pose: jax.Array, edges: Edges) -> jax.Array:
    """Squared distance of each body's centre of mass to its edges, `[2, 3, B]`."""
    x, y = pose[0], pose[1]
    ex, ey = edges.bx - edges.ax, edges.by - edges.ay
    share = ((x - edges.ax) * ex + (y - edges.ay) * ey) / (ex * ex + ey * ey)
    share = jnp.clip(share, 0, 1)
    return (x - edges.ax - share * ex) ** 2 + (y - edges.ay - share * ey) ** 2


def _near_ground(before: World, after: jax.Array, heights: jax.Array) -> jax.Array:
    """Whether an instance may touch the ground on the way to given poses. `bool[B]`."""
    _, edges = _edges(heights, before.pose, before.velocity)
    least = jnp.minimum(_distance2(before.pose, edges), _distance2(after, edges))
    reach = column(scene.RADIUS + contact.SKIN + _MARGIN, heights)
    return (least < reach * reach).any((0, 1)) | before.touching.any((0, 1))


class _Boxes(NamedTuple):
    """See `World.box`, `World.nearby` and `World.order`."""

    box: jax.Array
    nearby: jax.Array
    order: jax.Array


def _bounds(pose: Triple) -> tuple[jax.Array, jax.Array]:
    """The tight boxes around bodies, lowest x, y and highest x, y, each `[2, 3, B]`."""
    x, y = contact.corners(frame_of(pose))
    low, high = (jnp.concatenate([f(x, 0), f(y, 0)]) for f in (jnp.min, jnp.max))
    return low - contact.SKIN / 2, high + contact.SKIN / 2


def _followed(boxes: _Boxes, start: Triple, end: Triple, heights: jax.Array) -> _Boxes:
    """The boxes after a motion: whichever contact begins first is also solved differently."""
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
    return _Boxes(box, nearby, (boxes.order & ~came) | (came >> 1))


def _first(order: jax.Array, number: jax.Array) -> jax.Array:
    """The slot whose contact is newer and comes first in everything, `int32[3, B]`."""
    lower = number.min(0)
    return (lower + ((order >> lower) & 1)) % 2


# Contacts ------------------------------------------------------------------------------------


class _Touch(NamedTuple):
    """Contacts as they are found, and what the detector has heard."""

    touching: jax.Array
    feature: jax.Array
    impulse: jax.Array
    legs: jax.Array
    crashed: jax.Array


def _by_slot(tree: Any, slot: jax.Array) -> Any:
    """Leaves `[2, 3, B]` -> `[3, B]`: those of the given slot, `int32[3, B]`."""
    return jax.tree.map(lambda leaf: jnp.where(slot == 0, leaf[0], leaf[1]), tree)


def _ordered(tree: Any, first: jax.Array) -> Any:
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
    number, edges = _edges(heights, world.pose, world.velocity)
    start = (world.pose[0], world.pose[1], world.pose[2])
    same_edge = number == world.edge
    first = _first(world.order, number)

    # Contacts with other edges than before end.
    left = world.touching & ~same_edge
    touch = _Touch(
        touching=world.touching & same_edge,
        feature=world.feature,
        impulse=world.impulse,
        legs=world.legs & ~left.any(0)[1:],
        crashed=world.crashed,
    )
    always = _always(world)
    joint_rows, limit, joints = _joint_rows(world)
    zero, no = jnp.zeros_like(start[0]), jnp.zeros(same_edge.shape[1:], bool)
    loop = _Passes(
        number=jnp.zeros((), jnp.int32),
        start=start,
        pose=start,
        velocity=(world.velocity[0], world.velocity[1], world.velocity[2]),
        joints=_unstacked(joints),
        alpha=zero,
        boxes=_Boxes(world.box, world.nearby, world.order),
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
        return _look(
            always, _solved(always, loop, joint_rows, limit, heights, edges), number, edges
        )

    loop = jax.lax.while_loop(going, one, loop)
    return World(
        pose=jnp.stack(loop.pose),
        velocity=jnp.stack(loop.velocity),
        joint=jnp.stack([jnp.stack(row) for row in zip(*loop.joints, strict=True)]),
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
      boxes: see `_Boxes`.
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
    boxes: _Boxes
    touch: _Touch
    enabled: jax.Array
    counts: jax.Array
    still: jax.Array
    asleep: jax.Array
    slot: jax.Array
    share: jax.Array
    when: jax.Array
    event: jax.Array


def _look(always: jax.Array, loop: _Passes, number: jax.Array, edges: Edges) -> _Passes:
    """The next impact of each body: its slot, its time, and whether there is one."""
    active = loop.enabled & (loop.counts <= _MOST_IMPACTS) & ~loop.asleep
    first = _first(loop.boxes.order, number)
    share, hit = time_of_impact(always, Sweep(loop.start, loop.pose), edges, active)
    alpha = loop.alpha
    when = jnp.where(hit, jnp.minimum(alpha + (1 - alpha) * share, 1), 1)
    sooner, later = when[0] < when[1], when[1] < when[0]
    slot = jnp.where(sooner, 0, jnp.where(later, 1, first))
    share, when = _by_slot((share, when), slot)
    event = when <= 1 - 10 * jnp.finfo(when.dtype).eps
    return loop._replace(slot=slot, share=share, when=when, event=event)


def _solved(
    always: jax.Array,
    loop: _Passes,
    joint_rows: list[joint.Row],
    limit: jax.Array,
    heights: jax.Array,
    edges: Edges,
) -> _Passes:
    """One pass: contacts where bodies are, their impulses, and the motion that follows."""
    step = loop.number == 0  # the step itself, with joints; otherwise impacts
    slot, event, share = loop.slot, loop.event, loop.share
    chosen = jnp.stack([slot == 0, slot == 1])
    x, y, z = ((1 - share) * a + share * b for a, b in zip(loop.start, loop.pose, strict=True))
    here = (x, y, z)
    fresh = contact.manifold(always, frame_of(here), _ordered(edges, slot))
    meets = fresh.size[0] > 0
    solid = step | (event & meets)
    touch = _updated(_turned(loop.touch, slot), fresh, jnp.stack([step | event, solid]))

    def part(turn: tuple) -> tuple:
        pose, fine, count = turn
        moved, least = contact.correct(pose, fresh, ~fine, _IMPACT_STIFFNESS)
        return moved, fine | (least >= -1.5 * contact.SLOP), count + 1

    safe, _, _ = jax.lax.while_loop(
        lambda turn: ~turn[1].all() & (turn[2] < _IMPACT_ITERATIONS),
        part,
        (here, step | ~solid, jnp.zeros((), jnp.int32)),
    )

    # Velocities.
    rows = contact.rows(always, frame_of(safe), fresh)
    old = jnp.where(step, touch.impulse, 0)
    warm = jnp.where(jnp.stack([rows.one[0] > 0, rows.pair], 1)[:, None], old, 0)
    velocity = loop.velocity
    for contact_slot in range(2):
        begun = _slot((rows, _four(warm)), contact_slot)
        velocity = contact.push(velocity, *begun)
    joints = jax.tree.map(lambda x: jnp.where(step, x, 0), loop.joints)
    bodies = _warm(joint_rows, _bodies(velocity), joints)

    def iterations(bodies: list[Triple], joints: list, impulses: list) -> tuple:
        def one(_: jax.Array, turn: tuple) -> tuple:
            bodies, joints, impulses = turn
            bodies, joints = jax.lax.cond(
                step,
                lambda *loop: _joint_sweep(joint_rows, *loop),
                lambda *loop: loop,
                bodies,
                joints,
            )
            velocity, impulses = _stack(bodies), list(impulses)
            for slot in range(2):
                velocity, impulses[slot] = contact.solve(
                    contact_rows[slot], velocity, impulses[slot]
                )
            return _bodies(velocity), joints, impulses

        return jax.lax.fori_loop(0, _VELOCITY_ITERATIONS, one, (bodies, joints, impulses))

    contact_rows = [_slot(rows, slot) for slot in range(2)]
    impulses = [_slot(_four(old), slot) for slot in range(2)]
    bodies, joints, impulses = kernel(iterations, bodies, joints, impulses)
    impulses = jax.tree.map(lambda *x: jnp.stack(x), *impulses)
    impulse = jnp.stack(impulses, 1).reshape(old.shape)
    touch = _turned(touch._replace(impulse=jnp.where(step, impulse, touch.impulse)), slot)

    # Positions.
    pose, velocity = _integrated(safe, _stack(bodies), (1 - loop.when) * STEP)

    def correct(turn: tuple) -> tuple:
        pose, fine, count = turn
        moved, least = contact.correct(pose, fresh, ~fine, _STIFFNESS)
        shallow = (least >= -3 * contact.SLOP).all(0)
        bodies, okay = _joint_corrections(always, limit, _bodies(moved))
        moved = _stack(bodies)
        pose = jax.tree.map(lambda new, old: jnp.where(fine, old, new), moved, pose)
        return pose, fine | (okay & shallow), count + 1

    pose, settled, _ = jax.lax.while_loop(
        lambda turn: ~turn[1].all() & (turn[2] < _POSITION_ITERATIONS),
        correct,
        (pose, jnp.broadcast_to(~step, limit.shape[1:]), jnp.zeros((), jnp.int32)),
    )

    # Sleep.
    vx, vy, spin = velocity
    moving = (vx * vx + vy * vy > _REST_SPEED**2) | (spin * spin > _REST_SPIN**2)
    still = jnp.where(step, jnp.where(moving, 0, loop.still + STEP), loop.still)
    asleep = jnp.where(step, (still.min(0) >= _REST_TIME) & settled, loop.asleep)
    velocity = jax.tree.map(lambda v: jnp.where(step & asleep, 0, v), velocity)
    boxes = _followed(loop.boxes, safe, pose, heights)

    def changed(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(solid, a, b), new, old)

    return loop._replace(
        number=loop.number + 1,
        start=changed(safe, loop.start),
        pose=changed(pose, loop.pose),
        velocity=changed(velocity, loop.velocity),
        joints=jax.tree.map(lambda new, old: jnp.where(step, new, old), joints, loop.joints),
        alpha=changed(loop.when, loop.alpha),
        boxes=changed(boxes, loop.boxes),
        touch=touch,
        # A look at a contact enables it, and one that turns out to be none is disabled.
        enabled=(loop.enabled | (solid & ~chosen)) & ~(chosen & event & ~meets),
        counts=loop.counts + (chosen & event),
        still=still,
        asleep=asleep,
    )


# The batch -----------------------------------------------------------------------------------


def _group(size: int) -> int:
    # Up to 16 instances cost no more than 8 do, and a batch of trained agents lands as one.
    return min(size, max(16, size // 8))


def _advance_all(world: World, heights: jax.Array, over: jax.Array) -> World:
    """A step of a batch: leaves `[..., B]`, with velocities that forces have changed already."""
    flown, holds = fly(world, heights, _PATIENCE)
    size = heights.shape[-1]
    group = _group(size)

    def rest(loop: tuple) -> tuple:
        need, result = loop
        (indices,) = jnp.nonzero(need, size=group, fill_value=size)
        indices = indices.astype(jnp.int32)
        some, ground = jax.tree.map(lambda x: x[..., indices], (world, heights))
        landed = land(some, ground)
        result = jax.tree.map(
            lambda old, new: old.at[..., indices].set(new, mode="drop"), result, landed
        )
        return need.at[indices].set(False, mode="drop"), result

    need = ~holds & ~over
    return jax.lax.while_loop(lambda loop: loop[0].any(), rest, (need, flown))[1]


_advance = batch_last(_advance_all)


@jax.jit
def advance(world: World, heights: jax.Array, over: jax.Array) -> World:
    """One step of 0.02 s. Compiled once for everyone who steps without compiling.

    Args:
      world: unbatched; forces and engines have changed the velocities already.
      heights: float `[11]`, the ground.
      over: `bool[]`, the result is of no interest and need not be right.

    Returns:
      The world after the step.
    """
    return _advance(world, heights, over)


@jax.jit
def fly_alone(world: World, heights: jax.Array) -> World:
    """A step high above the ground, unbatched: as `advance`, but without contacts."""
    world, heights = jax.tree.map(lambda x: x[..., None], (world, heights))
    return jax.tree.map(lambda x: x[..., 0], fly(world, heights, _POSITION_ITERATIONS)[0])
