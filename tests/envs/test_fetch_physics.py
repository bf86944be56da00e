"""The model of Fetch: contacts, the block on its table, the hand; against numbers of MuJoCo's."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.envs.fetch import contact, dynamics
from gpicljax.envs.fetch.env import Fetch, Params
from gpicljax.envs.fetch.experts import script
from gpicljax.envs.fetch.hand import held_back, rubber
from gpicljax.envs.fetch.scene import SCENES, axes_of, first_world, rotate_quaternion
from gpicljax.rollout import play, start_rollout

UPRIGHT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
CUBE = (0.025, 0.025, 0.025)


def test_springs_are_those_of_mujoco():
    """`efc_D` and the part of `efc_aref` from depth, as MuJoCo 3.10 has them between finger and
    block at these distances."""
    distance = jnp.array([0.00048492112, 0.00018584701, -0.00033940152, -0.00050737058, 0.0012])
    springs = contact.springs(distance, jnp.ones(5, bool), rubber(0.5))
    np.testing.assert_allclose(springs.weight, [7.78085, 7.88117, 8.18086, 8.31396, 0], rtol=5e-5)
    stiffness, impedance = 4723.60978, np.array([0.94544, 0.9461, 0.94797, 0.94876])
    expected = stiffness * impedance * (np.asarray(distance[:4]) - 0.001)
    np.testing.assert_allclose(springs.offset[:4], expected, rtol=2e-5)
    np.testing.assert_allclose(rubber(0.5).damping, 137.45704, rtol=1e-6)


def touch(away, axes=UPRIGHT, halves=(0.0135, 0.007, 0.0385), body=CUBE, find=None):
    away, halves = (tuple(jnp.array([[x]]) for x in v) for v in (away, halves))
    axes = tuple(tuple(jnp.array([x]) for x in axis) for axis in axes)
    contacts = (find or contact.box_on_boxes)(away, axes, halves, body)
    return jax.tree.map(lambda x: np.asarray(x)[..., 0, 0], contacts)


def about_z(angle):
    return axes_of(jnp.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)]))


def test_faces_share_their_patch():
    """A finger beside a block: as wide as the finger, as high as both have in common."""
    contacts = touch((0.005, 0.0315, -0.02))
    assert contacts.near
    np.testing.assert_allclose(contacts.normal, (0, 1, 0), atol=1e-6)
    np.testing.assert_allclose(contacts.distance, -0.0005, atol=1e-6)
    x, y, z = np.array(contacts.arm) + np.array([[0.005], [0.0315], [-0.02]])
    assert set(np.round(x, 4)) == {-0.0135, 0.0135}
    np.testing.assert_allclose(y, 0.007 - 0.00025, atol=1e-6)
    np.testing.assert_allclose(sorted(set(np.round(z, 4))), [-0.0385, 0.005], atol=1e-6)


def test_a_turned_block_touches_with_an_edge():
    corner = 0.025 * np.sqrt(2)
    contacts = touch((0.0, 0.007 + corner - 0.001, 0.0), about_z(np.pi / 4))
    np.testing.assert_allclose(contacts.normal, (0, 1, 0), atol=1e-6)
    deepest = contacts.distance.min()
    np.testing.assert_allclose(deepest, -0.001, atol=1e-6)
    assert (np.isclose(contacts.distance, deepest, atol=1e-6)).sum() == 2  # the ends of one edge
    assert not touch((0.0, 0.007 + corner + 0.005, 0.0), about_z(np.pi / 4)).near


def test_boxes_that_pass_one_another_do_not_touch():
    """Corners that are less than the margin from touching, but along two axes."""
    assert not touch((0.0135 + 0.0256, 0.007 + 0.0258, 0.0)).near
    assert touch((0.0135 + 0.0245, 0.007 + 0.0258, 0.0)).near


def test_fingers_resist_a_turn_about_the_normal():
    """Twist, and how fast it falls, are the cost's first and second derivatives."""
    springs = contact.springs(jnp.array(-0.001), jnp.array(True), rubber(0.5))

    def reply(along, turning):
        return contact.reply((along, 0.0, 0.0), turning, springs)

    response = reply(-1.0, 2.0)
    assert response.force[0] > 0 and -0.05 * response.force[0] < response.twist < 0
    by_turning, by_along = jax.grad(lambda t, a: reply(a, t).twist, (0, 1))(2.0, -1.0)
    np.testing.assert_allclose(by_turning, -response.square, rtol=1e-5)
    np.testing.assert_allclose(by_along, -response.skew, rtol=1e-5, atol=1e-6)
    palm = springs._replace(torsion=0.0)
    assert contact.reply((-1.0, 0.0, 0.0), 2.0, palm).twist == 0


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.2])
def test_touching_from_below_pushes_up(angle):
    contacts = touch((0.004, 0.001, 0.0635), about_z(angle))
    np.testing.assert_allclose(contacts.normal, (0, 0, 1), atol=1e-6)
    np.testing.assert_allclose(contacts.distance, 0.0, atol=1e-6)
    assert np.abs(contacts.arm[0] + 0.004).max() <= 0.0135 + 1e-6  # within the finger's face


