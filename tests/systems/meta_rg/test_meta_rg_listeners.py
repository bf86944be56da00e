"""Rule-based listeners of Meta-Referential Games against their published and measured scores.

Accuracies are in percent, over all games of 600 episodes unless said otherwise. The reference's
numbers have standard errors of up to one point.
"""

import functools

import jax
import numpy as np
import pytest
from compiling import OPTIMISED
from variants import daily

import gpicljax
from gpicljax.systems.meta_rg.env.rules import GameRules
from gpicljax.systems.meta_rg.experts import listeners as experts
from gpicljax.systems.meta_rg.measures import rules as measured_rules
from gpicljax.systems.meta_rg.measures.games import game_accuracy, play_games
from gpicljax.systems.meta_rg.measures.zsct import zsct_accuracy

EPISODES = 600
LEAK, FEEDBACK = "leak rule (message-free)", "any-feedback rule (message-free)"
MESSAGE_FREE = ("random", "always same", "always different", LEAK, FEEDBACK)
SECTION, NEAREST, EQUALITY = "section oracle", "1-nearest neighbour", "equality"
COUNTING = "n-th tuple (message-free)"


@functools.cache
def player(env):
    """All calibration rules in one compiled pass, for any parameters of the game."""
    vec = gpicljax.VectorEnv(env, EPISODES, resets="bank", bank_size=2048, privileged=True)
    panel = experts.baseline_panel(env)
    return jax.jit(
        lambda key, params: play_games(key, vec, panel, None, params), compiler_options=OPTIMISED
    )


@functools.cache
def scores(env_id, shots=1, values=(2, 5), **static):
    """Accuracies by the rule's name, in percent."""
    env = gpicljax.make(env_id, max_shots=2, **static)
    params = env.make_params(shots=shots, min_values=values[0], max_values=values[1])
    games = player(env)(jax.random.key(0), params)
    measured = {}
    for r, name in enumerate(experts.baseline_rules(env)):
        accuracy = game_accuracy(games._replace(correct=games.correct[..., r]))
        measured[name] = jax.tree.map(lambda x: 100 * float(x), accuracy)
    return measured


def assert_close(value, error, expected, its_error=1.0):
    assert error <= 1
    combined = np.hypot(error, its_error)
    assert abs(value - expected) <= 3 * combined, (value, error, expected)


@pytest.mark.parametrize("env_id", daily(["MetaRG-v1"], ["MetaRG-v0", "MetaRG-v1"]))
@pytest.mark.parametrize("rule", ["random", "always same", "always different"])
def test_what_does_not_look_is_at_chance(env_id, rule):
    for phase in scores(env_id)[rule][:2]:
        assert_close(phase.by_game, phase.by_game_error, 50, its_error=0)
        assert_close(phase.by_episode, phase.by_episode_error, 50, its_error=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shots", "values", "query"), [(1, (2, 5), 72.1), (2, (2, 5), 77.4), (1, (2, 3), 77.7)]
)
def test_leak_rule(shots, values, query):
    accuracy = scores("MetaRG-v0", shots, values)[LEAK].query
    assert_close(accuracy.by_game, accuracy.by_game_error, query)


@pytest.mark.slow
@pytest.mark.parametrize(("values", "query"), [((2, 5), 77.8), ((2, 3), 87.9)])
def test_any_feedback_rule(values, query):
    # Measured as a mean over the accuracies of 600 episodes, which long query lists, where more
    # was fed back before but targets repeat, do not dominate: over games it is 3 points less.
    accuracy = scores("MetaRG-v0", 1, values)[FEEDBACK].query
    assert_close(accuracy.by_episode, accuracy.by_episode_error, query, its_error=0.6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shots", "values", "section", "nearest"),
    [(1, (2, 5), 81.3, 69.5), (2, (2, 5), 89.5, 83.3), (1, (2, 3), 75.0, 64.1)],
)
def test_oracles_bind(shots, values, section, nearest):
    measured = scores("MetaRG-v0", shots, values)
    assert measured[SECTION].query.by_game >= 99
    assert measured[NEAREST].query.by_game >= 99
    learning = measured[NEAREST].support
    assert_close(learning.by_game, learning.by_game_error, nearest)
    # How the measured section oracle treats symbols it has not heard yet, and what its support
    # score is a mean of, is not stated. Ours agrees in the mean over episodes; over games it is up
    # to 3 points better, and with ranks of centroids in place of their sections 3 points worse.
    learning = measured[SECTION].support
    assert_close(learning.by_episode, learning.by_episode_error, section)


@pytest.mark.parametrize("rule", MESSAGE_FREE)
def test_without_shortcuts_no_message_free_rule_beats_chance(rule):
    accuracy = scores("MetaRG-v1")[rule].query
    assert abs(accuracy.by_game - 50) <= 2
    assert abs(accuracy.by_episode - 50) <= 2


@pytest.mark.parametrize("rule", [SECTION, NEAREST, EQUALITY])
def test_without_shortcuts_binding_still_solves_the_game(rule):
    assert scores("MetaRG-v1")[rule].query.by_game >= 99


def test_with_one_sample_a_dictionary_of_numbers_solves_the_game_and_plays_its_support_well():
    measured = scores("MetaRG-v1")
    assert measured[EQUALITY].query.by_game == measured[EQUALITY].minimal.by_game == 100
    # A new word goes with a new number: more than sections, which a new word may all mean.
    assert measured[EQUALITY].support.by_game > measured[SECTION].support.by_game


