"""Meta-Referential Games for two players: the channel, the masks, and the listener's view."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from written_episodes import GAMES, SUPPORT, play

import gpicljax
from gpicljax.systems.meta_rg.env.rules import GameRules

TIME = np.arange(3 * GAMES - 1)
TALKING, DECIDING, FEEDBACK = (stage == TIME % 3 for stage in range(3))
make = functools.partial(gpicljax.make, "MetaRG-v0", view="players")


def choices(seed=0, low=0, high=6):
    """Arbitrary actions of both players at all steps, in turn or not: `[T, 2, 1 + L]`."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(low, high + 1, (TIME.size, 2, 4))
    actions[..., 0] = rng.integers(0, 3, actions.shape[:2])
    return actions


def zero_after_end(message):
    """Everything after the first 0 becomes 0."""
    return np.where(np.cumprod(message != 0, axis=-1), message, 0)


def through(permutation, sent):
    return np.take_along_axis(permutation[None], sent[..., None], 2)[..., 0]


def persisting(sent):
    """The messages at each step if they are sent in round 0 and cleared between games."""
    return np.concatenate([np.zeros_like(sent[:1]), sent[:-1]]) * DECIDING[:, None] + (
        np.concatenate([np.zeros_like(sent[:2]), sent[:-2]]) * FEEDBACK[:, None]
    )


@pytest.mark.parametrize("listener_speaks", [False, True])
def test_messages_pass_the_channel(listener_speaks):
    actions = choices()
    task, steps = play(make(listener_speaks=listener_speaks), actions)
    messages = steps["observation"]["message"]
    speaker, listener = (persisting(zero_after_end(actions[:, player, 1:])) for player in (0, 1))
    assert (speaker[DECIDING] != actions[TALKING][:, 0, 1:]).any(), "some sentences end early"
    np.testing.assert_array_equal(messages[:, 1], through(task.heard, speaker))
    if listener_speaks:
        # The inverse permutation: what the speaker hears would be heard as what was said.
        np.testing.assert_array_equal(through(task.heard, messages[:, 0]), listener)
        assert listener.any()
    else:
        np.testing.assert_array_equal(messages[:, 0], speaker)  # its own words


def test_only_the_decision_of_the_listener_counts_and_only_when_due():
    actions = choices()
    _, steps = play(make(), actions)
    right = (actions[:, 1, 0] == steps["answer"]) & DECIDING
    np.testing.assert_array_equal(steps["info"]["correct"], right)
    query = len(SUPPORT) <= TIME // 3
    expected = np.where(right, 1.0, np.where(query, -2.0, 0.0)) * DECIDING
    np.testing.assert_array_equal(steps["reward"], np.stack([expected, expected], 1))

    # The speaker's decisions, and whatever either says out of turn, change nothing.
    other_actions = choices(seed=1)
    other_actions[DECIDING, 1, 0] = actions[DECIDING, 1, 0]
    other_actions[TALKING, 0, 1:] = actions[TALKING, 0, 1:]
    _, other_steps = play(make(), other_actions)
    for name, value in steps["observation"].items():
        np.testing.assert_array_equal(other_steps["observation"][name], value)
    np.testing.assert_array_equal(other_steps["reward"], steps["reward"])


def test_what_is_announced_is_heard_beside_what_is_said_and_changes_nothing_else():
    done, announced = choices(), choices(seed=2)
    task, plain = play(make(), done)
    _, steps = play(make(announces=True), np.concatenate([done, announced], axis=-1))
    shown = steps["observation"]
    as_announced = persisting(zero_after_end(announced[:, 0, 1:]))
    np.testing.assert_array_equal(shown["announced"][:, 1], through(task.heard, as_announced))
    assert shown["announced"].any() and (shown["announced"] != shown["message"]).any()
    np.testing.assert_array_equal(steps["reward"], plain["reward"])
    masks = shown.pop("action_mask")
    np.testing.assert_array_equal(masks[:, :, :4], masks[:, :, 4:])
    np.testing.assert_array_equal(masks[:, :, :4], plain["observation"].pop("action_mask"))
    for name, value in plain["observation"].items():
        np.testing.assert_array_equal(shown[name], value)
    with pytest.raises(ValueError, match="announces: got True"):
        gpicljax.make("MetaRG-v0", announces=True)


