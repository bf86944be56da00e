"""`MetaRG-v2`, the rules of the paper's text, and the options that studies choose them by."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import OPTIMISED
from scipy import stats
from small_studies import small_flags
from variants import daily

import gpicljax
from gpicljax.systems.meta_rg.env import game_sequence
from gpicljax.systems.meta_rg.env.rules import GameRules
from gpicljax.systems.meta_rg.prompts.games import _describe_options
from gpicljax.systems.meta_rg.studies.game_config import GameConfig
from gpicljax.systems.meta_rg.studies.meta_rg import program as meta_rg
from gpicljax.systems.meta_rg.studies.meta_rg_rules import program as meta_rg_rules

EPISODES = 1_000


@functools.cache
def games(env_id="MetaRG-v2", **static):
    """The games of whole episodes, laid one behind the other."""
    env = gpicljax.make(env_id, **{"max_shots": 4, "max_samples": 4, **static})
    params = env.make_params(shots=2, samples=4, min_values=3)
    draw = functools.partial(
        game_sequence, env=env, params=params, games=60 * EPISODES, episodes=EPISODES
    )
    drawn = jax.device_get(jax.jit(draw, compiler_options=OPTIMISED)(jax.random.key(0)))
    return jax.tree.map(lambda x: x[drawn.valid], drawn._replace(state=keyless(drawn.state)))


def keyless(state):
    return state.replace(key=jnp.zeros(state.index.shape))


def withheld(drawn):
    """The value of each dimension that an episode's support games lack, `int[G, N_dim]`."""
    latents, episode = drawn.state.game.speaker_latents[:, 0], drawn.start.cumsum() - 1
    shown = np.zeros((drawn.start.sum(), 3, 5), bool)
    support = ~drawn.query
    np.logical_or.at(
        shown, (episode[support, None], np.arange(3), latents[support]), np.ones(3, bool)
    )
    exists = np.arange(5) < drawn.state.skeleton.num_values[drawn.start][..., None]
    lacking = exists & ~shown
    assert (lacking.sum(-1) == 1).all()
    return lacking.argmax(-1)[episode]


def test_one_value_of_each_dimension_is_withheld_from_the_support_phase_and_asked_about():
    drawn = games()
    lacking, query = withheld(drawn), drawn.query
    for latents in (drawn.state.game.speaker_latents, drawn.state.game.listener_latents):
        assert ((latents[:, 0] == lacking).any(-1) == query).all()
    # Any value may be it, and each as often as the others.
    first = drawn.start & (drawn.state.skeleton.num_values[:, 0] == 5)
    assert stats.chisquare(np.bincount(lacking[first, 0], minlength=5)).pvalue > 1e-4


def test_minimal_pairs_are_a_share_of_the_non_matches_and_tell_nothing_by_themselves():
    drawn = games()
    game, query = drawn.state.game, drawn.query
    apart = np.abs(game.listener_latents[:, 0] - game.speaker_latents[:, 0]).sum(-1)
    is_match = game.answer == 0
    assert ((apart == 0) == is_match)[query].all()
    assert abs(is_match[query].mean() - 0.5) < 0.02
    given = drawn.state.skeleton.nonmatches[np.arange(len(query)), drawn.state.index] >= 0
    assert abs(given[query].mean() - 0.5) < 0.02 and (apart[given & ~is_match] == 1).all()
    # A stimulus of the listener's does not tell a match, nor a pair, from the rest.
    large = query & (drawn.state.skeleton.num_values == 5).all(-1)
    relative = (game.listener_latents[:, 0] - withheld(drawn)) @ (81, 9, 1)
    for kind in (given, ~given):
        counts = [
            np.unique(relative[large & kind & right], return_counts=True)
            for right in (is_match, ~is_match)
        ]
        table = [
            [dict(zip(*c, strict=True)).get(v, 0) for v in np.union1d(counts[0][0], counts[1][0])]
            for c in counts
        ]
        assert stats.chi2_contingency(np.asarray(table) + 1).pvalue > 1e-4


def test_positions_are_ordered_anew_in_every_episode_and_the_query_phase_has_no_feedback():
    env = gpicljax.make("MetaRG-v2")
    orders = []
    for seed in range(12):
        task = env.sample_task(jax.random.key(seed), env.default_params)
        orders.append(tuple(task.positions.tolist()))
        assert sorted(orders[-1]) == [0, 1, 2]
    assert len(set(orders)) > 2
    assert env.default_params.samples == 16 and env.default_params.min_values == 3
    steps = jax.device_get(play_right(env, jax.random.key(3)))
    over = steps["terminated"].argmax()
    shown = jax.tree.map(lambda x: x[: over + 1], steps)
    query = shown["phase"] == 1
    assert set(shown["round"][~query]) == {0, 1, 2} and set(shown["round"][query]) == {0, 1}
    for name in ("previous_result", "previous_reward"):
        assert (shown[name][query] == 0).all() and (shown[name][~query] != 0).any()
    # What is said of a dimension is heard at its position, through the position's permutation.
    deciding = shown["round"] == 1
    sent = shown["latents"][deciding] + 1
    heard = shown["heard"][np.arange(3), sent][:, shown["positions"]]
    np.testing.assert_array_equal(shown["message"][deciding], heard)