def test_a_cylinder_touches_a_corner_radially():
    body = (0.025, 0.025, 0.02)
    away = np.array([0.0135, 0.007, 0.0]) + 0.024 * np.array([0.6, 0.8, 0.0])
    contacts = touch(tuple(away), body=body, find=contact.cylinder_on_boxes)
    np.testing.assert_allclose(contacts.normal, (0.6, 0.8, 0.0), atol=1e-5)
    np.testing.assert_allclose(contacts.distance[:2], -0.001, atol=1e-6)
    assert (contacts.distance[2:] > 0.5).all()
    np.testing.assert_allclose(sorted(contacts.arm[2][:2]), [-0.02, 0.02], atol=1e-6)
    on_top = touch((0.0, 0.0, 0.058), body=body, find=contact.cylinder_on_boxes)
    np.testing.assert_allclose(on_top.normal, (0, 0, 1), atol=1e-6)
    np.testing.assert_allclose(on_top.distance.min(), -0.0005, atol=1e-6)


def world(task, **changes):
    scene = SCENES[task]
    body = jnp.array([scene.table[0], scene.table[1] + 0.2, scene.height])
    changes = {name: jnp.asarray(x, float) for name, x in changes.items()}
    return dataclasses.replace(first_world(scene, body), **changes)


@functools.cache
def steps(task, count=10):
    def run(world, action):
        step = lambda world, _: (dynamics.advance(task, world, action),) * 2  # noqa: E731
        return jax.lax.scan(step, world, length=count)[1]

    return jax.jit(jax.vmap(run))


def play_worlds(task, *worlds, action=(0.0, 0.0, 0.0, 0.0)):
    padded = [*worlds, *worlds[-1:] * (6 - len(worlds))]  # one program for all
    actions = jnp.resize(jnp.array(action), (6, 4))
    paths = steps(task)(jax.tree.map(lambda *x: jnp.stack(x), *padded), actions)
    return jax.tree.map(lambda x: np.asarray(x)[: len(worlds)], paths)


def test_a_block_lies_still_falls_and_stands_up_again():
    """At rest; 1 cm above the table; and on an edge, from where it falls on a face."""
    leaning = 0.2
    low = 0.025 * (np.cos(leaning) + np.sin(leaning))
    start = world("push")
    dropped = world("push", body=start.body.at[2].add(0.01))
    tilted = world(
        "push",
        body=start.body.at[2].set(0.4 + low),
        turn=[np.cos(leaning / 2), np.sin(leaning / 2), 0, 0],
    )
    off_table = world("push", body=start.body.at[1].set(0.75 + 0.35 + 0.03))
    paths = play_worlds("push", start, dropped, tilted, off_table)
    np.testing.assert_allclose(paths.body[0], np.tile(start.body, (10, 1)), atol=2e-5)
    np.testing.assert_allclose(paths.body[1:3, -1, 2], 0.42489, atol=2e-4)
    np.testing.assert_allclose(np.abs(paths.turn[2, -1, 0]), 1.0, atol=1e-3)
    fallen = 0.5 * 9.81 * 0.4**2
    np.testing.assert_allclose(paths.body[3, -1, 2], max(start.body[2] - fallen, 0.025), atol=2e-3)


@pytest.mark.parametrize("task", ["push", "slide"])
def test_the_table_is_solid(task):
    """A hand that presses has the block 5 cm deep in the soft table, as in MuJoCo (.378 m), and the
    puck less than 1 mm; without it they come up. So do those that begin 12 cm below the top."""
    scene = SCENES[task]
    starts = []
    for x, y in (0.0, 0.0), (0.05, -0.12), (-0.1, 0.2):
        body = jnp.array([scene.table[0] + x, scene.table[1] + y, scene.height])
        starts.append(world(task, body=body, hand=body.at[2].add(0.12)))
    pressed = play_worlds(task, *starts, action=(0.0, 0.0, -1.0, -1.0))
    lowest = {"push": 0.379, "slide": 0.4192}[task]
    np.testing.assert_allclose(pressed.body[:, :7, 2].min(1), lowest, atol=1.5e-3)
    assert pressed.body[..., 2].min() > lowest - 2e-3
    deep = [world(task, body=start.body.at[2].add(-0.12)) for start in starts]
    freed = [world(task, body=body, turn=turn) for body, turn in zip(
        pressed.body[:, 5], pressed.turn[:, 5], strict=True)]  # fmt: skip
    freed = play_worlds(task, *freed, *deep)
    resting = play_worlds(task, *(jax.tree.map(lambda x, i=i: x[i, -1], freed) for i in range(6)))
    np.testing.assert_allclose(resting.body[:, -1, 2], scene.height, atol=1e-3)


