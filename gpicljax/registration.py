"""The registry of environments: `make`, `register`, `registered`.

A package of one's own enters its environments with `register` when it is imported, or without being
imported by entry points: in its `pyproject.toml`,

```toml
[project.entry-points."gpicljax.environments"]
"Chain-v0" = "mypackage.chain:Chain"
```

An id whose environment is made of another package is listed where that is installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from gpicljax.checks import check, refusal, unknown_choice
from gpicljax.environment import Environment

Factory = Callable[..., Environment]

_FACTORIES: dict[str, Factory | str] = {}
_NEEDS: dict[str, tuple[str, str]] = {}


def id_without_version(env_id: str) -> str:
    """Returns an id without its version: `"FrozenLake"` for `"FrozenLake-v1"`."""
    return env_id.partition("-")[0]


def register(env_id: str, factory: Factory | str, needs: tuple[str, str] | None = None) -> None:
    """Makes `make(env_id, **static)` call `factory(**static)`.

    Args:
      env_id: a name ending in a version, e.g. `"MazeWorld-v0"`.
      factory: a callable returning an `Environment`, or `"module:attribute"`, imported when it is
        first used.
      needs: a package without which it cannot be made, and what to install for it; `registered()`
        has the id where the package is installed.

    A factory of the same module and qualified name, as a notebook's cell that is run again makes,
    replaces the one before, with a warning.

    Raises:
      ValueError: if the id is taken by another factory, or the factory is none.

    Example:
      >>> import gpicljax
      >>> gpicljax.register("ThreeArms-v0", lambda: gpicljax.make("BernoulliBandit-v0", num_arms=3))
      >>> gpicljax.make("ThreeArms-v0").action_space()
      Discrete(n=3)
    """
    check(isinstance(env_id, str) and env_id, "env_id", env_id, "a name such as 'MazeWorld-v0'")
    module, colon, attribute = factory.partition(":") if isinstance(factory, str) else ("",) * 3
    named = bool(module and colon and attribute.isidentifier())
    check(named or callable(factory), "factory", factory, "a callable, or 'module:attribute'")
    before = _FACTORIES.get(env_id, factory)
    if before != factory:
        if not same_origin(before, factory):
            taken = f"env_id: got {env_id!r}, which is registered already; accepted: a new id"
            raise ValueError(taken)
        warnings.warn(f"{env_id} is registered anew and replaces what was there", stacklevel=2)
    _FACTORIES[env_id] = factory
    if needs is not None:
        _NEEDS[env_id] = needs


def same_origin(first: object, second: object) -> bool:
    """Returns whether two classes or functions come from the same place of the same module."""
    places = [
        (getattr(x, "__module__", None), getattr(x, "__qualname__", None)) for x in (first, second)
    ]
    return None not in places[0] and places[0] == places[1]


def _lacks(env_id: str) -> str | None:
    """Returns the package that an environment needs, and that is not installed."""
    package, _ = _NEEDS.get(env_id, (None, ""))
    lacking = package is not None and importlib.util.find_spec(package) is None
    return package if lacking else None


def registered() -> list[str]:
    """Returns the registered ids, those of installed packages' entry points included, sorted.

    Example:
      >>> import gpicljax
      >>> "MazeWorld-v0" in gpicljax.registered()
      True
    """
    _enter_installed()
    return sorted(env_id for env_id in _FACTORIES if _lacks(env_id) is None)


def is_registered(env_id: str) -> bool:
    """Returns whether there is such an id, its package installed or not. Nothing is imported."""
    _enter_installed()
    return env_id in _FACTORIES


@functools.cache
def _enter_installed() -> None:
    """Registers what installed packages name; their modules are imported when first used."""
    for entry in importlib.metadata.entry_points(group="gpicljax.environments"):
        if entry.name not in _FACTORIES:
            register(entry.name, entry.value)


def make(env_id: str, **static: Any) -> Environment:
    """Builds an environment.

    Args:
      env_id: a registered id, or `"module:id"` of one that a module registers when imported.
      **static: static configuration and caps of that environment.

    Raises:
      ValueError: for an unknown id (the nearest known one is suggested) or a bad configuration.
      ModuleNotFoundError: for one that needs a package which is not installed.

    Example:
      >>> import gpicljax
      >>> gpicljax.make("FrozenLake-v1", size=4).action_space()
      Discrete(n=4)
    """
    check(isinstance(env_id, str), "env_id", env_id, "an id, as registered() lists them")
    module, _, env_id = env_id.rpartition(":")
    if module:
        import_module(module, "env_id", f"{module}:{env_id}")
    if not is_registered(env_id):
        raise ValueError(unknown_choice("env_id", env_id, registered()))
    if lacking := _lacks(env_id):
        install = _NEEDS[env_id][1]
        raise ModuleNotFoundError(
            f'{env_id} needs {lacking}, which is not installed: pip install "{install}"',
            name=lacking,
        )
    factory = _import_factory(env_id)
    options = inspect.signature(factory).parameters
    anything = any(option.kind is option.VAR_KEYWORD for option in options.values())
    for name in static:
        if name not in options and not anything:
            raise ValueError(unknown_choice(f"option of {env_id}", name, options or ["none"]))
    return factory(**static)


def import_from_here() -> None:
    """Lets commands import modules of the current folder, as `python -m` does: `mymaze:Maze-v0`.

    Installed modules come first.
    """
    folder = os.getcwd()
    if not {"", folder} & {*sys.path}:
        sys.path.append(folder)


def _import_factory(env_id: str) -> Factory:
    factory = _FACTORIES[env_id]
    if not isinstance(factory, str):
        return factory
    name, _, attribute = factory.partition(":")
    module = import_module(name, f"factory of {env_id}", factory)
    check(hasattr(module, attribute), f"factory of {env_id}", factory, f"an attribute of {name}")
    return getattr(module, attribute)


def module_of(env_id: str) -> str:
    """Returns the module that registers an environment, or else the one of its factory."""
    module, _, env_id = env_id.rpartition(":")
    factory = _FACTORIES.get(env_id, "")
    factory_module = factory.partition(":")[0] if isinstance(factory, str) else factory.__module__
    return module or factory_module


def import_module(name: str, argument: str, value: str) -> Any:
    """Imports a module, for an argument that names it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        accepted_values = f"what can be imported ({error})"
        raise ValueError(refusal(argument, value, accepted_values)) from error


