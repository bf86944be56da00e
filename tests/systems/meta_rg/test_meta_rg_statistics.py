"""Meta-Referential Games against the statistics measured on the reference environment.

Every comparison allows three combined standard errors of both sample means. The sizes of the
reference's samples are stated with its numbers; ours is `EPISODES`.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import OPTIMISED
from extreme_draws import EXTREME, make_key
from scipy import stats
from variants import daily

import gpicljax
from gpicljax.systems.meta_rg.env import messaging, structure
from gpicljax.systems.meta_rg.env.rules import GameRules
from gpicljax.systems.meta_rg.env.targets import sample_skeleton

EPISODES = 5_000
PAPER = (2, 5)
SLOW = pytest.mark.slow


def grid(*cells):
    """Cells `(S, O, (V_min, V_max), ...)`; those that take long are marked."""
    return [
        pytest.param(*c, id=f"S{c[0]}_O{c[1]}_V{c[2][0]}-{c[2][1]}", marks=marks(*c[:2]))
        for c in cells
    ]


def marks(shots, samples):
    return () if (shots, samples) in ((1, 1), (2, 4)) else (SLOW,)


@functools.cache
def sampler(**static):
    """One compiled program for all cells: shots, samples and the range of d are traced."""
    env = gpicljax.make("MetaRG-v0", max_shots=4, max_samples=16, **static)

    def sample(keys, params):
        # In tiles: the slowest episode of a tile holds up only that tile.
        return jax.lax.map(lambda key: env.sample_blueprint(key, params), keys, batch_size=250)

    return env, jax.jit(sample, compiler_options=OPTIMISED)


@functools.cache
def skeletons(shots, samples, values=PAPER, **static):
    env, sample = sampler(**static)
    params = env.make_params(
        shots=shots, samples=samples, min_values=values[0], max_values=values[1]
    )
    return jax.device_get(sample(jax.random.split(jax.random.key(0), EPISODES), params))


def places(skeleton):
    """Masks of the support and of the query games in `targets`, `bool[N, G]`."""
    game = np.arange(skeleton.targets.shape[1])
    support = game < skeleton.num_support[:, None]
    return support, ~support & (game < skeleton.num_games[:, None])


def assert_mean(values, mean, sd, count):
    """Asserts that independent values agree with a mean of `count` values of deviation `sd`."""
    values = np.asarray(values, float).ravel()
    error = np.sqrt(sd**2 / count + values.var() / values.size)
    assert abs(values.mean() - mean) <= 3 * error, (values.mean(), mean, error)


# Lengths -----------------------------------------------------------------------------------------

LENGTHS = grid(
    # S, O, V, episodes, support mean and sd, query mean and sd
    (1, 1, PAPER, 657, 10.7, 4.9, 13.4, 6.8),
    (2, 1, PAPER, 606, 20.0, 7.9, 15.8, 8.0),
    (4, 1, PAPER, 552, 36.3, 11.4, 17.4, 10.2),
    (1, 4, PAPER, 800, 10.8, 4.9, 13.9, 6.8),
    (2, 4, PAPER, 404, 19.2, 6.9, 26.0, 9.5),
    (4, 4, PAPER, 375, 38.0, 11.3, 49.8, 17.5),
    (1, 16, PAPER, 427, 10.7, 4.8, 14.7, 6.6),
    (2, 16, PAPER, 399, 19.3, 7.2, 25.5, 9.6),
    (4, 16, PAPER, 335, 37.3, 11.6, 47.3, 14.7),
    (1, 1, (2, 3), 1000, 6.0, 2.5, 5.5, 0.9),
    (1, 1, (5, 5), 438, 15.9, 6.0, 22.9, 7.5),
    (4, 1, (5, 5), 757, 43.1, 6.8, 44.0, 0.0),
)


@pytest.mark.parametrize(
    ("shots", "samples", "values", "count", "support", "support_sd", "query", "query_sd"), LENGTHS
)
def test_numbers_of_games(shots, samples, values, count, support, support_sd, query, query_sd):
    skeleton = skeletons(shots, samples, values)
    assert_mean(skeleton.num_support, support, support_sd, count)
    # A cell where every episode has 44 query games has no error at all.
    assert_mean(skeleton.num_games - skeleton.num_support, query, query_sd, count)


@pytest.mark.parametrize(
    ("shots", "samples", "values"), grid((1, 1, PAPER), (2, 4, PAPER), (4, 4, PAPER))
)
def test_every_value_is_shown_until_the_last_was_shown_as_often_as_asked(shots, samples, values):
    skeleton = skeletons(shots, samples, values)
    tuples = structure.combinations(3, 5)[skeleton.targets.clip(0, 124)]
    support, query = places(skeleton)
    needed = shots * skeleton.num_values.sum(1)
    sampled = needed <= samples * phase_sizes(skeleton.num_values)[1]
    for phase, episodes in ((support, np.ones(EPISODES, bool)), (query, sampled)):
        shown = (tuples[..., None] == np.arange(5)) & phase[..., None, None]
        counts = shown.sum(1)  # [N, N_dim, V]
        exists = np.arange(5) < skeleton.num_values[..., None]
        fewest = np.where(exists, counts, 10**6).min((1, 2))
        # The list ends when the last value reaches S, so that one has it exactly.
        assert (fewest[episodes] == shots).all()
        assert (np.where(exists, 0, counts) == 0).all()


def phase_sizes(num_values):
    """Number of support and query tuples, from counting odd and even indices."""
    odd = num_values // 2
    even = num_values - odd
    total = num_values.prod(1)
    support = even.prod(1) + sum(odd[:, i] * np.delete(even, i, 1).prod(1) for i in range(3))
    return support, total - support


def test_sizes_of_the_split():
    masks = jax.jit(jax.vmap(structure.phase_masks, (0, None)), static_argnums=1)
    grid = np.asarray(list(itertools.product(range(2, 6), repeat=3)))
    support, query = (np.asarray(mask).sum(1) for mask in masks(jnp.asarray(grid), 5))
    sizes = {tuple(d): (s, q) for d, s, q in zip(grid.tolist(), support, query, strict=True)}
    assert [sizes[d, d, d] for d in (5, 4, 3, 2)] == [(81, 44), (32, 32), (20, 7), (4, 4)]
    np.testing.assert_array_equal((support, query), phase_sizes(grid))
    # Means over U{2..5}^3; measured were 25.5 and 16.6, of about 657 episodes.
    assert (support.mean(), query.mean()) == (26.0, 16.875)
    for size, measured in ((support, 25.5), (query, 16.6)):
        assert abs(size.mean() - measured) < 3 * size.std() / np.sqrt(657)


@pytest.mark.parametrize(
    ("shots", "samples", "values", "count", "share"),
    grid(
        (1, 1, PAPER, 657, 0.19),
        (2, 1, PAPER, 606, 0.87),
        (4, 1, PAPER, 552, 1.0),
        (1, 4, PAPER, 800, 0.0),
        (2, 4, PAPER, 404, 0.01),
        (4, 4, PAPER, 375, 0.11),
        (2, 1, (5, 5), 220, 0.03),
    ),
)
def test_query_lists_are_exhaustive_where_sampling_could_not_show_enough(
    shots, samples, values, count, share
):
    skeleton = skeletons(shots, samples, values)
    query_size = samples * phase_sizes(skeleton.num_values)[1]
    exhaustive = shots * skeleton.num_values.sum(1) > query_size
    _, query = places(skeleton)
    for n in np.flatnonzero(exhaustive)[:300]:
        listed = skeleton.targets[n, query[n]]
        assert listed.size == query_size[n]
        unique, copies = np.unique(listed, return_counts=True)
        np.testing.assert_array_equal(listed, np.repeat(unique, samples))
        assert (copies == samples).all()
    # Measured on the reference was how often a list has as many targets as there are stimuli, which
    # sampled lists sometimes have too. Stated to two digits; the error is that of a binomial.
    as_long = (query.sum(1) == query_size).mean()
    error = np.sqrt(as_long * (1 - as_long) * (1 / count + 1 / EPISODES))
    assert abs(as_long - share) <= 3 * error + 0.005


@pytest.mark.parametrize("shots", [1, 2])
def test_targets_are_of_their_phase_and_the_pool_is_what_games_draw_from(shots):
    skeleton = skeletons(shots, 1)
    tuples = structure.combinations(3, 5)
    is_query = (tuples % 2 == 1).sum(1) >= 2
    support, query = places(skeleton)
    assert not is_query[skeleton.targets[support]].any()
    assert is_query[skeleton.targets[query]].all()
    for n in range(50):
        listed = {True: skeleton.targets[n, support[n]], False: skeleton.targets[n, query[n]]}
        ends = skeleton.num_support[n], skeleton.num_games[n]
        pool = skeleton.pool[n]
        np.testing.assert_array_equal(pool[: ends[0]], np.sort(listed[True]))
        np.testing.assert_array_equal(pool[ends[0] : ends[1]], np.sort(listed[False]))
        np.testing.assert_array_equal(skeleton.pools[n], [(0, ends[0]), (0, ends[1])])
        for game in range(ends[1]):
            first, count = skeleton.first[n, game], skeleton.count[n, game]
            side = pool[: ends[0]] if game < ends[0] else pool[: ends[1]]
            (same,) = np.nonzero(side == skeleton.targets[n, game])
            np.testing.assert_array_equal(same, np.arange(first, first + count))


@pytest.mark.parametrize(
    ("phase", "shots", "samples", "values", "unique", "covered"),
    [
        pytest.param(*case, marks=marks(case[1], case[2]), id=f"{case[0]}_S{case[1]}_O{case[2]}")
        for case in (
            ("support", 1, 1, PAPER, 0.90, 0.45),
            ("support", 2, 1, PAPER, 0.75, 0.66),
            ("support", 4, 1, PAPER, 0.57, 0.82),
            ("query", 1, 1, PAPER, 0.81, 0.70),
            ("query", 2, 1, PAPER, 0.97, 0.95),
            ("query", 4, 1, PAPER, 1.00, 1.00),
            ("query", 1, 4, PAPER, 0.75, 0.70),
            ("query", 2, 4, PAPER, 0.53, 0.86),
            ("query", 4, 4, PAPER, 0.33, 0.96),
        )
    ],
)
def test_shares_of_unique_and_of_covered_tuples(phase, shots, samples, values, unique, covered):
    skeleton = skeletons(shots, samples, values)
    listed = places(skeleton)[phase == "query"]
    size = phase_sizes(skeleton.num_values)[phase == "query"]
    targets = np.where(listed, skeleton.targets, -1)
    num_seen = np.stack([(targets == index).any(1) for index in range(125)]).sum(0)
    # Stated to two digits, of samples of about 400 episodes.
    for share, expected in ((num_seen / listed.sum(1), unique), (num_seen / size, covered)):
        error = share.std() * np.sqrt(1 / 400 + 1 / EPISODES)
        assert abs(share.mean() - expected) <= 3 * error + 0.005, (share.mean(), expected)


@pytest.mark.parametrize(
    ("shots", "samples", "values", "count", "leak"),
    grid(
        (1, 1, PAPER, 657, 0.441),
        (2, 1, PAPER, 606, 0.547),
        (4, 1, PAPER, 552, 0.655),
        (1, 4, PAPER, 800, 0.434),
        (2, 4, PAPER, 404, 0.432),
        (4, 4, PAPER, 375, 0.437),
        (1, 16, PAPER, 427, 0.428),
        (2, 16, PAPER, 399, 0.437),
        (4, 16, PAPER, 335, 0.450),
        (1, 1, (2, 3), 1000, 0.554),
        (2, 1, (2, 3), 915, 0.707),
        (1, 1, (5, 5), 438, 0.403),
        (2, 1, (5, 5), 220, 0.391),
        (4, 1, (5, 5), 757, 0.497),
    ),
)
def test_how_often_what_does_not_match_in_a_query_game_is_of_the_support_list(
    shots, samples, values, count, leak
):
    """The leak: P(non-match from the support list).

    A query game draws its non-match uniformly from the places of both lists that hold another
    tuple than the target: n_s of n_s + n_q - (places with the target's tuple). The share is over
    all query *games*, so that episodes with long query lists, which draw from the support list
    less often, count more. (Averaged over episodes S1_O1 would give 0.48.)
    """
    skeleton = skeletons(shots, samples, values)
    _, query = places(skeleton)
    num_others = skeleton.num_games[:, None] - skeleton.count
    share = np.where(query, skeleton.num_support[:, None] / np.maximum(num_others, 1), 0)
    games = query.sum()
    mean = share.sum() / games
    residual = np.where(query, share - mean, 0).sum(1)
    error = residual.std() * EPISODES / games * np.sqrt(1 / count + 1 / EPISODES)
    assert abs(mean - leak) <= 3 * error, (mean, leak, error)


def test_the_games_of_episodes_without_the_leak():
    rules = GameRules(query_targets="iid", nonmatch="balanced", permutation="position")
    skeleton = skeletons(1, 1, PAPER, rules=rules)
    tuples = structure.combinations(3, 5)
    is_query = (tuples % 2 == 1).sum(1) >= 2
    _, query = places(skeleton)
    sizes = phase_sizes(skeleton.num_values)[1]
    np.testing.assert_array_equal(query.sum(1), sizes)
    start, end = skeleton.pools[:, 1].T
    np.testing.assert_array_equal(start, skeleton.num_support)
    np.testing.assert_array_equal(end - start, sizes)
    place = np.arange(skeleton.pool.shape[1])
    drawn_from = (place >= start[:, None]) & (place < end[:, None])
    assert is_query[skeleton.pool[drawn_from]].all()
    assert (skeleton.count[query] == 1).all()
    # Uniform with replacement: of the largest structure, each of 44 tuples equally often.
    large = (skeleton.num_values == 5).all(1)
    drawn = skeleton.targets[large][query[large]]
    assert stats.chisquare(np.unique(drawn, return_counts=True)[1]).pvalue > 1e-4
    assert np.unique(drawn).size == 44


# Caps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shots", "samples"), [(1, 1), (2, 4), pytest.param(4, 4, marks=SLOW)])
def test_default_caps_are_rarely_reached(shots, samples):
    env = gpicljax.make("MetaRG-v0", max_shots=shots, max_samples=samples)
    skeleton = skeletons(shots, samples)
    queries = skeleton.num_games - skeleton.num_support
    too_long = (skeleton.num_support > env.max_support) | (queries > env.max_query)
    assert too_long.mean() < 1e-3


@pytest.mark.slow
def test_overflow_is_counted():
    def sample(cap, key):
        return sample_skeleton(
            key,
            jnp.array([4, 5, 5]),
            jnp.int32(1),
            jnp.int32(1),
            max_values=5,
            max_support=cap,
            max_query=cap,
            query_targets="tss",
            nonmatch="reference",
        )

    keys = jax.random.split(jax.random.key(0), 500)
    short, full = (
        jax.device_get(jax.jit(jax.vmap(functools.partial(sample, cap)))(keys)) for cap in (14, 128)
    )
    supports = full.num_support, full.num_games - full.num_support
    longest = np.maximum(*supports)
    assert not full.overflow.any()
    np.testing.assert_array_equal(short.overflow, longest > 14)
    assert 0.1 < short.overflow.mean() < 1
    np.testing.assert_array_equal(short.num_support, np.minimum(supports[0], 14))
    np.testing.assert_array_equal(short.num_games - short.num_support, np.minimum(supports[1], 14))


# Stimuli and channels ----------------------------------------------------------------------------


def test_symbolic_continuous_stimuli():
    def sample(key):
        values_key, key = jax.random.split(key)
        num_values = jax.random.randint(values_key, (3,), 2, 6)
        return num_values, structure.sample_scs(key, num_values, 5, 1)

    keys = jax.random.split(jax.random.key(1), EPISODES)
    num_values, (table, means, sigmas) = jax.device_get(jax.jit(jax.vmap(sample))(keys))
    exists = np.arange(5) < num_values[..., None]
    width = np.broadcast_to(2 / num_values[..., None], exists.shape)
    start = -1 + np.arange(5) * width
    position, scale = ((means - start) / width)[exists], (sigmas / width)[exists]
    count = 600 * 10.5  # values of the reference's 600 episodes
    assert_mean(position, 0.5, 0.084, count)
    assert_mean(scale, 0.1249, 0.0241, count)
    for x, sd, kurtosis in ((position, 0.084, 2.4), (scale, 0.0241, 1.8)):
        error = sd * np.sqrt((kurtosis - 1) / 4 * (1 / count + 1 / x.size))
        assert abs(x.std() - sd) <= 3 * error + 0.0005
    # Three standard deviations stay inside: means keep a quarter of the width from either edge.
    assert position.min() >= 0.25 - 1e-5
    assert position.max() <= 0.75 + 1e-5
    assert scale.min() >= 1 / 12 - 1e-6
    assert scale.max() <= 1 / 6 + 1e-6

    x = table[..., 0]
    assert_mean(x[exists], -0.001, 0.557, count)
    assert abs(x[exists].std() - 0.557) <= 3 * 0.557 * np.sqrt(0.25 / count) + 0.0005
    # Not truncated: 0.06 % leave their section, 0.016 % the range [-1, 1].
    inside = ((x >= start) & (x <= start + width))[exists]
    for rare, share in ((~inside, 0.0006), (np.abs(x[exists]) > 1, 0.00016)):
        assert rare.any()
        assert abs(rare.mean() - share) <= 3 * np.sqrt(share * (1 / count + 1 / rare.size))


@pytest.mark.parametrize("kind", ["shared", "position", "none"])
def test_channel_permutations(kind):
    keys = jax.random.split(jax.random.key(2), 20_000)
    sample = functools.partial(messaging.sample_permutation, kind=kind)
    heard = jax.jit(jax.vmap(sample, (0, None, None)), static_argnums=(1, 2))(keys, 6, 3)
    heard = np.asarray(heard)
    assert heard.shape == (20_000, 3, 7)
    assert (heard[..., 0] == 0).all(), "the end of sentence is grounded"
    np.testing.assert_array_equal(np.sort(heard, -1), np.broadcast_to(np.arange(7), heard.shape))
    shared = (heard[:, :1] == heard).all((1, 2))
    if kind == "none":
        assert (heard == np.arange(7)).all()
        return
    assert shared.all() if kind == "shared" else shared.mean() < 1e-3
    for position, token in itertools.product(range(3), range(1, 7)):
        counts = np.bincount(heard[:, position, token], minlength=7)[1:]
        assert stats.chisquare(counts).pvalue > 1e-4
    # All 720 permutations are equally frequent, and the positions' are independent.
    _, counts = np.unique(heard[:, 0], axis=0, return_counts=True)
    assert counts.size == 720
    assert stats.chisquare(counts).pvalue > 1e-4
    if kind == "position":
        pair = heard[:, 0, 1] * 6 + heard[:, 1, 1]
        counts = np.unique(pair, return_counts=True)[1]
        assert counts.size == 36
        assert stats.chisquare(counts).pvalue > 1e-4


# Games -------------------------------------------------------------------------------------------


@functools.cache
def game_drawer(env_id):
    env = gpicljax.make(env_id, max_samples=16)
    end = jnp.int32(env.num_rounds + env.feedback)

    def episode(key, params):
        task, first = env.start(key, env.sample_blueprint(key, params), params)

        def enter(index):
            # No decision changes a game, so that each can be entered from the one before.
            before = first.replace(index=index - 1, round=end)
            state = env.transition(key, before, jnp.int32(0), task).state
            return state.game, index >= first.skeleton.num_support

        games, query = jax.vmap(enter)(jnp.arange(env.max_games, dtype=jnp.int32))
        return games, query, jnp.arange(env.max_games) < first.skeleton.num_games

    def draw(keys, params):
        return jax.lax.map(lambda key: episode(key, params), keys, batch_size=100)

    return env, jax.jit(draw, compiler_options=OPTIMISED)


def test_stimuli_are_finite_at_the_ends_of_every_draw():
    draw = jax.jit(jax.vmap(lambda key, d: structure.sample_scs(key, d, 5, 3)))
    keys = jnp.stack([make_key(seed, EXTREME) for seed in range(8)])
    table, means, sigmas = draw(keys, jnp.resize(jnp.asarray([2, 3, 5], jnp.int32), (8, 3)))
    assert np.isfinite(table).all()
    # Both ends were drawn: 5.4 and 5.2 standard deviations away from the mean.
    away = np.asarray((table - means[..., None]) / sigmas[..., None])
    assert (away < -5.4).any() and (away > 5.2).any() and np.abs(away).max() < 5.43


def drawn_games(env_id, samples):
    """Every game of 1,000 episodes, about 25,000, and whether it is a query game."""
    env, draw = game_drawer(env_id)
    keys = jax.random.split(jax.random.key(3), 1_000)
    games, query, valid = jax.device_get(draw(keys, env.make_params(samples=samples)))
    return jax.tree.map(lambda x: x[valid], games), query[valid]


@pytest.mark.parametrize("env_id", daily(["MetaRG-v1"], ["MetaRG-v0", "MetaRG-v1"]))
@pytest.mark.parametrize("samples", daily([4], [1, 4, 16]))
def test_answers_are_balanced_and_views_are_as_often_the_same_as_stated(env_id, samples):
    games, query = drawn_games(env_id, samples)
    same = (games.speaker_latents == games.listener_latents).all((1, 2))
    np.testing.assert_array_equal(games.answer, np.where(same, 0, 1))
    for phase in (query, ~query):
        error = 0.5 / np.sqrt(phase.sum())
        assert abs(games.answer[phase].mean() - 0.5) <= 3 * error
    view = (games.speaker == games.listener).all((1, 2))[same]
    # The reference draws the speaker's sample anew, so that it coincides in 1 of O games.
    expected = 1.0 if samples == 1 else {"MetaRG-v0": 1 / samples, "MetaRG-v1": 0.0}[env_id]
    error = np.sqrt(expected * (1 - expected) / view.size)
    assert abs(view.mean() - expected) <= 3 * error


@pytest.mark.parametrize("kind", ["none", "shared", "position"])
def test_a_language_of_bins_passes_only_an_open_channel(kind):
    """The digitising ("cheating") pair, game by game; `test_meta_rg_listeners` lets it play.

    Through a permutation the listener finds its own bins with probability 1 / 216, or, if one
    permutation serves all positions, 1 / (6 * 5 * 4) to 1 / 6, depending on how many bins are
    equal: to be right then is all that is left above chance.
    """
    games, _ = drawn_games("MetaRG-v0", 1)
    spoken = messaging.digitise(games.speaker[:, 0], 6, 3)
    bins = messaging.digitise(games.listener[:, 0], 6, 3)
    keys = jax.random.split(jax.random.key(4), spoken.shape[0])
    sample = functools.partial(
        messaging.sample_permutation, vocab_size=6, message_length=3, kind=kind
    )
    permutation = jax.jit(jax.vmap(sample))(keys)
    heard = np.take_along_axis(np.asarray(permutation), np.asarray(spoken)[..., None], 2)[..., 0]
    decision = np.where((heard == bins).all(-1), 0, 1)
    percent = 100 * (decision == games.answer).mean()
    if kind == "none":
        assert percent >= 95
    else:
        assert abs(percent - 50) <= 3
    present = games.answer == 0
    hit_rate = (decision == 0)[present].mean()
    if kind == "position":
        assert abs(hit_rate - 1 / 216) <= 4 * np.sqrt(1 / 216 / present.sum())
    elif kind == "shared":
        assert 1 / 120 < hit_rate < 1 / 20
