"""The study driver: command line, devices, seeds side by side, training loop, evaluation.

`run_experiment` is the driver that puts all of it together:

```python
def build(config):
    ...
    return Program("mazes", trainer.init, trainer.update, trainer.observations)

run_experiment("mazes", {"quick": Config()}, build, report)
```
"""

from gpicljax.runs.config import ConfigError, RunConfig, TrainingConfig, check_config, parse
from gpicljax.runs.distributed import on_main, to_host
from gpicljax.runtime.experiment import run_config, run_experiment
from gpicljax.runtime.mesh import (
    ENVIRONMENT_COMPILE,
    FAST_COMPILE,
    enable_compilation_cache,
    fast_jit,
    make_mesh,
    one_device_per_core,
    per_replica,
)
from gpicljax.runtime.program import Measure, Probe, Program, Report, RunResult, Sharding, named_key

__all__ = [
    "ENVIRONMENT_COMPILE",
    "FAST_COMPILE",
    "fast_jit",
    "ConfigError",
    "Measure",
    "Probe",
    "Program",
    "Report",
    "RunConfig",
    "RunResult",
    "Sharding",
    "TrainingConfig",
    "check_config",
    "enable_compilation_cache",
    "make_mesh",
    "named_key",
    "on_main",
    "one_device_per_core",
    "parse",
    "per_replica",
    "run_config",
    "run_experiment",
    "to_host",
]
