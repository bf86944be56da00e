"""Trained agents on disk: what is needed to play on with them, and nothing of their training.

```python
played = load_agent("runs/train_agent/quick-ppo-FrozenLake-v1/agents/seed_0")
env, agent = played.env, played.agent
episodes = episode_returns(
    key, env, agent, played.params, episodes=100, max_steps=200, env_params=played.env_params
)
```

A folder holds `params.npz`, the arrays, and `agent.json`: everything else (see `array_folder`), and
a hash of all that decides how the agent acts: weights, configuration, environment. A folder may
come from anywhere: loading it imports nothing that it names, and runs only what is registered.

Language models are agents like all others. `load_language_model` gives their network instead, and
a few come with the package: `shipped_models()` names them.

```python
model = load_language_model(shipped("meta_language_online"))
logits, _ = model.network.unroll(model.params, None, tokens, None)  # int32[T, B] -> [T, B, V]
```
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import agents, registration, spaces
from gpicljax.agents.acting import Params
from gpicljax.agents.algorithm import agent_spaces, greedy_agent, is_known
from gpicljax.agents.language_agent import LanguageModelConfig
from gpicljax.checks import check, check_choice, unknown_choice
from gpicljax.environment import Environment
from gpicljax.interface import Agent
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.runs.config import check_config
from gpicljax.runs.config_json import from_json, to_json
from gpicljax.storage.array_folder import (
    SavedError,
    name_leaves,
    read_folder,
    restore,
    write_folder,
)
from gpicljax.typing import ArrayTree, JsonObject
from gpicljax.wrappers.settings import TrialSettings

FORMAT = 2
CARD = "agent.json"
SHIPPED = Path(__file__).parents[1] / "models"


class LoadedAgent(NamedTuple):
    """An agent from disk, ready to act.

    Attributes:
      env: the environment of its training, or the one for which it was loaded.
      env_params: the distribution over tasks of its training; for another environment, that
        environment's default.
      agent: acts greedily, over `params`.
      params: its parameters.
      info: the whole of `agent.json`: settings, evaluation, provenance, hash.

    Example:
      >>> loaded = load_agent(shipped_model("meta_language_tiny"))
      >>> loaded.env.name, loaded.env.observation_space()
      ('MetaLanguage', Discrete(n=32))
    """

    env: Environment
    env_params: Any
    agent: Agent
    params: Any
    info: dict[str, Any]

    def network(self) -> Network | None:
        """Returns the network of an agent whose settings make one; None otherwise."""
        settings = from_json(
            agents.get_algorithm(self.info["algorithm"]).network, self.info["network"]
        )
        make = getattr(settings, "network", None)
        return None if make is None else make(*agent_spaces(self.env))

    def __repr__(self) -> str:
        """Returns one line: the algorithm, its size and the environment."""
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.params))
        return f"LoadedAgent({self.info['algorithm']}, {size:,} parameters, in {self.env!r})"

    def __reduce__(self) -> Any:
        """Pickled without its functions, which are made again from the settings."""
        return _assemble, (self.env, self.env_params, self.params, self.info)


def save_agent(
    folder: str | Path,
    *,
    algorithm: str,
    env_id: str,
    env_options: JsonObject,
    env_params: ArrayTree,
    num_envs: int,
    config: Any,
    network: Any,
    params: ArrayTree,
    trials: TrialSettings | None = None,
    **about: Any,
) -> None:
    """Writes an agent so that `load_agent` needs nothing but the folder.

    Args:
      folder: made if absent; an agent in it is replaced.
      algorithm: its name in `agents.CATALOGUE`.
      env_id: registered id of its environment.
      env_options: static options of `gpicljax.make`: numbers, strings, tuples of them.
      env_params: distribution over tasks.
      num_envs: instances in training.
      config: sizes and switches of the algorithm.
      network: settings of its network.
      params: its parameters, pytree of arrays, on the host or one device.
      trials: how its environment becomes whole trials; None where it is as it is.
      **about: whatever else a reader should know (evaluation, provenance, ...), for JSON.

    Raises:
      OSError: if a file cannot be written.
      TypeError: if a setting is no JSON value.
      ValueError: if algorithm or environment are unknown, or `params` are not theirs.

    Example:
      >>> import tempfile
      >>> rule, env = agents.get_algorithm("ucb1"), registration.make("BernoulliBandit-v0")
      >>> settings = {"config": rule.config(), "network": rule.network(), "params": ()}
      >>> where = {"env_id": "BernoulliBandit-v0", "env_options": {}}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save_agent(
      ...         folder,
      ...         algorithm="ucb1",
      ...         env_params=env.default_params,
      ...         num_envs=1,
      ...         **settings,
      ...         **where,
      ...     )
      ...     load_agent(folder).env.name
      'BernoulliBandit'
    """
    folder = Path(folder)
    env = _environment(env_id, env_options, trials)
    greedy_agent(algorithm, env, num_envs, config, network, params)
    arrays = name_leaves("params", params) | name_leaves("env_params", env_params)
    identity = {
        "algorithm": algorithm,
        "env": {"id": env_id, "options": to_json(dict(env_options), "env_options")}
        | ({} if trials is None else {"trials": to_json(trials)}),
        "num_envs": num_envs,
        "config": to_json(config),
        "network": to_json(network),
    }
    card = {
        "format": FORMAT,
        **identity,
        "modules": {
            "env": registration.module_of(env_id),
            "algorithm": getattr(agents.get_algorithm(algorithm).make, "__module__", ""),
        },
        "hash": _hash(identity, arrays),
        "spaces": _spaces(env),
        "parameters": sum(np.size(leaf) for leaf in jax.tree.leaves(params)),
        **about,
    }
    write_folder(folder, CARD, card, arrays)


def load_agent(
    folder: str | Path, env: Environment | str | None = None, modules: Sequence[str] = ()
) -> LoadedAgent:
    """Reads an agent.

    Args:
      folder: what `save_agent` wrote.
      env: an environment to use it in, or its id, if not just the one it was trained on; of the
        same kind and with the same spaces. What learns within whole trials is for any of the same
        spaces, what reads symbols for any that declares a code.
      modules: names of modules to import first, which register its environment or algorithm. A
        folder's own word is not enough to import anything.

    Returns:
      The agent with its environment.

    Raises:
      SavedError: if a file is missing, damaged or of a later version, if `env` is another kind of
        environment, or if environment or algorithm are not registered; it says what to import.
      ValueError: for what is no path, and a module that cannot be imported.

    Example:
      >>> loaded = load_agent(shipped_model("meta_language_tiny"))
      >>> loaded.info["algorithm"], f"{loaded.info['parameters']:,}"
      ('language-model', '303,008')
    """
    check(isinstance(folder, str | PathLike), "folder", folder, "the path of a saved agent")
    folder = Path(folder)
    check(not isinstance(modules, str), "modules", modules, "a sequence of names")
    for name in modules:
        registration.import_module(name, "modules", name)
    env = None if env is None else registration.resolve(env)
    card, arrays = read_folder(folder, CARD, FORMAT, "saved agent")
    try:
        env_id = _registered_id(card)
        algorithm = agents.get_algorithm(card["algorithm"])
        options = {name: _tuples(value) for name, value in card["env"]["options"].items()}
        trial_card = card["env"].get("trials")
        trials = None if trial_card is None else from_json(TrialSettings, trial_card)
        saved_env = _environment(env_id, options, trials)
        config = from_json(algorithm.config, card["config"])
        network = from_json(algorithm.network, card["network"])
        num_envs = card["num_envs"]
        agent, like = algorithm.acting(saved_env, num_envs, config, network)
    except Exception as error:  # a card may say anything, and break anything
        raise SavedError(f"{folder / CARD}: {error}") from error
    if card.get("spaces") != _spaces(saved_env):
        raise SavedError(
            f"{folder / CARD} has changed: {card['env']['id']} has {_in_words(saved_env)}"
        )
    kind = env is None or trials is not None or env.name == saved_env.name
    fits = algorithm.reads_symbols or (kind and env and _spaces(env) == _spaces(saved_env))
    if env is not None and not fits:
        raise SavedError(
            f"{folder} is a saved agent of another environment: {card['env']['id']} "
            f"({saved_env.name}, {_in_words(saved_env)}), not {env.name} ({_in_words(env)})"
        )
    if unknown_parts := {name.partition("/")[0] for name in arrays} - {"params", "env_params"}:
        raise SavedError(f"{folder} has arrays of no agent: {', '.join(sorted(unknown_parts))}")
    params = restore(folder, arrays, "params", like)
    env_params = restore(folder, arrays, "env_params", saved_env.default_params)
    if card.get("hash") != _hash({name: card[name] for name in _IDENTITY}, arrays):
        raise SavedError(f"{folder / CARD} has changed (its hash differs)")
    try:
        saved_env.validate(env_params)
    except ValueError as error:
        raise SavedError(f"{folder} has params that are not accepted: {error}") from error
    if env is None or env == saved_env:
        return LoadedAgent(saved_env, env_params, agent, params, card)
    try:
        return _assemble(env, env.default_params, params, card)
    except NotImplementedError as error:  # an environment without a code, for one that reads it
        raise SavedError(f"{folder} does not fit: {error}") from None


class LoadedLanguageModel(NamedTuple):
    """A language model from disk.

    Attributes:
      settings: its kind and size.
      network: from tokens to logits.
      params: its parameters.
      info: the whole of `agent.json`.
    """

    settings: LanguageModelSettings
    network: Network
    params: Any
    info: dict[str, Any]


def load_language_model(
    folder: str | Path,
    capacity: int | None = None,
    settings: LanguageModelSettings | None = None,
) -> LoadedLanguageModel:
    """Reads the network of an agent that is a language model.

    Args:
      folder: what `save_agent` wrote for the algorithm `language-model`.
      capacity: tokens that a transformer's cache is to hold; those of the saved agent by default.
      settings: those that the model is expected to have; any if None.

    Raises:
      SavedError: as `load_agent`; also if it is no language model, or another one than expected.

    Example:
      >>> model = load_language_model(shipped_model("meta_language_tiny"))
      >>> model.settings.layers, model.settings.width
      (6, 64)
    """
    loaded = load_agent(folder)
    card, tokens = loaded.info, loaded.env.observation_space()
    if card["algorithm"] != "language-model" or not isinstance(tokens, spaces.Discrete):
        raise SavedError(f"{folder} is a saved agent, but no language model: {card['algorithm']}")
    saved_settings = from_json(LanguageModelSettings, card["network"])
    if settings is not None and settings != saved_settings:
        raise SavedError(
            f"{folder} is a saved model of another size: {saved_settings}, not {settings}"
        )
    config = from_json(LanguageModelConfig, card["config"])
    network = language_model(saved_settings, tokens.n, capacity or config.capacity or config.length)
    return LoadedLanguageModel(saved_settings, network, loaded.params, card)


def shipped_models() -> list[str]:
    """Names of the models that come with the package.

    Example:
      >>> shipped_models()
      ['byte_stream_quick', 'dark_room_planning', 'in_context_rl_mixture', 'maze_world_small', ...
    """
    return sorted(card.parent.name for card in SHIPPED.glob(f"*/{CARD}"))


def shipped_model(name: str) -> Path:
    """Returns the folder of a model that comes with the package.

    `meta_language_online` learns random languages in its context, an online memory of 10,639
    parameters, trained by `python experiments/meta_language.py --preset cpu-online-wide`;
    `meta_language_tiny` is a transformer of 303,008, by `--preset cpu-tiny`. `maze_world_small` is
    a world model and policy of 826,230 parameters, its autoencoder included, of mazes of 7 x 7,
    which it has learnt to walk and to foresee from pictures of 32 x 32, by `python
    experiments/maze_world.py --preset cpu-7x7`. `in_context_rl_mixture` learns bandits, lakes and
    corridors within 200 actions, by `python experiments/in_context_rl_train.py --family mixture`,
    then with `--learner clone`. `byte_stream_quick` learns what bytes stand for within a stream, by
    `python experiments/gradual_learning.py`. `meta_rg_exact` learns the words of a language within
    an episode, by `python experiments/meta_rg.py`. `dark_room_planning` searches dark rooms and
    goes back to what it has found, by `python experiments/in_context_rl_train.py --family dark-room
    --learner clone-planning`. `one_learner` acts in every environment that declares a code of
    symbols, by `python experiments/one_learner.py --preset cpu`.

    Raises:
      ValueError: for an unknown name.

    Example:
      >>> shipped_model("meta_language_tiny").name
      'meta_language_tiny'
      >>> shipped_model("meta_language_tny")
      Traceback (most recent call last):
      ValueError: model: got 'meta_language_tny' (did you mean 'meta_language_tiny'?); ...
    """
    check_choice("model", name, shipped_models())
    return SHIPPED / name


_IDENTITY = ("algorithm", "env", "num_envs", "config", "network")


def _hash(identity: JsonObject, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of everything that decides how an agent acts."""
    text = json.dumps({name: identity[name] for name in _IDENTITY}, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _assemble(
    env: Environment, env_params: ArrayTree, params: ArrayTree, info: dict[str, Any]
) -> LoadedAgent:
    algorithm = agents.get_algorithm(info["algorithm"])
    config = from_json(algorithm.config, info["config"])
    network = from_json(algorithm.network, info["network"])
    agent = algorithm.acting(env, info["num_envs"], config, network).agent
    return LoadedAgent(env, env_params, agent, params, info)


def agents_of(folder: Path) -> list[tuple[str, int, Path]]:
    """Returns the run, the seed and the folder of every agent of a run, or of one saved agent.

    Args:
      folder: of a run without cells, or of one agent; one that no run saved is seed 0 of itself.

    Example:
      >>> agents_of(shipped_model("one_learner"))[0][:2]
      ('one_learner', 0)
    """
    folder = folder.resolve()
    agents = list((folder / "agents").glob("seed_*")) or [folder]
    seeds = {agent.name.removeprefix("seed_"): agent for agent in agents}
    saved_by_runs = [
        (agent.parents[1].name, int(seed), agent)
        for seed, agent in seeds.items()
        if agent.parent.name == "agents" and seed.isdecimal()
    ]
    return sorted(saved_by_runs) or [(folder.name, 0, folder)]


def start_from(
    folder: str | Path | None,
    init: Callable[[jax.Array], Any],
    env: Environment | None = None,
) -> Callable[[jax.Array], Any]:
    """Returns a trainer's `init` that goes on from the network of a saved agent.

    Args:
      folder: of the agent; None to leave `init` as it is.
      init: from a typed key to a training state.
      env: see `load_agent`.

    Returns:
      The function; what scales observations in the state stays as it is.

    Raises:
      ConfigError: if the network is of another kind or size than the state's.
    """
    if folder is None:
        return init
    loaded = load_agent(folder, env).params
    network = loaded.network if isinstance(loaded, Params) else loaded
    params = jax.eval_shape(init, jax.random.key(0)).params
    scales = isinstance(params, Params)
    own = params.network if scales else params
    shapes = [jax.tree.map(jnp.shape, x) for x in (network, own)]
    expected = "an agent whose network is of the kind and size of this one's"
    check_config(shapes[0] == shapes[1], "start_from", str(folder), expected)

    def init_from_network(key: jax.Array) -> Any:
        state = init(key)
        start = jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), network, own)
        start = state.params._replace(network=start) if scales else start
        return dataclasses.replace(state, params=start)

    return init_from_network


