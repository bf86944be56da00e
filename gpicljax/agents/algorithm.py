"""Algorithms by name, with one interface for experiments and saved agents.

```python
algorithm = agents.get_algorithm("ppo")
trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
state = trainer.init(key, algorithm.hparams())
state, metrics = trainer.update(state)
agent = trainer.agent(greedy=True)  # over state.params
```

Each algorithm's file registers it. The catalogue is open: `register_algorithm` adds one, and
everything that looks one up by name (experiments, `runtime.save_agent` and `load_agent`) knows it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.checks import check, unknown_choice
from gpicljax.environment import Environment
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.contract import Network
from gpicljax.registration import import_module, same_origin
from gpicljax.spaces import Space
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Fits = Callable[[Space, Space], str | None]


@struct.dataclass
class NoSettings:
    """Settings of a part that has nothing to set, such as the network of a rule.

    A rule has no sizes, and does not learn.

    Example:
      >>> from gpicljax import agents
      >>> agents.get_algorithm("ucb1").network()
      NoSettings()
    """


class Acting(NamedTuple):
    """A trained agent: its policy, and the shapes of its parameters.

    Attributes:
      agent: greedy.
      params: pytree of `jax.ShapeDtypeStruct`.
    """

    agent: Agent
    params: Any


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An entry of the catalogue.

    Attributes:
      name: as users write it.
      make: `(config, vec, network) -> Trainer`.
      fits: returns why a pair of spaces (of one agent's observations and actions) does not fit, or
        None.
      config: the type of its static sizes and switches.
      hparams: the type of its hyper-parameters.
      network: the type of its network's settings.
      trains: whether there is anything to train.
      multi_agent: whether it trains several agents, with a leading agent axis.
      remembers: whether its policy has a memory of the trial.
      privileged: whether its environments are built with `privileged=True`, for a teacher's sake.
      reads_symbols: whether its agents act in every environment that declares a code
        (`Environment.symbols`), whatever they were trained on.
      to_act: a configuration without what only training needs; that of an agent from disk.

    Example:
      >>> from gpicljax import agents
      >>> r2d2 = agents.get_algorithm("r2d2")
      >>> r2d2.remembers, r2d2.config().__class__.__name__
      (True, 'R2D2Config')
    """

    name: str
    make: Callable[..., Trainer]
    fits: Fits
    config: type = NoSettings
    hparams: type = NoSettings
    network: type = NoSettings
    trains: bool = True
    multi_agent: bool = False
    remembers: bool = False
    privileged: bool = False
    reads_symbols: bool = False
    to_act: Callable[[Any], Any] = lambda config: config

    def refusal(
        self, observation_space: Space, action_space: Space, num_agents: int | None
    ) -> str | None:
        """Returns in words why an environment does not fit; None if it does.

        Example:
          >>> from gpicljax import spaces
          >>> from gpicljax import agents
          >>> observations, actions = spaces.Box(0.0, 1.0, (4,)), spaces.Box(-1.0, 1.0, (1,))
          >>> agents.get_algorithm("dqn").refusal(observations, actions, None)
          'discrete actions are needed, not Box(low=-1.0, high=1.0, shape=(1,), dtype=None)'
          >>> agents.get_algorithm("ppo").refusal(observations, actions, None) is None
          True
        """
        if num_agents is None:
            return self.fits(observation_space, action_space)
        if not self.multi_agent:
            return f"{self.name} is for one agent, not for {num_agents}"
        try:
            pair = [spaces.of_one_agent(s, num_agents) for s in (observation_space, action_space)]
        except TypeError as error:
            return str(error)
        return self.fits(*pair)

    def acting(self, env: Environment, num_envs: int, config: Any, network: Any) -> Acting:
        """Returns the acting part alone, and what its parameters look like. Nothing is computed.

        Args:
          env: the environment, or one with the same spaces.
          num_envs: instances that it was trained on, which `config` may depend on.
          config: as in training.
          network: as in training.

        Raises:
          ValueError: if the environment does not fit.
        """
        reason = self.refusal(env.observation_space(), env.action_space(), env.num_agents)
        check(reason is None, "env", env.name, str(reason))
        # What reads symbols acts where nothing is privileged, too.
        privileged = self.privileged and not self.reads_symbols
        vec = VectorEnv(env, num_envs, resets="fresh", privileged=privileged)
        trainer = self.make(self.to_act(config), vec, network)
        state = jax.eval_shape(lambda: trainer.init(jax.random.key(0), self.hparams()))
        return Acting(trainer.agent(greedy=True), state.params)


