"""What every experiment runs on: command line, run folder, log, progress, checkpoints, devices.

```python
config = parse({"quick": Config()})
enable_compilation_cache()
with open_run("mazes", config) as run:
    state, history = run_chunks(update_chunk, state, num_chunks=100, run=run,
                                checkpoint_every=10, progress=Progress(100))
    write_summary(run, {"reward": history[-1]["reward"]}, "# Mazes")
```
"""

from gpicljax.runtime.checkpoints import Checkpointer, CheckpointError, CheckpointMismatchError
from gpicljax.runtime.config import ConfigError, RunConfig, check, parse, validate
from gpicljax.runtime.config_json import describe_difference, from_json, to_json
from gpicljax.runtime.distributed import is_main, join_cluster, on_main, say, to_host
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.loggers import Logger, open_loggers
from gpicljax.runtime.loop import run_chunks
from gpicljax.runtime.mesh import (
    FAST_COMPILE,
    devices_for,
    enable_compilation_cache,
    lanes_for,
    make_mesh,
    one_device_per_core,
    padded_count,
    per_lane,
    per_part,
    shard_leading,
    shard_parts,
)
from gpicljax.runtime.metrics import MetricsError, MetricsLog, read_metrics, throughput
from gpicljax.runtime.progress import Progress, announce
from gpicljax.runtime.provenance import provenance
from gpicljax.runtime.run_directory import (
    ConfigMismatchError,
    RunDirectory,
    RunError,
    RunExistsError,
    RunLockedError,
    open_run,
    write_summary,
)
from gpicljax.runtime.saved_agents import (
    LoadedAgent,
    LoadedLanguageModel,
    load_agent,
    load_language_model,
    save_agent,
    shipped,
    shipped_models,
)
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import write_atomically

__all__ = [
    "FAST_COMPILE",
    "CheckpointError",
    "CheckpointMismatchError",
    "Checkpointer",
    "ConfigError",
    "ConfigMismatchError",
    "LoadedAgent",
    "LoadedLanguageModel",
    "Logger",
    "MetricsError",
    "MetricsLog",
    "Progress",
    "RunConfig",
    "RunDirectory",
    "RunError",
    "RunExistsError",
    "RunLockedError",
    "SavedError",
    "announce",
    "check",
    "describe_difference",
    "devices_for",
    "enable_compilation_cache",
    "failures_reported",
    "from_json",
    "is_main",
    "join_cluster",
    "lanes_for",
    "load_agent",
    "load_language_model",
    "make_mesh",
    "on_main",
    "one_device_per_core",
    "open_loggers",
    "open_run",
    "padded_count",
    "parse",
    "per_lane",
    "per_part",
    "provenance",
    "read_metrics",
    "run_chunks",
    "save_agent",
    "say",
    "shard_leading",
    "shard_parts",
    "shipped",
    "shipped_models",
    "throughput",
    "to_host",
    "to_json",
    "validate",
    "write_atomically",
    "write_summary",
]
