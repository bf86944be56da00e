"""The environments, one file or one package of small files each; none imports another."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "acrobot",
        "bernoulli_bandit",
        "cliff_walking",
        "fetch",
        "frozen_lake",
        "gaussian_bandit",
        "inverted_double_pendulum",
        "lunar_lander",
        "mountain_car",
        "one_pull_bandits",
        "pendulum",
    ],
)
