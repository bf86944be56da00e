"""Views of agents in mazes, against a plain ray caster, geometry, and pictures seen before."""

import functools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from slow_ray_caster import from_arrays, look, make_bar, make_task
from variants import daily

from gpicljax.systems.maze_world.env import first_person, ray_caster, textures
from gpicljax.systems.maze_world.env.first_person import Camera, render

GOLDEN = Path(__file__).parent / "golden"
BATCH = 60
ODD = Camera(45, 61)
CAMERAS = {"45x61": ODD, "64x48": Camera(64, 48, 90.0, "random-64")}
# 30 poses go into a tile of their own; a few of them are painted together.
PLAN = ["#########", "#...#...#", "#.#.#.#.#", "#.#...#.#", "#.#####.#", "#...#...#", "###.#.###",
        "#.......#", "#########"]  # fmt: skip
MARKS = [(1, 3), (3, 3), (3, 5), (1, 7), (5, 1), (7, 4)]
FULL = jnp.ones(8, bool)


def plain_sets():
    """Textures that look the same in a mirror and turned by a quarter."""
    row, column = np.mgrid[:64, :64]
    rings = np.maximum(np.abs(row - 31.5), np.abs(column - 31.5)).astype(int)
    shades = np.stack([[rings * 3 + 20 * i, 200 - rings * 2, 0 * rings] for i in range(8)])
    shades = np.moveaxis(shades, 1, -1).astype(np.uint8)
    shades[:6, ..., 2] = 255  # only walls are blue
    return textures.TextureSet(shades[:6], shades[6:7], shades[7:])


textures.register_textures("test-symmetric", plain_sets)
SYMMETRIC = Camera(45, 61, textures="test-symmetric")


@functools.cache
def program(camera):
    """Many pictures in one go, each with everything of its own."""
    return jax.jit(jax.vmap(functools.partial(render, camera)))


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def pictures(camera, views):
    """`[(task, position, heading, visible, bar), ...]` to `uint8[K, H, W, 3]`.

    The batch is filled up with the last view, so that there is one program for all numbers.
    """
    filled = list(views) + [views[-1]] * (BATCH - len(views))
    tasks, positions, headings, visible, bars = zip(*filled, strict=True)
    positions, headings = np.array(positions, np.float32), np.array(headings, np.float32)
    frames = program(camera)(stack(tasks), positions, headings, jnp.stack(visible), stack(bars))
    return np.asarray(frames)[: len(views)]


@functools.cache
def random_views():
    """Anywhere in the maze, at any heading, in rooms of all kinds, often several beams deep."""
    rng = np.random.default_rng(3)
    free = np.argwhere([[c == "." for c in row] for row in PLAN])
    views = []
    for index in range(BATCH):
        size, tall, reach = rng.uniform(1.5, 3), rng.uniform(2.2, 5), rng.uniform(5, 18)
        marks = [tuple(cell) for cell in rng.permutation(free)[:8]] if index % 2 else MARKS
        task = make_task(
            PLAN, marks, index, cell_size=size, wall_height=tall,
            eye_height=rng.uniform(0.8, tall - 0.5), view_range=reach,
        )  # fmt: skip
        position = size * (free[rng.integers(len(free))] + rng.uniform(0.12, 0.88, 2))
        left, right = rng.uniform(0, 1, 2)
        bar = make_bar(left, right, rng.integers(0, 256, 3))
        visible = jnp.asarray(rng.random(8) < 0.8)
        views.append((task, position.astype(np.float32), rng.uniform(-7, 7), visible, bar))
    return views


def test_pictures_are_those_of_the_plain_ray_caster():
    views = random_views()
    frames = pictures(ODD, views)
    assert frames.dtype == np.uint8 and frames.shape == (BATCH, 45, 61, 3)
    near = []
    for frame, view in zip(frames, views, strict=True):
        away = np.abs(frame - look(ODD, *view)).max(-1)
        near.append(np.mean(away <= 1))
        assert near[-1] > 0.97
    assert np.mean(near) > 0.99