@pytest.mark.parametrize("task", ["push", "slide"])
def test_edges_of_the_table_hold_what_lies_on_them(task):
    """A body lies still with its centre 5 mm within the edge, and falls with it 5 mm beyond."""
    scene = SCENES[task]
    edge = scene.table[1] + scene.table_half[1]
    places = [jnp.array([scene.table[0], edge + y, scene.height]) for y in (-0.005, 0.005)]
    paths = play_worlds(task, *(world(task, body=place) for place in places))
    np.testing.assert_allclose(paths.body[0, -1], places[0], atol=1e-3)
    assert paths.body[1, -1, 2] < 0.3


def test_the_palm_rests_on_the_table():
    """With the fingers beside the table and the palm over it; in MuJoCo it stops at .36 m."""
    edge = SCENES["push"].table[1] + SCENES["push"].table_half[1]
    paths = play_worlds(
        "push",
        *(world("push", hand=[1.25, edge + y, 0.5]) for y in (0.03, 0.08)),
        action=(0.0, 0.0, -1.0, 0.0),
    )
    assert paths.hand[0, -1, 2] > 0.35 and paths.hand[1, -1, 2] < 0.3


def test_a_slow_oblique_push_turns_the_block():
    """At .25 m/s, for 30 steps; in MuJoCo by 39 to 59 degrees, away from the nearer axis."""
    worlds, actions = [], []
    for degrees in 33, 40, 50, 57:
        x, y = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        body = np.array([1.3 - 0.12 * x, 0.75 - 0.12 * y, 0.42489])
        hand = body + [-0.075 * x, -0.075 * y, 0.02]
        worlds.append(world("push", body=body, hand=hand, hand_velocity=[0, 0, 0]))
        actions.append([0.01 / 0.034 * x, 0.01 / 0.034 * y, 0.0, 0.0])
    for _ in range(3):
        paths = play_worlds("push", *worlds, action=[*actions, *actions[:2]])
        worlds = [jax.tree.map(lambda x, i=i: x[i, -1], paths) for i in range(4)]
    turn = [np.rad2deg(2 * np.arctan2(world.turn[3], world.turn[0])) for world in worlds]
    assert (np.array(turn) * [1, 1, -1, -1] > 10).all()


def test_friction_slows_a_puck_as_the_pyramid_has_it():
    """Along x by the whole coefficient; on the diagonal by half of it along either axis, as in
    MuJoCo's own run of the task (from .3229 to .3013 m/s in 40 ms)."""
    along = world("slide", velocity=[0.6, 0, 0])
    diagonal = world("slide", velocity=[0.3229, 0.3229, 0])
    paths = play_worlds("slide", along, diagonal)
    np.testing.assert_allclose(0.6 - paths.velocity[0, :, 0], 0.0392 * np.arange(1, 11), atol=6e-3)
    np.testing.assert_allclose(paths.velocity[1, 0, :2], 0.3013, atol=4e-3)
    assert np.abs(paths.velocity[0, :, 1]).max() < 1e-3


def test_quaternions_turn_as_they_should():
    turn = jnp.array([1.0, 0.0, 0.0, 0.0])
    for _ in range(100):
        turn = rotate_quaternion(turn, (0.0, 0.0, 0.5 * np.pi), 0.01)
    x, y, z = (np.asarray(axis, float) for axis in axes_of(turn))
    np.testing.assert_allclose([*x, *y, *z], [0, 1, 0, -1, 0, 0, 0, 0, 1], atol=1e-4)


def test_the_arm_does_not_reach_beyond_itself():
    """The hand is held back towards the shoulder, more and more, and not at all within reach."""
    places = jnp.array([[1.36, 0.75, 0.44], [1.52, 0.75, 0.44], [1.7, 0.9, 0.44]])
    held, way = held_back(tuple(places.T))
    assert held[0] == 0 and 5 < held[1] < held[2]
    assert (way[0] > 0.8).all() and way[1][2] > 0.1


