"""Stored demonstrations are the trajectories that were made, down to the pixel."""

import dataclasses
import re
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax import vector
from gpicljax.data import shards
from gpicljax.data.shards import ShardReader, StoreMismatchError
from gpicljax.interface import Agent
from gpicljax.systems.maze_world import data as maze_world
from gpicljax.systems.maze_world.data import stored
from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    advice,
    frames,
    states_of,
    task_of,
)
from gpicljax.systems.maze_world.data.sequences import sample_frames
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.experts.privileged import privileged_agent

SETTINGS = Demonstration(length=40)
BATCH = 8
PAPER = ("navigation", "discrete")
LOCAL = {"view": "local", "local_radius": 2}


class Made(NamedTuple):
    """An environment, two distributions, episodes, their tasks, what makes and renders episodes."""

    env: Any
    params: Any
    episodes: MazeTrajectory
    tasks: Any
    run: Any
    replay: Any


@cache
def make_env(**static):
    options = {"size": 9, "max_landmarks": 3, "resolution": (16, 24)}
    return gpicljax.make("MazeWorld-v0", **options | static)


@cache
def made(mode, actions):
    env = make_env(mode=mode, actions=actions)
    # The second one's episodes end early: with the first arrival, or for want of life.
    short = {"size": 7, "num_commands": 1, "initial_life": 0.1, "mean_landmark_reward": 0.1}
    params = env.make_params(num_landmarks=2), env.make_params(num_landmarks=2, **short)
    sample = jax.jit(lambda key: maze_world.sample_trajectories(key, env, params, BATCH, SETTINGS))
    episodes, tasks = sample(jax.random.key(5))

    @jax.jit
    def replay(episode):
        task = task_of(env, params, episode)
        states = states_of(env, task, episode)
        return task, frames(env, task, episode), advice(jax.random.key(0), env, task, states)

    return Made(env, params, episodes, tasks, lambda key: sample(key)[0], replay)


def one(episodes, i):
    return jax.tree.map(lambda x: x[i], episodes)


KINDS = [
    PAPER,
    ("navigation", "continuous"),
    ("navigation", "moves"),
    ("survival", "discrete"),
    ("survival", "continuous"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "actions"), KINDS)
def test_replays_to_the_same_pixels(mode, actions):
    env, _, episodes, _, _, replay = made(mode, actions)
    root = jax.random.split(jax.random.key(5), 4)[3]
    first_keys = [
        jax.random.fold_in(jax.random.fold_in(root, i), vector._FIRST) for i in range(BATCH)
    ]
    space = env.action_space()
    dtype = jax.eval_shape(space.sample, jax.random.key(0)).dtype

    @jax.jit
    def live(key, task, actions):
        """The same episode, lived through with the environment alone."""

        def step(state, action):
            observation = env.observe(state, task)
            moved = env.transition(jax.random.key(0), state, action.astype(dtype), task)
            return moved.state, (observation, moved.reward, moved.terminated | moved.truncated)

        last, lived = jax.lax.scan(step, env.initial(key, task), actions)
        return last, lived

    lengths = []
    for i in range(BATCH):
        task, replayed, _ = replay(one(episodes, i))
        length, choice = int(episodes.length[i]), int(episodes.distribution[i])
        assert int(task.size) == (9, 7)[choice]
        _, (observations, reward, over) = live(first_keys[i], task, episodes.action[i])
        lengths.append(length)
        observations, over = np.asarray(observations), np.asarray(over)
        assert observations.dtype == np.uint8 and observations.std() > 10
        assert replayed.shape == (SETTINGS.length + 1, 16, 24, 3)
        assert np.array_equal(replayed[:length], observations[:length])
        lived = np.asarray(reward, np.float32)
        assert np.array_equal(episodes.reward[i][:length], lived[:length])
        assert over.argmax() + 1 == length if over.any() else length == SETTINGS.length
        assert (np.asarray(episodes.reward[i][length:]) == 0).all()
        after = np.asarray(episodes.pose[i][:, length:])
        assert (after == after[:, :1]).all()
    assert max(lengths) == SETTINGS.length
    if (mode, actions) != ("navigation", "continuous"):  # in which a cell takes twenty steps
        assert min(lengths) < SETTINGS.length
    assert len(np.unique(episodes.distribution)) == 2
    changing = episodes.active if mode == "survival" else episodes.command
    assert len(np.unique(changing)) > 1


