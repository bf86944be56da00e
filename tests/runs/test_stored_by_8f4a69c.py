"""What commit 8f4a69c wrote is still read: saved agents, autoencoders, and the folders of runs.

Everything lies in `tests/stored`. Beside each agent is `expected.json`: time steps that it is shown
and what that commit's code made of them, and what happens when it plays in its environment.
"""

import json
import shlex
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.cli import main
from gpicljax.interface import TimeStep
from gpicljax.rollout import rollout, start_rollout
from gpicljax.runs import load_agent, load_autoencoder, load_language_model
from gpicljax.runs.stored_runs import find_runs, read_run

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STORED = Path(__file__).parents[1] / "stored"
RUNS = STORED / "runs"
AGENTS = sorted(folder.name for folder in (STORED / "agents").iterdir())
AUTOENCODERS = sorted(folder.name for folder in (STORED / "autoencoders").iterdir())
LANGUAGE_MODELS = [name for name in AGENTS if name.startswith("language-model")]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
EXPECTED_OF_RUNS = json.loads((RUNS / "expected.json").read_text())


def expected(folder):
    return json.loads((folder / "expected.json").read_text())


def assert_equal_or_close(mine, theirs):
    """Whole numbers are equal, others close."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert mine.shape == theirs.shape
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(mine, theirs, **CLOSE)
    else:
        np.testing.assert_array_equal(mine, theirs)


# Agents ------------------------------------------------------------------------------------------


def shown(steps):
    """Time steps as they are stored, with leaves `[T, B, ...]`."""
    arrays = {name: np.asarray(x["values"], x["dtype"]) for name, x in steps.items()}
    reward, starts = arrays.pop("reward"), arrays.pop("trial_start")
    parts = {name.removeprefix("observation/"): x for name, x in arrays.items()}
    observation = parts.pop("observation") if "observation" in parts else parts
    never = np.zeros_like(starts)
    return TimeStep(observation, reward, never, never, starts, starts, {})


def answers(loaded, timesteps):
    """What an agent does at time steps that do not depend on it, `[T, B, ...]`."""
    length, batch = timesteps.trial_start.shape

    @jax.jit
    def act(params, timesteps):
        def step(carry, now):
            action, _, carry = loaded.agent.act(now[0], params, carry, now[1])
            return carry, action

        keys = jax.random.split(jax.random.key(1), (length, batch))
        return jax.lax.scan(step, loaded.agent.initial_carry(batch), (keys, timesteps))[1]

    return jax.device_get(act(loaded.params, timesteps))


def played(loaded, length, batch):
    """Actions `[T, B, ...]` and rewards `[T, B]` of an agent in the environment it comes with."""
    steps = {"resets": "synchronous", "steps_per_trial": length + 1}
    vec = gpicljax.VectorEnv(loaded.env, batch, **steps)

    @jax.jit
    def play(key, params, env_params):
        start = start_rollout(key, vec, loaded.agent, env_params)
        keep = lambda record: (record.action, record.next_timestep.reward)  # noqa: E731
        return rollout(vec, loaded.agent, params, start, length, keep)[1]

    return jax.device_get(play(jax.random.key(2), loaded.params, loaded.env_params))


def sizes(params):
    """The sum of each array's absolute values, in their order."""
    return [round(float(np.abs(leaf).sum()), 6) for leaf in jax.tree.leaves(params)]


@pytest.mark.parametrize("name", AGENTS)
def test_agents_answer_as_they_did(name):
    told = expected(STORED / "agents" / name)
    loaded = load_agent(STORED / "agents" / name)
    assert loaded.info["algorithm"] == name.partition("__")[0]
    assert sizes(loaded.params) == pytest.approx(told["sizes"], rel=1e-5, abs=1e-5)
    for field, value in told["env_params"].items():
        assert_equal_or_close(getattr(loaded.env_params, field), value)
    assert_equal_or_close(answers(loaded, shown(told["steps"])), told["actions"])


# The pictures of mazes are left out: their last bits depend on how they are compiled.
IN_PLAY = [name for name in AGENTS if name != "causal-model"]


@pytest.mark.parametrize("name", daily(["ppo", "recurrent-ppo__lstm", "td3"], IN_PLAY))
def test_agents_play_as_they_did(name):
    told = expected(STORED / "agents" / name)["played"]
    loaded = load_agent(STORED / "agents" / name)
    length, batch = np.shape(told["actions"])[:2]
    actions, rewards = played(loaded, length, batch)
    assert_equal_or_close(actions, told["actions"])
    np.testing.assert_allclose(rewards, told["rewards"], **CLOSE)


def predictions(model, tokens):
    """The most probable next tokens `[T, B]`, and the nats of those that follow `[T - 1, B]`."""

    @jax.jit
    def predict(params, tokens):
        chances = jax.nn.log_softmax(model.network.unroll(params, None, tokens, None)[0])
        nats = -jax.numpy.take_along_axis(chances[:-1], tokens[1:, :, None], -1)[..., 0]
        return chances.argmax(-1), nats

    return jax.device_get(predict(model.params, tokens))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_predict_as_they_did(name):
    told = expected(STORED / "agents" / name)["model"]
    model = load_language_model(STORED / "agents" / name)
    best, nats = predictions(model, np.asarray(told["tokens"], np.int32))
    np.testing.assert_array_equal(best, told["best"])
    np.testing.assert_allclose(nats, told["nats"], **CLOSE)