def test_many_beams_one_behind_the_other():
    plan = ["#########", "#.......#", *["#########"] * 7]
    task = make_task(plan, [(1, j) for j in range(2, 8)], view_range=30.0)
    view = task, np.array([3.0, 3.1], np.float32), np.pi / 2, FULL, make_bar()
    (frame,) = pictures(ODD, [view])
    expected = look(ODD, *view)
    assert np.mean(np.abs(frame - expected).max(-1) <= 1) > 0.99
    few = (*view[:3], jnp.arange(8) < 3, make_bar())
    assert np.abs(look(ODD, *few) - expected).max() > 8  # the further ones do show


def corridor(**geometry):
    """Along y at x = 3 m, closed at y = 16 m."""
    return make_task(["#########", "#.......#", *["#########"] * 7], [(1, 4)], **geometry)


def ahead(task, distance, visible=False, bar=None):
    """The view of the corridor's end from a distance in metres."""
    position = np.array([3, 16 - distance], np.float32)
    return task, position, np.pi / 2, FULL & visible, bar or make_bar()


def test_a_wall_spans_the_rows_that_its_distance_says():
    cases = [(1.6, 3.2, 2.0), (1.6, 3.2, 5.0), (1.0, 2.4, 3.0), (0.5, 6.0, 12.5)]
    views = [
        ahead(corridor(eye_height=eye, wall_height=tall, view_range=60.0), distance)
        for eye, tall, distance in cases
    ]
    pixels = 61 / (2 * np.tan(np.radians(54)))
    for (eye, tall, distance), frame in zip(cases, pictures(SYMMETRIC, views), strict=True):
        upper = max(int(22.5 - (tall - eye) / distance * pixels), 0)
        lower = min(int(22.5 + eye / distance * pixels), 45)
        assert np.flatnonzero(frame[:, 30, 2]).tolist() == list(range(upper, lower))
        assert (frame[upper:lower, 30, 2] == 255).all()


def test_fog_starts_at_half_the_range_and_ends_in_black():
    distances = [2.0, 3.9, 5.0, 6.0, 7.9, 8.1, 10.0]
    views = [ahead(corridor(view_range=8.0), distance) for distance in distances]
    blue_levels = pictures(SYMMETRIC, views)[:, 22, 30, 2]
    expected = [255 * (1 - np.clip(2 * d / 8 - 1, 0, 1)) for d in distances]
    np.testing.assert_allclose(blue_levels, np.floor(np.add(expected, 0.5)), atol=1)
    (frame,) = pictures(SYMMETRIC, [ahead(corridor(view_range=2.0), 11.0)])
    # Neither the ceiling beyond the range nor the floor further along than it.
    assert not frame[22 - 11 : 22 + 11, 30].any() and frame[-1].any() and frame[0].any()


def test_beams_blend_as_stated():
    task = corridor()  # landmark 0, green, in the cell from y = 8 m on
    views = [ahead(task, d, visible) for d in (12.0, 9.2) for visible in (False, True)]
    views += [ahead(task, 7.0, visible) for visible in (False, True)]
    frames = pictures(ODD, views)[:, :, 30].astype(int)
    for index, depth in ((0, 4.0), (2, 1.2)):
        without, beam = frames[index], frames[index + 1]
        clarity = 1 - np.clip(2 * depth / 12 - 1, 0, 1)
        upper, lower = (
            int(22.5 + y / depth * 61 / (2 * np.tan(np.radians(54)))) for y in (-1.6, 1.6)
        )
        inside = (np.arange(45) >= upper) & (np.arange(45) < lower)
        expected = 0.7 * without + 0.3 * clarity * np.array([0, 255, 0])
        assert np.abs(beam - expected)[inside].max() <= 1.5
        np.testing.assert_array_equal(beam[~inside], without[~inside])
    # None in the cell of the eye.
    np.testing.assert_array_equal(frames[4], frames[5])


