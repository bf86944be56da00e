"""The stage of a text: every token in the colour of the surprise that it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check_array
from gpicljax.viz.episode_page import Stage


def text_stage(tokens: ArrayLike, nats: Mapping[str, ArrayLike], vocab_size: int) -> Stage:
    """Draws a text once for each reader, darker where a token surprised it more.

    Args:
      tokens: `int[T + 1]`; the first is given.
      nats: float `[T]` by reader, -log p of each further token.
      vocab_size: V; a token as likely as any other has log V nats, and the darkest colour.

    Raises:
      ValueError: if an array has another shape.
    """
    text = np.asarray(tokens)
    surprise = {name: np.asarray(values, np.float64) for name, values in nats.items()}
    for name, values in surprise.items():
        check_array(values.shape == (len(text) - 1,), name, values, f"float[{len(text) - 1}]")
    data = {
        "tokens": text.tolist(),
        "most": float(np.log(vocab_size)),
        "nats": {name: np.round(values, 3).tolist() for name, values in surprise.items()},
    }
    return Stage(Path(__file__).with_name("text.html"), {"text": data})
