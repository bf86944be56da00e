"""Accuracy in the Recall task, counted by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.meta_rg.measures.recall import recall_accuracy

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
