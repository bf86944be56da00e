"""Training, saving and filming agents as a user does, at toy sizes; and what is refused."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest
from PIL import Image
from small_studies import small_flags

import gpicljax
from gpicljax import agents
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.runs import load_agent
from gpicljax.runtime import named_key, parse
from gpicljax.studies.train_agent import program as train_agent
from gpicljax.studies.train_agent import report as train_agent_report
from gpicljax.studies.train_agent.config import GOALS, SETTINGS, default_algorithm
from gpicljax.studies.train_agent.measures import Evaluation, probe_metrics

# A table is learnt, so that there is little to compile.
TINY = small_flags(
    "train_agent", "--seeds=2 --log-lines=4 --checkpoint-every=2 --evaluation-episodes=20"
)
NAME = "quick-q-learning-FrozenLake-v1"


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    results = train_agent.main([*TINY, f"--runs-dir={folder}"])
    return folder / "train_agent" / NAME, results


def records(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def test_writes_everything(finished_run):
    run, results = finished_run
    summary = json.loads((run / "summary.json").read_text())["results"]
    returns = np.asarray(train_agent_report.episodes(results, "greedy").returns)
    assert returns.shape == (2, 20) and summary["return"]["seeds"] == returns.mean(1).tolist()
    assert summary["observations"] == 2048 and summary["parameters"] == 64
    assert summary["random"]["mean"] < 0.1 and summary["goal"] == 1
    text = (run / "summary.md").read_text()
    assert "q-learning on FrozenLake-v1 (is_slippery=False)" in text and "random actions" in text
    log = records(run)
    assert [record["step"] for record in log] == [1, 2, 3, 4]
    assert len(log[-1]["return"]) == 2 and log[-1]["observations"] == 2 * 2048
    assert (run / "figures" / "learning.png").stat().st_size > 5_000
    assert (run / "figures" / "episode.png").stat().st_size > 5_000


def test_the_film_is_an_animated_gif_of_the_episode(finished_run):
    run, _ = finished_run
    with Image.open(run / "figures" / "episode.gif") as film:
        assert film.format == "GIF" and film.is_animated and film.size == (192, 192)
        assert 2 <= film.n_frames <= train_agent.Config.film_frames


def test_the_page_tells_the_episode_step_by_step(finished_run):
    run, results = finished_run
    look = jax.tree.map(lambda x: x[0, 0], results.measured["trained"]["greedy"].look)
    length = int(results.measured["trained"]["greedy"].episodes.lengths[0, 0])
    text = (run / "figures" / "episode.html").read_text()
    output = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert output["last"] == length and len(output["sheets"]) == 1
    names = ["left", "down", "right", "up"]
    assert output["actions"] == [names[action] for action in look.actions[:length]]
    assert sum(output["reward"]) == results.measured["trained"]["greedy"].episodes.returns[0, 0]
    assert output["words"][0] == "cell 0, step 0 of 100"
    assert output["words"][-1].endswith(f"step {length} of 100")
    # The same pictures without a film.
    config = dataclasses.replace(results.config, film_frames=0)
    sentence = train_agent_report.film_episode(results._replace(config=config))
    assert sentence.endswith("No film: none was asked for.")
    assert (run / "figures" / "episode.html").read_text() == text


def test_saved_agents_do_what_was_measured(finished_run):
    run, results = finished_run
    config = parse({"quick": train_agent.starting_point(TINY)}, [*TINY, f"--runs-dir={run}"])
    root = named_key(config.seed, "evaluate")
    for seed in range(2):
        loaded = load_agent(run / "agents" / f"seed_{seed}")
        assert loaded.info["evaluation"]["episodes"] == 20
        repeated = jax.jit(
            lambda key, params, loaded=loaded: episode_returns(
                key,
                loaded.env,
                loaded.agent,
                params,
                episodes=4,
                max_steps=100,
                env_params=loaded.env_params,
            ),
        )
        # Five groups of four episodes.
        keys = [jax.random.fold_in(jax.random.fold_in(root, seed), i) for i in range(5)]
        parts = [repeated(key, loaded.params) for key in keys]
        repeated = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        for first, second in zip(
            repeated, results.measured["trained"]["greedy"].episodes, strict=True
        ):
            assert np.array_equal(first, second[seed])
        assert loaded.info["evaluation"]["mean_return"] == pytest.approx(repeated.returns.mean())


def test_options_are_read_by_what_they_set():
    for text, slippery in ("false", False), ("True", True), ("FALSE", False):
        config = train_agent.Config(env_options=(f"is_slippery={text}",))
        assert train_agent.make_env(config).is_slippery is slippery
    config = train_agent.Config(env_options=("map_name=8x8",), env_params=("horizon=30",))
    env = train_agent.make_env(config)
    assert env.shape == (8, 8) and train_agent.make_params(config, env).horizon == 30


def test_resuming_what_is_not_there_is_an_error(finished_run, capsys):
    run, _ = finished_run
    with pytest.raises(SystemExit) as stop:
        train_agent.main([*TINY, f"--runs-dir={run.parents[1]}", "--resume", "--name=nothere"])
    assert stop.value.code == 1
    assert f"--resume: got 'nothere'; accepted: {NAME}" in capsys.readouterr().err
    assert not (run.parent / "nothere").exists()


def test_rounding_is_announced(capsys):
    train_agent.main([*TINY, "--observations=10", "--log-lines=1", "--dry-run"])
    output = " ".join(capsys.readouterr().out.split())
    assert "256 per seed (for 10: rounded up to whole log lines of 256)" in output


def test_a_policy_without_memory_is_told_once_where_tasks_vary(capsys):
    episodes = EpisodeReturns(*np.ones((4, 2, 3)))
    for forgets, varied, output in (True, True, 1), (True, False, 0), (False, True, 0):
        metrics = probe_metrics("ppo", forgets)
        for _ in range(2):
            metrics(Evaluation(episodes, None, np.array([[False], [varied]]), None))
        assert capsys.readouterr().out.count("ppo has no memory") == output


def test_building_draws_no_task(monkeypatch):
    config = train_agent.starting_point([])
    monkeypatch.setattr(type(train_agent.make_env(config)), "sample_task", None)
    train_agent.build(config)


def test_a_sweep_trains_its_cells_side_by_side_and_tasks_may_change(finished_run, tmp_path):
    _, single_outcome = finished_run
    rates = f"{single_outcome.config.hparams.learning_rate},0.0"
    more = [f"--sweep=learning_rate={rates}", "--evaluation-params=permute_actions=True"]
    joint_outcome = train_agent.main([*TINY, *more, f"--runs-dir={tmp_path}"])
    # The first cell is the run without a sweep; without a rate nothing is learnt.
    episodes = train_agent_report.episodes
    first, second = episodes(joint_outcome, "greedy", 0), episodes(single_outcome, "greedy")
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    idle = episodes(joint_outcome, "greedy", 1).returns
    assert first.returns.mean() > idle.mean() + 0.5
    assert (
        episodes(joint_outcome, "greedy", 0, "elsewhere").returns.mean()
        < first.returns.mean() - 0.2
    )
    run = tmp_path / "train_agent" / NAME
    text = (run / "summary.md").read_text()
    assert "**learning_rate=0.0**, greedy, on permute_actions=True" in text
    numbers = json.loads((run / "summary.json").read_text())["results"]
    assert list(numbers["cells"]) == list(joint_outcome.program.cells)
    assert numbers["elsewhere"]["random"]["seeds"]
    loaded = load_agent(run / "agents" / "learning_rate_0_0" / "seed_1")
    assert loaded.info["evaluation"]["mean_return"] == idle[1].mean()


def test_existing_runs_are_refused(finished_run, capsys):
    run, _ = finished_run
    with pytest.raises(SystemExit) as stop:  # values come first
        train_agent.main([*TINY, "--hparams.discount=2", f"--runs-dir={run.parents[1]}"])
    assert stop.value.code == 2 and "--hparams.discount: got 2" in capsys.readouterr().err
    for more, word in ([], "--resume"), (["--resume", "--num-envs=4"], "num_envs"):
        with pytest.raises(SystemExit) as stop:
            train_agent.main([*TINY, *more, f"--runs-dir={run.parents[1]}"])
        assert stop.value.code == 1
        assert word in capsys.readouterr().err


def test_rules_are_evaluated_without_training(tmp_path, capsys):
    results = train_agent.main(
        [
            "--env=BernoulliBandit-v0",
            "--algo=ucb1",
            "--env-options=num_arms=3",
            "--env-params=horizon=40",
            "--episodes-per-trial=2",
            "--evaluation-episodes=60",
            "--evaluation-steps=100",
            "--evaluation-params=high=0.0",
            "--seeds=2",
            f"--runs-dir={tmp_path}",
            "--no-progress",
        ]
    )
    printed = capsys.readouterr().out
    assert "none are tuned" in printed and "draws no pictures" in printed
    assert "By episode of the trial" in printed
    played, random = (train_agent_report.episodes(results, m) for m in ("greedy", "random"))
    assert results.history == [] and (played.lengths == 40).all()
    # The same arms for both; one standard error is about 0.6.
    gain = played.returns.mean() - random.returns.mean()
    assert gain > 3
    # And for Thompson sampling; a regret of 80 pulls, at most. Where nothing pays, none is left.
    everybody = train_agent_report.players(results)
    assert [player.name for player in everybody] == ["ucb1", "random actions", "Thompson sampling"]
    ucb1, lost, thompson = (train_agent_report.regret_by_pull(results.config, p) for p in everybody)
    assert ucb1.shape == (2, 30, 81) and (np.diff(ucb1) >= 0).all() and not ucb1[..., 0].any()
    assert max(ucb1[..., -1].mean(), thompson[..., -1].mean()) < lost[..., -1].mean() - 6
    for player in train_agent_report.players(results, "elsewhere"):
        assert not player.regrets.any() and not player.played.returns.any()
    assert "Regret of a trial's 80 pulls, on high=0.0" in printed
    (run,) = tmp_path.glob("train_agent/*")
    assert sorted(file.name for file in (run / "figures").iterdir()) == [
        "by_episode.png",
        "by_episode_elsewhere.png",
        "episode.html",
        "regret.png",
        "regret_elsewhere.png",
    ]
    page = (run / "figures" / "episode.html").read_text()
    assert '"40 of 40 pulls made"' in page and '"sheets":[]' in page
    # Both episodes of the first trial, in a row.
    output = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert output["last"] == len(output["arms"]["pulled"]) == 80 and "0 of 40" in output["words"][0]
    returns = results.measured["trained"]["greedy"].episodes.returns[0, :2]
    assert [sum(output["arms"]["paid"][:40]), sum(output["arms"]["paid"][40:])] == returns.tolist()
    assert load_agent(run / "agents" / "seed_0").info["algorithm"] == "ucb1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["minibatches 4", "--env-options", "81920"]),
        (["--algo", "r2d2"], ["--agent.NAME VALUE", "replay-capacity 5000", "memory lstm"]),
        (["--env=BernoulliBandit-v0", "--algo=thompson"], ["payments bernoulli"]),
    ],
)
def test_help_is_that_of_the_algorithm(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        train_agent.main([*arguments, "--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert all(word in output for word in words)
    assert output.count("\n") < 60


@pytest.mark.parametrize(("env_id", "algo"), SETTINGS)
def test_tuned_settings_are_consistent(env_id, algo):
    arguments = ["--env", env_id, "--algo", algo]
    config = parse({"quick": train_agent.starting_point(arguments)}, arguments)
    program = train_agent.build(config)
    chunk, chunks = config.chunks(program.observations)
    assert chunks >= 2 and (
        env_id in GOALS
        or env_id.startswith(("Bandit", "Fetch", "Bernoulli", "Contextual", "Gaussian"))
    )
    assert train_agent_report.goal(config) == GOALS.get(env_id)
    # Nothing is lost to rounding up.
    assert chunk * chunks * program.observations < 1.1 * config.observations


@pytest.mark.parametrize("env_id", gpicljax.registered())
def test_every_environment_has_settings_or_is_pointed_to_its_study(env_id, capsys):
    env = gpicljax.make(env_id)
    if (env_id, default_algorithm(env_id)) in SETTINGS:
        return
    with pytest.raises(SystemExit):
        train_agent.starting_point(["--env", env_id])
    assert "gpicljax run " in capsys.readouterr().err
    if env.num_agents is None and env_id == "MazeWorld-v0":  # pictures: small by default
        config = train_agent.starting_point(["--env", env_id, "--algo", "ppo"])
        assert config.num_envs == 8 and config.seeds == 1


def test_defaults_are_of_algorithms_that_fit():
    for env_id in gpicljax.registered():
        env = gpicljax.make(env_id)
        if env.num_agents is None:
            algorithm = agents.get_algorithm(default_algorithm(env_id))
            reason = algorithm.refusal(env.observation_space(), env.action_space(), None)
            assert reason is None, env_id


@pytest.mark.slow
@pytest.mark.parametrize("env_id", GOALS)
def test_solved(env_id, tmp_path):
    """The default settings of every environment reach its goal from three seeds out of three."""
    arguments = ["--env", env_id, "--seeds=3", "--no-progress", f"--runs-dir={tmp_path}"]
    results = train_agent.main(arguments)
    returns, nulls = (
        train_agent_report.seed_means(train_agent_report.episodes(results, measure))
        for measure in ("greedy", "random")
    )
    assert returns.shape == (3,) and (returns >= GOALS[env_id]).all(), returns
    assert nulls.max() < GOALS[env_id] - 0.1 * abs(GOALS[env_id])


@pytest.mark.parametrize(("inside", "word"), [("", "is none"), ("/runs", "a folder")])
def test_runs_go_into_folders(inside, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_agent.main([f"--runs-dir={__file__}{inside}"])
    output = capsys.readouterr().err
    assert "--runs-dir: got" in output and word in output