def test_labels_are_the_advice_of_an_agent_that_forgets_nothing():
    _, _, episodes, tasks, _, replay = made(*PAPER)
    for i in range(BATCH):
        task, _, (actions, maps) = replay(one(episodes, i))
        # The tasks that come with episodes are those that their keys make.
        jax.tree.map(np.testing.assert_array_equal, one(tasks, i), task)
        length = int(episodes.length[i])
        assert np.array_equal(actions[:length], episodes.label[i][:length])
        maps = np.asarray(maps)
        assert maps.shape == (SETTINGS.length + 1, 9, 9)
        assert (maps[1:] >= maps[:-1]).all() and maps[-1].sum() > maps[0].sum() > 0
        cells = np.asarray(episodes.pose[i][:2]).T
        assert maps[np.arange(len(cells)), cells[:, 0], cells[:, 1]].all()
        assert not np.asarray(task.walls)[cells[:, 0], cells[:, 1]].any()


def test_demonstrators_see_what_the_environment_says():
    """In the local view a window, by which a spy beside the one that acts labels."""
    env, params = make_env(**LOCAL), made_params()
    weights = np.random.default_rng(0).integers(0, 200, (9, 9))

    def spy(keys, params, carry, timestep):
        return (timestep.privileged["exposed"] * weights).sum((1, 2)) % 251, {}, carry

    @jax.jit
    def run(key):
        labeller = Agent(lambda batch: (), spy)
        return maze_world.sample_trajectories(key, env, params, BATCH, SETTINGS, labeller=labeller)[
            0
        ]

    episodes = run(jax.random.key(2))
    cells = np.asarray(episodes.pose)[:, :2, :-1, None, None].astype(int)
    x, y = np.indices((9, 9))
    shown = np.maximum(abs(x - cells[:, 0]), abs(y - cells[:, 1])) <= 2
    assert np.array_equal(episodes.label, (shown * weights).sum((2, 3)) % 251)
    assert len(np.unique(episodes.label)) > BATCH


def test_any_agent_acts_in_a_set_of_tasks_while_a_teacher_labels_what_it_visits():
    env, params = make_env(**LOCAL), made_params()
    teacher = privileged_agent(env, 1.0)

    def read(keys, params, time, timestep):
        shown = timestep.observation.astype(jnp.int32).sum((1, 2, 3))
        return (shown + time + params) % 5, {}, time + 1

    def contradict(keys, params, memory, timestep):
        action, aux, memory = teacher.act(keys, params, memory, timestep)
        return 4 - action, aux, memory

    @jax.jit
    def run(key, first, task_set):
        episodes, tasks = maze_world.sample_trajectories(
            key,
            env,
            params,
            BATCH,
            SETTINGS,
            actor=Agent(lambda batch: jnp.zeros(batch, jnp.int32), read),
            actor_params=first,
            labeller=Agent(teacher.initial_carry, contradict),
            tasks=task_set,
        )

        def replay(task, episode):
            advised, _ = advice(key, env, task, states_of(env, task, episode))
            return frames(env, task, episode), advised[:-1]

        return episodes, tasks, *jax.vmap(replay)(tasks, episodes)

    task_set = gpicljax.TaskSet.create(jax.random.key(4), 3)
    episodes, tasks, shown, advised = run(jax.random.key(3), jnp.int32(2), task_set)
    # The agent saw what is rendered of its poses, and no chance replaced what it chose.
    expected = np.asarray(shown)[:, :-1].astype(int).sum((2, 3, 4)) + np.arange(SETTINGS.length)
    assert np.array_equal(episodes.action, (expected + 2) % 5)
    assert np.array_equal(episodes.label, 4 - advised)
    assert len(np.unique(episodes.action)) == 5 and len(np.unique(episodes.label)) > 1
    assert (episodes.probability == -1).all()
    assert not (episodes.epsilon.any() or episodes.decay.any())
    # Of three mazes, each is the same again and again.
    walls = {}
    for key, maze in zip(np.asarray(episodes.task).tolist(), tasks.walls, strict=True):
        walls.setdefault(tuple(key), []).append(np.asarray(maze))
    assert 1 < len(walls) <= 3
    assert set(walls) <= {tuple(key) for key in jax.random.key_data(task_set.keys).tolist()}
    assert all((maze == mazes[0]).all() for mazes in walls.values() for maze in mazes)