def _registered_id(card: JsonObject) -> str:
    """Returns the environment's id without a module, if it and the algorithm are registered.

    Raises:
      ValueError: if one is not; it says what to import.
    """
    env_id, algorithm = str(card["env"]["id"]).rpartition(":")[2], str(card["algorithm"])
    written = card.get("modules", {"env": str(card["env"]["id"]).rpartition(":")[0]})
    for name, part, argument, registered_names in (
        (env_id, "env", "env_id", registration.registered()),
        (algorithm, "algorithm", "algorithm", [*agents.CATALOGUE]),
    ):
        is_registered = registration.is_registered if part == "env" else is_known
        if not is_registered(name):
            module = written.get(part) or "the module that registers it"
            trusted = f"and what modules=({module!r},) registers, if you trust that"
            raise ValueError(f"{unknown_choice(argument, name, registered_names)}, {trusted}")
    return env_id


def _environment(env_id: str, options: JsonObject, trials: TrialSettings | None) -> Environment:
    """Returns the environment of a card, or that which is to be written on one."""
    env = registration.make(env_id, **options)
    return env if trials is None else trials.wrap(env)


def _spaces(env: Environment) -> dict[str, str]:
    return {"observation": str(env.observation_space()), "action": str(env.action_space())}


def _in_words(env: Environment) -> str:
    return ", ".join(f"{kind} {space}" for kind, space in _spaces(env).items())


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
