"""Programs that need no training, beside plain Python; and the oracle of a trial."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents.acting import optimal_agent
from gpicljax.environment import TransitionModel
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.in_context_rl.env import family_tasks
from gpicljax.systems.in_context_rl.experts import Presumptions, planner, sweep
from gpicljax.systems.in_context_rl.experts.planning import _expected_moves
from gpicljax.systems.in_context_rl.measures.playing import learning_source
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import trial_action_values


def play_trials(env, params, agent, count, actions, key=0):
    vec = gpicljax.VectorEnv(env, count, params=params, privileged=True)

    @jax.jit
    def run(key):
        start = start_rollout(key, vec, agent, params)

        def keep(r):
            return r.timestep.observation, r.action, r.next_timestep

        return play(vec, agent, (), start, max_steps=actions, keep=keep).records

    return jax.tree.map(lambda x: np.asarray(x)[:, 0], run(jax.random.key(key)))


def test_the_planner_is_that_of_plain_python():
    """Actions of a lake are best by values that dictionaries of what happened give."""
    tasks = family_tasks("lakes", held_out=True)
    env, params = tasks.trials(40)
    observed, actions, following = play_trials(
        env, params, planner(16, 4, Presumptions(0.5, 0.2)), 4, 40
    )
    for trial in range(4):
        led, paid, tried = {}, {}, {}
        value = dict.fromkeys(range(16), 0.5)

        def worth(place, action, value, led=led, paid=paid, tried=tried):
            pair, n = (place, action), tried.get((place, action), 0)
            onward = sum(value[x] for x in led.get(pair, []))
            return (paid.get(pair, 0) + 0.99 * onward + 0.2 * 0.5) / (n + 0.2)

        for t in range(40):
            for _ in range(8):
                before = value
                value = {s: max(worth(s, a, before) for a in range(4)) for s in range(16)}
            here = int(observed["now"][trial, t])
            values = [worth(here, a, before) for a in range(4)]
            action = int(actions[trial, t])
            assert values[action] >= max(values) - 1e-4, (trial, t, values, action)
            pair = here, action
            seen = following.observation
            tried[pair] = tried.get(pair, 0) + 1
            paid[pair] = paid.get(pair, 0) + float(following.reward[trial, t])
            if not seen["terminated"][trial, t]:
                led.setdefault(pair, []).append(int(seen["reached"][trial, t]))


def test_a_move_not_tried_is_presumed_to_be_like_others_from_there():
    """One step from situation 0 to 1 of three, by the first of two actions; weight 4."""
    led = np.zeros((1, 3, 2, 3))
    led[0, 0, 0, 1] = 1
    moves = _expected_moves(jnp.asarray(led), led.sum(-1), jnp.array([[0, 1, 0]]), 4.0)[0]
    fresh = np.array([1, 0.02, 1]) / 2.02  # only 1 has been reached
    from_0 = (np.eye(3)[1] + fresh / 2) / 1.5
    from_1 = (np.eye(3)[0] / 2 + fresh / 2) / 1
    np.testing.assert_allclose(moves[0, 1], from_0, rtol=1e-6)
    np.testing.assert_allclose(moves[0, 0], (np.eye(3)[1] + 4 * from_0) / 5, rtol=1e-6)
    np.testing.assert_allclose(moves[1], [from_1, from_1], rtol=1e-6)
    np.testing.assert_allclose(moves[2], [fresh, fresh], rtol=1e-6)


def test_a_sweep_finds_every_goal_and_then_goes_straight_to_it():
    env = Trial(gpicljax.make("DarkRoom-v0", size=5), 100)
    params = env.make_params(horizon=10)
    observed, actions, following = play_trials(env, params, sweep(5, horizon=10), 32, 100)
    rewards = following.reward
    # A spiral from the centre cannot miss a cell within reach for longer than 100 steps.
    assert (rewards.sum(1) > 0).all()
    for trial in range(32):
        first = int(np.argmax(rewards[trial] > 0))
        goal = int(following.observation["reached"][trial, first])
        distance = abs(goal // 5 - 2) + abs(goal % 5 - 2)
        start = -(-(first + 1) // 10) * 10  # of the next episode
        waits = max(distance - 1, 0)
        for episode in range(start, 100, 10):
            pay = rewards[trial, episode : episode + 10]
            assert pay.tolist() == [0.0] * waits + [1.0] * (10 - waits), (trial, episode)


def test_a_sweep_that_did_not_choose_sees_what_was_reached():
    agent = sweep(3, horizon=10)
    carry = agent.initial_carry(2)
    told = agent.record_action(carry, jnp.array([1, 1]))
    jax.tree.map(np.testing.assert_array_equal, carry, told)


def test_the_oracle_of_a_trial_is_that_of_all_plans():
    """With few actions left, the best of all sequences in a deterministic process with restarts."""
    rng = np.random.default_rng(0)
    following, reward = rng.integers(0, 4, (4, 2)), rng.random((4, 2))
    over = rng.random((4, 2)) < 0.3
    model = TransitionModel(
        jnp.ones((4, 2, 1)),
        jnp.asarray(following)[..., None],
        jnp.asarray(reward)[..., None],
        jnp.asarray(over)[..., None],
    )
    start = jnp.eye(4)[2]
    values = trial_action_values(model, start, 6, discount=1.0)
    ends = trial_action_values(model, start, 6, counts_ends=True, discount=1.0)
    for left, state in itertools.product(range(1, 7), range(4)):
        best = {False: [-1.0, -1.0], True: [-1.0, -1.0]}
        for plan in itertools.product(range(2), repeat=left):
            now, total, count = state, 0.0, 0
            for action in plan:
                total, count = total + reward[now, action], count + over[now, action]
                now = 2 if over[now, action] else following[now, action]
            best[False][plan[0]] = max(best[False][plan[0]], total)
            best[True][plan[0]] = max(best[True][plan[0]], count)
        np.testing.assert_allclose(values[left - 1, state], best[False], rtol=1e-5)
        np.testing.assert_allclose(ends[left - 1, state], best[True], rtol=1e-5)


def test_no_program_is_ahead_of_the_oracle_of_a_trial():
    tasks = family_tasks("lakes", held_out=True)
    env, params = tasks.trials(50)
    best = play_trials(env, params, optimal_agent(), 64, 50)[2].reward.sum(1)
    planned = play_trials(env, params, planner(16, 4, Presumptions(0.5, 0.2)), 64, 50)[
        2
    ].reward.sum(1)
    np.testing.assert_array_equal(best, [8.0] * 64)  # six steps each
    assert (planned <= best).all() and planned.mean() > 1


def test_the_source_that_is_imitated_is_the_strongest_program():
    for family, name, learner in (
        ("ten-arms", "Gittins", "Gittins"),
        ("dark-room", "sweep", "Q-learning"),
        ("lakes", "planner", "Q-learning"),
    ):
        env, _ = family_tasks(family, held_out=False).trials(20)
        assert name in learning_source(env, searches=True)[0]
        assert learner in learning_source(env)[0]
