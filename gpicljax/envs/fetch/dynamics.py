"""Fetch without MuJoCo: steps of a world of a hand, two fingers and one free body.

A step has 20 substeps of 2 ms: the accelerations of all parts, then their velocities and places, as
MuJoCo's Euler integrator has them. The body's reaction on the hand comes a substep late.

Leaves of worlds are `[..., B]` here, but for `advance` and `observed_places`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import cast

import jax
import jax.numpy as jnp

from gpicljax.batching import batch_last
from gpicljax.envs._gpu import one_kernel_on_gpu
from gpicljax.envs._stages import run_apart, run_kernel
from gpicljax.envs.fetch import contact
from gpicljax.envs.fetch import hand as hands
from gpicljax.envs.fetch.algebra import Axes, Vector, minus, plus, rotate, scale
from gpicljax.envs.fetch.body import Motion, Place, accelerations, advance_velocities
from gpicljax.envs.fetch.contact import Touch
from gpicljax.envs.fetch.scene import (
    FINGER_HALF,
    FINGER_SIDE,
    PALM_ABOVE,
    PALM_HALF,
    SCENES,
    SITE_BELOW,
    STEP,
    SUBSTEPS,
    TABLE_HEIGHT,
    Scene,
    World,
    axes_of,
    rotate_quaternion,
)

_BLOCK = 64  # instances that are solved together on a CPU
_FALLEN, _FLOOR = (
    0.045,
    100.0,
)  # metres: a body whose centre is lower is on the floor; its half size
STRIDE = 0.05
"""By how much an action of 1 moves the hand's target, in metres."""


def _vector(x: jax.Array) -> Vector:
    return x[0], x[1], x[2]


def _per_box(*values: jax.Array | float) -> jax.Array:
    """`[P, B]`: right finger, left finger, palm and table."""
    return jnp.stack(jnp.broadcast_arrays(*values))


def _touch(scene: Scene, world: World) -> Touch:
    """Finds where the body may touch fingers, palm and table, or the floor once it is low."""
    axes = axes_of(world.turn)
    lean = hands.lean(_vector(world.hand_velocity))
    x, y, z = rotate(lean, minus(_vector(world.body), _vector(world.hand)), -1)
    right, left = FINGER_SIDE + world.fingers[0], FINGER_SIDE + world.fingers[1]
    u, v, w = minus(_vector(world.body), (*scene.table, 0.5 * TABLE_HEIGHT))
    # The floor is a box of the table's size, a table's height lower and always below the body.
    fallen = world.body[2] < _FALLEN
    u, v = jnp.where(fallen, 0.0, u), jnp.where(fallen, 0.0, v)
    w = jnp.where(fallen, w + TABLE_HEIGHT, w)
    away = (
        _per_box(x, x, x, u),
        _per_box(y - right, y + left, y, v),
        _per_box(z, z, z - PALM_ABOVE, w),
    )
    table = *scene.table_half, 0.5 * TABLE_HEIGHT
    sizes = zip(FINGER_HALF, FINGER_HALF, PALM_HALF, table, strict=True)
    halves = cast("Vector", tuple(jnp.array(along)[:, None] for along in sizes))
    find = contact.cylinder_on_boxes if scene.round else contact.box_on_boxes
    leans = cast("Vector", tuple(_per_box(angle, angle, angle, 0.0) for angle in lean))
    axes = cast("Axes", tuple(rotate(leans, axis, -1) for axis in axes))
    touch = find(away, axes, halves, scene.half)
    arm, normal = (rotate(leans, x, 1) for x in (touch.arm, touch.normal))
    return touch._replace(arm=arm, normal=normal)


def _along_y(fingers: jax.Array) -> jax.Array:
    """Returns how fast fingers move along y, by how fast they open, or the inverse, `[2, B]`."""
    return jnp.stack([fingers[0], -fingers[1]])


def _of_boxes(hand: Vector, right: jax.Array | float, left: jax.Array | float) -> Vector:
    """Velocities or accelerations of the boxes, with those of fingers along y."""
    x, y, z = hand
    zero = jnp.zeros_like(x)
    return (
        _per_box(x, x, x, zero),
        _per_box(y + right, y + left, y, zero),
        _per_box(z, z, z, zero),
    )


