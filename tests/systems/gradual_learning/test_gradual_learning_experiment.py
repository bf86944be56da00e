"""The study of gradual learning: what it plays, what it reports, and one small run of it all."""

import dataclasses

import jax
import numpy as np
import pytest

from gpicljax.runs import load_agent, shipped_model
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.tasks import ARITHMETIC_NAMES, BLOCKS_NAMES, NAMES
from gpicljax.systems.gradual_learning.measures.played_studies import ALL_KINDS, PlayedStudies
from gpicljax.systems.gradual_learning.measures.playing import repeat_streams, sample_streams
from gpicljax.systems.gradual_learning.measures.streams import (
    QUESTIONS,
    Streams,
    play_streams,
    streams_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning import (
    config as gradual_learning_settings,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning import program as gradual_learning
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    NULL,
    PRESETS,
    Config,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.elsewhere import (
    NEVER_TAUGHT,
    elsewhere_section,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.report import hints_text

TASKS = ("micro1", "micro2", "micro4")
CONFIG = Config(taught=TASKS, curriculum=TASKS, targets=("micro2",), runs=3, budget=100)
ENV = ByteStream(max_tasks=4, families=("mapping",))


def test_studies_are_of_the_same_runs():
    studies = CONFIG.plan.studies(*ALL_KINDS)
    assert len(studies) == 3 * (1 + 3 + 1 + 1)
    indices = PlayedStudies(None, studies, TASKS).indices
    for run, place in enumerate(indices("order")):
        assert studies[place].run == run
        assert studies[place].curriculum.tasks == TASKS
    (after, *_), (repeated, *_) = (indices(kind, "micro2") for kind in ("after", "again"))
    assert studies[after].curriculum.tasks[-1] == "micro2"
    assert set(studies[after].curriculum.tasks[:-1]) <= set(TASKS)
    assert studies[repeated].curriculum.tasks == (*TASKS, "micro2")


def test_what_is_held_out_is_not_taught():
    held_out = PRESETS["held-out"]
    assert set(held_out.held_out) == set(held_out.curriculum) - set(held_out.taught)
    assert len(held_out.held_out) == 3
    # The report says what is taught on both sides.
    assert (
        held_out.describe_neighbours("micro5.9")
        == "micro5.9 (taught beside it: micro5.8, micro5.13)"
    )


def test_the_report_counts_the_steps_of_each_study():
    studies = CONFIG.plan.studies(*ALL_KINDS)
    steps = np.zeros((len(studies), 4), int)
    cleared = np.zeros(len(studies), int)
    for i, study in enumerate(studies):
        places = len(study.curriculum.tasks)
        steps[i, :places], cleared[i] = 10, places
        if study.kind == "alone":
            steps[i, 0] = 40
        if study.kind == "again":
            steps[i, places - 1] = 5
    none = np.zeros((len(studies), 4))
    questions = np.zeros((len(studies), 4, QUESTIONS))
    streams = Streams(steps, cleared, none, none, questions, questions)
    played = PlayedStudies(streams, studies, TASKS)
    assert played.in_order().steps.tolist() == [[10, 10, 10]] * 3
    assert played.efficiency_alone().steps.tolist() == [40, 40, 40]
    (helped,) = played.gains_from_predecessors().values()
    assert (helped.ratio, helped.gradual) == (4, True)
    held = played.retentions()["micro2"]
    assert (held.ratio, held.pairs, held.lost, held.is_retained) == (2, 3, 0, True)


def test_once_more_comes_after_what_a_run_cleared():
    tasks = sample_streams(jax.random.key(0), CONFIG.plan, ENV, "again")
    cut = repeat_streams(tasks, np.array([3, 2, 0]), CONFIG.plan)
    first, last = NAMES.index("micro1"), NAMES.index("micro2")
    assert cut.count.tolist() == [4, 3, 1]
    assert cut.order.tolist() == [[0, 1, 3, last], [0, 1, last, 1], [last, 1, 3, 1]]
    assert first == 0 and cut.horizon.tolist() == [200] * 3
    # Runs that cleared all, as much as this and it again, it not again, and not even it.
    studies = CONFIG.plan.studies(*ALL_KINDS)
    steps, cleared = np.full((len(studies), 4), 10), np.zeros(len(studies), int)
    indices = PlayedStudies(None, studies, TASKS).indices
    cleared[indices("order")], cleared[indices("again", "micro2")] = [3, 2, 1], [4, 2, 2]
    steps[indices("again", "micro2"), [3, 2, 1]] = 5, 5, 1
    none, questions = np.zeros((len(studies), 4)), np.zeros((len(studies), 4, QUESTIONS))
    streams = Streams(steps, cleared, none, none, questions, questions)
    held = PlayedStudies(streams, studies, TASKS).retentions()["micro2"]
    assert (held.pairs, held.lost) == (2, 1)
    np.testing.assert_allclose(held.ratio, (2 / 1.25) ** 0.5)


def test_streams_differ_by_seed_and_agree_within_a_run():
    studies = CONFIG.plan.studies("order", "alone")
    drawn = [
        np.asarray(sample_streams(jax.random.key(i), CONFIG.plan, ENV, "order", "alone").seed)
        for i in range(2)
    ]
    assert len({tuple(seed) for seed in np.concatenate(drawn)}) == 2 * CONFIG.runs
    for run in range(CONFIG.runs):
        run_seeds = [
            seed for seed, study in zip(drawn[0], studies, strict=True) if study.run == run
        ]
        assert len({tuple(seed) for seed in run_seeds}) == 1


def test_a_target_is_come_to_in_several_orders_where_there_are_several():
    after = PRESETS["curriculum"].plan.studies("after")
    orders = {
        task: len({study.curriculum.tasks for study in after if study.task == task})
        for task in PRESETS["curriculum"].targets
    }
    assert orders == {"micro3": 1, "micro5.5": 1, "micro5.9": 1, "micro5.12": 1, "micro5.17": 4}


def test_hints_are_reported_where_both_task_sets_are_measured():
    tasks = ("micro1", "micro19", "micro20")
    config = Config(taught=tasks, curriculum=tasks, targets=tasks, runs=3, budget=1000)
    studies = config.plan.studies("alone")
    took = {"micro1": 10, "micro19": 400, "micro20": 300}
    steps = np.array([[took[study.task]] for study in studies])
    none, questions = np.zeros_like(steps), np.zeros((len(studies), 1, QUESTIONS))
    streams = Streams(steps, np.ones(len(studies), int), none, none, questions, questions)
    played = PlayedStudies(streams, studies, tasks)
    gain = played.gain_from_hints(np.array([10, 100, 150]))
    assert gain is not None and gain.ratio == 2
    assert "2.00 times as fast" in hints_text(gain) and "a sign of" in hints_text(gain)
    assert played._replace(curriculum=TASKS).gain_from_hints(np.ones(3)) is None


TWO = ["micro1", "micro4"]
SMALL = ["--taught", *TWO, "--curriculum", *TWO, "--targets=micro4", "--parallel=4", "--runs=2"]
SMALL += ["--network.slots=16", "--agent.minibatches=2", "--observations=2048", "--log-lines=1"]
SMALL += ["--budget=200", "--no-progress"]


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["recurrent-ppo", "r2d2"])
def test_learners_from_rewards_are_reported_and_saved(learner, tmp_path):
    flags = [*SMALL, "--learner", learner, "--r2d2.num-envs", "4", "--q-network.core", "16"]
    outcome = gradual_learning.main([*flags, "--runs-dir", str(tmp_path)])
    assert learner in outcome.run.path.name
    loaded = load_agent(outcome.run.path / "agents" / "seed_0")
    assert loaded.info["algorithm"] == learner


@pytest.mark.slow
def test_reinforcement_goes_on_from_imitation(tmp_path, capsys):
    flags = [*SMALL, "--runs-dir", str(tmp_path), "--name"]
    taught = gradual_learning.main([*flags, "taught"])
    start = str(taught.run.path / "agents" / "seed_0")
    more = ["--learner", "recurrent-ppo", "--start-from", start, "--ppo-hparams.learning-rate=0"]
    outcome = gradual_learning.main([*flags, "paid", *more])
    before, after = (jax.tree.leaves(run.params) for run in (taught, outcome))
    for streams_of_learner, streams_of_null in zip(before, after, strict=True):
        np.testing.assert_array_equal(streams_of_learner, streams_of_null)
    with pytest.raises(SystemExit):
        gradual_learning.main([*flags, "other", *more, "--network.sizes", "8"])
    assert "accepted: an agent whose network is of the kind" in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_run_is_reported_and_saved(tmp_path):
    permuted = ["--env.permutation", "1", "3", "0", "0", "--name", "toy"]
    outcome = gradual_learning.main([*SMALL, *permuted, "--runs-dir", str(tmp_path)])
    text = (outcome.run.path / "summary.md").read_text()
    for title in ("## A.", "## B.", "## C.", "ranking"):
        assert title in text
    measured = outcome.measured["streams"]
    assert measured["oracle"].cleared[0, 0] == 2
    # The null plays all that the learner does, on streams of the same length.
    assert measured[NULL].steps.shape == measured["continuations"].steps.shape
    names = {"efficiency.png", "icl.png", "episode.html"}
    assert {path.name for path in outcome.run.figures.iterdir()} >= names
    assert "the first 200 steps of a stream of seed 0" in text
    loaded = load_agent(outcome.run.path / "agents" / "seed_0")
    assert loaded.info["algorithm"] == "cloning"
    assert "bytes permuted by stream (none 25%, within classes 75%)" in text
    assert loaded.env.permuted and loaded.env_params.permutation.tolist() == [1, 3, 0, 0]


def test_presets_are_what_they_say():
    assert gradual_learning_settings.QUICK.curriculum[:4] == gradual_learning_settings.MICRO_1_TO_4
    assert PRESETS["curriculum"].curriculum[-1] == "micro5.18"


def test_training_and_test_have_operands_of_their_own_if_they_are_split():
    split = PRESETS["beyond"].env
    curriculum = Curriculum(("micro11",))
    parts = [split.make(curriculum, test=test).composition for test in (False, True)]
    assert parts == ["train", "test"]
    whole = dataclasses.replace(split, composition="all")
    assert {whole.make(curriculum, test=test).composition for test in (False, True)} == {"all"}


def test_ladders_are_played_elsewhere_and_never_taught():
    beyond = PRESETS["beyond"]
    ladders = dataclasses.replace(beyond, elsewhere=("arithmetic", "micro11.chained", "blocks"))
    assert {*ARITHMETIC_NAMES, *BLOCKS_NAMES} < {*ladders.never_taught}
    assert not {*beyond.never_taught} & {*beyond.taught}
    # Two seeds; runs follow one another, each with all task sets.
    sets, runs = beyond.never_taught[:2], 2
    whole = dataclasses.replace(beyond.env, composition="all")
    config = dataclasses.replace(beyond, env=whole, elsewhere=sets, runs=runs)
    right, counts = np.array([[4, 0], [2, 0]]).reshape(4, 1), np.ones((4, 1))
    streams = Streams(
        counts, counts[:, 0] * 0, counts, 0 * counts, counts[..., None] * 8, right[..., None]
    )
    # The nulls are right half as often.
    half = streams._replace(right=streams.right / 2)
    agents = {config.learner_name: streams} | dict.fromkeys(config.nulls, half)
    text = "\n".join(elsewhere_section([{NEVER_TAUGHT: agents}] * 2, config))
    assert f"| {sets[0]} | 37.5 ± 14.4 [14.5, 60.5] | 18.8 ± 7.2 [7.3, 30.2] |" in text
    assert "| +18.8 [+7.3, +30.2] | 0 / 0 / 0 of 4 |" in text
    assert f"| {sets[1]} | 0.0 ± 0.0 [0.0, 0.0] |" in text
    assert elsewhere_section([], config) == []


def test_the_shipped_agent_clears_two_task_sets_in_order():
    loaded = load_agent(shipped_model("byte_stream_quick"))
    assert loaded.env.name == "ByteStream" and not loaded.env.permuted
    curriculum = Curriculum(("micro1", "micro5.3"))
    env = ByteStream(max_tasks=2, families=curriculum.families)
    tasks = streams_of(jax.random.key(5), env, [curriculum] * 2, 2_000)
    play = jax.jit(lambda *args: play_streams(args[0], env, loaded.agent, *args[1:], 2_000))
    assert play(jax.random.key(6), loaded.params, tasks).cleared.tolist() == [2, 2]