def test_the_bar_covers_its_columns_and_rows():
    task = corridor()
    ends = [(0.25, 0.75), (0.1, 0.9), (0.0, 1.0), (0.5, 0.5), (0.6, 0.4)]
    colour = (12, 200, 99)
    views = [ahead(task, 5.0)] + [ahead(task, 5.0, bar=make_bar(*e, colour)) for e in ends]
    bare, *frames = pictures(ODD, views)
    for (left, right), frame in zip(ends, frames, strict=True):
        painted = bare.copy()
        painted[4:6, int(61 * left) : int(61 * right)] = colour
        np.testing.assert_array_equal(frame, painted)


def test_the_bar_at_the_papers_size():
    screen = ray_caster.Screen(128, 128, 1.0)
    assert screen.bar_rows() == (12, 19)
    assert [int(first_person._column(jnp.float32(s), 128)) for s in (0.25, 0.75)] == [32, 96]


def transform_view(task, position, heading, transform):
    """The same view in a maze whose arrays went through `transform`."""
    at = transform(np.asarray(task.landmark_at))
    marks = [np.argwhere(at == index)[0] for index in range(int(task.num_landmarks))]
    transformed_task = from_arrays(
        transform(np.asarray(task.walls)), transform(np.asarray(task.textures)), marks, 9
    )
    return transformed_task, position, heading


def scattered_views(count):
    """Views of a maze of 18 m, which both the floor and the ceiling divide."""
    rng = np.random.default_rng(8)
    free = np.argwhere([[c == "." for c in row] for row in PLAN])
    for index in range(count):
        cell = free[rng.integers(len(free))]
        position = (2 * (cell + rng.uniform(0.15, 0.85, 2))).astype(np.float32)
        yield make_task(PLAN, MARKS, index), position, rng.uniform(0, 2 * np.pi)


def test_mirrored_and_turned_mazes():
    whole = [(*view, FULL, make_bar()) for view in scattered_views(BATCH)]
    mirrored, turned = [], []
    for task, position, heading, *rest in whole:
        mirror = transform_view(task, position * [1, -1] + [0, 18], -heading, lambda a: a[:, ::-1])
        mirrored.append((*mirror, *rest))
        # A quarter turn takes +x to +y: (x, y) to (18 - y, x).
        spot = np.array([18 - position[1], position[0]])
        turn = transform_view(task, spot, heading + np.pi / 2, lambda a: a.T[::-1])
        turned.append((*turn, *rest))
    frames = pictures(SYMMETRIC, whole).astype(int)
    for variant in (pictures(SYMMETRIC, mirrored)[:, :, ::-1], pictures(SYMMETRIC, turned)):
        assert np.mean(np.abs(frames - variant).max(-1) <= 1) > 0.995


def test_textures_are_upright_and_never_mirrored():
    arrow = np.zeros((1, 64, 64, 3), np.uint8)
    arrow[:, :32, :, 0] = 255  # red above
    arrow[:, :, :32, 1] = 255  # green to the left
    grey = np.full((1, 64, 64, 3), 9, np.uint8)
    textures.register_textures("test-arrow", textures.TextureSet(arrow, grey, grey))
    plan = ["#####", "#...#", "#...#", "#...#", "#####"]
    room = make_task(plan, kinds=1, most=1, wall_height=2.0, eye_height=1.0)
    view = functools.partial(render, Camera(21, 21, 100.0, "test-arrow"), room)
    look_at = jax.jit(
        lambda heading: view(jnp.array([5.0, 5.0]), heading, FULL[:1], make_bar()),
    )
    # Half a texture's width beside the middle of the wall's middle cell.
    for quarter in range(4):
        frame = look_at(jnp.float32(quarter * np.pi / 2))
        left, right = frame[:, 9], frame[:, 11]
        assert (left[9:12, 1] > 0).all() and not right[9:12, 1].any()
        assert frame[11, 9, 0] > 0 and frame[9, 9, 0] == 0  # a metre's upper half is below the eye


