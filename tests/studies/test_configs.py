"""The configurations of all studies: what fields declare, and what is refused before training."""

import dataclasses
import importlib
import inspect
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from gpicljax import agents
from gpicljax.checks import Range, field_annotations, fits, in_words
from gpicljax.runs.config import RunConfig
from gpicljax.studies.registry import STUDIES, run_study


def configs():
    """The configurations of every study: its presets, and classes that have none."""
    for package in STUDIES.values():
        module = importlib.import_module(f"{package}.program")
        yield from getattr(module, "PRESETS", {}).values()
        for kind in vars(module).values():
            if inspect.isclass(kind) and issubclass(kind, RunConfig):
                yield kind()


def add_reachable(kind, reached):
    """Adds a dataclass and those that its annotations name."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in reached:
        reached.add(kind)
        for inner in field_annotations(kind).values():
            add_reachable(inner, reached)
    for inner in get_args(kind):
        add_reachable(inner, reached)


def bare(kind):
    """Whether an annotation admits a number without a `Range`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return False
    if origin is Annotated and any(isinstance(mark, Range) for mark in arguments[1:]):
        return False
    return kind in (int, float) or any(map(bare, arguments))


def test_every_number_of_every_config_has_a_range():
    kinds: set[type] = set()
    for config in configs():
        add_reachable(type(config), kinds)
        for field in dataclasses.fields(config):
            add_reachable(type(getattr(config, field.name)), kinds)
    for algorithm in agents.CATALOGUE.values():
        for kind in (algorithm.config, algorithm.hparams, algorithm.network):
            add_reachable(kind, kinds)
    assert len(kinds) > 50
    fields = {
        f"{kind.__qualname__}.{n}": k for kind in kinds for n, k in field_annotations(kind).items()
    }
    assert [name for name, kind in fields.items() if bare(kind)] == []


def test_infinity_is_a_number_only_where_it_means_no_limit():
    limit: Any = Annotated[float, Range(above=0, infinite=True)]
    infinity = float("inf")
    assert fits(infinity, limit) and fits(0.5, limit)
    assert not any(fits(value, limit) for value in (0.0, -1.0, -infinity, float("nan")))
    assert in_words(limit) == "a finite number above 0, or infinity"
    assert not fits(infinity, Annotated[float, Range()])
    hparams = field_annotations(agents.PPOHParams)
    assert fits(infinity, hparams["max_gradient_norm"]) and fits(infinity, hparams["value_clip"])


@pytest.mark.parametrize(
    "study, arguments, words",
    [
        ("train_agent", "--hparams.max-gradient-norm -1", "accepted: a finite number above 0, or"),
        ("train_agent", "--hparams.value-clip nan", "--hparams.value-clip: got nan"),
        ("train_agent", "--sweep max_gradient_norm=-1", "sweep: max_gradient_norm: got -1"),
        ("meta_language", "--hparams.adam-b1 2", "got 2.0; accepted: a number within [0, 1)"),
        ("meta_language", "--hparams.adam-b2 1", "got 1.0; accepted: a number within [0, 1)"),
        ("meta_language", "--hparams.warmup-updates -5", "got -5; accepted: an integer from 0"),
        ("meta_language", "--evaluation-context 15", "got 15; accepted: an integer >= 16"),
        ("maze_world", "--weights.policy -1", "--weights.policy: got -1.0; accepted: a finite"),
        ("maze_world", "--weights.image inf", "--weights.image: got inf; accepted: a finite"),
        ("maze_world", "--model.noise -1", "noise: got -1.0; accepted: a finite number >= 0"),
        ("maze_world", "--evaluation-densities 5", "accepted: a tuple, each entry a number within"),
        ("maze_world", "--rules", "--rules: got (); accepted: at least one"),
        ("maze_world", "--acting", "--acting: got (); accepted: at least one"),
        ("maze_world", "--marks", "--marks: got (); accepted: at least one"),
        ("maze_world", "--autoencoder-preset none", "--autoencoder-preset: got 'none'"),
        ("maze_world", "--evaluation-length 3 --marks 1 --horizon 1", "got 3; accepted: 4 or more"),
        ("meta_rg", "--network.heads 0", "heads: got 0; accepted: an integer from 1"),
        ("meta_rg", "--network.encoded colour", "--network.encoded: got 'colour'"),
        ("recall", "--network.compare colour", "--network.compare: got 'colour'"),
        ("meta_rg_stimuli", "--rows 1", "--rows: got (1,); accepted: 0, or 2 and more"),
        ("gradual_learning", "--network.heads 0", "heads: got 0; accepted: an integer from 1"),
        ("in_context_rl", "--tests", "--tests: got (); accepted: at least one"),
        ("in_context_rl_train", "--actions 1", "--actions: got 1; accepted: an integer >= 2"),
        ("in_context_rl_train", "--network.tables.code", "code: got (); accepted: at least one"),
    ],
)
def test_what_would_fail_later_is_refused_first(study, arguments, words, capsys, tmp_path):
    with pytest.raises(SystemExit, match="2"):
        run_study(study, [*arguments.split(), f"--runs-dir={tmp_path}"])
    output = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in output and "Traceback" not in output
    assert list(tmp_path.iterdir()) == []
