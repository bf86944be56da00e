"""Benchmarks measure CPU seconds of one pinned core, unless they say otherwise.

    pytest benchmarks/ --benchmark-only

Throughput and compile times are in `extra_info` (`--benchmark-json FILE` keeps them).
"""

import os

import pytest

# One thread, so that CPU seconds mean something. Before anything touches a JAX backend.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"


@pytest.fixture
def one_core():
    """Pins the process to one core for the time of a test."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)
