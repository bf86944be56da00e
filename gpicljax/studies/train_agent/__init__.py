"""Trains one agent per seed on any registered environment, evaluates, saves and films it.

    python experiments/train_agent.py --env FrozenLake-v1 --algo ppo

What `--env` and `--algo` name decides the defaults of all other flags (see
`config.py`). The run's folder gets a table with intervals, the learning curve, a
film and a page of an episode, and under `agents/` what `gpicljax.runs.load_agent` loads again.
"""

__all__: list[str] = []
