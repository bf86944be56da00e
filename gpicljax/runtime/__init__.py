"""What every experiment runs on: command line, run folder, log, progress, checkpoints, devices.

`run_experiment` is the driver that puts all of it together:

```python
def build(config):
    ...
    return Program("mazes", trainer.init, trainer.update, trainer.observations)

run_experiment("mazes", {"quick": Config()}, build, report)
```
"""

from gpicljax.runtime.checkpoints import Checkpointer, CheckpointError, CheckpointMismatchError
from gpicljax.runtime.config import (
    ConfigError,
    RunConfig,
    TrainingConfig,
    assignments,
    check_config,
    exit_with_error,
    parse,
    validate,
)
from gpicljax.runtime.config_json import describe_difference, from_json, to_json
from gpicljax.runtime.distributed import is_main, join_cluster, log_once, on_main, to_host
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.runtime.experiment import (
    Measure,
    Probe,
    Program,
    Report,
    RunResult,
    Sharding,
    cell_folder,
    named_key,
    run_experiment,
)
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.loggers import Logger, open_loggers
from gpicljax.runtime.loop import run_chunks
from gpicljax.runtime.mesh import (
    ENVIRONMENT_COMPILE,
    FAST_COMPILE,
    devices_for,
    enable_compilation_cache,
    make_mesh,
    one_device_per_core,
    per_part,
    per_replica,
    shard_leading,
    shard_parts,
)
from gpicljax.runtime.metrics import MetricsError, MetricsLog, read_metrics, throughput
from gpicljax.runtime.progress import Progress, announce
from gpicljax.runtime.provenance import provenance
from gpicljax.runtime.replicas import Replicas
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
from gpicljax.runtime.saved_autoencoders import (
    LoadedAutoencoder,
    load_autoencoder,
    save_autoencoder,
)
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import write_atomically

__all__ = [
    "ENVIRONMENT_COMPILE",
    "FAST_COMPILE",
    "CheckpointError",
    "CheckpointMismatchError",
    "Checkpointer",
    "ConfigError",
    "ConfigMismatchError",
    "Replicas",
    "LoadedAgent",
    "LoadedAutoencoder",
    "LoadedLanguageModel",
    "Logger",
    "Measure",
    "MetricsError",
    "MetricsLog",
    "RunResult",
    "Probe",
    "Program",
    "Progress",
    "Report",
    "RunConfig",
    "RunDirectory",
    "RunError",
    "RunExistsError",
    "RunLockedError",
    "SavedError",
    "Sharding",
    "TrainingConfig",
    "add_environment_arguments",
    "announce",
    "assignments",
    "cell_folder",
    "check_config",
    "describe_difference",
    "devices_for",
    "enable_compilation_cache",
    "failures_reported",
    "from_json",
    "is_main",
    "join_cluster",
    "load_agent",
    "load_autoencoder",
    "load_language_model",
    "make_environment",
    "make_mesh",
    "on_main",
    "one_device_per_core",
    "open_loggers",
    "open_run",
    "parse",
    "per_replica",
    "per_part",
    "provenance",
    "read_metrics",
    "exit_with_error",
    "run_chunks",
    "run_experiment",
    "save_agent",
    "save_autoencoder",
    "log_once",
    "shard_leading",
    "shard_parts",
    "shipped",
    "shipped_models",
    "named_key",
    "throughput",
    "to_host",
    "to_json",
    "validate",
    "write_atomically",
    "write_summary",
]
