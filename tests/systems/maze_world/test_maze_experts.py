"""Privileged agents: choices against the written rules, scores against the reference's.

Scores are those of interactive evaluation: the sum of max(0, reward + 0.01), i.e. arrivals.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import OPTIMISED
from reference_paths import path_back, search

from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import rollout, start_rollout
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.experts import privileged as experts
from gpicljax.systems.maze_world.experts.programs import program_agent

PROBABILITIES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
TIMES = (100, 250, 500, 1000, 1500, 2000)
# Mean scores at TIMES of random actions and of PROBABILITIES, and the standard errors at the last,
# over 256, 128 and 64 tasks: measured with a re-expression of the reference that makes all of its
# choices.
RANDOM = "random"
EXPECTED = {
    15: {
        RANDOM: ((0.06, 0.09, 0.16, 0.27, 0.36, 0.45), 0.04),
        0.0: ((0.20,) * 6, 0.03),
        0.05: ((0.24, 0.42, 0.74, 1.89, 4.34, 9.1), 0.6),
        0.1: ((0.34, 0.91, 2.1, 7.7, 20.2, 37.3), 0.9),
        0.25: ((0.64, 2.0, 7.3, 24.3, 42.4, 60.2), 0.7),
        0.5: ((1.0, 4.2, 12.7, 30.6, 48.6, 66.4), 0.8),
        1.0: ((1.6, 6.6, 15.4, 33.5, 51.4, 69.5), 0.7),
    },
    25: {
        RANDOM: ((0.03, 0.06, 0.11, 0.21, 0.27, 0.32), 0.07),
        0.0: ((0.20,) * 6, 0.05),
        0.05: ((0.21, 0.29, 0.50, 0.87, 1.43, 1.8), 0.3),
        0.1: ((0.27, 0.44, 0.73, 1.9, 2.9, 6.8), 0.7),
        0.25: ((0.35, 0.79, 2.2, 9.0, 24.2, 45.2), 1.6),
        0.5: ((0.55, 1.8, 6.0, 25.1, 47.9, 70.7), 1.4),
        1.0: ((0.88, 3.6, 13.1, 35.7, 59.0, 82.4), 1.4),
    },
    35: {
        RANDOM: ((0.06, 0.06, 0.06, 0.13, 0.26, 0.26), 0.13),
        0.0: ((0.10,) * 6, 0.06),
        0.05: ((0.19, 0.29, 0.52, 0.78, 1.13, 1.3), 0.25),
        0.1: ((0.26, 0.42, 0.78, 1.0, 2.0, 2.9), 0.5),
        0.25: ((0.45, 1.1, 2.0, 3.3, 7.7, 17.5), 2.3),
        0.5: ((0.68, 1.3, 2.4, 10.6, 30.6, 57.2), 2.8),
        1.0: ((1.2, 2.3, 6.6, 26.4, 53.2, 81.1), 3.2),
    },
}
TASKS = {15: 256, 25: 128, 35: 64}


@functools.cache
def task_sampler(size, batch):
    """Tasks do not depend on what is done in them, so that few programs serve all settings."""
    env = MazeWorld(size=size)
    keys = jax.random.split(jax.random.key(7), batch)
    draw = jax.vmap(env.sample_task, (0, None))
    return jax.jit(lambda params: draw(keys, params), compiler_options=OPTIMISED)


def tasks_of(env, batch, params=()):
    few = env.size == 15 and batch < 256
    tasks = task_sampler(env.size, 256 if few else batch)(env.make_params(**dict(params)))
    return jax.tree.map(lambda x: x[:batch], tasks)


def play(env, make_agent, batch, length, probability, params=(), keep=lambda *step: step, seed=0):
    """One episode on each task: what is kept of observation, action, aux and transition."""
    tasks = tasks_of(env, batch, params)

    def body(carry, key):
        state, memory, start, alive = carry
        privileged = jax.vmap(env.privileged)(state, tasks)
        falses = jnp.zeros(batch, bool)
        timestep = TimeStep(None, jnp.zeros(batch), falses, falses, start, start, {}, privileged)
        agent_key, key = jax.random.split(key)
        keys = jax.random.split(agent_key, batch)
        action, aux, memory = agent.act(keys, None, memory, timestep)
        moved = jax.vmap(env.transition)(jax.random.split(key, batch), state, action, tasks)
        moved = moved._replace(reward=jnp.where(alive, moved.reward, 0))
        carry = moved.state, memory, falses, alive & ~moved.terminated
        return carry, keep(privileged, action, aux, moved)

    def run(key, probability):
        nonlocal agent
        agent = make_agent(probability)
        state = jax.vmap(env.initial)(jax.random.split(key, batch), tasks)
        trues = jnp.ones(batch, bool)
        carry = state, agent.initial_carry(batch), trues, trues
        return jax.lax.scan(body, carry, jax.random.split(key, length))[1]

    agent = None
    program = jax.jit(run, compiler_options=OPTIMISED)
    return jax.tree.map(np.asarray, program(jax.random.key(seed), jnp.asarray(probability)))


def expert(env, rule):
    return lambda probability: experts.privileged_agent(env, probability, rule)


def random_agent(env):
    def act(keys, params, carry, timestep):
        return jax.vmap(env.action_space().sample)(keys), {}, carry

    return lambda probability: Agent(lambda batch: (), act)


# Choices -----------------------------------------------------------------------------------------


def written_rule(facts, known_cells, visited=None):
    """The reference's next cell, from its rules as they are written down."""
    own_cell = tuple(facts["cell"])
    entry = np.where(known_cells, np.where(facts["walls"], np.inf, 1.0), 10.0)
    landmarks = [tuple(cell) for cell in facts["landmarks"]]
    if visited is not None:
        for k, cell in enumerate(landmarks):
            if known_cells[cell] and facts["active"][k] and facts["landmark_rewards"][k] < 0:
                entry[cell] += facts["landmark_rewards"][k] / facts["step_reward"]
    costs = search(entry, [own_cell])
    costs[np.isinf(costs)] = 1e6
    explore = np.where(known_cells, np.inf, costs)
    if visited is None:
        target = landmarks[facts["command"]]
        target = target if known_cells[target] else None
    else:
        totals = []
        for k, cell in enumerate(landmarks):
            reward = facts["landmark_rewards"][k]
            worth = facts["countdown"][k] + reward / facts["step_reward"]
            worth = worth if visited[k] else 0.5 / facts["step_reward"]
            counts = known_cells[cell] and (reward > 0 or not visited[k])
            totals.append(costs[cell] + worth if counts else np.inf)
        target = landmarks[int(np.argmin(totals))] if min(totals) < -0.01 else None
        survey = sum(
            np.roll(np.pad(known_cells, 2), (-dx, -dy), (0, 1))[2:-2, 2:-2].astype(int)
            for dx, dy in experts._AROUND
        )
        explore = np.where(known_cells, costs + 10_000 - 3 * survey, costs)
    if target is None:
        target = np.unravel_index(explore.argmin(), explore.shape)
    path = path_back(costs, target)
    return np.array(path[min(1, len(path) - 1)]), path


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["navigation", "survival"])
def test_the_reference_rule_as_it_is_written(mode):
    env, batch, length = MazeWorld(size=11, mode=mode), 8, 96
    params = () if mode == "navigation" else (("mean_landmark_reward", 0.35),)
    privileged, action, aux, moved = play(
        env, expert(env, "reference"), batch, length, np.resize((1.0, 0.3), batch), params
    )
    after = np.floor(moved.state.position / 2).astype(int)
    heading = np.round(moved.state.heading / (np.pi / 2)) % 4
    before = np.round(privileged["heading"] / (np.pi / 2)) % 4
    counts = np.zeros(3, int)
    for b in range(batch):
        visited = np.zeros(env.max_landmarks, bool)
        for t in range(length):
            facts = {name: x[t, b] for name, x in privileged.items()}
            visited |= (facts["landmarks"] == facts["cell"]).all(-1)
            survival = visited if mode == "survival" else None
            following, path = written_rule(facts, aux["known"][t, b], survival)
            np.testing.assert_array_equal(aux["target"][t, b], path[-1])
            step = following - facts["cell"]
            wanted_heading = np.round(np.arctan2(step[1], step[0]) / (np.pi / 2)) % 4
            kind = 0 if not step.any() else 1 if wanted_heading == before[t, b] else 2
            counts[kind] += 1
            if kind == 0:
                assert action[t, b] == 0
            elif kind == 1:
                assert action[t, b] == 4
                blocked = facts["walls"][tuple(following)]
                np.testing.assert_array_equal(after[t, b], facts["cell"] if blocked else following)
            else:
                turn = (wanted_heading - before[t, b]) % 4
                assert action[t, b] == (1 if turn == 3 else 2)  # round about: to the right
                assert (heading[t, b] - before[t, b]) % 4 == (3 if turn == 3 else 1)
    assert counts[1] > 0.4 * batch * length and counts[2] > 0.1 * batch * length


