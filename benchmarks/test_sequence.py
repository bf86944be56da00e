"""The sequence trainer end to end: training tokens per CPU-second, one core, one thread.

Languages are drawn, speak and are learnt from within one compiled update, as in
`experiments/meta_language.py`. Best of several rounds: on a shared machine single rounds vary by a
third.
"""

import dataclasses

import jax
import pytest

from benchmarks.timing import compile_program, time_call
from gpicljax.systems.meta_language.studies.meta_language import program as meta_language

ROUNDS = 5


@pytest.mark.parametrize(
    ("preset", "kind", "batch"),
    [
        ("quick", "transformer", 16),
        ("quick", "linear", 16),
        ("quick", "lstm", 16),
        ("paper-tiny", "transformer", 1),
    ],
)
def test_update(benchmark, one_core, preset, kind, batch):
    config = meta_language.PRESETS[preset]
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, kind=kind),
        agent=dataclasses.replace(config.agent, batch_size=batch),
    )
    program = meta_language.build(config)
    (cell,) = program.cells.values()
    state = jax.jit(program.init)(jax.random.key(0), cell)
    update, compile_s = compile_program(program.update, state, donate_argnums=0)
    benchmark.extra_info["compile seconds"] = round(compile_s, 1)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    rates = []

    def once():
        nonlocal state
        (state, _), seconds = time_call(update, state)
        rates.append(batch * config.context / seconds)

    benchmark.pedantic(once, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info |= {
        "parameters": parameters,
        "tokens/s": round(max(rates)),
        "context": config.context,
    }
    print(benchmark.extra_info)
