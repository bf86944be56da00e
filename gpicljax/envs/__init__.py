"""The environments, one file or one package of small files each; none imports another."""

from gpicljax.envs.acrobot import Acrobot
from gpicljax.envs.bernoulli_bandit import BernoulliBandit
from gpicljax.envs.cliff_walking import CliffWalking
from gpicljax.envs.fetch.env import Fetch
from gpicljax.envs.frozen_lake import FrozenLake
from gpicljax.envs.gaussian_bandit import GaussianBandit
from gpicljax.envs.inverted_double_pendulum import InvertedDoublePendulum
from gpicljax.envs.lunar_lander.env import LunarLander
from gpicljax.envs.mountain_car import MountainCar
from gpicljax.envs.one_pull_bandits import OnePullBandit
from gpicljax.envs.pendulum import Pendulum

__all__ = [
    "Acrobot",
    "BernoulliBandit",
    "CliffWalking",
    "Fetch",
    "FrozenLake",
    "GaussianBandit",
    "InvertedDoublePendulum",
    "LunarLander",
    "MountainCar",
    "OnePullBandit",
    "Pendulum",
]
