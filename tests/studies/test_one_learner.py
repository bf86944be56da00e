"""The study `one_learner` compares saved models, run by run and seed by seed, with new ones."""

import shutil

import pytest

from gpicljax.runs.saved_agents import agents_of, shipped_model
from gpicljax.runtime import ConfigError
from gpicljax.studies.one_learner.config import Config
from gpicljax.studies.one_learner.program import saved_models


def test_models_of_several_runs_stand_beside_new_ones(tmp_path):
    saved = shipped_model("one_learner")
    for agent in ("a/agents/seed_0", "a/agents/seed_2", "b/agents/seed_0"):
        shutil.copytree(saved, tmp_path / agent)
    runs = tmp_path / "a", tmp_path / "b" / "agents" / "seed_0"
    models = saved_models(Config(start_from=runs))
    saved_ones = [("a", 0), ("a", 2), ("b", 0)]
    assert list(models) == [*saved_ones, ("new", 0), ("new", 2)]
    assert [int(number) for _, number, _ in models.values()] == [0, 2, 0, 0, 2]
    assert [bool(is_new) for *_, is_new in models.values()] == [False] * 3 + [True] * 2
    assert list(saved_models(Config(start_from=runs, train=False))) == saved_ones
    assert list(saved_models(Config(start_from=(saved,)))) == [("one_learner", 0)]
    (tmp_path / "a" / "agents" / "seed_best").mkdir()
    assert [seed for _, seed, _ in agents_of(tmp_path / "a")] == [0, 2]
    with pytest.raises(ConfigError, match="start_from"):
        saved_models(Config(start_from=(*runs, runs[1])))