def test_what_is_remembered():
    rng = np.random.default_rng(0)
    batch, size, length = 3, 40, 60
    shown = rng.random((length, batch, size, size)) < 0.1
    probability = jnp.asarray([0.0, 0.3, 1.0])
    nothing = jnp.zeros((batch, size, size), bool)
    memory = experts.Memory(nothing, (nothing,) * 3, jnp.zeros((batch, 1), bool))
    step = jax.jit(experts.remember)
    chances = np.zeros((batch, size, size), int)
    for t in range(length):
        keys = jax.random.split(jax.random.key(t), batch)
        memory = step(keys, memory, jnp.asarray(shown[t]), probability)
        chances += shown[t - 3] if t >= 3 else 0  # what was in view three steps ago drops out
        recent = np.asarray(memory.recent)
        np.testing.assert_array_equal(recent, shown[max(t - 2, 0) : t + 1][::-1]) if t > 1 else None
    kept = np.asarray(memory.kept)
    assert not kept[0].any() and (kept[2] == (chances[2] > 0)).all()
    for times in range(9):  # every time is a new chance
        cells = chances[1] == times
        expected, error = 1 - 0.7**times, np.sqrt(0.25 / cells.sum())
        assert abs(kept[1][cells].mean() - expected) < 4 * error or times == 0
    assert not kept[1][chances[1] == 0].any()