def test_draws_are_within_their_ranges_and_random_actions_act():
    keys = jax.random.split(jax.random.key(1), 64)
    episodes = jax.tree.map(lambda *x: np.concatenate(x), *map(made(*PAPER).run, keys))
    assert episodes.action.shape == (64 * BATCH, SETTINGS.length)
    for name, most in (("probability", 0.5), ("epsilon", 0.8), ("decay", 1.0)):
        drawn = getattr(episodes, name)
        assert drawn.min() >= 0 and 0.95 * most < drawn.max() <= most
        assert abs(drawn.mean() - most / 2) < 4 * most / np.sqrt(12 * drawn.size)
    assert len(np.unique(episodes.task, axis=0)) == 64 * BATCH
    # Only chance goes backwards: a fifth of the random actions, of which there are
    # epsilon (1 - u t / T) at step t. Episodes are independent.
    assert not (episodes.label == 3).any()
    time = np.arange(SETTINGS.length) / SETTINGS.length
    expected = episodes.epsilon[:, None] * (1 - episodes.decay[:, None] * time) / 5
    alive = np.arange(SETTINGS.length) < episodes.length[:, None]
    for steps in (slice(0, 20), slice(20, 40)):
        difference = (((episodes.action == 3) - expected) * alive)[:, steps].mean(1)
        assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(difference.size)
    turned = episodes.pose[:, 2, :-1] != episodes.pose[:, 2, 1:]
    moved = (episodes.pose[:, :2, :-1] != episodes.pose[:, :2, 1:]).any(1)
    back, forward = (episodes.action == 3) & alive, (episodes.action == 4) & alive
    assert not turned[back | forward].any()
    assert moved[back].mean() > 0.1 and moved[forward].mean() > 0.5
    assert turned[((episodes.action == 1) | (episodes.action == 2)) & alive].all()


@pytest.mark.slow
def test_without_noise_the_best_agent_follows_its_own_advice():
    env, params, *_ = made(*PAPER)
    settings = dataclasses.replace(SETTINGS, probability=(1.0, 1.0), epsilon=(0.0, 0.0))
    run = jax.jit(lambda key: maze_world.sample_trajectories(key, env, params, BATCH, settings))
    episodes, _ = run(jax.random.key(2))
    assert np.array_equal(episodes.action, episodes.label)


def test_collects_goes_on_and_renders_pieces_in_a_batch(tmp_path, monkeypatch):
    env, params, _, _, run, replay = made(*PAPER)
    reports = []
    arguments = tmp_path / "store", 7, env, params
    options = {"episodes": BATCH + 1, "episodes_per_shard": BATCH, "settings": SETTINGS}
    monkeypatch.setattr(stored, "_compile", lambda *_: run)

    def append_and_fail(self, records):
        append(self, records)
        raise OSError("pulled the plug")

    append = shards.ShardWriter.append
    with monkeypatch.context() as patch:
        patch.setattr(shards.ShardWriter, "append", append_and_fail)
        with pytest.raises(OSError, match="plug"):
            maze_world.collect_trajectories(*arguments, **options)
    maze_world.collect_trajectories(*arguments, **options, report=lambda *x: reports.append(x))
    assert reports == [(1, 2), (2, 2)]
    maze_world.collect_trajectories(*arguments, **options, report=lambda *x: reports.append(x))
    assert reports[2:] == [(2, 2)]
    with pytest.raises(StoreMismatchError, match=r"seed: 7 -> 8"):
        maze_world.collect_trajectories(tmp_path / "store", 8, env, params, **options)

    reader = ShardReader(tmp_path / "store")
    assert len(reader) == 2 * BATCH
    second = run(jax.random.fold_in(jax.random.key(7), 1))
    assert np.array_equal(reader.read(np.arange(BATCH, 2 * BATCH))["pose"], second.pose)
    restored_env, choices, settings = stored.from_metadata(reader.about)
    assert restored_env == env and settings == SETTINGS
    before = {name: x for name, x in reader.about["static"].items() if name != "rays"}
    assert stored.from_metadata({**reader.about, "static": before})[0] == env
    jax.tree.map(np.testing.assert_array_equal, choices, params)

    batch = MazeTrajectory(**next(reader.batches(3, seed=0)))
    piece = batch._replace(pose=batch.pose[:, :, 5:9], command=batch.command[:, 5:9])
    tasks, whole = [], []
    for i in range(3):
        task, pictures, _ = replay(one(batch, i))
        tasks.append(task)
        whole.append(pictures)
    tasks = jax.tree.map(lambda *x: jnp.stack(x), *tasks)
    render = jax.jit(jax.vmap(lambda task, episode: frames(restored_env, task, episode)))
    assert np.array_equal(render(tasks, piece), np.stack(whole)[:, 5:9])


