"""Questions of mini0 to mini5: does a string belong to what is described?

A description names up to three n-grams, some of which may be forbidden, joined by "and" or by "or",
and perhaps "anything". A string belongs to it if all n-grams ("and"), or any of them ("or"), make
it up without a gap; with "anything" there may be other letters in between; forbidden n-grams must
not occur.

Source: the challenge's mini tasks (after CommAI-mini, arXiv 1701.08954).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs.byte_stream import tasks
from gpicljax.envs.byte_stream.hashing import Seed, below, word
from gpicljax.envs.byte_stream.interpreter import Asked, asked_exactly
from gpicljax.envs.byte_stream.pool import row_of, running_sum, shared

LONGEST = 48
"""Room for a string."""
GROUPS, LETTERS = 3, 3
_SEGMENTS = 30
_TRIES, _EDITS = 4, 8
CONGRATULATIONS = ("good job!", "well done!", "correct!", "excellent!", "congratulations!")
_WRONG = "Wrong. The right answer is: "
TEXTS = (
    *("description: ", "; verify: ", " and ", " or ", "not ", "anything", "anything and "),
    *(" and anything", "true", "false", _WRONG + "true.", _WRONG + "false.", *CONGRATULATIONS),
)
"""All texts that questions are made of, beside letters."""
# Numbers of an instance's draws.
_KIND, _LABEL, _COUNT, _ANYTHING, _LENGTH, _PLACE, _PRAISE, _ONLY = range(8)
_SIZES, _FORBIDDEN, _GRAMS, _SUBSETS, _STRING = 16, 24, 32, 64, 0x1000


class Description(NamedTuple):
    """What strings belong.

    Attributes:
      grams: `int32[3, 3]`, letters of the n-grams, 0 to 25, and -1 beyond their ends.
      sizes: `int32[3]`, their lengths; 0 where there is none.
      forbidden: `bool[3]`.
      anything: `bool[]`.
      every: `bool[]`, "and" instead of "or".
    """

    grams: jax.Array
    sizes: jax.Array
    forbidden: jax.Array
    anything: jax.Array
    every: jax.Array


@jax.jit
def belongs(description: Description, string: jax.Array, size: jax.Array) -> jax.Array:
    """Whether a string belongs to a description.

    Args:
      description: see there.
      string: `int32[LONGEST]`, letters from 0 to 25.
      size: `int32[]`, its length.

    Returns:
      `bool[]`.

    Example:
      >>> grams = jnp.full((3, 3), -1).at[0].set(jnp.array([0, 1, -1]))
      >>> sizes, no = jnp.array([2, 0, 0]), jnp.zeros(3, bool)
      >>> description = Description(grams, sizes, no, jnp.array(False), jnp.array(True))
      >>> abab = jnp.zeros(LONGEST, jnp.int32).at[jnp.array([1, 3])].set(1)
      >>> [bool(belongs(description, abab, jnp.int32(n))) for n in (2, 3, 4)]
      [True, False, True]
    """
    there = jnp.arange(LONGEST) < size
    wanted = (description.sizes > 0) & ~description.forbidden
    starts = _starts(description.grams, description.sizes, jnp.where(there, string, -2))
    starts = starts & (description.sizes > 0)[:, None]
    found = _any(starts)
    complete = (found | ~wanted).all()
    broken = (found & description.forbidden).any()
    # What begins so many letters before a place covers it.
    back, covered = LETTERS - 1, jnp.zeros((GROUPS, LONGEST), bool)
    padded = jnp.pad(starts & wanted[:, None], ((0, 0), (back, 0)))
    for k in range(LETTERS):
        moved = padded[:, back - k : back - k + LONGEST]
        covered = covered | (moved & (k < description.sizes)[:, None])
    whole = description.anything | ~_any(there & ~covered.any(0))
    return whole & (complete | ~description.every) & ~broken


def _any(marks: jax.Array) -> jax.Array:
    """`any` along the last axis, of `LONGEST`: in halves, as XLA makes two loops beyond 32."""
    return marks.reshape(*marks.shape[:-1], 2, -1).any((-2, -1))


def _starts(grams: jax.Array, sizes: jax.Array, string: jax.Array) -> jax.Array:
    """Where n-grams, `int32[N, LETTERS]`, begin in a string, `bool[N, LONGEST]`."""
    string = jnp.pad(string, (0, LETTERS - 1), constant_values=-2)
    starts = jnp.ones((len(grams), LONGEST), bool)
    for k in range(LETTERS):
        same = string[k : k + LONGEST] == grams[:, k, None]
        starts = starts & (same | (k >= sizes)[:, None])
    return starts


def _nth(mask: jax.Array, number: jax.Array) -> jax.Array:
    """The place of entry `number` (from 0) among those that `mask: bool[N]` marks; 0 for none."""
    rank = running_sum(mask) - 1
    chosen = mask & (rank == number[..., None])
    return jnp.where(chosen, np.arange(mask.shape[-1], dtype=np.int32), 0).max(-1)


def describe(seed: Seed, kind: jax.Array, shown: jax.Array, mended: bool) -> Description:
    """Draws a description of mini0 to mini4 (`kind`); `shown` instances of mini0 came before."""
    first, alternatives, negative = kind == 0, kind == 2, kind == 4
    groups = jnp.where(kind >= 2, 1 + below(word(seed, _COUNT), GROUPS), 1)
    only = alternatives & (below(word(seed, _ONLY), 20) == 0) & (not mended)
    groups = jnp.where(only, 0, groups)
    index = np.arange(GROUPS)
    sizes = 1 + below(word(seed, _SIZES + index), LETTERS)
    sizes = jnp.where(first, jnp.where(shown > 1_000, 2, 1), sizes)
    sizes = jnp.where(index < groups, sizes, 0)
    forbidden = negative & (below(word(seed, _FORBIDDEN + index), 2) == 1) & (sizes > 0)
    # Letters of mini4 come from two subsets without a common letter.
    draws = word(seed, _GRAMS + np.arange(GROUPS * LETTERS)).reshape(GROUPS, LETTERS)
    normal = below(word(seed, _SUBSETS + np.arange(13)), 26)
    rest = (normal[:, None] != jnp.arange(26)).all(0)
    other = below(word(seed, _SUBSETS + 13 + np.arange(13)), rest.sum(dtype=jnp.int32))
    other = _nth(rest, other)
    which = below(draws, 13)
    subset = jnp.where(forbidden[:, None], other[which], normal[which])
    grams = jnp.where(negative, subset, below(draws, 26))
    grams = jnp.where(np.arange(LETTERS) < sizes[:, None], grams, -1)
    # Equal ones count once.
    equal = (grams[:, None] == grams[None]).all(-1) & (forbidden[:, None] == forbidden[None])
    twice = (equal & (index[:, None] > index[None])).any(-1)
    sizes = jnp.where(twice, 0, sizes)
    coin = below(word(seed, _ANYTHING), 2) == 1
    anything = only | ((kind >= 3) & (coin | (forbidden & (sizes > 0)).any()))
    return Description(grams, sizes, forbidden & (sizes > 0), anything, ~alternatives)


def _member(
    seed: Seed, description: Description, length: jax.Array, attempt: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A string of n-grams, and of letters between them where anything goes, in one attempt.

    The last attempt has no letters of forbidden n-grams, so that it belongs.
    """
    base = _STRING * (1 + attempt)
    wanted = (description.sizes > 0) & ~description.forbidden
    count = wanted.sum(dtype=jnp.int32)
    drawn = below(word(seed, base + np.arange(_SEGMENTS)), jnp.maximum(count, 1))
    runs = word(seed, base + 64 + np.arange(_SEGMENTS))
    run = jnp.where(description.anything & ((runs >> 31) | (count == 0)), 1 + below(runs, 5), 0)
    gram = jnp.where(count > 0, _nth(wanted, drawn), -1)
    size = jnp.where(gram >= 0, description.sizes[gram], 0)
    ends = running_sum(run + size)
    inside = ends - run - size < length
    # In the end, the n-grams that are missing.
    index = jnp.arange(GROUPS)
    visited = ((gram[:, None] == index) & inside[:, None]).any(0)
    missing = wanted & ~visited & description.every
    gram = jnp.concatenate([gram, index])
    run = jnp.concatenate([jnp.where(inside, run, 0), jnp.zeros(GROUPS, jnp.int32)])
    last = jnp.where(missing, description.sizes, 0)
    size = jnp.concatenate([jnp.where(inside, size, 0), last])
    ends = running_sum(run + size)
    # Each place's segment, and where in it.
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    segment = (ends[:-1] <= places[:, None]).sum(-1, dtype=jnp.int32)
    into = places - (ends - run - size)[segment] - run[segment]
    draws = word(seed, base + 128 + np.arange(LONGEST))
    free = below(draws, 26)
    spelled = (description.grams[..., None] == jnp.arange(26)).any(1)
    allowed = ~(spelled & description.forbidden[:, None]).any(0)
    tame = jnp.where(allowed[free], free, jnp.where(allowed, np.arange(26), 26).min())
    free = jnp.where(attempt == _TRIES - 1, tame, free)
    letters = description.grams[gram[segment], jnp.clip(into, 0, LETTERS - 1)]
    return jnp.where(into < 0, free, letters), ends[-1]