def test_memory_is_cleared_with_each_episode_and_each_trial():
    env, batch = MazeWorld(size=11), 8
    tasks = tasks_of(env, batch)
    state = jax.vmap(env.initial)(jax.random.split(jax.random.key(0), batch), tasks)
    agent = experts.privileged_agent(env, 1.0)
    everything = jax.tree.map(jnp.ones_like, agent.initial_carry(batch))
    falses = jnp.zeros(batch, bool)
    episode, trial = falses.at[0].set(True), falses.at[1].set(True)

    def act(state):
        privileged = jax.vmap(env.privileged)(state, tasks)
        timestep = TimeStep(None, jnp.zeros(batch), falses, falses, episode, trial, {}, privileged)
        keys = jax.random.split(jax.random.key(1), batch)
        _, aux, carry = agent.act(keys, None, everything, timestep)
        return privileged["exposed"], aux["known"], carry

    exposed, known_cells, memory = jax.jit(act)(state)
    np.testing.assert_array_equal(known_cells[:2], exposed[:2])
    assert known_cells[2:].all() and memory.kept[2:].all() and memory.visited[2:].all()
    assert not (memory.kept[:2].any() or memory.visited[:2].any())
    assert 2 <= exposed[:2].sum() < known_cells[:2].size / 3


# Scores ------------------------------------------------------------------------------------------


def scores(size, rule, probabilities, tasks, length=2048, seed=0):
    """Scores after each step `[length, P, tasks]`, and shares of actions `[P, 5]` in percent."""
    env = MazeWorld(size=size)
    batch = tasks * len(probabilities)
    agent = random_agent(env) if rule == RANDOM else expert(env, rule)

    def keep(privileged, action, aux, moved):
        return jnp.maximum(moved.reward + 0.01, 0), action.astype(jnp.int8)

    memory_probability = np.repeat([0.0 if p == RANDOM else p for p in probabilities], tasks)
    gains, actions = play(env, agent, batch, length, memory_probability, keep=keep, seed=seed)
    gains, actions = (x.reshape(length, len(probabilities), tasks) for x in (gains, actions))
    shares = [100 * np.bincount(a.ravel(), minlength=5) / a.size for a in actions.swapaxes(0, 1)]
    return gains.cumsum(0), np.array(shares)


