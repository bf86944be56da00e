"""The tuned settings of `train_agent.py`.

The entries of `SETTINGS` override fields of `Config`; the first one of an environment is its
default. `GOALS` are the mean returns that they are to reach.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import gpicljax
from gpicljax import agents, spaces
from gpicljax.agents import dqn, ppo, sac, tabular, td3

GOALS: dict[str, float] = {
    "FrozenLake-v1": 1.0,
    "CliffWalking-v0": -13.0,
    "CliffWalking-v1": -13.0,
    "MountainCar-v0": -120.0,
    "Acrobot-v1": -90.0,
    "Pendulum-v1": -200.0,
    "InvertedDoublePendulum-v4": 8_000.0,
    "InvertedDoublePendulum-v5": 8_000.0,
    "LunarLander-v3": 200.0,
}

# Rules that know the model of a bandit's payments, where these are not 0 or 1.
NORMAL_PAYMENTS = ("GaussianBandit-v0", "BanditTenArmedGaussian-v0", "BanditTenArmedGaussian-v1")

# Eight instances, and four steps of the optimiser for each step of theirs.
_REPLAYED: dict[str, Any] = {
    "num_envs": 8,
    "network": agents.OffPolicyNetworkSettings(actor=(64, 64), critic=(64, 64)),
}
_OFTEN: dict[str, Any] = {"period": 1, "updates_per_collect": 4, "batch_size": 128}
_RATES: dict[str, Any] = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}

# Whole episodes of 64 arms at once, and a step of the optimiser for eight of theirs.
_HINDSIGHT: dict[str, Any] = {
    "env_options": (),
    "seeds": 1,
    "num_envs": 64,
    "observations": 2_937_600,
    "network": agents.OffPolicyNetworkSettings(actor=(128, 128, 128), critic=(128, 128, 128)),
    "agent": agents.DDPGConfig(
        period=51,
        updates_per_collect=400,
        replay_capacity=1_000_000,
        min_replay=2_000,
        normalise_observations=True,
        replay="hindsight",
    ),
    "hparams": td3.TD3HParams(
        **_RATES,
        discount=0.98,
        target_rate=0.01,
        exploration_noise=0.2,
        random_share=0.3,
        action_cost=1.0,
        most_target=0.0,
    ),
}

SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    **{(f"Fetch{task}-v4", "ddpg"): _HINDSIGHT for task in ("Push", "Slide", "PickAndPlace")},
    ("FrozenLake-v1", "ppo"): {
        "env_options": ("is_slippery=False",),
        "num_envs": 32,
        "observations": 81_920,
        "network": agents.ActorCriticSettings(sizes=(32,), activation="relu"),
        "agent": ppo.PPOConfig(unroll=32),
        "hparams": ppo.PPOHParams(learning_rate=5e-3, discount=0.95),
    },
    ("FrozenLake-v1", "dqn"): {
        "env_options": ("is_slippery=False",),
        "num_envs": 16,
        "observations": 76_800,
        "network": agents.QNetworkSettings(sizes=(32,)),
        "agent": dqn.DQNConfig(
            n_step=3, replay_capacity=8192, min_replay=512, batch_size=64, updates_per_collect=2
        ),
        "hparams": dqn.DQNHParams(
            learning_rate=2e-3,
            final_share=0.1,
            discount=0.95,
            exploration_steps=20_000,
            final_epsilon=0.1,
            target_period=50,
        ),
    },
    ("FrozenLake-v1", "q-learning"): {
        "env_options": ("is_slippery=False",),
        "num_envs": 8,
        "observations": 40_960,
        "agent": tabular.TabularConfig(unroll=128),
    },
    ("CliffWalking-v1", "dqn"): {
        "num_envs": 16,
        "observations": 192_000,
        "network": agents.QNetworkSettings(sizes=(32,)),
        "agent": dqn.DQNConfig(
            replay_capacity=32_768, min_replay=512, batch_size=64, updates_per_collect=2
        ),
        "hparams": dqn.DQNHParams(
            learning_rate=2e-3,
            final_share=0.1,
            discount=0.95,
            exploration_steps=20_000,
            final_epsilon=0.2,
            target_period=50,
        ),
    },
    ("CliffWalking-v1", "q-learning"): {
        "num_envs": 8,
        "observations": 40_960,
        "agent": tabular.TabularConfig(unroll=128),
    },
    ("MountainCar-v0", "ppo"): {
        "num_envs": 16,
        "observations": 512_000,
        "agent": ppo.PPOConfig(
            unroll=16, minibatches=4, normalise_observations=True, normalise_rewards=True
        ),
        "hparams": ppo.PPOHParams(
            learning_rate=1e-3, final_share=0.05, gae_lambda=0.98, entropy_coefficient=0.0
        ),
    },
    ("Acrobot-v1", "ppo"): {
        "num_envs": 16,
        "observations": 245_760,
        "agent": ppo.PPOConfig(unroll=256, minibatches=16),
        "hparams": ppo.PPOHParams(
            learning_rate=1e-3, final_share=0.05, gae_lambda=0.94, entropy_coefficient=0.0
        ),
    },
    ("Pendulum-v1", "ppo"): {
        "num_envs": 16,
        "observations": 98_304,
        "agent": ppo.PPOConfig(unroll=256, epochs=10, minibatches=16, normalise_rewards=True),
        "hparams": ppo.PPOHParams(
            learning_rate=1e-3, final_share=0.1, discount=0.97, entropy_coefficient=0.0
        ),
    },
    ("Pendulum-v1", "td3"): {
        **_REPLAYED,
        "observations": 40_000,
        "agent": td3.TD3Config(**_OFTEN, min_replay=800, warm_up=800),
        "hparams": td3.TD3HParams(**_RATES, exploration_noise=0.2),
    },
    ("Pendulum-v1", "sac"): {
        **_REPLAYED,
        "observations": 24_000,
        "agent": sac.SACConfig(**_OFTEN, min_replay=800, warm_up=800),
        "hparams": sac.SACHParams(**_RATES),
    },
    ("InvertedDoublePendulum-v4", "ppo"): {
        "num_envs": 16,
        "observations": 163_840,
        "agent": ppo.PPOConfig(
            unroll=256,
            epochs=10,
            minibatches=16,
            normalise_observations=True,
            normalise_rewards=True,
        ),
        "hparams": ppo.PPOHParams(learning_rate=1e-3, final_share=0.1, entropy_coefficient=0.0),
    },
    ("InvertedDoublePendulum-v4", "td3"): {
        **_REPLAYED,
        "observations": 48_000,
        "agent": td3.TD3Config(**_OFTEN, replay_capacity=100_000, min_replay=1_000, warm_up=1_000),
        "hparams": td3.TD3HParams(**_RATES),
    },
    ("InvertedDoublePendulum-v4", "sac"): {
        **_REPLAYED,
        "observations": 48_000,
        "agent": sac.SACConfig(**_OFTEN, replay_capacity=100_000, min_replay=1_000, warm_up=1_000),
        "hparams": sac.SACHParams(**_RATES),
    },
    ("LunarLander-v3", "ppo"): {
        "num_envs": 64,
        "observations": 491_520,
        "resets": "bank",
        "agent": ppo.PPOConfig(unroll=256, minibatches=32, normalise_rewards=True),
        "hparams": ppo.PPOHParams(
            learning_rate=1e-3, final_share=0.1, discount=0.999, gae_lambda=0.98
        ),
        "log_lines": 10,
    },
}

for _env in ("CliffWalking", "InvertedDoublePendulum"):
    _old, _new = {"CliffWalking": ("v1", "v0"), "InvertedDoublePendulum": ("v4", "v5")}[_env]
    SETTINGS |= {
        (f"{_env}-{_new}", algo): fields
        for (env, algo), fields in SETTINGS.items()
        if env == f"{_env}-{_old}"
    }

# A memory of what was pulled. With a discount nearer to 1 it learns within a trial far later.
_WITHIN_TRIALS: dict[str, Any] = {
    "network": agents.RecurrentSettings(sizes=(), core=(64,)),
    "agent": ppo.PPOConfig(unroll=64),
    "hparams": ppo.PPOHParams(
        learning_rate=3e-3, final_share=0.1, discount=0.95, entropy_coefficient=0.0
    ),
}
_BANDIT: dict[str, Any] = {
    **_WITHIN_TRIALS,
    # The payment of an arm is observed at the next pull: little has to be looked ahead.
    "hparams": dataclasses.replace(_WITHIN_TRIALS["hparams"], discount=0.8, gae_lambda=0.9),
    "observations": 2_000_000,
    "evaluation_episodes": 1_000,
    "probe_episodes": 100,
}
for _env in gpicljax.registered():
    if "Bandit" not in _env:
        continue
    # Payments of a bandit with noise are not within 0 and 1.
    _fields = {"unroll": 101, "normalise_rewards": "Gaussian" in _env}
    _one_pull = _env.startswith("Bandit")
    if _one_pull:  # every pull ends an episode, and a step in which nothing is chosen follows it
        _fields |= {"unroll": 100, "horizon": "trial"}
    SETTINGS[_env, "recurrent-ppo"] = {
        **_BANDIT,
        "agent": ppo.PPOConfig(**_fields),
        "episodes_per_trial": 50 if _one_pull else 1,
    }

GENERAL: dict[str, dict[str, Any]] = {"recurrent-ppo": _WITHIN_TRIALS}
"""General settings of algorithms where nothing is tuned and their own defaults do not suit."""
PIXELS: dict[str, Any] = {
    "num_envs": 8,
    "seeds": 1,
    "probe_episodes": 4,
    "evaluation_episodes": 16,
    "observations": 20_000,
    "log_lines": 10,
}
"""Settings for pictures as observations, which fit a laptop's memory and patience."""
PICTURES_PPO: dict[str, Any] = {"agent": ppo.PPOConfig(unroll=16, epochs=1, minibatches=1)}

