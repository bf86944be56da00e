"""Table 4's experiment, with a fake model: what is asked, counted, written, and asked again."""

import re

import pytest
from chat_server import serve_chat_model

from gpicljax.llm.chat import FakeModel
from gpicljax.systems.meta_rg.studies.meta_rg_language_models import program as experiment

SMALL = ["--values", "2", "--env", "MetaRG-v1", "--episodes", "2", "--seeds", "1"]


def test_decisions_by_cell_and_seed(tmp_path, capsys, monkeypatch):
    models = []

    def model(config, settings):
        models.append(FakeModel(f'{{"meaning": "{settings.order[0]}"}}', name="first word"))
        return models[-1]

    monkeypatch.setattr(experiment, "language_model", model)
    arguments = [*SMALL, "--runs-dir", str(tmp_path), "--name", "a"]
    results = experiment.main(arguments)
    assert set(results) == {"O=1 S=1 same first", "O=1 S=1 different first"}
    same, different = results.values()
    # Whoever takes the first word says "same" in one order, "different" in the other.
    assert [table.says_same for table in same + different] == [1.0, 0.0]
    assert [table.games for table in same] == [table.games for table in different]
    for first, second in zip(same, different, strict=True):
        assert first.accuracy == first.always_same and second.accuracy == 1 - first.accuracy
        assert first.balanced_accuracy == second.balanced_accuracy == 0.5
    output = capsys.readouterr().out
    assert "first word" in output and "O=1 S=1 different first" in output
    folder = tmp_path / "meta_rg_language_models" / "a"
    assert {path.name for path in folder.glob("O=1*")} == {
        "O=1_S=1_same_first", "O=1_S=1_different_first",
    }  # fmt: skip
    assert sum(fake.requests for fake in models) > 0
    # The same flags ask for nothing that is there.
    models.clear()
    assert experiment.main(arguments) == results
    assert sum(fake.requests for fake in models) == 0


def test_a_served_model_is_priced_asked_and_stopped(tmp_path, capsys):
    """The dry run counts what is asked; a limit ends the run, and that is said."""
    model = FakeModel('{"meaning": "same"}', name="same")
    with serve_chat_model(model, honours=["response_format"]) as endpoint:
        flags = [*SMALL, "--runs-dir", str(tmp_path), "--llm.prompts", "same-first"]
        flags += [f"--llm.endpoint={endpoint}", "--llm.model=same"]
        assert experiment.main([*flags, "--dry-run"]) == {}
        output = capsys.readouterr().out
        expected = int(re.search(r"same: (\d+) requests, about", output)[1])
        assert model.requests == 0 and not [*tmp_path.iterdir()]
        experiment.main([*flags, "--llm.max-queries=3"])
        assert "Asking stopped at --llm.max-queries 3" in capsys.readouterr().out
        assert model.requests == 3 + 1  # and one that tries whether schemas are known
        experiment.main(flags)
        assert f"same: {expected} requests" in capsys.readouterr().out
        assert model.requests == expected + 2


def test_ctrl_c_writes_the_cells_that_are_whole(tmp_path, capsys, monkeypatch):
    def model(config, settings):
        if settings.different_first:
            raise KeyboardInterrupt
        return FakeModel('{"meaning": "same"}', name="stopped")

    monkeypatch.setattr(experiment, "language_model", model)
    with pytest.raises(SystemExit) as error:
        experiment.main([*SMALL, "--runs-dir", str(tmp_path), "--name", "a"])
    output = capsys.readouterr().out
    assert error.value.code == 130 and "goes on where it was left" in output
    written = [path.read_text() for path in tmp_path.rglob("*.md")]
    assert any("O=1 S=1 same first" in text for text in (*written, output))