def _edited(
    seed: Seed, description: Description, string: jax.Array, size: jax.Array, edit: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A string that is nearly right: something too much, or something lacking."""
    u = word(seed, 0x20000 + 128 * edit + np.arange(8))
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    # Half of them are of a kind that is drawn. The last one puts in what is forbidden, if anything.
    kinds = jnp.asarray(np.array([0, 0, 0, 0, 0, 3, 2, 2]), jnp.int32)
    kind = jnp.where(edit < 4, below(u[0], 4), kinds[edit])
    last = (edit == _EDITS - 1) & description.forbidden.any()
    there = jnp.where(last, description.forbidden, description.sizes > 0)
    group = below(u[1], jnp.maximum(there.sum(dtype=jnp.int32), 1))
    group = _nth(there, group)
    gram, length = description.grams[group], description.sizes[group]
    # Something put in: a letter of no n-gram, a letter of one, or all of one.
    spelled = (description.grams[..., None] == jnp.arange(26)).any((0, 1))
    strange = _nth(~spelled, below(u[2], 26 - spelled.sum(dtype=jnp.int32)))
    letter = jnp.where(kind == 0, strange, gram[below(u[3], jnp.maximum(length, 1))])
    width = jnp.where(kind == 2, length, 1)
    at = below(u[4], size + 1)
    before = jnp.where(places < at, string, string[jnp.clip(places - width, 0, LONGEST - 1)])
    new = jnp.where(kind == 2, gram[jnp.clip(places - at, 0, LETTERS - 1)], letter)
    put = jnp.where((places >= at) & (places < at + width), new, before)
    # An n-gram overwritten wherever it is.
    starts = _starts(gram[None], length[None], string)[0]
    other = below(word(seed, 0x30000 + 128 * edit + np.arange(LONGEST)), 26)
    overwritten = jnp.where(starts & (places < size), other, string)
    changed = kind == 3
    grown = jnp.minimum(size + width, LONGEST)
    return jnp.where(changed, overwritten, put), jnp.where(changed, size, grown)


def _string(
    seed: Seed, description: Description, kind: jax.Array, shown: jax.Array, label: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A string, `int32[LONGEST]`, its length, and whether it belongs to the description.

    It does if `label`, where that can be had.
    """
    draw = word(seed, _LENGTH)
    first = jnp.where(shown > 1_000, 2, 1)
    length = 1 + below(draw, jnp.where(kind <= 2, 10, 30))
    length = jnp.where(kind == 0, first + below(draw, 2 * first), length)
    tries, edits = jnp.arange(_TRIES, dtype=jnp.int32), jnp.arange(_EDITS, dtype=jnp.int32)
    tried = jax.vmap(lambda number: _member(seed, description, length, number))(tries)
    good = jax.vmap(belongs, (None, 0, 0))(description, *tried)
    chosen = jnp.where(good.any(), jnp.argmax(good), _TRIES - 1)
    right = jax.tree.map(lambda x: x[chosen], tried)
    edited = jax.vmap(_edited, (None, None, None, None, 0))(
        seed, description, right[0], right[1], edits
    )
    letters = below(word(seed, 0x40000 + np.arange(3 * LONGEST)), 26).reshape(3, LONGEST)
    random = letters, jnp.full(3, length)
    tried = jax.tree.map(lambda *x: jnp.concatenate(x), random, edited)
    bad = ~jax.vmap(belongs, (None, 0, 0))(description, *tried)
    # Of mini0, random strings come first; of the others, last.
    order = jnp.concatenate([bad[:3] & (kind == 0), bad[3:], bad[:3]])
    wrong = jax.tree.map(lambda x: x[jnp.argmax(order) % len(bad)], tried)
    # Nothing is wrong where anything goes: the reference says nothing then.
    nothing = ~label & (description.sizes == 0).all()
    takes = label | ~bad.any()
    made = jax.tree.map(lambda a, b: jnp.where(takes, a, b), right, wrong)
    return made[0], jnp.where(nothing, 0, made[1]), takes & good.any() & ~nothing


def ask(seed: Seed, series: Seed, shown: jax.Array, task: jax.Array, mended: bool) -> Asked:
    """A question of the mini tasks.

    Args:
      seed: the instance's.
      series: of the ten instances of mini0 that have their description in common.
      shown: `int32[]`, how many instances of mini0 there were.
      task: `int32[]`, index of the task set.
      mended: without descriptions that consist of "anything".
    """
    kind = jnp.asarray(tasks.table(mended)["code"])[task]
    kind = jnp.where(kind == 5, 1 + below(word(seed, _KIND), 4), kind)
    own = Seed(*(jnp.where(kind == 0, a, b) for a, b in zip(series, seed, strict=True)))
    description = describe(own, kind, shown, mended)
    label = below(word(seed, _LABEL), 2) == 1
    string, size, true = _string(seed, description, kind, shown, label)

    # The description: "anything" somewhere among the n-grams.
    pool = shared()
    token = pool.token
    link = jnp.where(description.every, token(" and "), token(" or "))
    there = description.sizes > 0
    items = there.sum(dtype=jnp.int32)
    place = below(word(seed, _PLACE), items + 1)
    rank = running_sum(there) - 1
    here = there & description.anything & (rank == place)
    linked = there & (rank > 0)
    weights = np.array([26**2, 26, 1])
    numbers = (jnp.maximum(description.grams, 0) * weights).sum(-1, dtype=jnp.int32)
    groups = [
        jnp.where(linked, link, 0),
        jnp.where(here, token("anything and "), 0),
        jnp.where(description.forbidden, token("not "), 0),
        pool.trigram(numbers, description.sizes),
    ]
    behind = jnp.where(items > 0, token(" and anything"), token("anything"))
    letters = string.reshape(-1, 3)
    sizes = jnp.clip(size - 3 * jnp.arange(LONGEST // 3), 0, 3)
    there = jnp.arange(LONGEST).reshape(-1, 3) < size
    numbers = jnp.where(there, letters * weights, 0).sum(-1, dtype=jnp.int32)
    text = row_of(
        token("description: "),
        jnp.stack(groups, -1).reshape(-1),
        jnp.where((place == items) & description.anything, behind, 0),
        token("; verify: "),
        pool.trigram(numbers, sizes),
        token("."),
    )
    verdict = jnp.where(true, token("true"), token("false"))
    return asked_exactly(text, row_of(verdict), tasks.VERDICT)


def feedback(seed: Seed, answer: jax.Array, correct: jax.Array) -> jax.Array:
    """What is said where the answer is this token, "true" or "false": a token."""
    texts = [_WRONG + "false.", _WRONG + "true.", *CONGRATULATIONS]
    praise = 2 + below(word(seed, _PRAISE), len(CONGRATULATIONS))
    which = jnp.where(correct, praise, jnp.where(answer == shared().token("true"), 1, 0))
    return jnp.asarray(np.array([shared().token(text) for text in texts], np.int32))[which]