def test_starts_are_where_the_tasks_have_them():
    keys = jax.random.split(jax.random.key(0), 2_000)
    for task, near, far in (
        ("push", 0.15, 0.15),
        ("slide", 0.1, 0.3),
        ("pick_and_place", 0.15, 0.15),
    ):
        env = Fetch(task)
        at = env.sample_task(keys[0], env.default_params)
        state = jax.jit(jax.vmap(lambda key, env=env, at=at: env.initial(key, at)))(keys)
        middle = np.array(SCENES[task].middle)
        away = np.asarray(state.world.body)[:, :2] - middle
        assert np.linalg.norm(away, axis=1).min() >= 0.1 and np.abs(away).max() <= near + 1e-6
        assert np.abs(away).max() > 0.98 * near
        goal = np.asarray(state.goal) - [
            *(middle + [0.4 * (task == "slide"), 0]),
            env._scene.height,
        ]
        assert 0.98 * far < np.abs(goal[:, :2]).max() <= far + 1e-6
        flying = goal[:, 2] > 1e-6
        assert flying.mean() == pytest.approx(0.5 * (task == "pick_and_place"), abs=0.03)
        assert goal[:, 2].max() <= 0.45


def test_a_step_is_the_same_alone_and_in_a_batch(key):
    """A batch of more than one block, the last of which is not full."""
    env = Fetch("pick_and_place")
    task = env.sample_task(key, env.default_params)
    state = jax.jit(jax.vmap(lambda key: env.initial(key, task)))(jax.random.split(key, 70))
    # Beside the fingers, so that they touch.
    near = state.world.hand + jnp.array([0.0, 0.03, 0.01])
    state = dataclasses.replace(state, world=dataclasses.replace(state.world, body=near))
    action = jax.random.uniform(key, (70, 4), minval=-1)
    step = lambda state, action: env.move(state, action, (), task).state.world  # noqa: E731
    batched = jax.jit(jax.vmap(step))(state, action)
    assert float(jnp.abs(batched.velocity).max()) > 0.05
    single_step = jax.jit(step)
    for i in 1, 69:
        single = single_step(*jax.tree.map(lambda x, i=i: x[i], (state, action)))
        for a, b in zip(jax.tree.leaves(batched), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-3)


def test_states_can_be_read_and_set(key):
    env = Fetch("push")
    task = env.sample_task(key, env.default_params)
    state = env.initial(key, task)
    vector = env.physical_state(state)
    assert vector.shape == (26,)
    moved = env.with_physical_state(state, vector.at[5].add(0.1))
    np.testing.assert_allclose(moved.world.body - state.world.body, (0.1, 0, 0), atol=1e-6)
    np.testing.assert_array_equal(
        env.physical_state(env.with_physical_state(state, vector)), vector
    )


@pytest.mark.parametrize(("task", "least"), [("push", 0.85), ("pick_and_place", 0.95)])
def test_rules_do_the_tasks(task, least, key):
    """For 150 steps, over the last 100 of which a block in the air does not slip."""
    env = Fetch(task)
    vec = gpicljax.VectorEnv(
        env, 40, resets="synchronous", steps_per_trial=151,
        params=Params(jnp.int32(150)))  # fmt: skip
    agent = script(env)

    def keep(record):
        return record.next_timestep.reward, record.timestep.observation

    run = jax.jit(
        lambda key: play(vec, agent, (), start_rollout(key, vec, agent), max_steps=150, keep=keep)
    )
    reward, observation = jax.tree.map(lambda x: np.asarray(x[:, 0]), run(key).records)
    assert (reward[:, 49] == 0).mean() >= least
    assert (reward[:, 149] == 0).mean() >= least
    lifted = observation["desired_goal"][:, 0, 2] > 0.46
    assert lifted.sum() >= 10 or task == "push"
    held = observation["observation"][lifted, :, 8]
    creep = np.abs(held[:, 149] - held[:, 49]) / 100
    assert creep.max(initial=0) <= 1e-4


def test_pictures_show_block_and_goal(key):
    env = Fetch("push")
    task = env.sample_task(key, env.default_params)
    state = env.initial(key, task)
    picture = np.asarray(jax.jit(env.render)(state, task))
    assert picture.shape == (240, 240, 3)
    red = (picture[..., 0] > 180) & (picture[..., 1:].max(-1) < 90)
    blue = (picture[..., 2] > 130) & (picture[..., 0] < 90)
    assert red.sum() > 10 and blue.sum() > 50
