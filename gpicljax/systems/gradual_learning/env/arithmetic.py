"""Questions of arithmetic1 to arithmetic14: expressions, decimal and then hexadecimal.

Which expressions a task set has is said in `templates.ARITHMETIC`.

Source: the challenge's document, section A.1.6.1.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import sentences, tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import (
    Due,
    Question,
    QuestionSource,
    exact_question,
)
from gpicljax.systems.gradual_learning.env.hashing import below, word
from gpicljax.systems.gradual_learning.env.pool import row_of, shared_pool, words

PLUS, MINUS, TIMES, OVER = range(4)
OPERATORS = "+-*/"
LEAD = "Evaluate: "
"""The beginning of all questions."""
_MOST_OPERANDS = 4


# Numbers of an instance's draws.
_FIRST_QUESTION_DRAW, _DRAWS_PER_QUESTION, _VERDICT_DRAWS = 0x1000, 16, 0x800
_VERDICT_VARIANTS = 32


@functools.cache
def _columns() -> dict[str, np.ndarray]:
    """Returns the ladder as columns, a row for each rung."""
    plain = ("base", "digits", "groups", "variable", "counted", "worked_out")
    columns: dict[str, Any] = {
        n: [int(getattr(rung, n)) for rung in templates.ARITHMETIC] for n in plain
    }
    columns |= {
        n: [rung.operands[i] for rung in templates.ARITHMETIC]
        for i, n in enumerate(("fewest", "most"))
    }
    # Each operator as often as the others of its rung.
    cycles = [(4 * rung.operators)[:4] for rung in templates.ARITHMETIC]
    columns["operators"] = [[OPERATORS.index(x) for x in cycle] for cycle in cycles]
    return {name: np.array(column, np.int32) for name, column in columns.items()}


@functools.cache
def _variable_names() -> np.ndarray:
    """Returns the numbers of words that can be variables: short, and no hexadecimal numbers."""
    fits = [len(w) in (3, 4, 5) and bool(set(w) - set("abcdef")) for w in words()]
    return np.flatnonzero(fits).astype(np.int32)


@functools.cache
def verdicts() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns false statements and true ones, of a hexadecimal digit and a decimal sum."""
    true, false = [], []
    for i in range(_VERDICT_VARIANTS):
        digit = 2 + i % 14
        first = 1 + i % (digit - 1)
        true.append(f"good if {digit:x}=={first}+{digit - first}")
        false.append(f"good if {digit:x}=={first}+{digit - first + (1 if i % 2 else 2)}")
    return tuple(false), tuple(true)


def texts() -> list[str]:
    """Returns all texts that questions and feedback are made of, beside numbers and words."""
    return [LEAD, *OPERATORS, "=", "; ", "(", ")", " ", ".", *verdicts()[0], *verdicts()[1]]


