"""Learning algorithms and generic agents; none knows a concrete environment."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "acting",
        "algorithm",
        "autoencoder",
        "bandits",
        "catalogue",
        "causal_model",
        "cloning",
        "combinators",
        "dqn",
        "language",
        "normalisation",
        "off_policy",
        "optimisation",
        "ppo",
        "ppo_loss",
        "r2d2",
        "returns",
        "sac",
        "sequence",
        "tabular",
        "td3",
    ],
)
