"""Operands that are held out of operations, to test whether agents compose what they know.

Source: splits in the manner of SCAN (Lake and Baroni, 2018).
"""

from __future__ import annotations

import functools

import numpy as np

from gpicljax.systems.gradual_learning.env.templates import PAIRS

OPERATIONS = ("reverse", "concatenate", "interleave", "union", "exclude")
"""Templates that do something with two operands: with one of `PAIRS` and another, or with one of
`TRIPLES` and a letter."""


@functools.cache
def second_operands(composition: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the second operands that go with operations and first operands.

    A third of the pairs of operands is held out of each operation, and no pair of two of the first
    three operations, or of both of the last two: it is seen with the others. All that an operation
    is about occurs with it.

    Args:
      composition: `"train"` without the pairs that are held out, `"test"` with these alone.

    Returns:
      `int32[operations, 6, 6]`, their numbers, repeated; and `int32[operations, 6]`, how many.
    """
    rows = np.zeros((len(OPERATIONS), 6, 6), np.int32)
    counts = np.zeros((len(OPERATIONS), 6), np.int32)
    for number, name in enumerate(OPERATIONS):
        letters = name in ("union", "exclude")
        for first in range(6):
            seconds = np.arange(4 if letters else len(PAIRS))
            held_out = (first + seconds + number) % 3 == 0
            seconds = seconds[held_out == (composition == "test")]
            rows[number, first], counts[number, first] = np.resize(seconds, 6), len(seconds)
    return rows, counts
