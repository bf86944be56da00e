"""Maze World: its rules step by step, its views, and what it refuses."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpicljax
from gpicljax.systems.maze_world.env import local_view, motion, overhead, textures

# Rows are y, columns are x; S is the start and digits are landmarks.
MAZE = (
    "#######",
    "#S.0..#",
    "#.###.#",
    "#.#1..#",
    "#.###.#",
    "#..2..#",
    "#######",
)
ROOM = ("#########", *["#.......#"] * 3, "#...S...#", *["#..0....#"] * 3, "#########")
STAY, LEFT, RIGHT, BACK, FORWARD = range(5)


def make(**static):
    return gpicljax.make("MazeWorld-v0", **{"size": 7, "view": "local", **static})


@functools.cache
def programs(env):
    return tuple(jax.jit(f) for f in (env.initial, env.transition, env.observe))


@functools.cache
def some_task():
    env = make()
    return jax.jit(env.sample_task)(jax.random.key(0), env.default_params)


def task_of(env, rows, **fields):
    """The task of a drawing."""
    letters = np.array([list(row) for row in rows]).T
    cells = {letter: np.argwhere(letters == letter) for letter in "S0123456789"}
    num_slots = env.max_landmarks
    landmarks = np.full((num_slots, 2), -1, np.int32)
    at = np.full(letters.shape, -1, np.int8)
    number = 0
    for i in range(num_slots):
        for x, y in cells.get(str(i), ()):
            landmarks[i], at[x, y], number = (x, y), i, i + 1
    drawn = {
        "walls": jnp.asarray(letters == "#"),
        "textures": jnp.asarray(np.arange(letters.size).reshape(letters.shape) % 6, jnp.uint8),
        "landmarks": jnp.asarray(landmarks),
        "landmark_at": jnp.asarray(at),
        "num_landmarks": jnp.int32(number),
        "landmark_rewards": jnp.linspace(-0.5, 1.0, num_slots, dtype=jnp.float32),
        "start": jnp.asarray(cells["S"][0], jnp.int32),
    }
    return some_task().replace(**(drawn | fields))


def go(env, task, actions, state=None, **fields):
    """The transitions of some actions from the start, or from a state."""
    initial, transition, _ = programs(env)
    state = state or initial(jax.random.key(1), task).replace(**fields)
    key, steps = jax.random.key(2), []
    for action in actions:
        dtype = jnp.float32 if env.actions == "continuous" else jnp.int32
        steps.append(transition(key, state, jnp.asarray(action, dtype), task))
        state = steps[-1].state
    return steps


def cells_of(env, task, steps):
    return [tuple(np.asarray(env.cell(s.state, task)).tolist()) for s in steps]


# Motion --------------------------------------------------------------------------------------


def test_turning_and_going_forward_and_back():
    env = make()
    task = task_of(env, MAZE)
    steps = go(env, task, [FORWARD, STAY, BACK, BACK, LEFT, RIGHT, RIGHT, FORWARD, FORWARD, LEFT])
    assert cells_of(env, task, steps) == [
        (2, 1), (2, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 2), (1, 3), (1, 3),
    ]  # fmt: skip
    headings = [float(s.state.heading) for s in steps]
    quarter = np.pi / 2
    expected = [0, 0, 0, 0, 3 * quarter, 0, quarter, quarter, quarter, 0]
    np.testing.assert_allclose(headings, expected, atol=1e-6)
    for step in steps:
        middle = (np.asarray(env.cell(step.state, task)) + 0.5) * 2.0
        np.testing.assert_allclose(step.state.position, middle, rtol=1e-6)


def test_four_right_turns_are_none_for_ever():
    env = make()
    task = task_of(env, MAZE)
    steps = go(env, task, [RIGHT] * 12)
    assert float(steps[3].state.heading) == float(steps[11].state.heading) == 0


def test_moves_reach_all_four_neighbours():
    env = make(actions="moves")
    task = task_of(env, MAZE)
    steps = go(env, task, [0, 2, 2, 1, 1, 1, 4, 4, 3, 3, 3])
    assert cells_of(env, task, steps) == [
        (1, 1), (2, 1), (3, 1), (2, 1), (1, 1), (1, 1), (1, 2), (1, 3), (1, 2), (1, 1), (1, 1),
    ]  # fmt: skip
    assert all(float(s.state.heading) == 0 for s in steps)
    assert env.action_space().n == 5


def test_continuous_motion_in_the_open_is_exact():
    env = make(actions="continuous", size=9)
    task = task_of(env, ROOM)
    start = np.array([9.0, 9.0])
    position = start.copy()
    heading = 0.0
    steps = go(env, task, [(0, 1), (0, -1), (0.5, 1), (-1, -3), (7, 0), (0, 0)])
    for (turn, speed), step in zip(
        [(0, 1), (0, -0.5), (0.5, 1), (-1, -0.5), (1, 0), (0, 0)], steps, strict=True
    ):
        for _ in range(10):
            middle = heading + turn * np.pi * 0.01 / 2
            position += speed * 0.01 * np.array([np.cos(middle), np.sin(middle)])
            heading += turn * np.pi * 0.01
        np.testing.assert_allclose(step.state.position, position, atol=1e-5)
        np.testing.assert_allclose(step.state.heading, heading % (2 * np.pi), atol=1e-5)
    assert np.degrees(float(steps[2].state.heading)) == pytest.approx(9, abs=1e-3)
    assert float(steps[0].state.position[0] - start[0]) == pytest.approx(0.1, abs=1e-5)


def literal_push(walls, position, size):
    """The pushes of all nine cells around, to the letter of the reference's rules."""
    radius, scaled = 0.2 / size, position / size
    total = np.zeros(2)
    cell = np.floor(scaled).astype(int)
    for offset in np.ndindex(3, 3):
        x, y = neighbour = cell + offset - 1
        if not walls[x, y]:
            continue
        d = scaled - (neighbour + 0.5)
        length = np.hypot(*d)
        if length > 0.708 + radius:
            continue
        if np.abs(d).max() < 0.5:
            total += 0.5 * (0.708 + radius - length) * size * d / length
            continue
        if abs(d[0]) > abs(d[1]):
            nearest = np.array([np.sign(d[0]) * 0.5, np.clip(d[1], -0.5, 0.5)])
        else:
            nearest = np.array([np.clip(d[0], -0.5, 0.5), np.sign(d[1]) * 0.5])
        gap = np.hypot(*(d - nearest))
        if gap < radius:
            total += 0.5 * (radius - gap) * size * (d - nearest) / gap
    return total