OWN_STUDY = {
    "AnyMDP-v0": "in_context_rl_train",
    "ByteStream-v0": "gradual_learning",
    "DarkRoom-v0": "in_context_rl_train",
    "KeyToDoor-v0": "in_context_rl_train",
    "MazeWorld-v0": "maze_world",
    "MetaLanguage-v0": "meta_language",
    **dict.fromkeys(("MetaRG-v0", "MetaRG-v1", "MetaRG-v2"), "meta_rg"),
    "Recall-v0": "recall",
}
"""Environments for which nothing is tuned here: the study of their system trains on them."""


def settings(env_id: str, algo: str) -> dict[str, Any]:
    """Returns a run's initial settings: those tuned for the pair, or general ones."""
    if (env_id, algo) in SETTINGS:
        return SETTINGS[env_id, algo]
    if not sees_pictures(env_id):
        return GENERAL.get(algo, {})
    return GENERAL.get(algo, {}) | PIXELS | (PICTURES_PPO if algo == "ppo" else {})


def sees_pictures(env_id: str) -> bool:
    """Returns whether the observations of a registered environment have a picture in them."""
    if env_id not in gpicljax.registered():
        return False
    space = gpicljax.make(env_id).observation_space()
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    return any(isinstance(part, spaces.Box) and len(part.shape) > 2 for part in parts.values())


def bandit_rules(env: gpicljax.Environment, env_id: str) -> dict[str, gpicljax.Agent]:
    """Returns the rules that agents for bandits are compared with, by the algorithms' names."""
    payments = "gaussian" if env_id in NORMAL_PAYMENTS else "bernoulli"
    configs = {"thompson": agents.ThompsonConfig(payments), "ucb1": agents.UCB1Config()}
    vec = gpicljax.VectorEnv(env, 1, resets="fresh")
    return {
        name: agents.get_algorithm(name).make(config, vec, agents.NoSettings()).agent(greedy=True)
        for name, config in configs.items()
    }


def default_algorithm(env_id: str) -> str:
    """Returns the algorithm of an environment's first entry; PPO where there is none."""
    return next((algo for env, algo in SETTINGS if env == env_id), "ppo")
