"""ZSCT accuracies against a loop, their errors against a simulation, and Table 3's hypotheses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gpicljax.evaluation import holm_correction
from gpicljax.evaluation.statistics import SummaryStats
from gpicljax.systems.meta_rg.measures import published
from gpicljax.systems.meta_rg.measures.zsct import hypothesis_table, hypothesis_tests, zsct_accuracy


def games(rng, episodes=30, length=20):
    """Ragged episodes: a support phase, a query phase, padding."""
    support = rng.integers(0, 9, (episodes, 1))
    total = support + rng.integers(0, length - 9, (episodes, 1))
    at = np.arange(length)
    skill = rng.uniform(0.3, 1.0, (episodes, 1))
    correct = rng.random((episodes, length)) < skill
    return correct, at < total, at >= support


def test_equals_a_loop_over_episodes():
    correct, valid, query = games(np.random.default_rng(0))
    score = zsct_accuracy(correct, valid, query)
    for phase, mask in ((score.query, valid & query), (score.support, valid & ~query)):
        episode_games = [c[m] for c, m in zip(correct, mask, strict=True) if m.any()]
        shares = [c.mean() for c in episode_games]
        np.testing.assert_allclose(phase.by_game, np.concatenate(episode_games).mean(), rtol=1e-5)
        np.testing.assert_allclose(phase.by_episode, np.mean(shares), rtol=1e-5)
        np.testing.assert_allclose(phase.by_episode_error, stats.sem(shares), rtol=1e-4)
        assert (int(phase.games), int(phase.episodes)) == (mask.sum(), len(episode_games))


def test_weightings_differ_as_they_should():
    # One episode of 1 game, won; one of 3 games, all lost.
    correct = np.array([[True, False, False], [False, False, False]])
    valid = np.array([[True, False, False], [True, True, True]])
    score = zsct_accuracy(correct, valid, np.ones((2, 3), bool)).query
    assert float(score.by_game) == 0.25
    assert float(score.by_episode) == 0.5
    assert float(score.by_episode_error) == pytest.approx(0.5)


def test_padding_and_the_other_phase_change_nothing():
    correct, valid, query = games(np.random.default_rng(1))
    plain = zsct_accuracy(correct, valid, query)
    noisy = zsct_accuracy(np.where(valid, correct, ~correct), valid, query)
    flipped = zsct_accuracy(np.where(query, correct, ~correct), valid, query)
    for a, b in zip(plain.query, noisy.query, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(plain.query, flipped.query, strict=True):
        np.testing.assert_array_equal(a, b)


def test_clustered_errors_match_the_spread_of_repeated_studies():
    study = jax.jit(jax.vmap(zsct_accuracy))
    rng = np.random.default_rng(2)
    studies = [games(rng, episodes=60) for _ in range(600)]
    score = study(*(jnp.stack(x) for x in zip(*studies, strict=True))).query
    # 600 studies: the standard deviation is known to 3 %, the mean error to less.
    np.testing.assert_allclose(np.mean(score.by_game_error), np.std(score.by_game), rtol=0.12)
    np.testing.assert_allclose(np.mean(score.by_episode_error), np.std(score.by_episode), rtol=0.12)
    # Treating the games as independent would claim too much.
    p, n = np.mean(score.by_game), np.mean(score.games)
    assert np.mean(score.by_game_error) > 1.15 * np.sqrt(p * (1 - p) / n)


def test_empty_phase_and_single_episode():
    score = zsct_accuracy(*(np.ones((1, 4), bool) for _ in range(3)))
    assert float(score.query.by_game) == 1
    assert np.isnan([score.query.by_game_error, score.query.by_episode_error]).all()
    assert np.isnan([score.support.by_game, score.support.by_episode]).all()
    assert (int(score.support.games), int(score.support.episodes)) == (0, 0)


def test_jit_vmap_and_types():
    seeds = [games(np.random.default_rng(s)) for s in range(3)]
    stacked = [jnp.stack(x) for x in zip(*seeds, strict=True)]
    together = jax.jit(jax.vmap(zsct_accuracy))(*stacked)
    assert together.query.by_episode.shape == (3,)
    assert not together.query.by_episode.weak_type
    assert together.query.games.dtype == jnp.int32
    for s, seed_games in enumerate(seeds):
        for a, b in zip(
            jax.tree.leaves(together), jax.tree.leaves(zsct_accuracy(*seed_games)), strict=True
        ):
            np.testing.assert_allclose(a[s], b, rtol=1e-6)
    with jax.enable_x64(True):
        assert zsct_accuracy(*seeds[0]).query.by_episode.dtype == jnp.float64


def test_bad_input_is_named():
    good = np.ones((2, 3), bool)
    with pytest.raises(TypeError, match="correct: got dtype float32; accepted: bool"):
        zsct_accuracy(np.full((2, 3), -2, np.float32), good, good)
    with pytest.raises(ValueError, match=r"valid: got bool\[3\]"):
        zsct_accuracy(good, good[0], good)
    with pytest.raises(ValueError, match="accepted: one shape"):
        zsct_accuracy(good, good[:1], good)


def test_hypotheses_on_the_published_cells():
    rows = hypothesis_tests(published.TABLE_3)
    assert [row.hypothesis for row in rows] == [1] * 9 + [2] * 9
    verdict = {(row.hypothesis, row.fixed, row.change): row.verdict for row in rows}
    # "When S = 1, increasing O is ... correlated with non-significant increases."
    assert {v for (h, f, _), v in verdict.items() if (h, f) == (1, "S = 1")} == {"undecided"}
    # "... a statistically significant distinction between ... O > 1 and ... O = 1" for S > 1.
    for shots in (2, 4):
        for change in ("O: 1 to 4", "O: 1 to 16"):
            assert verdict[1, f"S = {shots}", change] == "supported"
    # "When O = 1, increasing S correlates with increases."
    assert verdict[2, "O = 1", "S: 1 to 2"] == "supported"
    assert verdict[2, "O = 1", "S: 1 to 4"] == "supported"
    assert "supported" not in {v for (h, f, _), v in verdict.items() if h == 2 and f != "O = 1"}


def test_rows_are_welch_tests_with_holm_within_a_hypothesis():
    rng = np.random.default_rng(0)
    cells = {(s, o): rng.normal(0.6, 0.02, 6) for s in (1, 2) for o in (1, 4, 16)}
    rows = hypothesis_tests(cells)
    first, second = ([r for r in rows if r.hypothesis == h] for h in (1, 2))
    assert (len(first), len(second)) == (6, 3)
    assert [r.extreme for r in first[:3]] == [False, False, True]
    expected = stats.ttest_ind(cells[1, 4], cells[1, 1], equal_var=False, alternative="less")
    assert first[0].test.p == pytest.approx(expected.pvalue)
    assert first[0].difference == pytest.approx(cells[1, 4].mean() - cells[1, 1].mean())
    for family in (first, second):
        np.testing.assert_allclose(
            [r.p_adjusted for r in family], holm_correction([r.test.p for r in family])
        )


def test_a_clear_contradiction_is_called_one():
    cells = {(1, 1): SummaryStats(0.7, 0.01, 6), (2, 1): SummaryStats(0.5, 0.01, 6)}
    (row,) = hypothesis_tests(cells)
    assert (row.hypothesis, row.verdict) == (2, "contradicted")
    assert row.p_against < 1e-6 < row.p_adjusted
    assert "| -20.0 |" in hypothesis_table((row,))


def test_cells_without_spread_decide_nothing():
    (row,) = hypothesis_tests({(1, 1): [0.5, 0.5], (2, 1): [0.9, 0.9]})
    assert row.verdict == "undecided"
    assert np.isnan(row.p_adjusted)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({(1, 1): [0.5, 0.6]}, "at least two must share"),
        ({(1, 1): [0.5, 0.6], (2, 4): [0.5, 0.6]}, "at least two must share"),
        ({(1, 1): [0.5], (1, 4): [0.5, 0.6]}, r"cells\[\(1, 1\)\]: got float64\[1\]"),
        ({(1, 1): [0.5, float("nan")], (1, 4): [0.5, 0.6]}, "not finite"),
    ],
)
def test_bad_cells_are_named(cells, message):
    with pytest.raises(ValueError, match=message):
        hypothesis_tests(cells)
    with pytest.raises(ValueError, match="level: got 5"):
        hypothesis_tests(cells, level=5)


def test_published_cells_read_as_in_the_paper():
    assert published.TABLE_3[4, 1] == (0.75, 0.023, 6)
    assert published.TABLE_2["ESBN"] == (0.894, 0.028, 3)
    assert len(published.TABLE_3) == 9