@pytest.mark.slow
def test_each_picture_is_the_same_on_its_own_and_in_any_batch():
    views = random_views()
    frames = pictures(ODD, views)
    render_one = jax.jit(functools.partial(render, ODD))
    for index in (0, 7, 31, 59):
        np.testing.assert_array_equal(render_one(*views[index]), frames[index])
    shuffled = np.random.default_rng(0).permutation(BATCH)
    shuffled_frames = pictures(ODD, [views[i] for i in shuffled])
    np.testing.assert_array_equal(shuffled_frames, frames[shuffled])


@pytest.mark.slow
def test_nested_batches_shared_mazes_and_scans():
    small = Camera(10, 14)
    tasks = stack([make_task(PLAN, MARKS[:1], seed, most=1) for seed in range(3)])
    rng = np.random.default_rng(1)
    cells = np.argwhere([[c == "." for c in row] for row in PLAN])
    spots = 2 * (
        cells[rng.integers(len(cells), size=(3, 5))] + 0.5 + rng.uniform(-0.3, 0.3, (3, 5, 2))
    )
    spots = jnp.asarray(spots, jnp.float32)
    headings = jnp.asarray(rng.uniform(0, 6, (3, 5)), jnp.float32)

    def seen(task, position, heading):
        return render(small, task, position, heading, FULL[:1], make_bar(0.2, 0.6, (9, 8, 7)))

    def poses(task, position, heading):
        return jax.vmap(seen, (None, 0, 0))(task, position, heading)

    def everything(tasks, spots, headings):
        nested = jax.vmap(poses)(tasks, spots, headings)
        # Mazes along the inner axis, poses along the outer one.
        crossed = jax.vmap(jax.vmap(seen), (None, 1, 1), 1)(tasks, spots, headings)
        flat = jax.vmap(seen)(
            jax.tree.map(lambda v: jnp.repeat(v, 5, 0), tasks),
            spots.reshape(15, 2),
            headings.reshape(15),
        )
        _, scanned = jax.lax.scan(
            lambda carry, pose: (carry, jax.vmap(seen)(tasks, *pose)),
            0,
            (spots.swapaxes(0, 1), headings.swapaxes(0, 1)),
        )
        return nested, crossed, flat.reshape(nested.shape), scanned.swapaxes(0, 1)

    first, *other_orders = jax.jit(everything)(tasks, spots, headings)
    assert first.shape == (3, 5, 10, 14, 3) and first.any()
    for frames in other_orders:
        np.testing.assert_array_equal(frames, first)


def scene(views):
    """The ray caster's arguments for views that share nothing."""
    tasks, positions, headings, visible, bars = zip(*views, strict=True)
    mazes = jax.vmap(functools.partial(first_person._seen_of, ODD))(stack(tasks))
    shots = jax.vmap(functools.partial(first_person._shot, ODD))(
        jnp.asarray(np.array(positions)), jnp.asarray(headings, jnp.float32),
        jnp.stack(visible), stack(bars),
    )  # fmt: skip
    return mazes, shots._replace(maze=jnp.arange(len(views), dtype=jnp.int32))


@pytest.mark.slow
def test_accelerators_get_the_same_pictures():
    views = random_views()
    screen = first_person._screen(ODD)
    at_once = functools.partial(ray_caster.at_once, screen, textures.table("default"))
    frames = jax.jit(at_once)(*scene(views))
    away = np.abs(frames.astype(int) - pictures(ODD, views)).max(-1)
    assert np.mean(away <= 1) > 0.999


@pytest.mark.slow
def test_any_number_of_frames():
    small = Camera(4, 5)
    task = make_task(PLAN, MARKS[:1], most=1)
    headings = jnp.linspace(0, 6, 131)

    def seen(headings):
        spot = jnp.array([3.0, 3.2])
        draw = jax.vmap(lambda heading: render(small, task, spot, heading, FULL[:1], make_bar()))
        return draw(headings)

    assert seen(headings[:0]).shape == (0, 4, 5, 3)
    whole = jax.jit(seen)(headings)  # three tiles, overlapping
    part = jax.jit(seen)(headings[:65])  # two
    np.testing.assert_array_equal(part, whole[:65])


