"""The rules of Meta-Referential Games, on short episodes written by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily
from written_episodes import GAMES, QUERY, SUPPORT, play, skeleton_of

import gpicljax
from gpicljax.systems.meta_rg.env import messaging, structure
from gpicljax.systems.meta_rg.env.game import draw_game
from gpicljax.systems.meta_rg.env.rules import GameRules
from gpicljax.systems.meta_rg.env.types import CHANNELS

# Latent tuples of a 4 x 4 x 4 structure, support and query ones (two or more odd values).


def posdis(targets):
    return np.asarray(targets) + 1


# Steps, messages, rewards ------------------------------------------------------------------------


KINDS = {
    "one round": (1, True),
    "one round, no feedback": (1, False),
    "two rounds": (2, True),
    "two rounds, no feedback": (2, False),
}


@pytest.mark.parametrize("kind", daily(["one round", "two rounds, no feedback"], KINDS))
def test_steps_and_messages_of_a_game(kind):
    rounds, feedback = KINDS[kind]
    length = 2 if rounds == 2 else 3
    env = gpicljax.make("MetaRG-v0", num_rounds=rounds, feedback=feedback, message_length=length)
    task, steps = play(env)
    per_game = rounds + 1 + feedback
    time = np.arange(GAMES * per_game - feedback)
    stage, game = time % per_game, time // per_game
    observation, info = steps["observation"], steps["info"]
    np.testing.assert_array_equal(observation["round"], stage)
    np.testing.assert_array_equal(info["game"], game)
    np.testing.assert_array_equal(info["decided"], stage == rounds)
    np.testing.assert_array_equal(observation["phase"], game >= len(SUPPORT))
    np.testing.assert_array_equal(info["query"], game >= len(SUPPORT))
    np.testing.assert_array_equal(steps["target"], np.asarray(SUPPORT + QUERY)[game])
    # It ends with the last decision; the feedback to that is the terminal observation.
    np.testing.assert_array_equal(steps["terminated"], time == time[-1])

    # What is said at one step is heard at the next, and stays until the game is over.
    messages = posdis(steps["target"])
    if rounds == 1:
        sent = np.where(stage[:, None] == 0, 0, messages)
    else:  # a window that slides on with the round
        first, second = messages[:, :2], messages[:, 1:]
        sent = np.where(stage[:, None] == 1, first, second)
        sent = np.where(stage[:, None] == 0, 0, sent)
    heard = np.take_along_axis(task.heard[None], sent[..., None], 2)[..., 0]
    np.testing.assert_array_equal(observation["message"], heard)


def test_rewards_and_what_is_remembered_of_the_last_game():
    env = gpicljax.make("MetaRG-v0")
    time = np.arange(3 * GAMES - 1)
    right = (time // 3) % 2 == 0
    _, steps = play(env, right=right)
    deciding, query = time % 3 == 1, time // 3 >= len(SUPPORT)
    expected = np.where(right, 1.0, np.where(query, -2.0, 0.0)) * deciding
    np.testing.assert_array_equal(steps["reward"], expected)
    np.testing.assert_array_equal(steps["info"]["correct"], right & deciding)
    assert sorted(set(expected)) == [-2, 0, 1]
    shown = steps["observation"]
    result, reward = 0, 0.0
    for t in time:
        assert (shown["previous_result"][t], shown["previous_reward"][t]) == (result, reward)
        if deciding[t]:
            result, reward = 1 + right[t], expected[t]


@pytest.mark.parametrize("samples", [1, 4])
def test_feedback_shows_exactly_what_the_speaker_saw(samples):
    env = gpicljax.make("MetaRG-v0", max_samples=samples)
    different = 0
    for seed in range(4):
        task, steps = play(env, seed=seed)
        stimulus, game = steps["observation"]["stimulus"], steps["state"].game
        feedback = steps["round"] == 2
        np.testing.assert_array_equal(stimulus[feedback], game.speaker[feedback, 0])
        np.testing.assert_array_equal(stimulus[~feedback], game.listener[~feedback, 0])
        different += (stimulus[1::3][: GAMES - 1] != stimulus[2::3]).any(-1).sum()
        # Every value shown is one of the episode's table: nothing is drawn anew.
        for i in range(3):
            assert np.isin(stimulus[:, i], task.table[i, :4]).all()
    assert different > 0


def test_what_is_done_out_of_turn_has_no_effect():
    env = gpicljax.make("MetaRG-v0")
    time = np.arange(3 * GAMES - 1)
    decided = np.where(time % 3 == 1, 1, env.num_decisions)
    noise = np.where(time % 3 == 1, 1, np.random.default_rng(0).integers(0, 3, time.size))
    for a, b in zip(
        *(jax.tree.leaves(keyless(play(env, x))) for x in (decided, noise)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    # No-operation when a decision is due is a wrong decision.
    _, steps = play(env, np.full(time.size, env.num_decisions))
    assert not steps["info"]["correct"].any()


def keyless(played):
    task, steps = played
    return task, {**steps, "state": steps["state"].replace(key=None)}


# Stimuli -----------------------------------------------------------------------------------------


@functools.cache
def games(distractors, samples=1, game=1, same_view=True, descriptive=True):
    """One game of a written episode, drawn 4,000 times."""
    skeleton = skeleton_of(SUPPORT, QUERY, repeated=[SUPPORT[1]])
    table = jnp.arange(60.0).reshape(3, 5, 4)
    draw = functools.partial(
        draw_game,
        num_distractors=distractors,
        descriptive=descriptive,
        same_view=same_view,
        stimulus="scs",
    )
    draw = jax.jit(jax.vmap(draw, (0, None, None, None, None)))
    keys = jax.random.split(jax.random.key(0), 4_000)
    return jax.device_get(draw(keys, jnp.int32(game), skeleton, table, jnp.int32(samples)))


def share_error(share):
    return 4 * np.sqrt(share * (1 - share) / 4_000)


@pytest.mark.parametrize("distractors", [0, 1, 3])
@pytest.mark.parametrize("game", [1, 6])
def test_targets_distractors_and_answers(distractors, game):
    drawn = games(distractors, game=game)
    target = (SUPPORT + [SUPPORT[1]] + QUERY)[game]
    is_target = (drawn.listener_latents == target).all(-1)  # [N, K + 1]
    slots = distractors + 1
    assert (drawn.speaker_latents[:, 0] == target).all()
    assert is_target.sum(1).max() <= 1, "distractors are of another meaning than the target"
    present = is_target.any(1)
    np.testing.assert_array_equal(drawn.answer, np.where(present, is_target.argmax(1), slots))
    # Descriptive: the target is kept with probability 1 / (K + 2), in a uniform place.
    for answer in range(slots + 1):
        expected = slots / (slots + 1) if answer == slots else 1 / (slots + 1) / slots
        assert abs((drawn.answer == answer).mean() - expected) <= share_error(expected)
    # The speaker's distractors are the listener's, in another order where the target is missing.
    keys = np.sort(drawn.speaker_latents @ (25, 5, 1)), np.sort(drawn.listener_latents @ (25, 5, 1))
    np.testing.assert_array_equal(keys[0][present], keys[1][present])
    if distractors:
        meanings = drawn.speaker_latents[:, 1:] @ (25, 5, 1)
        assert (meanings != np.dot(target, (25, 5, 1))).all()
    # Non-matches are uniform over places of the lists: the support list in the support phase,
    # both lists in the query phase. A tuple that is listed twice comes twice as often.
    if distractors == 0:
        support, listed = [*SUPPORT, SUPPORT[1]], game >= 5
        places = [t for t in support + QUERY * listed if t != target]
        non_matches = drawn.listener_latents[~present][:, 0]
        for t in set(places):
            expected = places.count(t) / len(places)
            share = (non_matches == t).all(-1).mean()
            error = 4 * np.sqrt(expected * (1 - expected) / non_matches.shape[0])
            assert abs(share - expected) <= error
        assert {tuple(t) for t in non_matches.tolist()} == set(places)


def test_slots_are_permuted_uniformly():
    drawn = games(3)
    present = drawn.answer < 4
    speaker = drawn.speaker_latents[present] @ (25, 5, 1)
    listener = drawn.listener_latents[present] @ (25, 5, 1)
    distinct = np.array([len(set(row)) == 4 for row in speaker.tolist()])
    place = (speaker[distinct][:, :, None] == listener[distinct][:, None]).argmax(2)
    frequency = np.stack([(place == i).mean(0) for i in range(4)])
    np.testing.assert_allclose(frequency, 0.25, atol=4 * 0.433 / np.sqrt(place.shape[0]))


def test_without_descriptive_the_target_is_always_there():
    drawn = games(1, descriptive=False)
    assert set(drawn.answer.tolist()) == {0, 1}
    assert abs(drawn.answer.mean() - 0.5) <= share_error(0.5)


def test_partial_observability_hides_the_distractors_from_the_speaker():
    make = functools.partial(gpicljax.make, "MetaRG-v0", view="players", num_distractors=1)
    full, partial = (play(make(rules=GameRules(observability=o)))[1] for o in ("full", "partial"))
    # [T, player, slot * N_dim]
    a, b = full["observation"]["stimulus"], partial["observation"]["stimulus"]
    np.testing.assert_array_equal(a[:, 1], b[:, 1])
    np.testing.assert_array_equal(a[:, 0, :3], b[:, 0, :3])
    assert (a[:, 0, 3:] != 0).any()
    assert (b[:, 0, 3:] == 0).all()
    np.testing.assert_array_equal(a[:, 0, :3], full["state"].game.speaker[:, 0])
    np.testing.assert_array_equal(a[:, 0, 3:], full["state"].game.speaker[:, 1])


def test_multi_hot_stimuli_tell_the_latents():
    env = gpicljax.make("MetaRG-v0", stimulus="mhe")
    _, steps = play(env)
    feedback = steps["round"] == 2
    blocks = steps["observation"]["stimulus"].reshape(-1, 3, 5)
    np.testing.assert_array_equal(blocks.sum(-1), 1)
    np.testing.assert_array_equal(blocks.argmax(-1)[feedback], steps["target"][feedback])
    listener_latents = steps["state"].game.listener_latents[:, 0]
    np.testing.assert_array_equal(blocks.argmax(-1)[~feedback], listener_latents[~feedback])


@pytest.mark.parametrize("stimulus", daily(["pseudoword"], ["categorical", "pseudoword"]))
def test_names_stand_for_values_and_are_drawn_anew(stimulus):
    """O distinct names of each value, the same through an episode, others in the next task."""
    env = gpicljax.make("MetaRG-v1", stimulus=stimulus, max_samples=2)
    params = env.make_params(samples=2)
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    tasks = sample(jax.random.split(jax.random.key(0), 64), params)
    names = np.asarray(tasks.table)
    assert names.dtype == np.int32 and names.shape == (64, 3, 5, 2)
    apart = names.reshape(64, 3, 10) if stimulus == "categorical" else names.reshape(64, 1, 30)
    assert (np.diff(np.sort(apart, -1), axis=-1) > 0).all()
    # No name tells of its value: each place holds low and high names alike.
    middle = names.mean((0, 3))
    spread = names.std() / np.sqrt(128)
    assert np.abs(middle - names.mean()).max() < 4 * spread
    task, steps = play(env)
    space = env.observation_space()["stimulus"]
    stimuli = steps["observation"]["stimulus"]
    assert bool(jax.jit(jax.vmap(space.contains))(stimuli).all())
    feedback = steps["round"] == 2
    target_names = np.asarray(task.table)[np.arange(3), steps["target"][feedback]]  # [T, 3, O]
    if stimulus == "pseudoword":
        target_names, stimuli = np.asarray(structure.spell(target_names)), stimuli.reshape(-1, 3, 4)
        right = (target_names == stimuli[feedback][:, :, None]).all(-1)
    else:
        right = target_names == stimuli[feedback][..., None]
    assert right.any(-1).all()


# The channel of evaluations ----------------------------------------------------------------------


@pytest.mark.parametrize("channel", CHANNELS)
def test_ablations_of_the_channel(channel):
    # The same target in every game: what is heard differs by the channel only.
    env = gpicljax.make("MetaRG-v0", ablations=True)
    skeleton = skeleton_of([SUPPORT[1]] * 6, [QUERY[0]])
    task, steps = play(env, skeleton=skeleton, games=7, channel=channel)
    heard = steps["observation"]["message"]
    deciding, feedback = heard[1::3][:6], heard[2::3][:6]
    assert (heard[::3] == 0).all()
    np.testing.assert_array_equal(deciding, feedback)
    if channel == "silence":
        assert (deciding == 0).all()
        return
    assert ((deciding >= 1) & (deciding <= 6)).all()
    same = (deciding == deciding[0]).all(1)
    assert same.all() if channel == "episode" else not same.all()
    if channel == "episode":
        np.testing.assert_array_equal(deciding[0], task.heard[np.arange(3), posdis(SUPPORT[1])])
    if channel == "game":
        # One permutation for all positions in each game: different tokens stay different.
        assert all(len(set(message)) == 3 for message in deciding.tolist())


def test_a_random_channel_breaks_the_equality_of_tokens():
    env = gpicljax.make("MetaRG-v0", ablations=True)
    skeleton = skeleton_of([(0, 0, 0), SUPPORT[1]], [(1, 1, 1)])
    equal = []
    for seed in range(30):
        _, steps = play(env, skeleton=skeleton, games=3, seed=seed, channel="random")
        message = steps["observation"]["message"][7]
        equal.append(message[0] == message[1])
    assert 0 < sum(equal) < 20


def test_a_channel_is_ablated_only_where_that_was_asked_for():
    with pytest.raises(ValueError, match=r"channel: got 1; accepted: 0; make\(..., ablations=True"):
        gpicljax.make("MetaRG-v1").make_params(channel=1)
    with pytest.raises(ValueError, match="channel: got 4; accepted: integers from 0 to 3"):
        gpicljax.make("MetaRG-v1", ablations=True).make_params(channel=4)
    env = gpicljax.make("MetaRG-v1", ablations=True)
    assert int(env.make_params(channel=1).channel) == 1


# Reference actions -------------------------------------------------------------------------------


def test_sentence_ids_are_bijective_base_v():
    vocab, length = 6, 3
    count = messaging.num_sentences(vocab, length)
    assert count == 259
    decode = jax.jit(jax.vmap(lambda s: messaging.sentence_tokens(s, vocab, length)))
    tokens = np.asarray(decode(jnp.arange(count)))
    assert len(set(map(tuple, tokens.tolist()))) == count
    np.testing.assert_array_equal(tokens @ vocab ** np.arange(length), np.arange(count))
    np.testing.assert_array_equal(tokens, messaging.regularise(jnp.asarray(tokens)))
    assert tokens.max() == vocab
    assert [messaging.num_sentences(*c) for c in ((4, 3), (10, 5))] == [85, 111_111]


def test_reference_actions_and_their_masks():
    env = gpicljax.make("MetaRG-v0", actions="reference")
    assert env.action_space().n == 519
    assert gpicljax.make("MetaRG-v0").action_space().n == 3
    # V 10, L 5: the reference's 222 223 actions.
    large = gpicljax.make("MetaRG-v0", actions="reference", vocab_size=10, message_length=5)
    assert large.action_space().n == 222_223
    for masks in ("paper", "reference"):
        env = gpicljax.make("MetaRG-v0", actions="reference", rules=GameRules(masks=masks))
        _, steps = play(env)
        legal = steps["observation"]["action_mask"]
        deciding = steps["round"] == 1
        assert (legal[~deciding] == (np.arange(519) == 518)).all()
        decisions = [0, 259] if masks == "paper" else np.arange(518)
        assert (legal[deciding] == np.isin(np.arange(519), decisions)).all()
    # Whatever the sentence, the decision is the id's quotient.
    time = np.arange(3 * GAMES - 1)
    sentence = np.random.default_rng(0).integers(0, 259, time.size)
    for decision in (0, 1):
        _, steps = play(env, 259 * decision + sentence)
        right = (steps["answer"] == decision) & (time % 3 == 1)
        np.testing.assert_array_equal(steps["info"]["correct"], right)


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"permutation": "shuffled"},
        {"query_targets": "some"},
        {"nonmatch": "fair"},
        {"observability": "none"},
        {"masks": "none"},
        {"query_penalty": "big"},
    ],
)
def test_bad_rules(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}: got '{value}'"):
        GameRules(**wrong)


def test_the_split_of_the_written_episode():
    support, query = structure.phase_masks(jnp.array([4, 4, 4]), 5)
    for tuples, mask in ((SUPPORT, support), (QUERY, query)):
        assert all(mask[int(np.dot(t, (25, 5, 1)))] for t in tuples)
