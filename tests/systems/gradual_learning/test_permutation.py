"""Streams that permute the bytes say the same, in another alphabet."""

import string

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.combinators import by_block
from gpicljax.interface import TimeStep
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env import Curriculum
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.permutation import PERMUTATIONS
from gpicljax.systems.gradual_learning.experts import answering
from gpicljax.systems.gradual_learning.measures.streams import streams_of

NAMES = ("micro1", "micro4", "micro5.1", "micro5.6", "micro5.10", "micro5.18")
STEPS = 700
WITHIN = PERMUTATIONS.index("within classes")
TOGETHER = PERMUTATIONS.index("alphanumeric")
PRINTABLE = PERMUTATIONS.index("printable")


def sample_streams(env, *kinds):
    """A stream of each task set, for each kind; those of one task set have the same key."""
    keys = jax.random.split(jax.random.key(3), len(NAMES))
    curricula = [Curriculum((name,), "mixture") for name in NAMES]
    several = [
        streams_of(keys, env, curricula, 10**6, None if kind is None else np.eye(4)[kind])
        for kind in kinds
    ]
    return jax.tree.map(lambda *x: jnp.concatenate(x), *several)


def play_streams(env, tasks, agent):
    """Returns the learner's inputs and replies, and its rewards, `[T, N]`."""
    count = len(tasks.count)
    false = jnp.zeros(count, bool)

    @jax.jit
    def play(tasks):
        state = jax.vmap(env.initial)(jax.random.split(jax.random.key(0), count), tasks)

        def body(loop, number):
            state, reward, carry = loop
            inputs = jax.vmap(env.observe)(state, tasks)
            views = jax.vmap(env.privileged)(state, tasks)
            start = false | (number == 0)
            moment = TimeStep(inputs, reward, false, false, start, start, {}, views)
            replies, _, carry = agent.act(None, (), carry, moment)
            moved = jax.vmap(env.move, (0, 0, None, 0))(state, replies, (), tasks)
            text = views["text"], views["target"]
            return (moved.state, moved.reward, carry), (
                inputs,
                replies,
                moved.reward,
                moved.info,
                text,
            )

        start = state, jnp.zeros(count), agent.initial_carry(count)
        return jax.lax.scan(body, start, jnp.arange(STEPS))[1]

    return jax.tree.map(np.asarray, play(tasks))


def block(kinds):
    """The experts, each on all task sets and kinds."""
    count = len(NAMES) * kinds
    agents = [experts.oracle(), experts.solver(), experts.teacher_agent(), answering.echo()]
    return by_block([*agents, experts.suffix_predictor(256)], [count] * 5)


@pytest.fixture(scope="module")
def streams_of_both():
    """The same streams without and with a permutation of each kind, `[T, experts, ...]`."""
    plain_env = ByteStream(families=("mapping",), max_tasks=1, with_text=True)
    env = ByteStream(families=("mapping",), max_tasks=1, with_text=True, permuted=True)

    def five(tasks):
        return jax.tree.map(lambda x: jnp.concatenate([x] * 5), tasks)

    plain = play_streams(plain_env, five(sample_streams(plain_env, None)), block(1))
    tasks = sample_streams(env, *range(4))
    several = play_streams(env, five(tasks), block(4))

    def by_kind(x, kinds):
        return x.reshape(STEPS, 5, kinds, len(NAMES), *x.shape[2:])

    plain = jax.tree.map(lambda x: by_kind(x, 1), plain)
    return plain, jax.tree.map(lambda x: by_kind(x, 4), several), np.asarray(tasks.shown)


def test_a_permutation_can_be_undone_and_stays_within_its_bytes():
    env = ByteStream(families=("mapping",), max_tasks=1, permuted=True)
    tasks = sample_streams(env, *range(4))
    shown, meant = np.asarray(tasks.shown), np.asarray(tasks.meant)
    assert (np.take_along_axis(meant, shown.astype(int), 1) == np.arange(256)).all()
    shown = shown.reshape(4, len(NAMES), 256)
    letters, digits = string.ascii_letters, string.digits
    groups = {
        WITHIN: (letters, digits),
        TOGETHER: (letters + digits,),
        PRINTABLE: ("".join(map(chr, range(32, 127))),),
    }
    assert (shown[0] == np.arange(256)).all()
    for kind, sets in groups.items():
        changed = [ord(x) for group in sets for x in group]
        kept = np.setdiff1d(np.arange(256), changed)
        assert (shown[kind][:, kept] == kept).all()
        for group in sets:
            places = [ord(x) for x in group]
            assert (np.sort(shown[kind][:, places], 1) == np.sort(places)).all()
        assert len({row.tobytes() for row in shown[kind]}) == len(NAMES)
        # A byte keeps its place about as often as chance has it.
        assert (shown[kind][:, changed] == changed).mean() < 0.1


