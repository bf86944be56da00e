"""First-person frames of Maze World with everything on, at random continuous poses."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from benchmarks.timing import compile_program
from gpicljax.systems.maze_world.env import first_person

ROUNDS = 9
MAZES = 256


@functools.cache
def scene(resolution, num):
    """Mazes of 15 x 15 cells with ten landmarks, and poses anywhere in them, off the walls."""
    env = gpicljax.make("MazeWorld-v0", resolution=(resolution, resolution))
    keys = jax.random.split(jax.random.key(0), min(num, MAZES))
    tasks = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, env.default_params)
    tasks = jax.tree.map(lambda v: np.asarray(v)[np.arange(num) % len(keys)], tasks)
    rng = np.random.default_rng(1)
    free = [np.argwhere(~walls) for walls in tasks.walls]
    cells = np.stack([places[rng.integers(len(places))] for places in free])
    same = free[0][rng.integers(len(free[0]), size=num)]  # in the first maze
    within, heading = rng.uniform(0.15, 0.85, (num, 2)), rng.uniform(0, 2 * np.pi, num)
    size = float(tasks.cell_size[0])
    spots = [jnp.asarray(size * (chosen + within), jnp.float32) for chosen in (cells, same)]
    return jax.tree.map(jnp.asarray, tasks), *spots, jnp.asarray(heading, jnp.float32)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("num", [32, 256, 1024])
@pytest.mark.parametrize("mazes", ["a_maze_each", "one_maze"])
@pytest.mark.parametrize("resolution", [64, 128])
def test_frames(benchmark, one_core, resolution, mazes, num):
    camera = first_person.Camera(resolution, resolution)
    tasks, positions, same, headings = scene(resolution, num)
    bar = first_person.Bar(
        jnp.float32(0.25), jnp.float32(0.75), jnp.array([0, 255, 255], jnp.uint8)
    )
    visible = jnp.ones(tasks.landmarks.shape[-2], bool)

    def render(task, position, heading):
        return first_person.render(camera, task, position, heading, visible, bar)

    shared = mazes == "one_maze"
    if shared:
        tasks, positions = jax.tree.map(lambda v: v[0], tasks), same
    render_all = jax.vmap(render, (None if shared else 0, 0, 0))
    program, compile_s = compile_program(render_all, tasks, positions, headings)
    benchmark.extra_info["compile_cpu_s"] = compile_s
    repeats = max(1024 // num, 1)

    def run():
        for _ in range(repeats):
            jax.block_until_ready(program(tasks, positions, headings))

    run()
    benchmark.pedantic(run, rounds=ROUNDS)
    frames, times = repeats * num, benchmark.stats.stats
    benchmark.extra_info["frames_per_cpu_second"] = frames / times.median
    benchmark.extra_info["best_frames_per_cpu_second"] = frames / times.min