def assert_as_expected(size, gains, probabilities):
    """At the end, where the reference's standard error is known, within 3 combined ones.

    Before, it is not known. It is guessed from our own spread, and as the means at partial memory
    are lower than the reference's for a reason that we do not know (see `experts`), the guess is
    held to no more than 5.
    """
    for p, run_gains in zip(probabilities, gains.swapaxes(0, 1), strict=True):
        means, last_error = EXPECTED[size][p]
        for t, mean in zip(TIMES, means, strict=True):
            totals = run_gains[t - 1]
            our_error, error = (totals.std(ddof=1) / n**0.5 for n in (len(totals), TASKS[size]))
            is_error_known = t == TIMES[-1]
            error = last_error if is_error_known else max(error, 0.005)
            apart = (totals.mean() - mean) / np.hypot(our_error, error)
            text = f"{totals.mean():.2f}+-{our_error:.2f}, {mean}+-{error:.2f}: {apart:.1f}"
            print(f"n={size} p={p} t={t}: {text}")
            assert abs(apart) < (3 if is_error_known else 5), (size, p, t, text)


def assert_no_live_lock(gains):
    assert (gains[-1] > gains[len(gains) // 2]).all()


@pytest.mark.slow
def test_scores_of_the_reference_rule():
    probabilities = (0.0, 0.25, 1.0)
    gains, shares = scores(15, "reference", probabilities, tasks=48)
    assert_as_expected(15, gains, probabilities)
    # Stay, left, right, back, forward.
    np.testing.assert_allclose(shares[-1], [0.6, 12.8, 21.1, 0, 65.5], atol=0.5)


@pytest.mark.slow
def test_the_default_rule_never_stops_reaching_targets_and_is_better():
    gains, _ = scores(15, "default", (1.0,), tasks=192)
    assert_no_live_lock(gains[:, 0])
    final = gains[TIMES[-1] - 1, 0]
    error = np.hypot(final.std() / len(final) ** 0.5, 0.7)
    assert final.mean() > 69.5 - error  # the reference's
    assert final.mean() > 30 * EXPECTED[15][RANDOM][0][-1]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "tasks"), [(15, 512), (25, 256), (35, 128)])
@pytest.mark.parametrize("policy", ["reference", RANDOM])
def test_scores_of_all_policies(size, tasks, policy):
    probabilities = (RANDOM,) if policy == RANDOM else PROBABILITIES
    gains, _ = scores(size, policy, probabilities, tasks)
    assert_as_expected(size, gains, probabilities)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "tasks"), [(15, 1024), (25, 512), (35, 256)])
def test_the_default_rule_never_live_locks(size, tasks):
    gains, shares = scores(size, "default", (1.0,), tasks, seed=1)
    for t in TIMES:
        totals = gains[t - 1, 0]
        print(f"n={size} t={t}: {totals.mean():.2f} +- {totals.std() / tasks**0.5:.2f}")
    print(shares)
    assert_no_live_lock(gains[:, 0])


# Other ways to move, and survival ----------------------------------------------------------------


def rewards(env, agent, batch, length, params):
    keep = lambda told, action, aux, moved: moved.reward  # noqa: E731
    return play(env, agent, batch, length, 1.0, params, keep).sum(0)


BLIND = {  # what random actions earn at most, and at least what an expert does, in 64 mazes
    "continuous": (-15.0, -11.5),
    "moves": (-4.0, 14.0),
    "survival": (1.0, 9.0),
}
SETTINGS = {
    # Cells of 1 m: some 10 steps each.
    "continuous": ({"actions": "continuous"}, (("cell_size", 1.0), ("view_range", 6.0)), 1536),
    "moves": ({"actions": "moves"}, (), 512),
    "survival": ({"mode": "survival"}, (("mean_landmark_reward", 0.4),), 512),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name in SETTINGS for rule in ("default", "reference")]
)
def test_better_than_random(name, rule):
    static, params, length = SETTINGS[name]
    env, batch = MazeWorld(**static), 64
    gains = rewards(env, expert(env, rule), batch, length, params)
    blind = rewards(env, random_agent(env), batch, length, params)
    print(name, rule, gains.mean(), gains.std() / 8, blind.mean(), blind.std() / 8)
    at_most, at_least = BLIND[name]
    assert blind.mean() < at_most and gains.mean() > at_least
    assert (gains > blind).mean() > 0.9