@pytest.mark.slow
@pytest.mark.parametrize(("values", "least"), [((2, 3), 99.9), ((2, 5), 74)])
def test_counting_tuples_is_enough_where_all_are_asked_about_in_order(values, least):
    measured = scores("MetaRG-v0", 1, values)
    counting, remembering = measured[COUNTING].query, measured[FEEDBACK].query
    assert counting.by_game >= max(least, remembering.by_game)
    assert COUNTING not in scores("MetaRG-v1")


def test_a_tolerance_is_chosen_on_other_episodes():
    rng = np.random.default_rng(0)
    counts = np.ones((2, 10, 7), bool)
    correct = rng.random((2, 10, 7, 3)) < 0.5
    correct[:, ::2, :, 0] = correct[:, 1::2, :, 2] = True  # each the best in one half
    chosen = measured_rules.chosen_elsewhere(correct, counts)
    np.testing.assert_array_equal(chosen[:, ::2], correct[:, ::2, :, 2])
    np.testing.assert_array_equal(chosen[:, 1::2], correct[:, 1::2, :, 0])


def test_only_sections_place_values_that_were_never_named():
    env = gpicljax.make("MetaRG-v2")
    rules = measured_rules.panel_rules(env)
    games = measured_rules.rule_player(env, rules, 200)(jax.random.key(0), env.default_params)
    decided = measured_rules.decided_by_rule(env, jax.tree.map(lambda x: x[None], games))
    accuracy = {name: measured_rules.rule_accuracy(played) for name, played in decided.items()}
    assert accuracy[SECTION].query.mean > 0.98 and accuracy[SECTION].minimal.mean > 0.98
    assert accuracy[NEAREST].query.mean < 0.55
    assert accuracy[measured_rules.FIXED].query.mean < 0.9


def test_a_speaker_that_repeats_itself_is_understood_where_bins_cut_values():
    env = gpicljax.make("MetaRG-v1", max_samples=4)
    params = {(1, 4): env.make_params(samples=4)}
    rows = measured_rules.program_accuracies(0, env, params, 128)[1, 4]
    bins, kept = (row for name, row in rows.items() if NEAREST in name)
    assert 0.64 < bins.query.mean < 0.75 and kept.query.mean > 0.94
    assert 0.65 < bins.new.mean < 0.76 and kept.new.mean > 0.94


def test_an_oracle_binds_what_is_told_in_two_rounds_about_multi_hot_stimuli():
    """Two of three dimensions a round, the second in both."""
    options = {"num_rounds": 2, "message_length": 2, "stimulus": "mhe", "max_values": 3}
    measured = scores("MetaRG-v1", values=(2, 3), **options)
    assert SECTION not in measured
    assert measured[NEAREST].query.by_game >= 99
    assert abs(measured["random"].query.by_game - 50) <= 2


def test_how_far_whole_messages_and_single_dimensions_reach():
    measured = scores("MetaRG-v1")
    holistic = measured["whole messages for whole stimuli"]
    assert_close(holistic.query.by_game, holistic.query.by_game_error, 77.9)
    assert_close(holistic.new.by_game, holistic.new.by_game_error, 65.8)
    for dims, query in ((1, 82.0), (2, 95.4)):
        partial = measured[f"{dims} of 3 dimensions without an error"]
        assert_close(partial.query.by_game, partial.query.by_game_error, query)
        # A pair that differs in the third dimension looks equal, whatever the episode says.
        assert abs(partial.minimal.by_game - 100 * dims / 3) <= 3 * partial.minimal.by_game_error


def test_minimal_pairs_are_nonmatches():
    assert scores("MetaRG-v1")["always different"].minimal.by_game == 100
    assert scores("MetaRG-v1")["always same"].minimal.by_game == 0


@pytest.mark.slow
def test_balanced_nonmatches_alone_leave_the_any_feedback_rule():
    measured = scores("MetaRG-v0", rules=GameRules(nonmatch="balanced"))
    assert abs(measured[LEAK].query.by_game - 50) <= 2
    left = measured[FEEDBACK].query
    assert_close(left.by_episode, left.by_episode_error, 58.0, its_error=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("permutation", ["none", "shared", "position"])
def test_digitising_pair_is_defeated_by_a_permutation(permutation):
    env = gpicljax.make("MetaRG-v0", speaker="digitising", rules=GameRules(permutation=permutation))
    vec = gpicljax.VectorEnv(env, EPISODES, resets="bank", bank_size=2048, privileged=True)
    agent = experts.rule_listener(env, experts.digitising_rule(env))
    games = jax.jit(lambda key: play_games(key, vec, agent, None))(jax.random.key(1))
    correct = games.correct.reshape(games.valid.shape)
    for phase in zsct_accuracy(correct, games.valid, games.query):
        if permutation == "none":
            assert 100 * phase.by_game >= 95
        else:
            assert abs(100 * phase.by_game - 50) <= 3


def test_rules_refuse_other_views_and_decisions():
    players = gpicljax.make("MetaRG-v0", view="players")
    with pytest.raises(ValueError, match="view"):
        experts.baseline_panel(players)
    with pytest.raises(ValueError, match="actions"):
        reference = gpicljax.make("MetaRG-v0", actions="reference")
        experts.rule_listener(reference, experts.random_rule(reference))
    with pytest.raises(ValueError, match="decision: got 2"):
        experts.constant_rule(gpicljax.make("MetaRG-v0"), 2)
    with pytest.raises(ValueError, match="stimulus"):
        experts.section_rule(gpicljax.make("MetaRG-v0", stimulus="mhe"))