@pytest.mark.parametrize("size", [0.45, 2.0])
def test_walls_push_as_the_rules_say(size):
    rng = np.random.default_rng(0)
    walls = np.array([list(row) for row in MAZE]).T == "#"
    positions = rng.uniform(1.02, 5.98, (4000, 2)) * size
    pushes = jax.jit(jax.vmap(motion.push, (None, 0, None)))(
        jnp.asarray(walls), jnp.asarray(positions, jnp.float32), jnp.float32(size)
    )
    expected = np.array([literal_push(walls, p, size) for p in positions])
    assert (expected != 0).mean() > 0.2
    inside = walls[tuple(np.floor(positions / size).astype(int).T)]
    assert 0.2 < inside.mean() < 0.8
    np.testing.assert_allclose(pushes, expected, atol=2e-6, rtol=1e-4)


def test_an_agent_on_a_corner_or_in_the_middle_of_a_wall_stays_finite():
    walls = jnp.asarray(np.array([list(row) for row in MAZE]).T == "#")
    for position in (2.0, 2.0), (5.0, 5.0), (4.0, 4.0), (0.0, 0.0):
        assert np.isfinite(motion.push(walls, jnp.asarray(position), jnp.asarray(2.0))).all()


@pytest.mark.slow
def test_long_driving_never_enters_walls_and_keeps_its_heading_in_a_turn(key):
    env = make(size=9, actions="continuous")
    number, length = 64, 3000

    def play(key, params):
        task = env.sample_task(key, params)
        state = env.initial(key, task)
        # Pushing against walls for a while: each action is held for twenty steps.
        held = jax.random.uniform(key, (length // 20, 2), jnp.float32, -0.4, 0.4)
        held = held.at[:, 1].set(jnp.sign(held[:, 1] + 0.2))

        def step(state, action):
            state = env.transition(key, state, action, task).state
            inside = state.position / task.cell_size % 1
            x, y = env.cell(state, task)
            gaps = jnp.stack([inside, 1 - inside])
            solid = jnp.stack(
                [
                    jnp.stack([task.walls[x - 1, y], task.walls[x, y - 1]]),
                    jnp.stack([task.walls[x + 1, y], task.walls[x, y + 1]]),
                ]
            )
            gap = jnp.where(solid, gaps * task.cell_size, jnp.inf).min()
            return state, (task.walls[x, y], gap, state.heading, state.position)

        return jax.lax.scan(step, state, jnp.repeat(held, 20, axis=0))[1]

    run, keys = jax.jit(jax.vmap(play, (0, None))), jax.random.split(key, number)
    for cell_size in 0.45, 2.0:
        params = env.make_params(cell_size=cell_size, density=0.3)
        entered, gap, heading, position = run(keys, params)
        assert not entered.any()
        assert gap.min() > 0.15
        assert gap.min() < 0.2, "nobody touched a wall"
        assert (heading >= 0).all()
        assert (heading < 2 * np.pi).all()
        visited = jnp.floor(position / cell_size).astype(int)
        assert len(np.unique(visited[0], axis=0)) > 3


def test_headings_wrap_below_a_whole_turn():
    full = 2 * np.pi
    headings = jnp.asarray([0.0, full, -1e-9, -0.5, full + 0.5, 3 * full], jnp.float32)
    wrapped = motion.wrap_heading(headings)
    assert ((wrapped >= 0) & (wrapped < np.float32(full))).all()
    np.testing.assert_allclose(np.cos(wrapped), np.cos(headings), atol=1e-5)
    np.testing.assert_allclose(np.sin(wrapped), np.sin(headings), atol=1e-5)


# Navigation ----------------------------------------------------------------------------------


def test_an_arrival_is_worth_the_papers_reward():
    env = make(size=35)
    sizes = np.array([15, 25, 35, 15])
    grid = [env.make_params(size=n) for n in sizes[:3]]
    grid.append(env.make_params(size=15, goal_scale=2.0, step_reward=-0.1))
    params = jax.tree.map(lambda *x: jnp.stack(x), *grid)
    tasks = jax.jit(jax.vmap(env.sample_task))(jax.random.split(jax.random.key(0), 4), params)
    net = np.asarray(tasks.goal_reward + tasks.step_reward)
    np.testing.assert_allclose(net[:3], [0.57, 1.24, 2.06], atol=5e-3)
    goal = sizes**1.5 * [0.01, 0.01, 0.01, 0.2]
    np.testing.assert_allclose(tasks.goal_reward, goal, rtol=1e-5)
    # What lies beyond the size is wall, and nothing is there.
    assert (tasks.size == sizes).all()
    for n, walls, landmarks in zip(sizes, tasks.walls, tasks.landmarks, strict=True):
        assert walls[n - 1 :].all()
        assert walls[:, n - 1 :].all()
        assert ((landmarks > 0) & (landmarks < n - 1)).all()


def test_the_next_command_follows_in_the_step_of_the_arrival():
    env = make()
    task = task_of(env, MAZE, num_commands=jnp.int32(10_000))
    state = programs(env)[0](jax.random.key(1), task)
    # A script whose first commands are landmark 0 and then another one.
    for seed in range(1000):
        script = jax.random.bits(jax.random.key(seed), (2,), jnp.uint32)
        commands = [int(env.command(script, jnp.int32(i), task)) for i in range(2)]
        if commands == [0, 2]:
            break
    state = state.replace(script=script, command=jnp.int32(0))
    steps = go(env, task, [FORWARD, FORWARD, STAY, STAY], state)
    rewards = [float(s.reward) for s in steps]
    goal = 0.01 * 7**1.5
    np.testing.assert_allclose(rewards, [-0.01, goal - 0.01, -0.01, -0.01], atol=1e-6)
    assert [bool(s.info["reached"]) for s in steps] == [False, True, False, False]
    assert [int(s.state.command) for s in steps] == [0, 2, 2, 2]
    assert [int(s.state.command_index) for s in steps] == [0, 1, 1, 1]
    assert not any(s.terminated or s.truncated for s in steps)


def test_a_repeated_command_pays_again_and_the_last_one_ends_the_episode():
    env = make()
    task = task_of(env, ("#######", "#S0...#", *MAZE[2:]), num_commands=jnp.int32(3))
    task = task.replace(num_landmarks=jnp.int32(1))
    steps = go(env, task, [FORWARD, STAY, STAY])
    assert all(float(s.reward) > 0.1 for s in steps)
    assert [bool(s.terminated) for s in steps] == [False, False, True]
    assert [int(s.state.command_index) for s in steps] == [1, 2, 3]


def test_episodes_are_truncated_at_the_horizon():
    env = make()
    task = task_of(env, MAZE, horizon=jnp.int32(3))
    steps = go(env, task, [STAY] * 3)
    assert [bool(s.truncated) for s in steps] == [False, False, True]
    assert [int(s.state.steps) for s in steps] == [1, 2, 3]
    assert not any(s.terminated for s in steps)


def test_commands_are_uniform_independent_and_follow_from_the_script():
    env = make(max_landmarks=5)
    task = task_of(env, MAZE).replace(num_landmarks=jnp.int32(5))
    scripts = jax.random.bits(jax.random.key(0), (400, 2), jnp.uint32)
    script_commands = jax.vmap(env.command, (None, 0, None))
    all_commands = jax.jit(jax.vmap(script_commands, (0, None, None)))
    commands = np.asarray(all_commands(scripts, jnp.arange(100, dtype=jnp.int32), task))
    pairs = np.bincount((5 * commands[:, :-1] + commands[:, 1:]).ravel(), minlength=25)
    assert stats.chisquare(pairs).pvalue > 1e-3
    assert stats.chisquare(np.bincount(commands[:, 0], minlength=5)).pvalue > 1e-3
    assert (all_commands(scripts, jnp.arange(100, dtype=jnp.int32), task) == commands).all()
    fewer = np.asarray(all_commands(scripts, jnp.arange(9, dtype=jnp.int32), task_of(env, MAZE)))
    assert set(fewer.ravel()) == {0, 1, 2}


# Survival ------------------------------------------------------------------------------------


def survival_task(env, **fields):
    values = jnp.asarray([0.5, -0.4, 0.25], jnp.float32)
    rows = ("#######", "#S0...#", *MAZE[2:])
    number = {"landmark_rewards": values, "refresh_interval": jnp.int32(3)}
    return task_of(env, rows, **(number | fields))


def test_a_landmark_pays_its_value_once_and_again_after_the_interval():
    env = make(mode="survival", max_landmarks=3)
    task = survival_task(env)
    steps = go(env, task, [FORWARD, STAY, STAY, STAY, STAY])
    np.testing.assert_allclose([float(s.reward) for s in steps], [0.5, 0, 0, 0.5, 0], atol=1e-6)
    assert [int(s.state.countdown[0]) for s in steps] == [3, 2, 1, 3, 2]
    life = np.cumsum([0.49, -0.01, -0.01, 0.49, -0.01]) + 1
    np.testing.assert_allclose([float(s.state.life) for s in steps], life, atol=1e-5)
    active_landmarks = [np.asarray(env.active(s.state, task)).tolist() for s in steps]
    assert active_landmarks[0] == [False, True, True]
    assert [bool(s.info["reached"]) for s in steps] == [True, False, False, True, False]


def test_life_has_a_greatest_value_and_ends_below_zero():
    env = make(mode="survival", max_landmarks=3)
    rich = go(env, survival_task(env), [FORWARD], life=jnp.float32(2.9))
    assert float(rich[0].state.life) == 3.0
    poor = survival_task(env, landmark_rewards=jnp.asarray([-0.4, 0, 0], jnp.float32))
    dead = go(env, poor, [STAY, FORWARD], life=jnp.float32(0.4))
    assert [bool(s.terminated) for s in dead] == [False, True]
    tired = go(env, survival_task(env), [STAY, STAY], life=jnp.float32(0.015))
    assert [bool(s.terminated) for s in tired] == [False, True]
    assert [float(s.reward) for s in tired] == [0, 0]


# Tasks ---------------------------------------------------------------------------------------


def test_textures_lengths_and_values_are_drawn_uniformly(key):
    env = make(size=15)
    params = env.make_params(view_range=(4.0, 12.0), mean_landmark_reward=0.1)
    tasks = jax.jit(jax.vmap(env.sample_task, (0, None)))(jax.random.split(key, 500), params)
    number = len(textures.texture_set("default").walls)
    counts = np.bincount(np.asarray(tasks.textures).ravel(), minlength=number)
    assert len(counts) == number
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.kstest(np.asarray(tasks.view_range), stats.uniform(4, 8).cdf).pvalue > 1e-3
    values = np.asarray(tasks.landmark_rewards).ravel()
    assert stats.kstest(values, stats.uniform(-0.4, 1).cdf).pvalue > 1e-3
    assert (tasks.cell_size == 2).all()


def test_a_maze_in_larger_arrays_is_the_same_maze(key):
    small, large = make(size=7), make(size=11)
    tasks = [some_task()]
    grown = {
        "walls": jnp.pad(tasks[0].walls, (0, 4), constant_values=True),
        "textures": jnp.pad(tasks[0].textures, (0, 4)),
        "landmark_at": jnp.pad(tasks[0].landmark_at, (0, 4), constant_values=-1),
    }
    tasks.append(tasks[0].replace(**grown))
    actions = jax.random.randint(key, (200,), 0, 5)

    def play(env, task):
        def step(state, action):
            moved = env.transition(key, state, action, task)
            return moved.state, (moved, env.observe(moved.state, task))

        return jax.lax.scan(step, env.initial(key, task), actions)[1]

    small_steps, large_steps = (
        jax.jit(functools.partial(play, env))(task)
        for env, task in zip((small, large), tasks, strict=True)
    )
    jax.tree.map(np.testing.assert_array_equal, small_steps, large_steps)


def test_a_blueprint_is_walls_and_nothing_else(key):
    env = make(size=7)
    maze_key, key = jax.random.split(key)

    def starts(params):
        maze = env.sample_blueprint(maze_key, params)
        return jax.vmap(env.start, (0, None, None))(jax.random.split(key, 8), maze, params)

    tasks, states = jax.jit(starts)(env.default_params)
    assert (tasks.walls == tasks.walls[0]).all()
    for leaf in (tasks.landmarks, tasks.textures, tasks.start, states.script):
        assert len(np.unique(np.asarray(leaf).reshape(8, -1), axis=0)) > 1
    positions = (np.asarray(tasks.start) + 0.5) * 2
    np.testing.assert_allclose(states.position, positions)


# Views ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1, 3])
def test_the_local_view_shows_the_cells_around_whatever_lies_outside(radius):
    env = make(local_radius=radius, max_landmarks=3)
    task = task_of(env, MAZE)
    state = programs(env)[0](jax.random.key(0), task).replace(command=jnp.int32(2))
    observe = programs(env)[2]
    walls, at = np.asarray(task.walls), np.asarray(task.landmark_at)
    for cell in np.argwhere(~walls):
        position = jnp.asarray((cell + 0.5) * 2.0, jnp.float32)
        picture = observe(state.replace(position=position), task)
        assert picture.shape == (2 * radius + 1, 2 * radius + 1, 3)
        for dx, dy in np.ndindex(picture.shape[:2]):
            x, y = cell + (dx - radius, dy - radius)
            if (dx, dy) == (radius, radius):
                expected = textures.LANDMARK_COLOURS[2]
            elif not (0 <= x < 7 and 0 <= y < 7) or walls[x, y]:
                expected = (0, 0, 0)
            elif at[x, y] >= 0:
                expected = textures.LANDMARK_COLOURS[at[x, y]]
            else:
                expected = (255, 255, 255)
            assert picture[dx, dy].tolist() == list(expected), (cell, dx, dy)


def test_the_local_view_of_survival_shows_life_and_hides_what_does_not_count():
    env = make(mode="survival", max_landmarks=3)
    task = survival_task(env)
    state = programs(env)[0](jax.random.key(0), task)
    green = textures.LANDMARK_COLOURS[0].tolist()
    observe = programs(env)[2]
    assert observe(state, task)[2, 1].tolist() == green
    assert observe(state, task)[1, 1].tolist() == [255, 127, 127]
    state = state.replace(countdown=jnp.asarray([2, 0, 0], jnp.int32), life=jnp.float32(3))
    assert observe(state, task)[2, 1].tolist() == [255, 255, 255]
    assert observe(state, task)[1, 1].tolist() == [255, 0, 0]
    assert local_view.life_colour(jnp.float32(-0.2)).tolist() == [255, 255, 255]


def test_a_picture_follows_from_pose_command_and_task_alone(key):
    env = make(view="first_person", resolution=(40, 40))
    initial, _, observe = programs(env)
    state = initial(key, some_task()).replace(heading=jnp.float32(0.4))
    observation = observe(state, some_task())
    assert observation.shape == (40, 40, 3)
    assert len(np.unique(observation)) > 10
    other_state = initial(jax.random.key(9), some_task()).replace(
        position=state.position,
        heading=state.heading,
        command=state.command,
        steps=jnp.int32(7),
        life=jnp.float32(0.1),
    )
    np.testing.assert_array_equal(observation, observe(other_state, some_task()))
    elsewhere = other_state.replace(position=state.position + 0.3)
    assert (observation != observe(elsewhere, some_task())).any()


def test_bars_show_the_command_and_what_is_left_of_life(key):
    env = make(view="first_person", resolution=(40, 40))
    task = some_task()
    state = programs(env)[0](key, task).replace(command=jnp.int32(4))
    row = np.asarray(programs(env)[2](state, task))[5]
    magenta = (row == textures.LANDMARK_COLOURS[4]).all(-1)
    assert magenta.tolist() == [10 <= column < 30 for column in range(40)]
    observe = programs(dataclasses.replace(env, mode="survival"))[2]
    for life, until in ((1.5, 20), (3.0, 36), (0.0, 4), (-0.1, 4)):
        row = np.asarray(observe(state.replace(life=jnp.float32(life)), task))[5]
        red = (row == (255, 0, 0)).all(-1)
        assert red.tolist() == [4 <= column < until for column in range(40)], life


def test_the_pose_is_an_option(key):
    env = make(with_pose=True, actions="continuous")
    task = some_task()
    state = programs(env)[0](key, task).replace(heading=jnp.float32(0.5))
    observation = programs(env)[2](state, task)
    assert set(observation) == {"image", "pose"}
    expected = [*np.asarray(state.position), np.cos(0.5), np.sin(0.5)]
    np.testing.assert_allclose(observation["pose"], expected, rtol=1e-6)


def test_what_experts_are_told():
    env = make(max_landmarks=4, mode="survival", view="first_person")
    task = task_of(env, MAZE)
    state = programs(env)[0](jax.random.key(0), task)
    state = state.replace(countdown=jnp.asarray([0, 5, 0, 0], jnp.int32))
    privileged = jax.jit(env.privileged)(state, task)
    assert privileged["cell"].tolist() == [1, 1]
    assert privileged["position"].tolist() == [1.5, 1.5]
    assert privileged["active"].tolist() == [True, False, True, False]
    assert privileged["exposed"][1:5, 1].all()
    assert not privileged["exposed"][3, 3]
    kinds = {
        "walls": ((7, 7), bool),
        "cell": ((2,), jnp.int32),
        "position": ((2,), state.life.dtype),
        "heading": ((), state.life.dtype),
        "exposed": ((7, 7), bool),
        "command": ((), jnp.int32),
        "landmarks": ((4, 2), jnp.int32),
        "landmark_at": ((7, 7), jnp.int8),
        "active": ((4,), bool),
        "landmark_rewards": ((4,), state.life.dtype),
        "countdown": ((4,), jnp.int32),
        "step_reward": ((), state.life.dtype),
        "life": ((), state.life.dtype),
    }
    assert {name: (x.shape, x.dtype) for name, x in privileged.items()} == kinds
    assert privileged["landmarks"].min() >= -1 and privileged["landmarks"].max() <= 6
    assert privileged["landmark_at"].min() >= -1 and privileged["landmark_at"].max() <= 3


def test_experts_see_by_rays_of_their_own_whatever_the_resolution():
    env = make(max_landmarks=3, view="first_person", rays=1)
    task = task_of(env, MAZE)
    state = programs(make(max_landmarks=3))[0](jax.random.key(0), task)
    ahead = np.zeros((7, 7), bool)
    ahead[1:, 1] = True  # the way to the wall, and the wall
    np.testing.assert_array_equal(jax.jit(env.visible_cells)(state, task), ahead)
    wider = dataclasses.replace(env, resolution=(9, 99))
    written = [str(jax.make_jaxpr(x.visible_cells)(state, task)) for x in (env, wider)]
    assert written[0] == written[1] and gpicljax.make("MazeWorld-v0").rays == 128


def test_the_map_shows_walls_landmarks_target_and_agent():
    env = make(max_landmarks=3)
    task = task_of(env, MAZE)
    state = programs(env)[0](jax.random.key(0), task).replace(command=jnp.int32(1))
    picture = np.asarray(jax.jit(env.render)(state, task)).astype(int)
    pixels = overhead.pixels_per_cell(7)
    assert picture.shape == (7 * pixels, 7 * pixels, 3)

    def at(x, y):
        column, row = (np.array([x, y]) * pixels).astype(int)
        return picture[row, column]

    means = overhead.wall_colours("default")
    for x, y in np.ndindex(7, 7):
        landmark = int(task.landmark_at[x, y])
        if task.walls[x, y]:
            expected = means[task.textures[x, y]]
        elif (x, y) == (1, 1):
            expected = overhead.INK
        elif landmark >= 0:
            expected = textures.LANDMARK_COLOURS[landmark]
        else:
            expected = overhead.FLOOR
        np.testing.assert_allclose(at(x + 0.5, y + 0.5), expected, atol=1)
    # A light ring around the target only; the tip of the arrow shows the heading.
    np.testing.assert_allclose(at(3.5, 3.5 + 0.365), overhead.PAPER, atol=1)
    np.testing.assert_allclose(at(3.5, 5.5 + 0.365), overhead.FLOOR, atol=1)
    assert at(1.5 + 0.4, 1.5).sum() < 90
    assert at(1.5 - 0.4, 1.5).sum() > 600


def test_words():
    env = make(max_landmarks=3)
    task = task_of(env, MAZE)
    state = programs(env)[0](jax.random.key(0), task).replace(command=jnp.int32(1))
    # Neither where the agent is nor where landmarks are, unless the pose is observed.
    text = "step 0 of 2048, go to red, 0 reached so far"
    assert env.describe(state, task) == text
    x, y = (float(z) for z in state.position)
    turned = state.replace(heading=jnp.float32(np.pi / 2))
    text += f", at ({x:.2f}, {y:.2f}) m, heading 90 degrees"
    assert dataclasses.replace(env, with_pose=True).describe(turned, task) == text
    env = make(max_landmarks=3, mode="survival", actions="continuous")
    description = env.describe(state, survival_task(env))
    assert description == "step 0 of 2048, life 1.00 of 3.00"


# Bad input -----------------------------------------------------------------------------------


def test_what_is_feasible_is_accepted():
    env = gpicljax.make("MazeWorld-v0", size=41, max_landmarks=15)
    for density in 0.0, 0.99:
        assert float(env.make_params(density=density).density) == np.float32(density)
    assert int(env.make_params(size=7, density=0.99).num_landmarks) == 10
    assert env.make_params(cell_size=0.3).cell_size.tolist() == pytest.approx([0.3, 0.3])


def test_more_landmarks_than_open_cells_are_refused():
    # The smallest maze has 17 open cells, more than there can be landmarks: the check is for
    # whoever raises that cap.
    from gpicljax.systems.maze_world.env import distribution

    params = distribution.default_params(7, 17).replace(num_landmarks=jnp.int32(17))
    with pytest.raises(ValueError, match="17 open cells, of which one is the start"):
        distribution.check(params, 7, 17, continuous=False)