def test_what_stored_episodes_fit(tmp_path):
    env, params = make_env(), made_params()
    about = stored.metadata(env, params, SETTINGS)
    with shards.ShardWriter(tmp_path, about):
        about = ShardReader(tmp_path).about
    # Frames are rendered from poses: other views will do.
    other_views = {"view": "local", "resolution": (8, 8), "textures": "random-64", "rays": 16}
    stored.check_fits(about, make_env(**other_views, with_pose=True, field_of_view=90.0))
    for name, value in {
        "mode": "survival",
        "actions": "continuous",
        "size": 11,
        "max_landmarks": 4,
    }.items():
        own_value = re.escape(repr(getattr(env, name)))
        with pytest.raises(ValueError, match=f"env.{name}: got .*{value}.*; accepted: {own_value}"):
            stored.check_fits(about, make_env(**{name: value}))
    with pytest.raises(ValueError, match="the card of Maze World's demonstrations"):
        stored.check_fits({"seed": 3}, env)


STEPS = np.zeros((4, 16), np.uint8)
STILL = {
    "distribution": np.zeros(4, np.uint8),
    "length": np.full(4, 16, np.int32),
    "pose": np.ones((4, 3, 17), np.uint8),
    "action": STEPS,
    "label": STEPS,
    "reward": STEPS.astype(np.float32),
}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("action", STEPS + 99, "action: got uint8.4, 16.; accepted: integers within 0 .. "),
        ("label", STEPS + 99, "label: got"),
        ("action", STEPS[:, :4], "action: got .* with 16 on axis 1"),
        ("pose", np.ones((4, 3, 16), np.uint8), "pose: got .* with 17 on axis -1"),
        ("reward", np.full((4, 16), np.nan, np.float32), "reward: got .* finite"),
        ("distribution", np.ones(4, np.uint8), "distribution: got .* 0 .. 0"),
        ("length", np.full(4, 17, np.int32), "length: got .* 0 .. 16"),
        ("thought", STEPS, "path: got .*thought"),
    ],
)
def test_episodes_that_cannot_have_happened_are_refused(name, value, words, tmp_path):
    env, settings = MazeWorld(size=7, max_landmarks=4), Demonstration(length=16)
    about = stored.metadata(env, env.default_params, settings)
    for folder, records in (("whole", STILL), ("odd", STILL | {name: value})):
        with shards.ShardWriter(tmp_path / folder, about) as writer:
            writer.append(records)
    assert stored.stored_episodes(tmp_path / "whole", env, 16)[0].action.shape == (4, 16)
    with pytest.raises(ValueError, match=words):
        stored.stored_episodes(tmp_path / "odd", env, 16)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: Demonstration(length=0), "length"),
        (lambda: Demonstration(epsilon=(0.5, 0.2)), "epsilon"),
        (lambda: Demonstration(probability=(0.0, 1.2)), "probability"),
        (lambda: Demonstration(label_probability=2.0), "label_probability"),
        (lambda: make(params=()), "params"),
        (lambda: make(episodes=0), "episodes"),
        (lambda: make(generated=jnp.zeros(2)), "generated"),
        (lambda: make(actor_params=jnp.zeros(3)), "actor_params: got float32[3]"),
        (lambda: make(params=made_params(horizon=10)), "horizon: got 10"),
        (lambda: stored.from_metadata({"static": {}}), "about"),
        (
            lambda: maze_world.collect_trajectories("x", 0, make_env(), made_params(), episodes=0),
            "episodes",
        ),
    ],
)
def test_bad_input_is_refused(call, word):
    with pytest.raises(ValueError, match="accepted") as raised:
        call()
    assert word in str(raised.value)


def made_params(**overrides):
    return make_env().make_params(num_landmarks=2, **overrides)


def make(params=None, episodes=2, **others):
    params = made_params() if params is None else params
    key = jax.random.key(0)
    return maze_world.sample_trajectories(key, make_env(), params, episodes, SETTINGS, **others)


def test_glances_show_every_command_before_and_after_a_step():
    env = gpicljax.make("MazeWorld-v0", size=7, max_landmarks=3, resolution=(32, 32))
    params = env.make_params(num_landmarks=3)
    views = jax.device_get(
        jax.jit(lambda key: sample_frames(key, env, params, 2, 24))(jax.random.key(0))
    )
    # The bar above has the colour of what is commanded.
    bars = [{tuple(frame[3, 16]) for frame in picture.reshape(-1, 32, 32, 3)} for picture in views]
    assert bars[0] == bars[1] and len(bars[0]) == 3
    np.testing.assert_array_equal(views.after[:, :, 3, 16], views.before[:, :, 3, 16])
    changed = (views.after != views.before).any((2, 3, 4))
    assert 0 < changed.mean() < 1