def test_messages_of_fixed_length():
    env = make(rules=GameRules(fixed_length=True))
    actions = choices()
    task, steps = play(env, actions)
    messages = actions[:, 0, 1:]
    whole = np.where((messages > 0).all(1, keepdims=True), messages, 0)
    assert (whole[TALKING] == 0).any()
    heard = steps["observation"]["message"][:, 1]
    np.testing.assert_array_equal(heard, through(task.heard, persisting(whole)))
    tokens = steps["observation"]["action_mask"][TALKING][:, 0, 1:]
    assert (tokens == [False, *[True] * 6]).all()


@pytest.mark.parametrize("listener_speaks", [False, True])
def test_masks_of_the_paper(listener_speaks):
    env = make(listener_speaks=listener_speaks)
    _, steps = play(env, choices())
    mask = steps["observation"]["action_mask"]  # [T, player, decision and tokens, choice]
    assert mask.shape == (TIME.size, 2, 4, 7)
    decision, tokens = mask[:, :, 0], mask[:, :, 1:]
    wait, silent = np.arange(7) == 2, np.arange(7) == 0
    # The speaker talks in rounds before N and then waits; only the listener decides, in round N.
    assert (decision[:, 0] == wait).all()
    assert (decision[~DECIDING, 1] == wait).all()
    assert (decision[DECIDING, 1] == (np.arange(7) < 2)).all()
    assert tokens[TALKING, 0].all()
    assert (tokens[~TALKING] == silent).all()
    assert (tokens[TALKING, 1] == (True if listener_speaks else silent)).all()
    # What a mask allows is an action.
    space = env.action_space()
    for t in (0, 1, 2):
        keys = jax.random.split(jax.random.key(t), 50)
        drawn = jax.vmap(space.sample, (0, None))(keys, jnp.asarray(mask[t]))
        assert jax.vmap(space.contains)(drawn).all()
        assert np.take_along_axis(mask[t][None], np.asarray(drawn)[..., None], -1).all()


@jax.jit
def side_by_side(key, task):
    """An episode of random decisions in both views, the player speaking as the rule does."""
    env, players = gpicljax.make("MetaRG-v0"), make()
    wait = jnp.full((4,), 2, jnp.int32)

    def body(states, inputs):
        key, decision = inputs
        a, b = states
        talk = wait.at[1:].set(players.privileged(b, task)["speaker_latents"][0] + 1)
        actions = jnp.stack([jnp.where(b.round == 0, talk, wait), wait.at[0].set(decision)])
        moved = (env.transition(key, a, decision, task), players.transition(key, b, actions, task))
        views = (env.observe(a, task), jax.tree.map(lambda x: x[1], players.observe(b, task)))
        rewards = moved[0].reward, moved[1].reward[1]
        outputs = tuple(
            ({**view, "action_mask": 0}, reward, move.terminated, move.info)
            for view, reward, move in zip(views, rewards, moved, strict=True)
        )
        return (moved[0].state, moved[1].state), outputs

    states = env.initial(key, task), players.initial(key, task)
    longest = int(env.horizon())
    keys = jax.random.split(key, longest)
    decisions = jax.random.randint(key, (longest,), 0, 2, jnp.int32)
    return states[0].skeleton.num_games, jax.lax.scan(body, states, (keys, decisions))[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_player_that_speaks_by_the_rule_is_the_listeners_view_of_it(seed):
    env = gpicljax.make("MetaRG-v0")
    task = jax.jit(env.sample_task)(jax.random.key(0), env.default_params)
    num_games, (rule, player) = jax.device_get(side_by_side(jax.random.key(seed), task))
    terminated = rule[2]
    length = int(terminated.argmax()) + 1
    assert length == 3 * num_games - 1
    for x, y in zip(jax.tree.leaves(rule), jax.tree.leaves(player), strict=True):
        np.testing.assert_array_equal(x[:length], y[:length])
    assert rule[0]["message"][:length].any()
