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
from gpicljax.runtime.files import write_atomically
from gpicljax.runtime.loop import run_chunks
from gpicljax.runtime.mesh import (
    FAST_COMPILE,
    devices_for,
    enable_compilation_cache,
    make_mesh,
    one_device_per_core,
    padded_count,
    per_lane,
    shard_leading,
)
from gpicljax.runtime.metrics import MetricsError, MetricsLog, read_metrics
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

__all__ = [
    "FAST_COMPILE",
    "CheckpointError",
    "CheckpointMismatchError",
    "Checkpointer",
    "ConfigError",
    "ConfigMismatchError",
    "MetricsError",
    "MetricsLog",
    "Progress",
    "RunConfig",
    "RunDirectory",
    "RunError",
    "RunExistsError",
    "RunLockedError",
    "announce",
    "check",
    "describe_difference",
    "devices_for",
    "enable_compilation_cache",
    "from_json",
    "make_mesh",
    "one_device_per_core",
    "open_run",
    "padded_count",
    "parse",
    "per_lane",
    "provenance",
    "read_metrics",
    "run_chunks",
    "shard_leading",
    "to_json",
    "validate",
    "write_atomically",
    "write_summary",
]