# Programs without a map --------------------------------------------------------------------------

KINDS = ("wall follower", "random walk", "knows the maze")


@pytest.mark.parametrize("actions", ["discrete", "moves"])
def test_programs_turn_back_at_dead_ends_alone_and_knowing_the_maze_is_better(actions):
    env, each, steps = MazeWorld(size=7, max_landmarks=4, actions=actions), 48, 96
    agent = program_agent(env, [kind for kind in KINDS for _ in range(each)])
    vec = single_trial_batch(env, 3 * each, steps, privileged=True)

    def keep(record):
        told = record.timestep.privileged
        return told["cell"], record.aux["wanders"], record.next_timestep.reward

    @jax.jit
    def play_all(key):
        start = start_rollout(key, vec, agent)
        return rollout(vec, agent, (), start, steps, keep)[1], start.vstate.task.walls

    (cells, wanders, rewards), walls = jax.device_get(play_all(jax.random.key(0)))
    arrivals = (rewards > 0).sum(0).reshape(3, each).mean(-1)
    assert (arrivals[:2] > 1.5).all() and arrivals[2] > 1.5 * arrivals[:2].max()
    turned = 0
    for i in range(2 * each):
        moved = [0, *(1 + np.flatnonzero((cells[1:, i] != cells[:-1, i]).any(-1)))]
        for first, second, third in zip(moved, moved[1:], moved[2:], strict=False):
            if (cells[first, i] == cells[third, i]).all() and wanders[first:third, i].all():
                x, y = cells[second, i]
                around = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
                turned += 1
                assert sum(not walls[i][cell] for cell in around) == 1
    assert turned > 20
    with pytest.raises(ValueError, match="mode"):
        program_agent(MazeWorld(mode="survival"), KINDS)
    with pytest.raises(ValueError, match="kinds: got 'wall'"):
        program_agent(env, ["wall"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "landmarks", "steps"), [(7, 4, 512), (11, 4, 512), (15, 10, 2048)]
)
def test_what_a_map_is_worth(size, landmarks, steps):
    env, each = MazeWorld(size=size, max_landmarks=landmarks), 256
    params = env.make_params(horizon=steps + 1, num_commands=10_000)
    vec = single_trial_batch(env, 3 * each, steps, privileged=True)
    programs = program_agent(env, [kind for kind in KINDS for _ in range(each)])
    explorers = experts.privileged_agent(env, jnp.repeat(jnp.asarray([0.0, 0.25, 1.0]), each))

    @jax.jit
    def arrivals(key):
        def earned(agent):
            start = start_rollout(key, vec, agent, params)
            came = lambda record: record.next_timestep.reward > 0  # noqa: E731
            return rollout(vec, agent, (), start, steps, came)[1]

        return jnp.cumsum(earned(programs), 0), jnp.cumsum(earned(explorers), 0)

    names = (*KINDS, "p = 0 %", "p = 25 %", "p = 100 %")
    counted = np.concatenate(jax.device_get(arrivals(jax.random.key(0))), 1)
    goals = dict(zip(names, counted.reshape(steps, len(names), each).swapaxes(0, 1), strict=True))
    for name, by_step in goals.items():
        marks = {mark: by_step[mark - 1] for mark in (128, 512, 2048) if mark <= steps}
        print(size, name, *(f"{t}: {x.mean():.2f} ± {x.std() / 16:.2f}" for t, x in marks.items()))
    last = {name: by_step[-1].mean() for name, by_step in goals.items()}
    assert last["knows the maze"] > last["p = 100 %"] > 1.5 * last["wall follower"]


# Bad input ---------------------------------------------------------------------------------------


def test_bad_input():
    with pytest.raises(ValueError, match="rule: got 'referense' .did you mean 'reference'"):
        experts.privileged_agent(MazeWorld(), 1.0, "referense")
    for wrong in (-0.1, 1.5, [0.2, np.nan], np.ones((2, 2))):
        with pytest.raises(ValueError, match="probability"):
            experts.privileged_agent(MazeWorld(), wrong)