def pictures(height, width):
    """Three pictures in which no two neighbours are alike, `uint8[3, H, W, 3]`."""
    numbers = np.arange(3 * height * width * 3) * 37 % 251
    return numbers.astype(np.uint8).reshape(3, height, width, 3)


def latents_and_means(loaded):
    """The latents of those pictures `[3, Z]`, and each column's mean of the decoded ones."""

    @jax.jit
    def there_and_back(params, images):
        latents, _ = loaded.autoencoder.encode(params, images)
        return latents, loaded.autoencoder.decode(params, latents).mean((-3, -1))

    images = pictures(*loaded.autoencoder.resolution)
    return jax.device_get(there_and_back(loaded.params, images))


@pytest.mark.parametrize("name", AUTOENCODERS)
def test_autoencoders_see_what_they_saw(name):
    folder = STORED / "autoencoders" / name
    told = expected(folder)
    loaded = load_autoencoder(folder)
    assert loaded.settings.kind == name and loaded.info["note"] == told["note"]
    latents, means = latents_and_means(loaded)
    np.testing.assert_allclose(latents, told["latents"], **CLOSE)
    np.testing.assert_allclose(means, told["means"], **CLOSE)


# Runs --------------------------------------------------------------------------------------------


def test_all_stored_runs_are_found():
    found = [f"{path.parent.name}/{path.name}" for path in find_runs(RUNS)]
    assert found == sorted(EXPECTED_OF_RUNS)


@pytest.mark.parametrize("name", sorted(EXPECTED_OF_RUNS))
def test_runs_are_read(name):
    told, run = EXPECTED_OF_RUNS[name], read_run(RUNS / name)
    assert run.problems == () and run.status == told["status"]
    assert (run.done, run.planned) == (told["done"], told["planned"])
    assert run.config["seeds"] == told["seeds"] and run.observations == told["observations"]
    assert run.key_metric == told["key_metric"]
    assert run.checkpoints() == told["checkpoints"]
    for metric, values in told["metrics"].items():
        np.testing.assert_allclose(run.seeds(metric), values, rtol=1e-6)
    assert run.origin["git"]["commit"].startswith("8f4a69c")


@pytest.mark.parametrize("name", sorted(EXPECTED_OF_RUNS))
def test_agents_of_runs_are_loaded(name):
    """What the studies register besides, such as teachers, is not needed."""
    told = EXPECTED_OF_RUNS[name]["agents"]
    folders = sorted((RUNS / name).glob("agents/*"))
    assert [folder.name for folder in folders] == sorted(told)
    for folder in folders:
        loaded = load_agent(folder)
        assert sizes(loaded.params) == pytest.approx(told[folder.name], rel=1e-5, abs=1e-5)
        assert loaded.info["training"]["experiment"] == name.partition("/")[0]


@pytest.mark.parametrize("name", sorted(EXPECTED_OF_RUNS))
def test_runs_are_shown(name, capsys):
    assert main(["runs", "show", name, "--runs-dir", str(RUNS)]) == 0
    told, lines = EXPECTED_OF_RUNS[name], capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == [name, told["status"]]
    for metric, values in told["metrics"].items():
        (line,) = [line.split() for line in lines if line.startswith(f"{metric} ")]
        assert line[1] == f"{np.mean(values):.4g}"
    for step in told["checkpoints"]:
        assert [step, "intact"] in [line.split() for line in lines]


def test_runs_are_compared(tmp_path, capsys):
    names = [name for name in sorted(EXPECTED_OF_RUNS) if name.startswith("train_agent/")]
    drawn = tmp_path / "comparison.png"
    flags = ["--runs-dir", str(RUNS), "--metric", "return", "--out", str(drawn)]
    assert main(["runs", "compare", *names, *flags]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    told = [EXPECTED_OF_RUNS[name] for name in names]
    assert ["status", *(each["status"] for each in told)] in lines
    assert ["algo", "dqn", "q-learning"] in lines
    (line,) = [line for line in lines if line[:1] == ["return"]]
    for each in told:
        assert f"{np.mean(each['metrics']['return']):.4g}" in line
    assert drawn.stat().st_size > 5_000


def records(run):
    """The log without its wall times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def arguments_of(run):
    """The flags that a run was started with, without where it was stored."""
    command = shlex.split(json.loads((run / "run.json").read_text())["command"])
    return [word for word in command[2:] if not word.startswith("--runs-dir")]


def test_a_stopped_run_is_resumed(tmp_path, monkeypatch, capsys):
    """It ends with the log that the old code wrote when nothing stopped it."""
    monkeypatch.syspath_prepend(EXPERIMENTS)
    from gpicljax.studies.train_agent import program as train_agent

    name = "train_agent/stopped"
    run = tmp_path / name
    shutil.copytree(RUNS / name, run)
    told, before = EXPECTED_OF_RUNS[name], records(run)
    assert len(before) == told["done"] < told["planned"]
    train_agent.main([*arguments_of(run), f"--runs-dir={tmp_path}", "--resume"])
    assert f"resuming after chunk {told['done']} of {told['planned']}" in capsys.readouterr().out
    after = records(run)
    assert after[: len(before)] == before
    assert [record["step"] for record in after] == list(range(1, told["planned"] + 1))
    assert read_run(run).status == "finished"
    for metric, values in told["undisturbed"].items():
        np.testing.assert_allclose(after[-1][metric], values, **CLOSE)
    assert (run / "agents" / "seed_1" / "agent.json").exists()
