"""How programs are compiled that run for longer than that takes, see `tests/conftest.py`."""

OPTIMISED = {"xla_backend_optimization_level": 1}
