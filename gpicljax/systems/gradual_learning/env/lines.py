"""Questions of task sets of one's own: pairs of a question and its answer, see `StreamTaskSet`."""

from __future__ import annotations

import functools
from typing import get_args

import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import (
    Question,
    QuestionSource,
    exact_question,
)
from gpicljax.systems.gradual_learning.env.hashing import below, permute, word
from gpicljax.systems.gradual_learning.env.pool import row_of, shared_pool

# Numbers of an instance's draws; a question's come after them.
_PAIRING_DRAW, _FIRST_QUESTION_DRAW = 0, 0x1000
_HIDDEN = get_args(tasks.Hidden)


def texts() -> list[str]:
    """Returns all texts that lines are made of."""
    return [text for task in tasks.TASK_SETS for line in task.lines or () for text in line]


@functools.cache
def _columns() -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of task sets (first line, count, what is hidden, shifts), and lines (tokens)."""
    counts = np.array([len(task.lines or ()) for task in tasks.TASK_SETS], np.int32)
    hidden = [_HIDDEN.index(task.hidden) for task in tasks.TASK_SETS]
    shifts = [task.shifts or max(n, 1) for task, n in zip(tasks.TASK_SETS, counts, strict=True)]
    rows = np.stack([np.cumsum(counts) - counts, np.maximum(counts, 1), hidden, shifts], -1)
    all_lines = [line for task in tasks.TASK_SETS for line in task.lines or ()] or [("", "")]
    tokens = [[shared_pool().token(text) for text in line] for line in all_lines]
    return rows.astype(np.int32), np.array(tokens, np.int32)


def ask(source: QuestionSource, corrected: bool) -> Question:
    """Returns a question of such a task set."""
    del corrected
    rows, tokens = (jnp.asarray(x) for x in _columns())
    first, count, hidden, shifts = rows[source.task]
    key = below(word(source.seed, _FIRST_QUESTION_DRAW + source.number), count)
    draw = word(source.seed, _PAIRING_DRAW)
    moved = (key + below(draw, shifts)) % count
    has_pairs, has_shift = (hidden == _HIDDEN.index(kind) for kind in ("pairs", "shift"))
    answering = jnp.select([has_pairs, has_shift], [permute(draw, key, count), moved], key)
    parts = exact_question(
        row_of(tokens[first + key, 0]), row_of(tokens[first + answering, 1]), templates.GOOD_JOB
    )
    # Keys are told apart where each has to be learnt; where one tells all, there is one key.
    keys = jnp.select([has_pairs, has_shift], [(1 << count) - 1, 1], 0)
    return parts._replace(key=jnp.where(has_pairs, key, 0), keys=keys)
