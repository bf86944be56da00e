"""Recall against its description, step by step, and oracles against closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import panel_agent
from gpicljax.systems.meta_rg.experts import recall as experts
from gpicljax.systems.meta_rg.measures.recall import play_recall_games, recall_accuracy

SMALL = {"max_values": 3, "num_dims": 2}
EPISODES = 256


@functools.cache
def made(**static):
    env = gpicljax.make("Recall-v0", **SMALL, **static)
    return env, jax.jit(env.sample_task), jax.jit(env.reset), jax.jit(env.step)


def episode(seed=0, answer=lambda facts: int(facts["answer"]), **static):
    """An episode played by hand: the task, and steps of `(observation, facts, action, step)`."""
    env, sample_task, reset, step = made(**static)
    key = jax.random.key(seed)
    task = sample_task(key, env.default_params)
    observation, state = reset(key, task)
    steps = []
    while not steps or not steps[-1][3].terminated:
        facts = jax.device_get(env.privileged(state, task))
        action = answer(facts) if facts["asking"] else env.wait
        made_step = step(key, state, jnp.int32(action), task)
        steps.append((jax.device_get(observation), facts, action, made_step))
        observation, state = made_step.observation, made_step.state
        assert not made_step.truncated and len(steps) <= env.horizon()
    return task, steps


@pytest.mark.parametrize(
    "case",
    daily(
        ["scs-paper", "ohe-reference"],
        [f"{x}-{y}" for x in ("scs", "ohe") for y in ("paper", "reference")],
    ),
)
def test_an_episode_step_by_step(case):
    stimulus, rules = case.split("-")
    static = {"stimulus": stimulus, "rules": rules}
    # Right, wrong, right ...: answers by the sum of the latents, which are as good as random.
    task, steps = episode(
        seed=3, answer=lambda facts: int(facts["answer"] + facts["latents"].sum()) % 3, **static
    )
    env = made(**static)[0]
    waiting = np.arange(4) == 3
    previous, shots = 0, []
    for t, (observation, facts, action, step) in enumerate(steps):
        assert bool(facts["asking"]) == (t % 2 == 1)
        latents, i = facts["latents"], facts["dimension"]
        if t % 2:
            assert (latents == steps[t - 1][1]["latents"]).all()
            shown = (np.arange(2) == i) * 1.0
        else:
            shown = np.asarray(task.values)[np.arange(2), latents]
        if stimulus == "ohe":
            shown = np.repeat(shown, 3) if t % 2 else (np.arange(3) == latents[:, None]).ravel()
        np.testing.assert_array_equal(observation["stimulus"], shown)
        assert observation["previous_result"] == previous
        mask = np.ones(4, bool) if rules == "reference" else waiting == (t % 2 == 0)
        np.testing.assert_array_equal(observation["action_mask"], mask)
        right = t % 2 == 1 and int(action) == int(latents[i])
        worth = {"paper": (0, 1), "reference": (-1, 0)}[rules][right] if t % 2 else 0
        assert step.reward == worth and step.info["correct"] == right
        assert step.info["answered"] == t % 2 and step.info["shot"] == facts["shot"]
        previous = (2 if right else 1) if t % 2 else previous
        shots += [int(facts["shot"])] * (t % 2 == 0)
    assert {step.info["correct"].item() for *_, step in steps[1::2]} == {True, False}
    assert shots == [0] * (len(shots) // 2) + [1] * (len(shots) // 2)
    first, waited, answered = (step.state for *_, step in (steps[-1], steps[0], steps[1]))
    assert env.describe(first, task).startswith(f"game {len(steps) // 2}: asked for dimension ")
    assert env.describe(waited, task) == f"game 1: asked for dimension {steps[1][1]['dimension']}"
    seen = steps[2][0]["stimulus"]
    values = [f"{x:.2f}" for x in seen] if stimulus == "scs" else steps[2][1]["latents"]
    result = "right" if steps[1][3].info["correct"] else "wrong"
    text = f"game 2: shown ({', '.join(map(str, values))}), last answer {result}"
    assert env.describe(answered, task) == text
    if stimulus == "ohe" and rules == "reference":
        assert task.num_values.tolist() == [3, 3]


def test_each_shot_shows_the_whole_space_once():
    task, steps = episode()
    tuples = [tuple(facts["latents"]) for _, facts, *_ in steps[::2]]
    space = sorted(np.ndindex(*task.num_values.tolist()))
    shots = tuples[: len(space)], tuples[len(space) :]
    assert [sorted(shot) for shot in shots] == [space, space] and shots[0] != shots[1]
    values = np.asarray(task.values)
    for i, d in enumerate(task.num_values.tolist()):  # each within its section, as a rule
        assert (np.diff(values[i, :d]) > 0).all() and (values[i, d:] == 0).all()


@functools.cache
def starts(rules, episodes=4_000):
    env = gpicljax.make("Recall-v0", rules=rules, **SMALL)
    params = env.make_params(min_values=3)
    keys = jax.random.split(jax.random.key(1), episodes)
    return jax.device_get(
        jax.jit(jax.vmap(lambda key: env.initial(key, env.sample_task(key, params))))(keys)
    )


@pytest.mark.parametrize("rules", ["paper", "reference"])
def test_order_and_questions_are_uniform(rules):
    state = starts(rules)
    episodes = state.index.size
    valid = 9 if rules == "paper" else 8  # (1, 1) is the one tuple with two test values
    assert (state.num_stimuli == valid).all()
    shown = state.shown[:, :, :valid]
    counts = np.array([np.bincount(shown[:, 1, t], minlength=9) for t in range(valid)])
    expected = np.full(9, episodes / valid)
    if rules == "reference":
        assert (counts[:, 4] == 0).all()
        expected[4] = 0
        # With replacement: n (1 - (1 - 1/n)^n) different ones of n draws.
        different = np.array([len(set(row)) for row in shown[:, 0].tolist()])
        error = different.std() / np.sqrt(episodes)
        assert abs(different.mean() - 8 * (1 - (7 / 8) ** 8)) < 3 * error
    else:
        assert (np.sort(shown, -1) == np.arange(9)).all()
    assert (np.abs(counts - expected) <= 4 * np.sqrt(expected)).all()
    question_share = state.dimensions[:, :, :valid].mean()
    assert abs(question_share - 0.5) < 3 * 0.5 / np.sqrt(2 * valid * episodes)


def test_oracles_and_chance_agree_with_closed_forms():
    """3 x 3 values. Of n = 9 games of the first shot, 3 of each dimension show a new value."""
    env = gpicljax.make("Recall-v0", **SMALL)
    params, steps = env.make_params(min_values=3), int(env.horizon())
    keys = jax.random.split(jax.random.key(2), 1024)
    tasks = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, params)
    rules = [experts.nearest(env), experts.ranking(env), random_agent(env)]
    agent = panel_agent([*rules, experts.single(env, tasks)])
    vec = gpicljax.VectorEnv(
        env, EPISODES, resets="synchronous", steps_per_trial=steps + 1, privileged=True
    )
    run = jax.jit(lambda key: play_recall_games(key, vec, agent, (), params))
    games = jax.tree.map(np.asarray, run(jax.random.key(0)))
    assert games.answered.all() and (games.shot == np.repeat([0, 1], 9)).all()
    shares = games.correct.reshape(EPISODES, 2, 9, 4).mean(2)
    # All dimensions have 3 values, so that one stimulus tells its sections.
    assert (shares[..., 3].mean(0) > 0.99).all()
    shares = shares[..., :3]
    mean, error = shares.mean(0), shares.std(0) / np.sqrt(EPISODES)
    # The very first game is answered with 0, which is right for one value in three.
    nearest = 1 - 3 / 9 + 1 / 9 / 3
    # Right unless a lower value is still unseen: with m = 3 tuples of each value, the value of rank
    # 0 always, of rank 1 unless its game comes before all 3 of one value, of rank 2 of one of two.
    rank_1_unseen, rank_2_unseen = 1 / 4, 2 * 1 / 4 - 1 / 7
    ranking = 1 - (0 + rank_1_unseen + rank_2_unseen) / 3
    expected = [[nearest, ranking, 1 / 3], [1, 1, 1 / 3]]
    assert (np.abs(mean - expected) <= 3 * error).all(), (mean, error)


def test_horizon_is_the_longest_episode():
    env = gpicljax.make("Recall-v0")
    assert int(env.horizon()) == 2 * 2 * 125
    assert int(env.horizon(env.make_params(max_values=3, shots=1))) == 2 * 27
    reference = gpicljax.make("Recall-v0", rules="reference")
    # Sizes of the support split in `specs`: 81, 32, 20 and 4.
    sizes = [int(reference.horizon(reference.make_params(max_values=d))) for d in (5, 4, 3, 2)]
    assert sizes == [4 * n for n in (81, 32, 20, 4)]


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("stimulus: got 'ohe'.*accepted: scs", lambda: experts.ranking(made(stimulus="ohe")[0])),
        ("stimulus: got 'ohe'", lambda: experts.single(made(stimulus="ohe")[0], None)),
    ],
)
def test_bad_options_are_refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()


# Accuracy in the Recall task, counted by hand -----------------------------------------------------


# Two episodes: shots of 4 and of 2 games.
CORRECT = jnp.array([[0, 1, 0, 1, 1, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0, 0]], bool)
SHOT = jnp.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0, 0]])
PLAYED = jnp.array([[1] * 8, [1] * 4 + [0] * 4], bool)


def test_counts_shots_and_shares():
    accuracy = recall_accuracy(PLAYED, CORRECT, SHOT, bins=4)
    assert float(accuracy.first.by_game) == 3 / 6 and float(accuracy.first.by_episode) == 1 / 2
    assert float(accuracy.second.by_game) == pytest.approx(4 / 6)
    assert float(accuracy.second.by_episode) == 5 / 8
    assert (int(accuracy.second.games), int(accuracy.second.episodes)) == (6, 2)
    # Of the short episode's first shot, nothing and then a half has been seen.
    np.testing.assert_allclose(accuracy.by_share, [1 / 2, 1, 0, 1])
    fine = recall_accuracy(PLAYED[1:], CORRECT[1:], SHOT[1:], bins=4).by_share
    np.testing.assert_array_equal(fine, [1, np.nan, 0, np.nan])


def test_games_without_a_second_shot_have_no_accuracy_there():
    accuracy = recall_accuracy(PLAYED[:, :2], CORRECT[:, :2], SHOT[:, :2])
    assert np.isnan(accuracy.second.by_game) and accuracy.second.games == 0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((SHOT, CORRECT, SHOT), TypeError, "answered: got dtype int32; accepted: bool"),
        ((PLAYED, CORRECT[:, :3], SHOT), ValueError, "answered, correct: got"),
        ((PLAYED[0], CORRECT[0], SHOT[0]), ValueError, r"answered: .*bool\[B, G\]"),
    ],
)
def test_refuses_what_it_cannot_count(arguments, error, words):
    with pytest.raises(error, match=words):
        recall_accuracy(*arguments)
