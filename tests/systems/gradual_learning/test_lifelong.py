"""Task sets learnt one after the other: orders, lives, what guards what is known, reports."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gpicljax.systems.gradual_learning.figures.learning import accuracy_matrix_figure
from gpicljax.systems.gradual_learning.learners import life as lives
from gpicljax.systems.gradual_learning.learners.life import (
    Anchor,
    Life,
    read_life,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong import program
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.config import (
    METHODS,
    PRESETS,
    Config,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.report import (
    retentions_of,
    summarise_skills,
    transfers_of,
)

SMALL = ["--first", "micro5.3", "--permuted", "micro5.6", "--last", "--targets", "micro5.6"]
SMALL += ["--parallel=4", "--agent.minibatches=2", "--agent.unroll=16", "--updates=1"]
SMALL += ["--network.core=8", "--network.slots=16", "--network.sizes=16", "--network.heads=2"]
SMALL += ["--streams=2", "--budget=60", "--stretch=200"]


def test_each_permuted_set_comes_at_every_place_as_often():
    config = PRESETS["lifelong"]
    orders = [config.order(seed) for seed in range(8)]
    assert all(sorted(order) == sorted(config.task_sets) for order in orders)
    assert all(order[:3] == config.first and order[-2:] == config.last for order in orders)
    for place in range(3, 7):
        assert sorted(order[place] for order in orders[:4]) == sorted(config.permuted)
    assert len(set(orders)) == 8


def test_lives_are_written_gone_on_with_and_told(tmp_path, capsys, monkeypatch):
    """All methods begin alike; a run that is started again plays nothing twice."""
    programs = []

    def compiled_once(config, task_sets):
        programs[:] = programs or [lives.build_programs(config, task_sets)]
        return programs[0]

    monkeypatch.setattr(program, "build_programs", compiled_once)
    flags = [*SMALL, f"--runs-dir={tmp_path}", "--seeds=2", "--name=small", "--methods", *METHODS]
    program.main([*SMALL, f"--runs-dir={tmp_path}", "--seeds=1", "--name=small", "--methods=plain"])
    lives_by_method = program.main(flags)  # of more seeds and methods: it goes on
    assert set(lives_by_method) == {*METHODS}
    for method_lives in zip(*lives_by_method.values(), strict=True):
        for life in method_lives:
            assert life.order == ("micro5.3", "micro5.6")
            assert life.solved.shape == life.taken.shape == life.kept.shape == (3, 2, 2)
            np.testing.assert_array_equal(life.solved[0], method_lives[0].solved[0])
        # The first set is learnt in the same way whatever comes after.
        np.testing.assert_array_equal(method_lives[0].taken[1], method_lives[1].taken[1])
    folder = tmp_path / "gradual_learning_lifelong" / "small"
    text = (folder / "summary.md").read_text()
    assert "## B." in text and "| replay |" in text and (folder / "figures/matrix.png").exists()
    (folder / "lives" / "plain_1.json").unlink()
    resumed = program.main(flags)
    for method, method_lives in lives_by_method.items():
        for first_life, resumed_life in zip(method_lives, resumed[method], strict=True):
            jax.tree.map(
                np.testing.assert_array_equal, first_life.to_content(), resumed_life.to_content()
            )
    output = capsys.readouterr().out
    assert output.count("seed 0, plain") == 1 and output.count("seed 1, plain") == 2
    with pytest.raises(SystemExit):
        program.main([*flags, "--updates=2"])
    assert "another --name" in capsys.readouterr().err
    assert json.loads((folder / "config.json").read_text())["seeds"] == 2
    # A life of another run, one in another's place and a changed one are refused by their names,
    # before anything is lived.
    lived = (folder / "lives" / "plain_0.json").read_text()
    monkeypatch.setattr(program, "teach_life", None)
    resumed_life = tmp_path / "gradual_learning_lifelong" / "other" / "lives"
    for name, text, place in (
        ("plain_0", lived, resumed_life),
        ("anew_1", lived, folder / "lives"),
        ("plain_0", lived.replace("micro5.6", "micro5.7"), folder / "lives"),
        ("plain_0", "{}", folder / "lives"),
        ("plain_0", "[]", folder / "lives"),
        ("plain_0", '{"order": [', folder / "lives"),
    ):
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.json").write_text(text)
        more = ["--name=other", "--updates=2"] if place == resumed_life else []
        with pytest.raises(SystemExit, match="1"):
            program.main([*flags, *more])
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1 and f"{name}.json" in error
        (place / f"{name}.json").unlink()


def test_lives_of_other_task_sets_or_numbers_are_refused():
    order = ("micro5.3", "micro5.6")
    whole = life([800, 100], [[0, 0.1], [1, 0.3], [0.5, 1]]).to_content()
    assert read_life(order, 2, json.loads(json.dumps(whole))).order == order
    for name, value in (
        ("order", ["micro99"]),
        ("steps", [0.0, 1.0]),
        ("steps", [-800, 100]),
        ("cleared", [1, 0]),
        ("solved", [[[0.0]]]),
        ("solved", (2 * np.array(whole["solved"])).tolist()),
        ("kept", [[0.0]]),
    ):
        with pytest.raises(ValueError, match=f"{name}: got"):
            read_life(order, 2, whole | {name: value})
    with pytest.raises(ValueError, match="accepted: "):
        read_life(order, 2, {name: value for name, value in whole.items() if name != "taken"})


def test_weights_that_matter_are_pulled_back_and_others_are_free():
    anchor = Anchor({"w": jnp.array([1.0, 1.0])}, {"w": jnp.array([1e6, 0.0])})
    moved = {"w": jnp.array([3.0, 3.0])}
    np.testing.assert_allclose(lives._pull_weights(moved, anchor, 1.0)["w"], [1.0, 3.0], rtol=1e-5)
    np.testing.assert_array_equal(lives._pull_weights(moved, anchor, 0.0)["w"], moved["w"])


def test_a_set_that_is_cleared_without_an_update_leaves_the_anchor_as_it_is():
    class Untaught:
        params = {"w": jnp.array([1.0, 2.0])}
        opt_state = optax.adam(1e-3).init(params)

    weights = {"w": jnp.array([0.5, 1.5])}
    np.testing.assert_array_equal(lives._update_anchor(None, Untaught).weights["w"], [0.0, 0.0])
    updated = lives._update_anchor(Anchor(Untaught.params, weights), Untaught)
    np.testing.assert_array_equal(updated.weights["w"], weights["w"])


def life(steps, solved, order=("micro5.3", "micro5.6"), taken=100):
    skills = np.asarray(solved, float)[..., None] * np.ones(2)
    whole = np.full(skills.shape, taken)
    return Life(order, np.array(steps), np.array([True, True]), skills, whole, skills > 0.5)


def test_what_lives_come_to():
    """Four times faster after the set before; half of what was known is lost in one seed of two."""
    after = [life([800, 100], [[0, 0.1], [1, 0.3], [0.5, 1]]) for _ in range(2)]
    anew = [life([800, 400], [[0, 0.1], [1, 0.1], [0.1, 1]]) for _ in range(2)]
    gain = transfers_of({"plain": after, "anew": anew}, "plain", ["micro5.6"])["micro5.6"]
    assert (gain.mean, gain.pairs) == (4.0, 2) and gain.inclusive == pytest.approx(400 / 900)
    assert summarise_skills(after).mean(1) == pytest.approx([0.75, -0.5, 0.5, 0.2, 900])
    kept = retentions_of(after)["micro5.3"]
    assert (kept.pairs, kept.lost) == (2, 2) and kept.ratio == pytest.approx(1 / 1.25)
    content = json.loads(json.dumps(after[0].to_content()))
    assert Life.from_content(content).order == after[0].order


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"targets": ("micro5.3",)}, "targets"),
        ({"permuted": ("micro5.3",)}, "permuted"),
        ({"permuted": ("micro99",)}, "permuted"),
        ({"parallel": 31}, "parallel"),
    ],
)
def test_what_cannot_be_lived_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Config(), **fields).validate()


def test_the_figure_has_a_square_for_each_method():
    figure = accuracy_matrix_figure({"a": np.zeros((3, 2)), "b": np.ones((3, 2))})
    assert len(figure.axes) == 3
    with pytest.raises(ValueError, match="n \\+ 1, n"):
        accuracy_matrix_figure({"a": np.zeros((2, 2))})


def test_what_does_not_fit_into_memory_is_refused_before_it_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    with pytest.raises(SystemExit, match="1"):
        program.main([*SMALL, f"--runs-dir={tmp_path}"])
    error = capsys.readouterr().err
    assert "GiB of the 0.00 GiB free" in error and error.count("\n") == 1
    assert not [*tmp_path.rglob("*_0.json"), *tmp_path.rglob("streams")]
