"""Exact causal attention, forward and backward: CPU nanoseconds per score, compile time, memory.

A score is one pair of a query and a key that it sees. Beside it, where PyTorch is installed, its
scaled_dot_product_attention on the same shapes, in turn with ours.
"""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.timing import compile_program, time_call
from gpicljax.networks.attention import causal_attention

HEADS, WIDTH, ROUNDS = 4, 16, 9


def torch_attention(batch, length):
    """A function that runs PyTorch's attention forward and backward once; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    inputs = [torch.randn(batch, HEADS, length, WIDTH, requires_grad=True) for _ in range(3)]

    def run():
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
        out.sum().backward()

    return run


@pytest.mark.parametrize(
    ("batch", "length", "window", "starts"),
    [
        (1, 4096, None, False),
        (4, 1024, None, False),
        (1, 4096, None, True),
        (1, 4096, 256, False),
        (1, 4096, 1024, False),
    ],
)
def test_nanoseconds_per_score(benchmark, one_core, batch, length, window, starts):
    begin = jnp.zeros((length, batch), bool) if starts else None

    def loss(q, k, v):
        return causal_attention(q, k, v, window=window, starts=begin).sum()

    keys = jax.random.split(jax.random.key(0), 3)
    inputs = [jax.random.normal(key, (batch, HEADS, WIDTH, length)) for key in keys]
    program, compile_s = compile_program(jax.grad(loss, (0, 1, 2)), *inputs)
    benchmark.extra_info["compile seconds"] = round(compile_s, 2)
    memory = program.memory_analysis().temp_size_in_bytes
    benchmark.extra_info["temporary MiB"] = round(memory / 2**20, 1)
    torch_program = None if window or starts else torch_attention(batch, length)
    scores = batch * HEADS * sum(min(i + 1, window or length) for i in range(length))
    times = {"ours": [], "torch": []}

    def once():
        times["ours"].append(time_call(program, *inputs)[1] / scores * 1e9)
        if torch_program:
            times["torch"].append(time_call(torch_program)[1] / scores * 1e9)

    benchmark.pedantic(once, rounds=ROUNDS, warmup_rounds=1)
    for name, values in times.items():
        if values:
            benchmark.extra_info[f"ns per score, {name}"] = round(min(values), 3)
    print(benchmark.extra_info)
