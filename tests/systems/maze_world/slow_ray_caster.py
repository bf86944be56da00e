"""The picture that `first_person.render` describes, one ray after the other, in plain NumPy.

Also hand-made mazes to look at.
"""

import math

import jax.numpy as jnp
import numpy as np

from gpicljax.systems.maze_world.env import first_person, textures
from gpicljax.systems.maze_world.env.types import Task

WIDEST = 9


def make_task(plan, landmarks=(), seed=0, kinds=6, most=8, **geometry):
    """A maze from rows of `#` and `.` (x goes down, y to the right), walls textured at random."""
    n = len(plan)
    walls = np.ones((WIDEST, WIDEST), bool)
    walls[:n, :n] = np.array([[c == "#" for c in row] for row in plan])
    ids = np.random.default_rng(seed).integers(0, kinds, walls.shape)
    return from_arrays(walls, ids, landmarks, n, most, **geometry)


def from_arrays(walls, ids, landmarks, n, most=8, **geometry):
    cells = np.full((most, 2), -1, np.int32)
    cells[: len(landmarks)] = np.array(landmarks, np.int32).reshape(-1, 2)
    at = np.full(walls.shape, -1, np.int8)
    for index, cell in enumerate(landmarks):
        at[tuple(cell)] = index
    metres = {"cell_size": 2.0, "wall_height": 3.2, "eye_height": 1.6, "view_range": 12.0}
    whole = {name: jnp.int32(0) for name in ("ground", "ceiling", "horizon", "num_commands")}
    real = {name: jnp.float32(0) for name in ("step_reward", "goal_reward", "initial_life")}
    return Task(
        size=jnp.int32(n),
        walls=jnp.asarray(walls),
        textures=jnp.asarray(ids, jnp.uint8),
        landmarks=jnp.asarray(cells),
        landmark_at=jnp.asarray(at),
        num_landmarks=jnp.int32(len(landmarks)),
        landmark_rewards=jnp.zeros(most),
        start=jnp.array([1, 1], jnp.int32),
        refresh_interval=jnp.int32(0),
        max_life=jnp.float32(0),
        **{name: jnp.float32(value) for name, value in (metres | geometry).items()},
        **whole,
        **real,
    )


def make_bar(left=0.0, right=0.0, colour=(0, 0, 0)):
    colour = jnp.array(colour, jnp.uint8)
    return first_person.Bar(jnp.float32(left), jnp.float32(right), colour)


def borders(start, step, size, reach):
    """Depths at which a ray crosses borders of cells along one axis, up to `reach`."""
    if abs(step) < 1e-9:
        return []
    first = math.floor(start / size) + (1 if step > 0 else 0)
    ahead = [first + k * (1 if step > 0 else -1) for k in range(3 * WIDEST)]
    return [d for d in ((border * size - start) / step for border in ahead) if d < reach]


def look(camera, task, position, heading, visible, bar):
    """The picture, `float64[H, W, 3]`, not rounded."""
    chosen = textures.texture_set(camera.textures)
    ground, ceiling = chosen.grounds[int(task.ground)], chosen.ceilings[int(task.ceiling)]
    walls, ids, at = (np.asarray(v) for v in (task.walls, task.textures, task.landmark_at))
    size, tall, eye, reach = (
        float(v) for v in (task.cell_size, task.wall_height, task.eye_height, task.view_range)
    )
    px, py = (float(v) for v in position)
    height, width = camera.height, camera.width
    half = math.tan(math.radians(camera.field_of_view) / 2)
    picture = np.zeros((height, width, 3))

    def fog(distance):
        return min(max(2 * distance / reach - 1, 0), 1)

    def rows_at(depth):
        pixel = 2 * half / width
        top = height / 2 - (tall - eye) / depth / pixel
        bottom = height / 2 + eye / depth / pixel
        return math.floor(max(top, 0)), math.floor(min(max(bottom, 0), height))

    for h in range(width):
        t = half * (2 * h + 1 - width) / width
        rx = math.cos(heading) - t * math.sin(heading)
        ry = math.sin(heading) + t * math.cos(heading)
        stretch = math.sqrt(1 + t * t)
        crossings = [(d, 0) for d in borders(px, rx, size, 9 * reach)]
        crossings += [(d, 1) for d in borders(py, ry, size, 9 * reach)]
        cell, beams = [math.floor(px / size), math.floor(py / size)], []
        for depth, axis in sorted(crossings):
            cell[axis] += 1 if (rx, ry)[axis] > 0 else -1
            if walls[tuple(cell)] or depth * stretch >= reach:
                break
            if at[tuple(cell)] >= 0 and visible[at[tuple(cell)]]:
                beams.append((depth, at[tuple(cell)]))
        along = (py + ry * depth if axis == 0 else px + rx * depth) / size % 1
        if (axis == 0 and rx < 0) or (axis == 1 and ry > 0):
            along = 1 - along
        column = chosen.walls[ids[tuple(cell)]][:, min(int(64 * along), 63)]
        facing = abs((rx, ry)[axis]) / stretch
        top, bottom = rows_at(depth)
        for v in range(height):
            s = half * (2 * v + 1 - height) / width
            if top <= v < bottom:
                texel = column[int(64 * ((s * depth - eye) % 1)) % 64]
                picture[v, h] = facing * (1 - fog(depth * stretch)) * texel
                continue
            far = (eye if s > 0 else tall - eye) / max(abs(s), 1e-9)
            if far > reach:
                continue
            spot = int(64 * ((py + far * ry) % 1)) % 64, int(64 * ((px + far * rx) % 1)) % 64
            dim = fog(far * stretch)
            if s > 0:
                picture[v, h] = s * (1 - s * dim) * ground[spot]
            else:
                picture[v, h] = -s * (1 - dim) * ceiling[spot]
        for depth, landmark in reversed(beams):
            top, bottom = rows_at(depth)
            colour = (1 - fog(depth * stretch)) * textures.LANDMARK_COLOURS[landmark]
            picture[top:bottom, h] = 0.7 * picture[top:bottom, h] + 0.3 * colour
    first, last = height // 10, max(3 * height // 20, height // 10 + 1)
    left, right = (int(share * width + 1e-3) for share in (float(bar.left), float(bar.right)))
    picture[first:last, left:right] = np.asarray(bar.colour)
    return np.minimum(picture, 255)