def agent_spaces(env: Environment) -> tuple[Space, Space]:
    """Returns the spaces of one agent's observations and actions.

    Raises:
      TypeError: if agents have different ones.
    """
    pair = env.observation_space(), env.action_space()
    if env.num_agents is None:
        return pair
    observations, actions = (spaces.of_one_agent(space, env.num_agents) for space in pair)
    return observations, actions


class NetworkSettings(Protocol):
    """Settings that build a network for members of two spaces."""

    def network(self, observations: Space, actions: Space) -> Network:
        """Returns the network."""
        ...


def network_from(settings: NetworkSettings | Network, vec: VectorEnv) -> Network:
    """Returns the network of these settings for one agent of the environments, or a given one."""
    if isinstance(settings, Network):
        return settings
    return settings.network(*agent_spaces(vec.env))


def greedy_agent(
    name: str, env: Environment, num_envs: int, config: Any, network: Any, params: ArrayTree
) -> Agent:
    """Returns the greedy agent of given parameters.

    Args:
      name: of the algorithm.
      env: see `Algorithm.acting`, as for the next three.
      num_envs: likewise.
      config: likewise.
      network: likewise.
      params: its parameters, to be checked.

    Raises:
      ValueError: if the name is unknown, the environment does not fit, or the parameters have
        another structure or other shapes than this agent's.
    """
    agent, expected = get_algorithm(name).acting(env, num_envs, config, network)

    def shapes(tree: ArrayTree) -> dict[str, tuple[int, ...]]:
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        return {jax.tree_util.keystr(path): tuple(jnp.shape(leaf)) for path, leaf in leaves}

    shapes_found, shapes_expected = shapes(params), shapes(expected)
    for leaf in shapes_expected | shapes_found:
        accepted_values = f"{shapes_expected.get(leaf, 'nothing')}, what {name} on {env.name} has"
        same = shapes_found.get(leaf) == shapes_expected.get(leaf)
        check(same, f"params{leaf}", shapes_found.get(leaf, "nothing"), accepted_values)
    return agent


@struct.dataclass
class Untrained:
    """The state of a rule: parameters that it was given, if any."""

    params: ArrayTree
    key: jax.Array
    updates: jax.Array


CATALOGUE: dict[str, Algorithm] = {}
"""All algorithms by name."""


def register_algorithm(algorithm: Algorithm) -> Algorithm:
    """Adds an algorithm to the catalogue.

    One whose `make` is of the same module and qualified name, as a notebook's cell that is run
    again makes, replaces the one before, with a warning.

    Raises:
      ValueError: if there is another one of this name.

    Example:
      >>> from gpicljax import agents
      >>> ppo = agents.get_algorithm("ppo")
      >>> register_algorithm(ppo) is ppo
      True
      >>> register_algorithm(dataclasses.replace(ppo, trains=False))
      Traceback (most recent call last):
      ValueError: algorithm: got 'ppo'; accepted: a name that is not taken
    """
    before = CATALOGUE.get(algorithm.name, algorithm)
    if before != algorithm:
        make = algorithm.make
        replaces = before.make is not make and same_origin(before.make, make)
        check(replaces, "algorithm", algorithm.name, "a name that is not taken")
        warnings.warn(f"{algorithm.name} is registered anew and replaces what was there", None, 2)
    CATALOGUE[algorithm.name] = algorithm
    return algorithm