@functools.partial(jax.jit, static_argnums=0)
def play_right(env, key):
    task = env.sample_task(key, env.default_params)
    state = env.initial(key, task)

    def body(state, _):
        observation = env.observe(state, task)
        names = ("round", "phase", "message", "previous_result", "previous_reward")
        record = {name: observation[name] for name in names}
        record["latents"] = state.game.speaker_latents[0]
        step = env.transition(key, state, state.game.answer, task)
        return step.state, record | {"terminated": step.terminated}

    steps = jax.lax.scan(body, state, length=int(env.horizon()))[1]
    return steps | {"heard": task.heard, "positions": task.positions}


def test_a_non_match_of_the_paper_s_text_is_any_other_stimulus():
    rules = GameRules(query_targets="all", nonmatch="dataset", same_view=False)
    drawn = games("MetaRG-v1", rules=rules)
    game, query = drawn.state.game, drawn.query
    is_query = (game.listener_latents[:, 0] % 2 == 1).sum(-1) >= 2
    absent = game.answer == 1
    assert not is_query[~query].any()
    assert (game.listener_latents[:, 0] != game.speaker_latents[:, 0]).any(-1)[absent].all()
    # Each test stimulus once, in all of its samples; of the largest structure 44 of 125 tuples.
    large = query & (drawn.state.skeleton.num_values == 5).all(-1)
    episodes = drawn.start[(drawn.state.skeleton.num_values == 5).all(-1)].sum()
    assert large.sum() == 44 * 4 * episodes
    share = is_query[large & absent].mean()
    assert abs(share - 43 / 124) < 4 * np.sqrt(0.25 / (large & absent).sum())


def test_the_descriptive_ratio_is_how_often_the_target_is_there():
    drawn = games("MetaRG-v1", descriptive_ratio=0.8)
    assert abs((drawn.state.game.answer == 0).mean() - 0.8) < 0.01


def test_refuses_rules_that_contradict_each_other():
    with pytest.raises(ValueError, match="withheld: got True"):
        GameRules(withheld=True)
    with pytest.raises(ValueError, match=r"minimal_pairs: got 0.5"):
        GameRules(minimal_pairs=0.5)
    with pytest.raises(ValueError, match="rules.positions: got 'episode'"):
        gpicljax.make("MetaRG-v2", message_length=4)
    with pytest.raises(ValueError, match="min_values: got 2"):
        gpicljax.make("MetaRG-v2").make_params(min_values=2)


def test_the_study_of_rules_plays_all_of_them_with_one_value_more(tmp_path):
    flags = ["--seeds=2", "--samples", "1", "4", "--evaluation-episodes=64", "--no-progress"]
    outcome = meta_rg_rules.main([*flags, f"--runs-dir={tmp_path}"])
    text = (outcome.run.path / "summary.md").read_text()
    assert "## S = 1, O = 4" in text and "fixed tolerance: within" in text
    single, several = outcome.host_measured.values()
    assert (single["equality"]["minimal pairs, V = 6"] == 1).all()
    assert several["equality"]["query"].mean() < 0.85
    assert (several["1-nearest neighbour"]["query, V = 6"] > 0.97).all()


CHOICES = {
    "dimensions": ["--num-dims=2", "--message-length=2"],
    "paper's query rules": ["--query-targets=all", "--nonmatch=dataset", "--same-view=False"],
    "descriptive ratio": ["--descriptive-ratio=0.8"],
    "speaker": ["--speaker=digitising"],
    "sections": ["--env=MetaRG-v2", "--vmin=3"],
}


@pytest.mark.parametrize("choice", daily(["dimensions"], CHOICES))
def test_a_study_chooses_what_the_paper_varies(choice, tmp_path, capsys):
    flags = [*small_flags("meta_rg", "--seeds=1 --vmax=3"), *CHOICES[choice]]
    assert meta_rg.main([*flags, f"--runs-dir={tmp_path}", "--dry-run"]) is None
    assert "dry run of" in capsys.readouterr().out


def test_saved_listeners_keep_the_rules_that_a_study_chose():
    game = GameConfig("MetaRG-v1", nonmatch="dataset")
    env = game.make()
    assert env.rules.nonmatch == "dataset" and env.rules.permutation == "position"
    assert gpicljax.make("MetaRG-v1", **json.loads(json.dumps(game.options))) == env


def test_transcripts_name_later_options_only_where_they_are_chosen():
    assert "withheld" not in _describe_options(gpicljax.make("MetaRG-v1"))
    for option in ("withheld=True", "samples='uniform'", "positions='episode'"):
        assert option in _describe_options(gpicljax.make("MetaRG-v2"))
    assert "descriptive_ratio=0.8" in _describe_options(
        gpicljax.make("MetaRG-v1", descriptive_ratio=0.8)
    )
