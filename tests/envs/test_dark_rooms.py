"""Dark rooms, and keys to doors: rules, optimal returns, and what is seen of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import optimal_agent
from gpicljax.environment import action_values
from gpicljax.envs import dark_room, key_to_door
from gpicljax.evaluation.returns import returns_of, single_trial_batch
from gpicljax.rollout import play, start_rollout
from gpicljax.wrappers import WithOptimalActions

LEFT, RIGHT, UP, DOWN, STAY = range(5)
STEPS = {LEFT: (0, -1), RIGHT: (0, 1), UP: (-1, 0), DOWN: (1, 0), STAY: (0, 0)}


def room(env_id, cells, static=None, **params):
    """An environment, and its task with things in certain cells."""
    env = gpicljax.make(env_id, **(static or {"size": 3}))
    task = env.sample_task(jax.random.key(0), env.make_params(**params))
    cells = {name: jnp.asarray(cell, jnp.int32) for name, cell in cells.items()}
    return env, task.replace(**cells)


def walk(env, task, actions):
    """Observations, rewards and ends of an episode, from its start on."""
    move = jax.jit(env.move)
    state, steps = env.initial(jax.random.key(0), task), []
    for action in actions:
        moved = move(state, jnp.int32(action), (), task)
        state = moved.state
        steps.append((int(env.observe(state, task)), float(moved.reward), bool(moved.terminated)))
    observations, rewards, ends = zip(*steps, strict=True)
    return list(observations), list(rewards), list(ends), state


def test_every_step_at_the_goal_pays_and_walls_hold():
    env, task = room("DarkRoom-v0", {"goal": (0, 2)})
    actions = [UP, UP, RIGHT, RIGHT, STAY, LEFT]
    observations, rewards, ends, _ = walk(env, task, actions)
    assert observations == [1, 1, 2, 2, 2, 1]
    assert rewards == [0, 0, 1, 1, 1, 0] and not any(ends)
    _, rewards, ends, _ = walk(env, task.replace(sparse=jnp.ones((), bool)), actions[:3])
    assert rewards == [0, 0, 1] and ends == [False, False, True]


@pytest.mark.parametrize("show_key", [False, True])
def test_the_key_pays_once_and_then_the_door(show_key):
    cells, static = {"key_cell": (0, 0), "door": (1, 0)}, {"size": 3, "show_key": show_key}
    env, task = room("KeyToDoor-v0", cells, static, random_start=False)
    actions = [LEFT, STAY, UP, UP, DOWN, UP, DOWN]  # the door, first, is shut
    observations, rewards, ends, state = walk(env, task, actions)
    held = 9 if show_key else 0
    assert observations == [3, 3, held, held, held + 3, held, held + 3]
    assert rewards == [0, 0, 1, 0, 1, 0, 0] and not any(ends)
    assert int(env.situation(state, task)) == 2 * 9 + 3
    assert env.describe(state, task) == "cell 3, step 7 of 50, door opened"
    ended = walk(env, task.replace(door_ends=jnp.ones((), bool)), actions[:5])[2]
    assert ended == [False] * 4 + [True]


def test_a_key_on_the_door_s_cell_takes_two_steps():
    cells = {"key_cell": (1, 1), "door": (1, 1)}
    env, task = room("KeyToDoor-v0", cells, random_start=False)
    assert walk(env, task, [STAY, STAY, STAY])[1] == [1, 1, 0]


VARIANTS = [
    ("DarkRoom-v0", {}),
    ("DarkRoom-v0", {"sparse": True, "permute_actions": True}),
    ("KeyToDoor-v0", {}),
    ("KeyToDoor-v0", {"door_ends": True, "random_start": False, "size": 4}),
]


@pytest.mark.parametrize(("env_id", "params"), VARIANTS)
def test_the_optimal_return_in_closed_form_is_that_of_value_iteration(env_id, params, key):
    env = gpicljax.make(env_id, size=5)
    params = env.make_params(horizon=3, **params)

    def both(key):
        task_key, state_key = jax.random.split(key)
        task = env.sample_task(task_key, params)
        state = env.initial(state_key, task)
        values = action_values(env.transition_model(task), 1.0, 0.0, task.horizon)
        best = values[env.situation(state, task)].max()
        return best, env.privileged(state, task)["best_return"]

    best, closed = jax.jit(jax.vmap(both))(jax.random.split(key, 200))
    assert (best == closed).all() and len(np.unique(closed)) > 1


def test_values_without_an_end_need_few_sweeps(key):
    env = gpicljax.make("DarkRoom-v0")
    task = env.sample_task(key, env.default_params)

    def solve(sweeps):
        return action_values(env.transition_model(task), sweeps=sweeps)

    quick, converged = (np.asarray(jax.jit(solve, static_argnums=0)(n)) for n in (40, 4_000))
    np.testing.assert_allclose(quick, converged, rtol=1e-5)
    # At the goal, which pays in every step, the value is that of 1 for ever.
    assert quick.max() == pytest.approx(100, rel=1e-5)


@pytest.mark.parametrize("env_id", ["DarkRoom-v0", "KeyToDoor-v0"])
def test_an_oracle_has_the_optimal_return_though_it_cannot_be_seen_what_is_held(env_id, key):
    env = WithOptimalActions(gpicljax.make(env_id, size=5))
    vec, agent = single_trial_batch(env, 64, 12, privileged=True), optimal_agent()
    params = env.make_params(horizon=12)

    def play_returns(key):
        start = start_rollout(key, vec, agent, params)
        task, state = start.vstate.task.inner, start.vstate.state
        best = jax.vmap(env.env.privileged)(state, task)["best_return"]
        keep = lambda record: record.next_timestep.reward  # noqa: E731
        return best, returns_of(play(vec, agent, (), start, max_steps=12, keep=keep)).returns

    best, returns = jax.jit(play_returns)(key)
    np.testing.assert_array_equal(best, returns)


def test_the_transition_model_is_the_rules():
    cells = {"key_cell": (0, 1), "door": (2, 2)}
    env, task = room("KeyToDoor-v0", cells, {"size": 4}, size=3, door_ends=True)
    model = jax.tree.map(lambda x: np.asarray(x)[..., 0], env.transition_model(task))
    assert model.chance.shape == (48, 5) and (model.chance == 1).all()
    sought = [(0, 1), (2, 2), None]
    for progress in range(3):
        for cell in range(9):
            for action, (down, along) in STEPS.items():
                row, column = np.clip([cell // 3 + down, cell % 3 + along], 0, 2).tolist()
                reached = (row, column) == sought[progress]
                at = 16 * progress + cell, action
                assert model.following[at] == 16 * (progress + reached) + 3 * row + column
                assert model.reward[at] == reached and model.over[at] == (reached and progress == 1)


def test_all_tasks_are_equally_likely_and_starts_are_where_they_are_to_be(key):
    keys = jax.random.split(key, 4_000)
    env = gpicljax.make("DarkRoom-v0", size=5)
    params = env.make_params(size=3, random_start=True, permute_actions=True)
    tasks = jax.vmap(env.sample_task, (0, None))(keys, params)
    starts = jax.vmap(env.initial)(keys, tasks)
    assert len(np.unique(tasks.directions, axis=0)) == 120
    for cells in tasks.goal, starts.position:
        _, counts = np.unique(cells, axis=0, return_counts=True)
        # Nine cells, each with chance 1/9: 444 times, with a standard deviation of 20.
        assert len(counts) == 9 and abs(counts - 4_000 / 9).max() < 4.5 * 20
    task = jax.tree.map(lambda x: x[0], tasks).replace(random_start=jnp.zeros((), bool))
    assert env.initial(key, task).position.tolist() == [1, 1]
    for action, direction in enumerate(task.directions.tolist()):
        moved = env.move(env.initial(key, task), jnp.int32(action), (), task)
        assert tuple((moved.state.position - 1).tolist()) == STEPS[direction]


def test_views():
    env, task = room("DarkRoom-v0", {"goal": (0, 2)}, permute_actions=True)
    state = dark_room.State(jnp.array([1, 0], jnp.int32), jnp.int32(4))
    assert env.describe(state, task) == "cell 3, step 4 of 20"
    knowledge = env.privileged(state, task)
    # Three moves away, the third of sixteen steps is the first that pays.
    assert int(knowledge["distance"]) == 3 and float(knowledge["best_return"]) == 14
    env, task = room("KeyToDoor-v0", {"key_cell": (0, 0), "door": (2, 2)})
    pictures = [
        np.asarray(
            env.render(key_to_door.State(jnp.array([1, 1]), jnp.int32(0), jnp.int32(n)), task)
        )
        for n in range(3)
    ]
    assert pictures[0].shape == (144, 144, 3) and pictures[0].dtype == np.uint8
    changed = [(a != b).any(-1) for a, b in zip(pictures, pictures[1:], strict=False)]
    # The key's cell changes when it is taken, and the door's when it is opened.
    assert changed[0][:48, :48].any() and not changed[0][48:].any()
    assert changed[1][96:, 96:].any() and not changed[1][:96].any()
