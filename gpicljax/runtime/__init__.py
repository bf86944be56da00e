"""What every experiment runs on: command line, run folder, log, progress, checkpoints, devices.

`run_experiment` is the driver that puts all of it together:

```python
def build(config):
    ...
    return Program("mazes", trainer.init, trainer.update, trainer.observations)

run_experiment("mazes", {"quick": Config()}, build, report)
```
"""

from gpicljax.runtime.config import ConfigError, RunConfig, TrainingConfig, check_config, parse
from gpicljax.runtime.distributed import on_main, to_host
from gpicljax.runtime.experiment import run_config, run_experiment
from gpicljax.runtime.mesh import (
    ENVIRONMENT_COMPILE,
    FAST_COMPILE,
    enable_compilation_cache,
    make_mesh,
    one_device_per_core,
    per_replica,
)
from gpicljax.runtime.metrics import read_metrics
from gpicljax.runtime.program import Measure, Probe, Program, Report, RunResult, Sharding, named_key
from gpicljax.runtime.saved_agents import (
    LoadedAgent,
    load_agent,
    load_language_model,
    save_agent,
    shipped_model,
    shipped_models,
)
from gpicljax.runtime.saved_autoencoders import load_autoencoder
from gpicljax.runtime.stored_runs import StoredRun, read_run

__all__ = [
    "ENVIRONMENT_COMPILE",
    "FAST_COMPILE",
    "ConfigError",
    "LoadedAgent",
    "Measure",
    "Probe",
    "Program",
    "Report",
    "RunConfig",
    "RunResult",
    "Sharding",
    "StoredRun",
    "TrainingConfig",
    "check_config",
    "enable_compilation_cache",
    "load_agent",
    "load_autoencoder",
    "load_language_model",
    "make_mesh",
    "named_key",
    "on_main",
    "one_device_per_core",
    "parse",
    "per_replica",
    "read_metrics",
    "read_run",
    "run_config",
    "run_experiment",
    "save_agent",
    "shipped_model",
    "shipped_models",
    "to_host",
]
