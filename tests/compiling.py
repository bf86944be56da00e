"""Options of programs that run for longer than they compile, see `tests/conftest.py`."""

OPTIMISED = {"xla_backend_optimization_level": 1}