def test_shares_of_the_ways():
    env = ByteStream(families=("mapping",), max_tasks=1, permuted=True)
    params = env.make_params(permutation=(1, 0, 0, 3))
    keys = jax.random.split(jax.random.key(0), 400)
    shown = jax.jit(jax.vmap(env.sample_task, (0, None)))(keys, params).shown
    plain = np.asarray(shown == jnp.arange(256)).all(1)
    assert 0.18 < plain.mean() < 0.32
    assert len({row.tobytes() for row in np.asarray(shown)}) == 1 + (~plain).sum()


def test_what_is_said_and_paid_is_the_same_but_for_the_bytes(streams_of_both):
    plain, permuted, shown = streams_of_both
    shown = shown.reshape(4, len(NAMES), 256)
    inputs, replies, rewards, info, text = plain
    seen_too, said_too, paid_too, info_too, text_too = permuted
    # Oracle, solver, teacher and echo know the alphabet, or need not; the last is the null.
    for kind in range(4):
        for task in range(len(NAMES)):
            table = shown[kind, task]
            for expert in range(4):
                index, plain_index = (expert, kind, task), (expert, 0, task)
                permuted_entries, plain_entries = (slice(None), *index), (slice(None), *plain_index)
                assert (seen_too[permuted_entries] == table[inputs[plain_entries]]).all(), index
                assert (said_too[permuted_entries] == table[replies[plain_entries]]).all(), index
                assert (paid_too[permuted_entries] == rewards[plain_entries]).all(), index
                for name, values in info.items():
                    assert (info_too[name][permuted_entries] == values[plain_entries]).all(), (
                        name,
                        index,
                    )
                for plain_text, permuted_text in zip(text, text_too, strict=True):
                    assert (
                        permuted_text[permuted_entries] == table[plain_text[plain_entries]]
                    ).all(), index
    assert rewards[:, 0].max() == 1 and info["solved"][:, 0].sum() > len(NAMES)
    assert (paid_too[:, 0].sum(0) == rewards[:, 0, 0].sum(0)).all()


def test_the_null_is_the_same_but_for_the_bytes_where_classes_stay(streams_of_both):
    """It knows digits, letters, periods and silence, and no more, where feedback tells answers."""
    plain, permuted, shown = streams_of_both
    sets_with_feedback = [NAMES.index(name) for name in ("micro5.6", "micro5.10", "micro5.18")]
    shown = shown.reshape(4, len(NAMES), 256)
    for task in sets_with_feedback:
        table = shown[WITHIN, task]
        assert (permuted[1][:, 4, WITHIN, task] == table[plain[1][:, 4, 0, task]]).all()
        assert (permuted[2][:, 4, WITHIN, task] == plain[2][:, 4, 0, task]).all()
        assert (permuted[1][:, 4, PRINTABLE, task] != plain[1][:, 4, 0, task]).any()


def test_an_environment_without_it_carries_none():
    env = gpicljax.make("ByteStream-v0", max_tasks=3)
    params = env.make_params(permutation=None)
    task = jax.eval_shape(env.sample_task, jax.random.key(0), params)
    assert params.permutation is None and task.shown is None and task.meant is None
    with pytest.raises(ValueError, match=r"permutation: got .*permuted=True"):
        env.make_params(permutation=(0, 0, 0, 1))


@pytest.mark.parametrize("chances", [(1, 0), (0, 0, 0, 0), (1, 0, 0, -1), (np.nan, 1, 0, 0)])
def test_chances_that_are_none_are_refused(chances):
    env = gpicljax.make("ByteStream-v0", max_tasks=3, permuted=True)
    with pytest.raises(ValueError, match=r"permutation: got .*not all 0"):
        env.make_params(permutation=chances)


def test_descriptions_are_in_the_streams_alphabet():
    env = ByteStream(families=("mapping",), max_tasks=1, permuted=True)
    task = jax.tree.map(lambda x: x[3], sample_streams(env, PRINTABLE))
    observation, state = env.reset(jax.random.key(0), task)
    words = env.describe(state, task)
    # No more than the byte: neither the task set nor the rest of the question or its answer.
    assert words == f"step 0 of {task.horizon}: said {chr(int(observation))!r}"
    # As it came from the device, too.
    assert env.describe(*jax.device_get((state, task))) == words
