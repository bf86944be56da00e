"""Run folders: configuration, log, checkpoints, saved agents, and the command `gpicljax runs`.

`runs/<experiment>/<name>/` holds `config.json`, `metrics.jsonl`, `checkpoints/`, `figures/`,
`agents/`, `summary.md` and `summary.json`. The driver (`gpicljax.runtime`) writes them.
"""

from gpicljax.runs.metrics import read_metrics
from gpicljax.runs.saved_agents import (
    LoadedAgent,
    load_agent,
    load_language_model,
    save_agent,
    shipped_model,
    shipped_models,
)
from gpicljax.runs.saved_autoencoders import load_autoencoder
from gpicljax.runs.stored_runs import StoredRun, read_run

__all__ = [
    "LoadedAgent",
    "StoredRun",
    "load_agent",
    "load_autoencoder",
    "load_language_model",
    "read_metrics",
    "read_run",
    "save_agent",
    "shipped_model",
    "shipped_models",
]
