"""The objects behind the names and values on the command line of `train_agent.py`.

Configurations are `train_agent.Config`; all functions raise `ConfigError` for what is not accepted.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax import agents
from gpicljax.checks import check_fields, unknown_choice
from gpicljax.networks.memories import MemoryKind
from gpicljax.runs.config import assignments
from gpicljax.runtime import ConfigError, check_config


def env_options(config: Any) -> dict[str, Any]:
    """Returns the static options by name; raises a ConfigError for an entry without name=value."""
    return assignments("env_options", config.env_options)


def make_env(config: Any) -> gpicljax.Environment:
    """Returns the environment; raises a ConfigError for an unknown id or option."""
    is_known = config.env.rpartition(":")[2] in gpicljax.registered()
    argument = "env_options" if is_known else "env"
    try:
        return gpicljax.make(config.env, **env_options(config))
    except ValueError as error:
        raise ConfigError(f"{argument}: {error}") from error


def make_params(config: Any, env: gpicljax.Environment) -> Any:
    """Returns the distribution over tasks; raises a ConfigError for an unknown or bad param."""
    return _params(env, "env_params", assignments("env_params", config.env_params))


def evaluation_params(config: Any, env: gpicljax.Environment) -> Any:
    """Returns the distribution over tasks of the second evaluation; None if there is none."""
    if not config.evaluation_params:
        return None
    changes = assignments("evaluation_params", config.evaluation_params)
    trained = assignments("env_params", config.env_params)
    return _params(env, "evaluation_params", trained | changes)


def _params(env: gpicljax.Environment, argument: str, values: dict[str, Any]) -> Any:
    try:
        return env.make_params(**values)
    except ValueError as error:
        raise ConfigError(f"{argument}: {error}") from error


def cells(config: Any) -> dict[str, dict[str, Any]]:
    """Returns the grid of a sweep: the hyper-parameters that differ, by the cell's name.

    ConfigError for a name that is no traced field of `hparams`, or a value that it does not accept.
    """
    values_by_name = assignments("sweep", config.sweep)
    fields = dataclasses.fields(config.hparams) if values_by_name else ()
    traced = [field.name for field in fields if field.metadata.get("pytree_node", True)]
    for name, choices in values_by_name.items():
        check_config(bool(traced), "sweep", name, f"nothing: {config.algo} has no hyper-parameters")
        if name not in traced:
            raise ConfigError(unknown_choice("sweep", name, traced))
        values_by_name[name] = values = choices if isinstance(choices, tuple) else (choices,)
        check_config(
            len({*map(str, values)}) == len(values) > 0, "sweep", choices, "different values"
        )
        for value in values:
            try:
                check_fields(config.hparams.replace(**{name: value}))
            except ValueError as error:
                raise ConfigError(f"sweep: {error}") from error
    return {
        ", ".join(f"{name}={value}" for name, value in zip(values_by_name, values, strict=True)): {
            name: np.asarray(value, jnp.result_type(type(getattr(config.hparams, name))))
            for name, value in zip(values_by_name, values, strict=True)
        }
        for values in itertools.product(*values_by_name.values())
    }


def has_choice_of_memory(algo: str) -> bool:
    """Returns whether the network of an algorithm has one of several kinds of memory."""
    return hasattr(agents.get_algorithm(algo).network(), "memory")


def memories() -> str:
    """Returns a text with the memories of the algorithms."""
    names = [name for name in agents.CATALOGUE if has_choice_of_memory(name)]
    return f"with --algo {' or '.join(names)}: {', '.join(get_args(MemoryKind))}"
