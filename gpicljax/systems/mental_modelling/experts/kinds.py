"""The tasks, and the kinds of agents that are asked about in them and read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpicljax import agents
from gpicljax.agents import dqn
from gpicljax.checks import Count, Natural
from gpicljax.environment import Environment
from gpicljax.envs.fetch.env import Fetch, FetchTask
from gpicljax.envs.fetch.experts import Script, script
from gpicljax.interface import Agent
from gpicljax.spaces import Space
from gpicljax.systems.mental_modelling.experts.habits import HABIT


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of agent of a task.

    Attributes:
      algo: its name in the catalogue.
      observations: environment steps of each agent, for the quick preset; 0 for a rule.
      fields: what else differs from the settings of `train_agent.py`; of a rule, its settings.
    """

    algo: str
    observations: Natural
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def trains(self) -> bool:
        """Whether there is anything to train."""
        return self.observations > 0


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of Table 3, or one whose states are numbered.

    Attributes:
      max_steps: at which episodes are cut: about the length that Table 3 has; in MountainCar and
        LunarLander twice that, as agents are at the flag or down on the pad by then.
      episodes: of Table 3; 0 where it lacks the task.
      kinds: of agents, by name.
      options: static options of the environment, as in `train_agent.py`.
    """

    max_steps: Count
    episodes: Natural
    kinds: Mapping[str, Kind]
    options: tuple[str, ...] = ()


FETCH_SCRIPT = "fetch-script"
"""The rule that does Fetch's tasks, in the catalogue."""


def _script(config: Script, env: Environment) -> Agent:
    assert isinstance(env, FetchTask)
    return script(env, config)


def _arm(observations: Space, actions: Space) -> str | None:
    fits = Fetch().observation_space(), Fetch().action_space()
    return None if (observations, actions) == fits else "it is a rule for Fetch's tasks"


agents.register_algorithm(agents.algorithm_from_agent(FETCH_SCRIPT, _script, _arm, Script))


def _dqn(
    observations: int,
    double: bool = False,
    config: Mapping[str, Any] | None = None,
    hparams: Mapping[str, Any] | None = None,
    width: int = 64,
) -> Kind:
    """Returns DQN with 16 steps of the optimiser for 64 of the environments, and what differs."""
    sizes: dict[str, Any] = {
        "n_step": 3,
        "min_replay": 512,
        "batch_size": 64,
        "updates_per_collect": 16,
    }
    rates: dict[str, Any] = {
        "learning_rate": 1e-3,
        "exploration_steps": observations // 4,
        "target_period": 200,
    }
    fields = {
        "num_envs": 16,
        "agent": dqn.DQNConfig(double=double, **sizes | dict(config or {})),
        "hparams": dqn.DQNHParams(**rates | dict(hparams or {})),
        "network": agents.QNetworkSettings(sizes=(width, width)),
    }
    return Kind("dqn", observations, fields)


# A step of the optimiser for each two of the environments; it reaches the flag by -110.
_CAR: dict[str, Any] = {
    "config": {
        "n_step": 1,
        "period": 1,
        "min_replay": 1_000,
        "batch_size": 128,
        "updates_per_collect": 8,
        "replay_capacity": 10_000,
    },
    "hparams": {
        "learning_rate": 4e-3,
        "discount": 0.98,
        "exploration_steps": 24_000,
        "final_epsilon": 0.07,
        "target_period": 300,
    },
}
# And for each four; one agent of three lands.
_LANDER: dict[str, Any] = {
    "config": {
        "period": 1,
        "min_replay": 2_000,
        "batch_size": 128,
        "updates_per_collect": 4,
        "replay_capacity": 50_000,
    },
    "hparams": {
        "learning_rate": 6e-4,
        "final_share": 0.1,
        "exploration_steps": 40_000,
        "final_epsilon": 0.05,
        "target_period": 250,
    },
    "width": 128,
}

_HABITS = {name: Kind(HABIT, 0, {"policy": name}) for name in ("controller", "mixture", "sticky")}
_UNCONTROLLED = {name: _HABITS[name] for name in ("mixture", "sticky")}
_HINDSIGHT = Kind("ddpg", 2_937_600)  # the settings of `train_agent.py`

TASKS: dict[str, Task] = {
    "MountainCar-v0": Task(
        200,
        5,
        {
            "ppo": Kind("ppo", 256_000),
            "dqn": _dqn(120_000, **_CAR),
            "double-dqn": _dqn(120_000, double=True, **_CAR),
            **_HABITS,
        },
    ),
    "Acrobot-v1": Task(
        100,
        3,
        {
            "ppo": Kind("ppo", 122_880),
            "dqn": _dqn(80_000),
            "double-dqn": _dqn(80_000, double=True),
            **_HABITS,
        },
    ),
    "LunarLander-v3": Task(
        500,
        3,
        {
            "ppo": Kind("ppo", 491_520),
            "dqn": _dqn(200_000, **_LANDER),
            **_HABITS,
        },
    ),
    "Pendulum-v1": Task(
        50,
        3,
        {
            "ppo": Kind("ppo", 98_304),
            "ddpg": Kind("ddpg", 20_000, {"like": "td3"}),
            "sac": Kind("sac", 16_000),
            **_HABITS,
        },
    ),
    "InvertedDoublePendulum-v4": Task(
        50,
        3,
        {
            "ppo": Kind("ppo", 98_304),
            "ddpg": Kind("ddpg", 24_000, {"like": "td3"}),
            "sac": Kind("sac", 24_000),
            **_HABITS,
        },
    ),
    # Slippery, as the corridor below: on firm ground all good agents walk one and the same path.
    "FrozenLake-v1": Task(
        50,
        0,
        {"dqn": Kind("dqn", 76_800), "q-learning": Kind("q-learning", 81_920), **_UNCONTROLLED},
        ("is_slippery=True",),
    ),
    "CliffWalking-v1": Task(
        50,
        0,
        {"dqn": Kind("dqn", 96_000), "q-learning": Kind("q-learning", 163_840), **_UNCONTROLLED},
        ("is_slippery=True",),
    ),
    "FetchPickAndPlace-v4": Task(50, 10, {"script": Kind(FETCH_SCRIPT, 0), "ddpg": _HINDSIGHT}),
    "FetchPush-v4": Task(50, 10, {"script": Kind(FETCH_SCRIPT, 0), "ddpg": _HINDSIGHT}),
    "FetchSlide-v4": Task(50, 10, {"script": Kind(FETCH_SCRIPT, 0), "ddpg": _HINDSIGHT}),
}
"""The paper's tasks, and two with numbered states (Table 4)."""
FETCH = tuple(name for name in TASKS if name.startswith("Fetch"))

LEVELS = {"beginner": 1, "advanced": 4, "expert": 10}
"""Skill levels: tenths of an agent's training."""
NOISE = {"beginner": 1.0, "advanced": 0.5, "expert": 0.0}
"""The same of rules: deviation of the noise on their actions."""
GAINS = (0.7, 0.55, 0.85, 0.6, 0.8, 0.65)
"""Gains of the rules of different seeds, by which they approach their target."""
VARIATIONS = (0.1, 0.15, 0.2, 0.3, 0.4)
"""Relative deviations of the weights of agents that are an expert's but for that."""
DRAWS = 8
"""Agents of each habit for each seed."""