def substep(scene: Scene, world: World, target: Vector, control: jax.Array) -> World:
    """Returns the world 2 ms later.

    Args:
      scene: the task's.
      world: as it is.
      target: where the hand is to be, in metres, `[B]`.
      control: where the fingers are to be, `[2, B]`.
    """
    hand_velocity = _vector(world.hand_velocity)
    velocity, spin = _vector(world.velocity), _vector(world.spin)

    def push(
        world: World, target: Vector, control: jax.Array
    ) -> tuple[Vector, jax.Array, jax.Array]:
        hand, velocity = _vector(world.hand), _vector(world.hand_velocity)
        free = hands.pull(hand, velocity, target)
        free = plus(free, scale(1 / hands.MASS, _vector(world.reaction)))
        push = hands.on_table(scene, hand, velocity, free)
        opening, speed = world.fingers, world.finger_velocity
        free, mass = hands.spread(scene, opening, speed, control, world.reaction[3:], push[1])
        return push, _along_y(free), mass

    pushed, free, mass = run_apart(push, world, target, control)
    boxes = Motion(
        _of_boxes(hand_velocity, *_along_y(world.finger_velocity)), _of_boxes(pushed, 0.0, 0.0)
    )
    place, force = accelerations(
        scene, _touch(scene, world), velocity, spin, boxes, (free, mass), world.acceleration
    )

    def rest(world: World, pushed: Vector, free: jax.Array, place: Place, force: Vector) -> World:
        hand_velocity = plus(_vector(world.hand_velocity), scale(STEP, pushed))
        slowly = STEP / (1 + STEP * hands.FINGER_DAMPER / hands.FINGER_MASS)
        finger_velocity = world.finger_velocity + slowly * _along_y(place.fingers)
        velocity, spin = advance_velocities(
            scene, _vector(world.velocity), _vector(world.spin), place.linear, place.angular
        )
        x, y, z = force
        # Fingers take what pushes them along y; the hand takes the rest.
        on_hand = x[0] + x[1] + x[2], y[2], z[0] + z[1] + z[2]
        return World(
            hand=jnp.stack(plus(_vector(world.hand), scale(STEP, hand_velocity))),
            hand_velocity=jnp.stack(hand_velocity),
            fingers=world.fingers + STEP * finger_velocity,
            finger_velocity=finger_velocity,
            body=jnp.stack(plus(_vector(world.body), scale(STEP, velocity))),
            turn=rotate_quaternion(world.turn, spin, STEP),
            velocity=jnp.stack(velocity),
            spin=jnp.stack(spin),
            acceleration=jnp.stack([*place.linear, *place.angular, *(place.fingers - free)]),
            reaction=jnp.stack([-on_hand[0], -on_hand[1], -on_hand[2], -y[0], y[1]]),
        )

    return run_apart(rest, world, pushed, free, place, force)


def advance_all(scene: Scene, world: World, action: jax.Array) -> World:
    """Runs a step of 40 ms, for a batch.

    Args:
      scene: the task's.
      world: as it is.
      action: `[4, B]`, within [-1, 1].
    """
    shown = minus(_vector(world.hand), scale(scene.late, _vector(world.hand_velocity)))
    target = plus(shown, scale(STRIDE, _vector(action)))
    control = hands.control_of(world.fingers, action[3])
    world = jax.lax.fori_loop(
        0, SUBSTEPS, lambda _, world: substep(scene, world, target, control), world
    )
    return (
        world if scene.grasps else dataclasses.replace(world, fingers=jnp.zeros_like(world.fingers))
    )


@functools.cache
def _advance(task: str) -> Callable[[World, jax.Array], World]:
    step = functools.partial(advance_all, SCENES[task])

    def advance_one(world: World, action: jax.Array) -> World:
        batch = jax.tree.map(lambda x: x[..., None], (world, action))
        return jax.tree.map(lambda x: x[..., 0], step(*batch))

    def advance_batch(world: World, action: jax.Array) -> World:
        size = action.shape[-1]
        if size <= _BLOCK:
            return run_kernel(step, world, action)
        # An instance whose search takes long keeps its block going, not the whole batch.
        blocks = -(-size // _BLOCK)
        filled = [(0, 0), (0, blocks * _BLOCK - size)]

        def split(x: jax.Array) -> jax.Array:
            padded = jnp.pad(x, filled, mode="edge")
            return jnp.moveaxis(padded.reshape(len(x), blocks, _BLOCK), 1, 0)

        stepped = jax.lax.map(
            lambda both: run_kernel(step, *both), jax.tree.map(split, (world, action))
        )
        return jax.tree.map(
            lambda x: jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)[:, :size], stepped
        )

    return jax.jit(one_kernel_on_gpu(advance_one, elsewhere=batch_last(advance_batch)))


def advance(task: str, world: World, action: jax.Array) -> World:
    """Runs a step of 40 ms, without a batch. `vmap` makes one kernel of it.

    Args:
      task: which of `SCENES`.
      world: as it is.
      action: float `[4]`, within [-1, 1].
    """
    return _advance(task)(world, action)


def observed_places(scene: Scene, world: World) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the observed places of a world, a substep old where the simulator's are.

    Returns:
      The gripper's place and the body's, in metres, and the body's angles about x, y and z, float
      `[3]` each.
    """
    late = scene.late
    site = jnp.array([0.0, 0.0, SITE_BELOW], world.hand.dtype)
    x, y, z = axes_of(rotate_quaternion(world.turn, _vector(world.spin), -late))
    level = jnp.sqrt(z[1] * z[1] + z[2] * z[2])
    angles = jnp.stack(
        [-jnp.arctan2(z[1], z[2]), jnp.arctan2(z[0], level), -jnp.arctan2(y[0], x[0])]
    )
    gripper = world.hand - late * world.hand_velocity - site
    return gripper, world.body - late * world.velocity, angles