def resolve(env: Environment | str) -> Environment:
    """Returns an environment as it is, or made by its id, for functions that accept both.

    Raises:
      ValueError: for an unknown id, or anything else.
    """
    if isinstance(env, str):
        return make(env)
    check(isinstance(env, Environment), "env", env, "an environment, or its id")
    return env


def registered_id(env: Environment) -> str | None:
    """Returns the id with which `make`, without options, gives an environment equal to this one."""
    home = f"{type(env).__module__}:"
    # Nothing else is imported for it.
    near = [name for name in registered() if str(_FACTORIES[name]).startswith(home)]
    return next((name for name in reversed(near) if make(name) == env), None)


_BANDITS = (
    "TwoArmedDeterministicFixed",
    "TwoArmedHighHighFixed",
    "TwoArmedHighLowFixed",
    "TwoArmedLowLowFixed",
    "TenArmedRandomFixed",
    "TenArmedRandomRandom",
    "TenArmedUniformDistributedReward",
    "TenArmedGaussian",
)

register("Acrobot-v1", "gpicljax.envs.acrobot:Acrobot")
register("AnyMDP-v0", "gpicljax.envs.any_mdp:AnyMDP")
for _version in "v0", "v1":
    for _name in _BANDITS:
        register(f"Bandit{_name}-{_version}", f"gpicljax.envs.one_pull_bandits:{_name}")
    register(f"CliffWalking-{_version}", "gpicljax.envs.cliff_walking:CliffWalking")
register("BernoulliBandit-v0", "gpicljax.envs.bernoulli_bandit:BernoulliBandit")
register("ByteStream-v0", "gpicljax.systems.gradual_learning.env.byte_stream:ByteStream")
register("ContextualBandit-v0", "gpicljax.envs.contextual_bandit:ContextualBandit")
register("DarkRoom-v0", "gpicljax.envs.dark_room:DarkRoom")
for _name, _attribute in ("Push", "push"), ("Slide", "slide"), ("PickAndPlace", "pick_and_place"):
    register(f"Fetch{_name}-v4", f"gpicljax.envs.fetch.env:{_attribute}")
register("FrozenLake-v1", "gpicljax.envs.frozen_lake:FrozenLake")
register("GaussianBandit-v0", "gpicljax.envs.gaussian_bandit:GaussianBandit")
register("InvertedDoublePendulum-v4", "gpicljax.envs.inverted_double_pendulum:version_4")
register("InvertedDoublePendulum-v5", "gpicljax.envs.inverted_double_pendulum:version_5")
register("KeyToDoor-v0", "gpicljax.envs.key_to_door:KeyToDoor")
register("LunarLander-v3", "gpicljax.envs.lunar_lander.env:LunarLander")
register("MazeWorld-v0", "gpicljax.systems.maze_world.env.maze_world:MazeWorld")
register("MetaLanguage-v0", "gpicljax.systems.meta_language.env.meta_language:MetaLanguage")
register("MetaRG-v0", "gpicljax.systems.meta_rg.env.meta_rg:MetaRG")
register("MetaRG-v1", "gpicljax.systems.meta_rg.env.meta_rg:shortcut_free")
register("MetaRG-v2", "gpicljax.systems.meta_rg.env.meta_rg:sections")
register("MountainCar-v0", "gpicljax.envs.mountain_car:MountainCar")
register("Pendulum-v1", "gpicljax.envs.pendulum:Pendulum")
register("Recall-v0", "gpicljax.systems.meta_rg.env.recall:Recall")
