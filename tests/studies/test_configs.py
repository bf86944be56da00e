"""The configurations of all studies: what fields declare, and what is refused before training."""

import dataclasses
import importlib
import inspect
from typing import Annotated, Any, Literal, get_args, get_origin

from gpicljax import agents
from gpicljax.checks import Range, field_annotations, fits, in_words
from gpicljax.runs.config import RunConfig
from gpicljax.studies.registry import STUDIES


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
    """Returns whether an annotation admits a number without a `Range`."""
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