def value_of(operators: jax.Array, values: jax.Array, count: jax.Array, group: Any) -> jax.Array:
    """Returns the value of an expression: products before sums, a group first.

    Args:
      operators: `int32[3]`, `PLUS`, `MINUS`, `TIMES` or `OVER` (integer division), between
      values: `int32[4]`, not negative, of which
      count: `int32[]` are there.
      group: `bool[]`, whether the first two stand in parentheses.

    Returns:
      `int32[]`.
    """
    total, sign, term = jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32), values[0]
    for i in range(_MOST_OPERANDS - 1):
        operator, value = operators[i], values[i + 1]
        is_used, is_inside = i + 1 < count, (operator >= TIMES) | (group & (i == 0))
        signed = jnp.where(operator == MINUS, -1, 1)
        product = jnp.where(operator == TIMES, term * value, term // jnp.maximum(value, 1))
        within = jnp.where(operator >= TIMES, product, term + signed * value)
        total = jnp.where(is_used & ~is_inside, total + sign * term, total)
        sign = jnp.where(is_used & ~is_inside, signed, sign)
        term = jnp.where(is_used, jnp.where(is_inside, within, value), term)
    return total + sign * term


def _draw_expression(rung: dict[str, jax.Array], u: jax.Array) -> tuple[jax.Array, ...]:
    """Draws operators, operands, their number, whether they are grouped, and the value.

    Right operands of products and quotients have one digit, and three products in a row are not
    drawn, so that values stay below 2**31; nothing is negative on the way to a quotient or in the
    end.
    """
    count = rung["fewest"] + below(u[0], rung["most"] - rung["fewest"] + 1)
    group = (rung["groups"] == 1) & (count > 2) & (below(u[1], 2) == 1)
    operators = rung["operators"][below(u[2:5], 4)]
    last = jnp.where((operators == TIMES).all(), PLUS, operators[2])
    operators = operators.at[2].set(last)
    has_one_digit = jnp.concatenate([jnp.zeros(1, bool), operators >= TIMES])
    digits = jnp.where(has_one_digit, 1, 1 + below(u[5 : 5 + _MOST_OPERANDS] >> 24, rung["digits"]))
    low = jnp.where(digits == 1, has_one_digit, rung["base"] ** (digits - 1)).astype(jnp.int32)
    values = low + below(u[5 : 5 + _MOST_OPERANDS] & 0xFFFFFF, rung["base"] ** digits - low)
    swap = group & (operators[0] == MINUS) & (values[0] < values[1])
    operators = operators.at[0].set(jnp.where(swap, PLUS, operators[0]))
    negative = value_of(operators, values, count, group) < 0
    operators = jnp.where(negative & (operators == MINUS), PLUS, operators)
    return operators, values, count, group, value_of(operators, values, count, group)


def _number_tokens(value: jax.Array, base: Any, groups: int) -> list[jax.Array]:
    """Returns tokens of a number in groups of three digits, without leading zeros."""
    tokens, rest = [], value
    for place in range(groups):
        rest, digits = rest // base**3, rest % base**3
        size = (
            (digits >= base).astype(jnp.int32) + (digits >= base**2) + ((digits > 0) | (place == 0))
        )
        tokens.append(shared_pool().last_digits(digits, jnp.where(rest > 0, 3, size), base))
    return tokens[::-1]


def ask(source: QuestionSource, corrected: bool) -> Question:
    """Returns a question: an expression that ends with "="."""
    seed, question = source.seed, source.number
    pool = shared_pool()
    code = jnp.asarray(tasks.table(corrected)["code"])[source.task]
    rung = {name: jnp.asarray(column)[code] for name, column in _columns().items()}
    u = word(
        seed, _FIRST_QUESTION_DRAW + question * _DRAWS_PER_QUESTION + np.arange(_DRAWS_PER_QUESTION)
    )
    operators, values, count, group, value = _draw_expression(rung, u)
    base = rung["base"]
    variable = jnp.where(rung["variable"] == 1, below(u[10], count), -1)
    names = _variable_names()
    name = jnp.asarray(pool.vocabulary[names])[below(u[11], len(names))]
    defined = jnp.where(variable >= 0, values[jnp.maximum(variable, 0)], 0)

    def if_variable(token: Any) -> jax.Array:
        return jnp.where(variable >= 0, token, 0)

    text: list[Any] = [pool.token(LEAD)]
    text += [if_variable(x) for x in (name, pool.token("="), *_number_tokens(defined, base, 2))]
    text += [if_variable(pool.token("; ")), jnp.where(group, pool.token("("), 0)]
    signs = jnp.asarray(np.array([pool.token(x) for x in OPERATORS], np.int32))
    for i in range(_MOST_OPERANDS):
        is_used, is_variable = i < count, variable == i
        if i:
            text.append(jnp.where(is_used, signs[operators[i - 1]], 0))
        high, low = _number_tokens(values[i], base, 2)
        text.append(jnp.where(is_used & ~is_variable, high, 0))
        text.append(jnp.where(is_used, jnp.where(is_variable, name, low), 0))
        if i == 1:
            text.append(jnp.where(group, pool.token(")"), 0))
    text.append(pool.token("="))

    ten = jnp.full((), 10, jnp.int32)
    size = 1 + (value >= 10 ** np.arange(1, 9)).sum(dtype=jnp.int32)
    counted = rung["counted"] == 1
    head = (*_number_tokens(size, ten, 1), pool.token(" "))
    answer = [*(jnp.where(counted, x, 0) for x in head), *_number_tokens(value, ten, 3)]
    style = jnp.where(rung["worked_out"] == 1, templates.STATEMENT, templates.GOOD_JOB)
    return exact_question(row_of(*text), row_of(*answer), style)


def feedback(source: QuestionSource, style: jax.Array, due: Due) -> tuple[jax.Array, jax.Array]:
    """Returns feedback, see `refill.Family`; a statement is true if the answer was right."""
    tokens = [[shared_pool().token(text) for text in row] for row in verdicts()]
    draw = below(word(source.seed, _VERDICT_DRAWS + source.number - 1), _VERDICT_VARIANTS)
    statement = jnp.asarray(np.array(tokens, np.int32))[due.is_correct.astype(jnp.int32), draw]
    words_before, _ = sentences.feedback(source, style, due)
    is_statement = style == templates.STATEMENT
    before = jnp.where(is_statement, statement, words_before)
    return before, jnp.where(is_statement | due.is_correct, 0, 2)
