"""Questions of mini0 to mini5: does a string belong to what is described?"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs.byte_stream.hashing import Seed
from gpicljax.envs.byte_stream.interpreter import ANSWER, PATTERN, TEXT, Question


def ask(
    seed: Seed, series: Seed, shown: jax.Array, task: jax.Array, mended: bool
) -> tuple[jax.Array, jax.Array, Question]:
    """A question (being written)."""
    zero = jnp.zeros((), jnp.int32)
    text = np.frombuffer(b"verify: A.", np.uint8)
    end = jnp.int32(len(text))
    target = jnp.zeros(ANSWER, jnp.uint8).at[:5].set(jnp.asarray(np.frombuffer(b"true.", np.uint8)))
    return (
        jnp.asarray(text),
        end,
        Question(
            text=jnp.zeros(TEXT, jnp.uint8),
            cursor=zero,
            end=end,
            target=target,
            size=zero + 5,
            shown=zero,
            pattern=jnp.zeros(PATTERN, jnp.uint8),
            acceptor=zero,
            style=zero,
            key=zero,
            keys=zero,
        ),
    )


def feedback(seed: Seed, question: Question, correct: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Feedback (being written)."""
    text = np.frombuffer(b"well done; ", np.uint8)
    return jnp.asarray(text), jnp.int32(len(text))
