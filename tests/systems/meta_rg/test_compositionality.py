"""Topographic similarity, posdis and bosdis: plain definitions, known values, refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from variants import daily

from gpicljax.systems.meta_rg.env import structure
from gpicljax.systems.meta_rg.measures.compositionality import (
    bosdis,
    edit_distance,
    hamming_distance,
    posdis,
    topographic_similarity,
)


def language(rows, seed=0, length=4, vocab_size=5, dims=3, values=4):
    rng = np.random.default_rng(seed)
    return rng.integers(0, vocab_size, (rows, length)), rng.integers(0, values, (rows, dims))


def plain_edit(a, b):
    if not len(a) or not len(b):
        return max(len(a), len(b))
    replaced = plain_edit(a[:-1], b[:-1]) + (a[-1] != b[-1])
    return min(plain_edit(a[:-1], b) + 1, plain_edit(a, b[:-1]) + 1, replaced)


def plain_similarity(messages, meanings, distance):
    pairs = list(itertools.combinations(range(len(messages)), 2))
    message_distances = [distance(messages[i], messages[j]) for i, j in pairs]
    meaning_distances = [(meanings[i] != meanings[j]).sum() for i, j in pairs]
    return stats.spearmanr(message_distances, meaning_distances).statistic


def plain_gap(variables, meanings):
    """Posdis of Chaabouni et al. (2020) over the columns of a table, one by one."""

    def bits(*columns):
        _, counts = np.unique(np.stack(columns, 1), axis=0, return_counts=True)
        return stats.entropy(counts)

    shares = []
    for x in variables.T:
        information = sorted(bits(x) + bits(y) - bits(x, y) for y in meanings.T)
        if bits(x) > 0:
            shares.append((information[-1] - information[-2]) / bits(x))
    return np.mean(shares)


class TestDistances:
    @pytest.mark.parametrize("length", daily([3], [3, 5]))
    def test_agree_with_their_definitions(self, length):
        a, _ = language(24, length=length, vocab_size=3)
        b, _ = language(24, seed=1, length=length, vocab_size=3)
        expected = [plain_edit(x, y) for x, y in zip(a, b, strict=True)]
        assert edit_distance(a, b).tolist() == expected
        assert hamming_distance(a, b).tolist() == (a != b).sum(1).tolist()

    def test_a_long_message_and_another_length(self):
        # Past the length up to which rows are unrolled.
        a = np.arange(40)
        variants = np.stack([a, np.roll(a, 1), np.roll(a, -5), -a - 1])
        assert edit_distance(a, variants).tolist() == [0, 2, 10, 40]
        assert int(edit_distance(a[:5], a[2:4])) == 3


class TestTopographicSimilarity:
    @pytest.mark.parametrize("distance", daily(["edit"], ["edit", "hamming"]))
    def test_agrees_with_spearman_over_the_list_of_pairs(self, distance):
        messages, meanings = language(40, length=3)
        messages[:, 0] = meanings[:, 0]
        plain = {"edit": plain_edit, "hamming": lambda a, b: (a != b).sum()}[distance]
        expected = plain_similarity(messages, meanings, plain)
        measured = topographic_similarity(messages, meanings, message_distance=distance)
        assert measured.dtype == jnp.result_type(float)
        np.testing.assert_allclose(measured, expected, atol=1e-5)
        assert 0.1 < expected < 0.9

    def test_blocks_of_rows_change_nothing(self):
        messages, meanings = language(1100, length=2)  # three blocks, the last one with a rest
        messages[:, 0] = meanings[:, 0]
        i, j = np.triu_indices(1100, 1)
        x, y = ((messages[i] != messages[j]).sum(1), (meanings[i] != meanings[j]).sum(1))
        measured = topographic_similarity(messages, meanings, message_distance="hamming")
        np.testing.assert_allclose(measured, stats.spearmanr(x, y).statistic, atol=1e-5)

    def test_counts_are_repeated_rows(self):
        messages, meanings = language(10)
        counts = np.array([0, 3, 1, 1, 2, 0, 5, 1, 1, 1])
        repeated = (np.repeat(x, counts, axis=0) for x in (messages, meanings))
        weighted = topographic_similarity(messages, meanings, counts=counts)
        np.testing.assert_allclose(weighted, topographic_similarity(*repeated), atol=1e-6)

    @pytest.mark.slow
    def test_does_not_depend_on_names_or_order(self):
        messages, meanings = language(50)
        rng = np.random.default_rng(3)
        tokens, rows = rng.permutation(5), rng.permutation(50)
        measured = topographic_similarity(messages, meanings)
        renamed = topographic_similarity(tokens[messages][rows], (3 - meanings)[rows])
        np.testing.assert_allclose(measured, renamed, atol=1e-6)

    def test_shuffled_messages_are_near_zero(self):
        meanings = np.asarray(structure.combinations(3, 4))
        shuffled = np.random.default_rng(0).permutation(meanings)
        assert topographic_similarity(meanings, meanings, message_distance="hamming") > 0.9999
        assert abs(topographic_similarity(shuffled, meanings)) < 0.05


class TestDisentanglement:
    def test_agree_with_the_sums_over_columns(self):
        messages, meanings = language(200)
        messages[:, 1] = meanings[:, 2]
        messages[:, 3] = 2
        np.testing.assert_allclose(
            posdis(messages, meanings), plain_gap(messages, meanings), atol=1e-5
        )
        numbers = (messages[:, :, None] == np.arange(5)).sum(1)
        np.testing.assert_allclose(
            bosdis(messages, meanings), plain_gap(numbers, meanings), atol=1e-5
        )

    def test_what_each_of_them_holds_for_composed(self):
        meanings = np.asarray(structure.combinations(2, 2))
        by_place = meanings + 1
        by_word = np.stack([meanings[:, 0], meanings[:, 1] + 2], 1)
        by_word[1::2] = by_word[1::2, ::-1]  # the order of the words tells nothing new
        assert posdis(by_place, meanings) == pytest.approx(1, abs=1e-5)
        assert bosdis(by_place, meanings) == pytest.approx(0, abs=1e-5)
        assert bosdis(by_word, meanings) == pytest.approx(1, abs=1e-5)
        assert posdis(by_word, meanings) < 0.9

    @pytest.mark.slow
    def test_positions_and_names_do_not_matter_and_counts_repeat(self):
        messages, meanings = language(50)
        counts = np.arange(50) % 3
        repeated = [np.repeat(x, counts, axis=0) for x in (messages, meanings)]
        rng = np.random.default_rng(3)
        renamed = rng.permutation(5)[messages][:, rng.permutation(4)]
        for measure in (posdis, bosdis):
            value = measure(messages, meanings, counts=counts)
            np.testing.assert_allclose(value, measure(*repeated), atol=1e-5)
            np.testing.assert_allclose(
                measure(messages, meanings), measure(renamed, 3 - meanings), atol=1e-5
            )


class TestKnownValues:
    def test_of_the_speaker_whose_position_i_tells_value_i(self):
        """All 64 structures of 2 .. 5 values, in one program: `specs` section 4, N = 64."""
        table = structure.combinations(3, 5)
        messages = np.pad(table + 1, ((0, 0), (0, 1)))  # L = 4, V = 6: these do not matter
        structures = np.array(list(itertools.product(range(2, 6), repeat=3)))
        support, query = jax.vmap(lambda d: structure.phase_masks(d, 5))(jnp.asarray(structures))

        @jax.jit
        @jax.vmap
        def measure(counts):
            sizes = {"counts": counts, "vocab_size": 7, "num_values": 5}
            similarity = topographic_similarity(messages, table, counts=counts)
            return jnp.stack(
                [posdis(messages, table, **sizes), similarity, bosdis(messages, table, **sizes)]
            )

        full = 100 * np.asarray(measure(support | query))
        np.testing.assert_allclose(full[:, 0], 100, atol=1e-3)
        np.testing.assert_allclose(full.mean(0), [100, 96.3, 23.8], atol=0.15)
        np.testing.assert_allclose(full.std(0), [0, 1.3, 17.3], atol=0.15)
        split = 100 * np.asarray(measure(support))
        np.testing.assert_allclose(split.mean(0), [91.2, 95.9, 24.0], atol=0.1)
        np.testing.assert_allclose(split.std(0), [2.8, 1.8, 18.7], atol=0.1)
        row = structures.tolist().index([2, 5, 5])
        np.testing.assert_allclose(split[row], [92.0, 96.6, 3.9], atol=0.06)
        np.testing.assert_allclose(full[-1], [100, 94.2, 0], atol=0.06)
        np.testing.assert_allclose(split[-1], [95.8, 93.2, 0], atol=0.06)


class TestNothingToMeasure:
    @pytest.mark.parametrize("measure", [topographic_similarity, posdis, bosdis])
    def test_is_nan(self, measure):
        messages, meanings = language(6)
        assert np.isfinite(measure(messages, meanings))
        assert np.isnan(measure(np.ones_like(messages), meanings))
        assert np.isnan(measure(messages, np.ones_like(meanings)))
        assert np.isnan(measure(messages, meanings, counts=np.zeros(6, int)))
        assert np.isnan(measure(messages, meanings, counts=np.arange(6) == 2))


REFUSED = {
    "one message": (lambda m, d: posdis(m[:1], d[:1]), r"messages: got int64\[1, 4\]"),
    "no position": (lambda m, d: topographic_similarity(m[:, :0], d), r"messages: got .*\[6, 0\]"),
    "a list of lists": (lambda m, d: posdis(m[0], d), r"messages: got int64\[4\]"),
    "numbers": (lambda m, d: topographic_similarity(m * 0.5, d), "messages: got float64"),
    "fewer meanings": (lambda m, d: topographic_similarity(m, d[:5]), "meanings: got '5 rows'"),
    "one attribute": (lambda m, d: bosdis(m, d[:, :1]), r"meanings: got int64\[6, 1\]"),
    "no vocabulary": (lambda m, d: posdis(m, d, vocab_size=0), "vocab_size: got 0"),
    "a small vocabulary": (lambda m, d: posdis(m, d, vocab_size=3), "messages: got '0 to 4'"),
    "less than nothing": (lambda m, d: posdis(m - 1, d), "messages: got '-1 to 3'"),
    "negative counts": (lambda m, d: posdis(m, d, counts=np.arange(6) - 1), "counts: got -1"),
    "other counts": (lambda m, d: posdis(m, d, counts=np.ones(5, int)), r"counts: got int64\[5\]"),
    "a distance": (lambda m, d: topographic_similarity(m, d, message_distance="edi"), "mean 'edit"),
    "a traced table": (lambda m, d: jax.jit(posdis)(m, d), "vocab_size: got None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call(*language(6))


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 10])
def test_ten_thousand_messages(length):
    """Against a million of the 50 million pairs in a list."""
    messages, meanings = language(10_000, length=length)
    messages[:, :3] = meanings
    full = topographic_similarity(messages, meanings)
    i, j = np.random.default_rng(0).integers(0, 10_000, (2, 1_000_000))
    i, j = i[i != j], j[i != j]
    message_distances = edit_distance(messages[i], messages[j])
    sampled = stats.spearmanr(message_distances, (meanings[i] != meanings[j]).sum(1)).statistic
    np.testing.assert_allclose(full, sampled, atol=5e-3)