def algorithm_from_agent(
    name: str,
    agent: Callable[[Any, Environment], Agent],
    fits: Fits = lambda observations, actions: None,
    config: type = NoSettings,
    multi_agent: bool = False,
    privileged: bool = False,
    draw: Callable[[jax.Array, Any, Environment], ArrayTree] = lambda key, config, env: (),
) -> Algorithm:
    """Returns an entry for an agent with nothing to train, such as an expert.

    Args:
      name: as users write it.
      agent: `(config, env) -> Agent`, over the parameters that `draw` returns.
      fits: see `Algorithm`, as for the others.
      config: likewise.
      multi_agent: likewise.
      privileged: likewise.
      draw: `(key, config, env) -> params`; by default there are none.

    Example:
      >>> from gpicljax.agents.acting import random_agent
      >>> entry = algorithm_from_agent("a-random-one", lambda config, env: random_agent(env))
      >>> entry.name, entry.trains
      ('a-random-one', False)
    """

    def make(config: Any, vec: VectorEnv, network: NoSettings) -> Trainer:
        del network

        def init(key: jax.Array, hparams: NoSettings, env_params: ArrayTree = None) -> Untrained:
            del hparams, env_params
            return Untrained(draw(key, config, vec.env), key, jnp.zeros((), jnp.int32))

        built = agent(config, vec.env)
        return Trainer(init, lambda state: (state, {}), lambda greedy=False: built, 0)

    # The place of its source decides whether an algorithm is registered again or another one.
    make.__module__ = getattr(agent, "__module__", make.__module__)
    make.__qualname__ = getattr(agent, "__qualname__", make.__qualname__)
    return Algorithm(
        name, make, fits, config, trains=False, multi_agent=multi_agent, privileged=privileged
    )


def make(
    name: str, vec: VectorEnv, config: Any = None, network: Any = None, **options: Any
) -> Trainer:
    """Returns the trainer of a registered algorithm.

    Args:
      name: of the algorithm, such as `"ppo"`.
      vec: the environments.
      config: sizes and switches, of the type `get_algorithm(name).config`; by default its defaults.
      network: settings, of the type `get_algorithm(name).network`, by default its defaults; or, for
        `ppo`, `recurrent-ppo`, `dqn`, `r2d2` and `cloning`, a `networks.Network` of your own.
      **options: what else the algorithm takes: `auxiliaries` of `r2d2`.

    Raises:
      ValueError: if the name is unknown, or environments, config and network do not fit.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), 8, resets="fresh")
      >>> trainer = make("ppo", vec, gpicljax.agents.PPOConfig(unroll=64))
      >>> trainer.observations
      512
    """
    algorithm = get_algorithm(name)
    config = algorithm.config() if config is None else config
    network = algorithm.network() if network is None else network
    return algorithm.make(config, vec, network, **options)


def get_algorithm(name: str) -> Algorithm:
    """Returns the algorithm of this name.

    Args:
      name: of a registered algorithm; of one that an installed package names as an entry point in
        the group `gpicljax.algorithms`, whose module is then imported; or `"module:name"`, of one
        that a module registers when it is imported.

    Raises:
      ValueError: if there is none; the nearest name is suggested.

    Example:
      >>> from gpicljax import agents
      >>> agents.get_algorithm("recurrent-ppo").config.__name__
      'PPOConfig'
      >>> agents.get_algorithm("thomson")
      Traceback (most recent call last):
      ValueError: algorithm: got 'thomson' (did you mean 'thompson'?); accepted: ...
    """
    module, _, name = name.rpartition(":")
    installed = _entry_points()
    if module:
        import_module(module, "algorithm", f"{module}:{name}")
    elif name not in CATALOGUE and name in installed:
        import_module(installed[name], "algorithm", name)
    if name not in CATALOGUE:
        raise ValueError(unknown_choice("algorithm", name, sorted({*CATALOGUE, *installed})))
    return CATALOGUE[name]


@functools.cache
def _entry_points() -> dict[str, str]:
    """Returns the modules of algorithms that installed packages name, by algorithm."""
    group = importlib.metadata.entry_points(group="gpicljax.algorithms")
    return {entry.name: entry.value for entry in group}


def is_known(name: str) -> bool:
    """Whether `get_algorithm(name)` imports nothing but what is installed as an algorithm."""
    return name in CATALOGUE or name in _entry_points()