@pytest.mark.slow
def test_the_same_under_double_precision():
    views = random_views()[:6]
    tasks, positions, headings, visible, bars = zip(*views, strict=True)
    single = pictures(ODD, views)
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda v: v.astype(jnp.float64) if jnp.issubdtype(v.dtype, jnp.floating) else v,
            (stack(tasks), jnp.asarray(np.array(positions)), stack(bars)),
        )
        frames = jax.jit(jax.vmap(functools.partial(render, ODD)))(
            wide[0], wide[1], jnp.array(headings), jnp.stack(visible), wide[2]
        )
    assert frames.dtype == np.uint8
    assert np.mean(np.abs(np.asarray(frames).astype(int) - single).max(-1) <= 1) > 0.995


def test_frames_are_constants_to_gradients():
    task, small = make_task(PLAN, MARKS[:1], most=1), Camera(4, 5)

    def total(position):
        frame = render(small, task, position, jnp.float32(1), FULL[:1], make_bar())
        return frame.astype(jnp.float32).sum() + position.sum()

    grad = jax.jit(jax.grad(total))(jnp.array([3.0, 3.0]))
    np.testing.assert_array_equal(grad, [1, 1])


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a GPU has one program for all stages")
def test_the_stages_stay_apart():
    """Merged, all is computed for every pixel anew and the speed falls to a fraction."""
    tasks, positions, headings, visible, bars = zip(*random_views(), strict=True)
    arguments = np.array(positions, np.float32), np.array(headings, np.float32)
    lowered = program(ODD).lower(stack(tasks), *arguments, jnp.stack(visible), stack(bars))
    text = lowered.compile().as_text()
    # Rays, walls, records and pixels; the choice by beams; in three of its programs their words
    # and records.
    assert text.count(" conditional(") == 4 + 1 + 2 * 3
    # Along the rays, groups of frames, frames of a group, beams where there are many.
    assert text.count(" while(") == 4


def golden_views():
    """Rooms, corridors, beams, bars and a short view, from places that were picked by eye."""
    plain = make_task(PLAN, MARKS, 5)
    low = make_task(PLAN, MARKS, 5, wall_height=2.0, eye_height=1.2, view_range=6.0)
    wide = make_task(PLAN, MARKS, 5, cell_size=3.0, wall_height=5.0)
    command = make_bar(0.25, 0.75, (0, 255, 255))
    life = make_bar(0.1, 0.1 + 0.8 * 0.4, (255, 0, 0))
    visible = jnp.arange(8) != 1
    return [
        (plain, [3.0, 3.0], 0.0, FULL, command),
        (plain, [3.0, 3.0], np.pi / 2, FULL, command),
        (plain, [13.9, 2.6], 2.9, FULL, make_bar()),
        (low, [7.2, 10.7], 4.4, visible, life),
        (wide, [22.4, 7.0], 1.3, FULL, life),
    ]


@pytest.mark.parametrize("size", daily(["45x61"], CAMERAS))
def test_pictures_seen_before(size):
    camera = CAMERAS[size]
    """Written anew when `GPICLJAX_WRITE_GOLDEN` is set; then look at them."""
    views = golden_views()
    frames = pictures(camera, views)
    path = GOLDEN / f"maze_{camera.height}x{camera.width}.png"
    if "GPICLJAX_WRITE_GOLDEN" in os.environ:
        Image.fromarray(np.concatenate(list(frames), axis=1)).save(path)
    before = np.asarray(Image.open(path))
    before = np.stack(np.split(before, len(frames), axis=1))
    away = np.abs(before.astype(int) - frames).max(-1)
    # Sines of other processors may move the edge of a texel.
    assert np.mean(away <= 1) > 0.998
    for frame, view in zip(frames, views, strict=True):
        assert np.mean(np.abs(frame - look(camera, *view)).max(-1) <= 1) > 0.97
