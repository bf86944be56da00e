"""Questions of mini0 to mini5: does a string belong to what is described?

A description names up to three n-grams, some of which may be forbidden, joined by "and" or by "or",
and perhaps "anything". A string belongs to it if all n-grams ("and"), or any of them ("or"), make
it up without a gap; with "anything" there may be other letters in between; forbidden n-grams must
not occur.

In the reference, strings of mini0 that belong are a letter longer than those that do not, so that
their lengths give most labels away; with corrected rules they are not.

Source: the challenge's mini tasks (after CommAI-mini, arXiv 1701.08954).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import tasks
from gpicljax.systems.gradual_learning.env.conversation import Asked, asked_exactly
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, word
from gpicljax.systems.gradual_learning.env.pool import row_of, running_sum, shared

LONGEST = 48
"""Room for a string."""
GROUPS, LETTERS = 3, 3
_SEGMENTS, _RUN = 31, 5
_RANDOM, _EDITS = 3, 4
CONGRATULATIONS = ("good job!", "well done!", "correct!", "excellent!", "congratulations!")
_WRONG = "Wrong. The right answer is: "
TEXTS = (
    *("description: ", "; verify: ", " and ", " or ", "not ", "anything", "anything and "),
    *(" and anything", "true", "false", _WRONG + "true.", _WRONG + "false.", *CONGRATULATIONS),
)
"""All texts that questions are made of, beside letters."""
# Numbers of an instance's draws.
_KIND, _LABEL, _COUNT, _ANYTHING, _LENGTH, _PLACE, _PRAISE, _ONLY, _ORDER = range(9)
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


def describe(seed: Seed, kind: jax.Array, shown: jax.Array, corrected: bool) -> Description:
    """Draws a description of mini0 to mini4 (`kind`); `shown` instances of mini0 came before."""
    first, alternatives, negative = kind == 0, kind == 2, kind == 4
    groups = jnp.where(kind >= 2, 1 + below(word(seed, _COUNT), GROUPS), 1)
    only = alternatives & (below(word(seed, _ONLY), 20) == 0) & (not corrected)
    groups = jnp.where(only, 0, groups)
    index = np.arange(GROUPS)
    sizes = 1 + below(word(seed, _SIZES + index), LETTERS)
    if not corrected:
        # Those of ten instances are as long as the first one's; lengths of strings go by their own.
        shown = shown // 10 * 10
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


def _others(description: Description) -> tuple[jax.Array, jax.Array]:
    """Letters of no n-gram, `int32[26]`, those there are first; and how many there are."""
    spelled = (description.grams[..., None] == jnp.arange(26)).any((0, 1))
    return _nth(~spelled, jnp.arange(26)), 26 - spelled.sum(dtype=jnp.int32)


def _moved(description: Description) -> jax.Array:
    """The n-grams with their last letters in the last column, and -1 in front of them."""
    padded = jnp.pad(description.grams, ((0, 0), (LETTERS - 1, 0)), constant_values=-1)
    one, two, three = (padded[:, k : k + LETTERS] for k in range(LETTERS))
    size = description.sizes[:, None]
    return jnp.where(size == 3, three, jnp.where(size == 2, two, one))


def _overlaps(description: Description) -> jax.Array:
    """How many of its letters what is before an n-gram ends with, `int32[3, 3]`: (before, n-gram).

    4 is added where its next letter is also its first, so that going on is the same as beginning.
    """
    grams, sizes, ends = description.grams, description.sizes, _moved(description)
    one = (ends[:, None, 2] == grams[:, 0]) & (sizes > 1)
    two = (ends[:, None, 1] == grams[:, 0]) & (ends[:, None, 2] == grams[:, 1]) & (sizes > 2)
    next_ = jnp.where(two, grams[:, 2], grams[:, 1])
    return jnp.where(two, 2, one.astype(jnp.int32)) + 4 * (next_ == grams[:, 0])


def _wild(
    seed: Seed, description: Description, sizes: jax.Array, alone: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Runs of the letters of forbidden n-grams that make up none of these.

    Args:
      seed: of the draws.
      description: see there.
      sizes: `int32[_SEGMENTS]`, how many letters there are to be, or 0 for no such run.
      alone: `bool[]`, nothing is between one run and the next.

    Returns:
      `int32[_RUN, _SEGMENTS]`, the letters, and how many of them there are: fewer where any further
      one would complete what is forbidden.
    """
    bits = word(seed, _STRING + 128 + np.arange(_RUN * _SEGMENTS)).reshape(_RUN, _SEGMENTS)
    moved = jnp.where(description.forbidden[:, None], _moved(description), -1)
    # What may follow, by which of the n-grams lack only their last letter.
    bit = np.arange(GROUPS)
    entries = moved.reshape(-1)
    completes = (moved[:, -1:] == entries) & (entries >= 0)
    lacking = (np.arange(2**GROUPS)[:, None] >> bit & 1) == 1
    allowed = (entries >= 0) & ~(lacking[:, :, None] & completes).any(1)
    many = (allowed.sum(-1, dtype=jnp.uint32) << 4 * np.arange(2**GROUPS, dtype=np.uint32)).sum()
    # With each letter, of which n-grams it may be the second to last one, and the one before.
    letters = jnp.concatenate([entries, jnp.full(1, -2)])[:, None]
    suits = [(x < 0) | (letters == x) for x in (moved[:, 1], moved[:, 0])]
    second, first = ((x << bit).sum(-1, dtype=jnp.int32) for x in suits)
    values = letters[:, 0] & 31 | second << 5 | first << 8
    table = values[_nth(allowed[:, None], jnp.arange(GROUPS * LETTERS)[None])]
    # After another such run, the two letters before may have been any.
    follows = alone & jnp.concatenate([jnp.zeros(1, bool), sizes[:-1] > 0])
    before = last = jnp.where(follows, 0b111111 << 5, values[-1])
    made, reach, going = [], 0, True
    for drawn in bits:
        ready = (last >> 5) & (before >> 8) & 7
        left = many >> (4 * ready).astype(jnp.uint32) & 15
        before, last = last, table[ready, below(drawn, jnp.maximum(left, 1))]
        made.append(last & 31)
        going = going & (left > 0)
        reach = reach + going
    return jnp.stack(made), jnp.minimum(sizes, reach)


def _member(
    seed: Seed, description: Description, length: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """A string that belongs: n-grams, with other letters between them where anything goes."""
    sizes, anything = description.sizes, description.anything
    wanted = (sizes > 0) & ~description.forbidden
    count = wanted.sum(dtype=jnp.int32)
    alone = count == 0
    gram = below(word(seed, _STRING + np.arange(_SEGMENTS)), jnp.maximum(count, 1))
    gram = _nth(wanted, gram)
    size = jnp.where(alone, 0, sizes[gram])
    runs = word(seed, _STRING + 64 + np.arange(_SEGMENTS))
    run = jnp.where(anything & ((runs >> 31 == 1) | alone), 1 + below(runs, _RUN), 0)
    # Half of the letters from forbidden n-grams, if there are any; where none may be, from others.
    wild = description.forbidden.any() & (runs >> 30 & 1 == 1)
    between, reach = _wild(seed, description, jnp.where(wild, run, 0), alone)
    wild = wild & ~(alone & (reach == 0))
    run = jnp.where(wild, reach, run)
    common = jnp.zeros(_SEGMENTS, jnp.int32)
    if not corrected:
        # An n-gram may begin within the one before it.
        some = _overlaps(description)[gram[:-1], gram[1:]]
        begins = (run[1:] == 0) & ((some > 4) | (runs[1:] >> 29 & 1 == 1)) & ~alone
        common = jnp.pad(jnp.where(begins, some & 3, 0), (1, 0))
        size = size - common
    # The reference counts from -1, and so needs a letter more.
    until = length + (not corrected)
    ends = running_sum(run + size)
    begun = ends - run - size < until
    written = begun if corrected else ends - size < until
    run, size = jnp.where(begun, run, 0), jnp.where(written, size, 0)
    ends = running_sum(run + size)
    total = ends[-1]
    # Each place's segment, and where in it.
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    segment = (ends[:-1] <= places[:, None]).sum(-1, dtype=jnp.int32)
    into = places - (ends - size)[segment]
    others, number = _others(description)
    other = others[below(word(seed, _STRING + 512 + np.arange(LONGEST)), number)]
    forbidden = between[jnp.clip(into + run[segment], 0, _RUN - 1), segment]
    other = jnp.where(wild[segment], forbidden, other)
    place = jnp.clip(into + common[segment], 0, LETTERS - 1)
    letters = description.grams[gram[segment], place]
    string = jnp.where(into < 0, other, letters)
    there = places < total
    starts = _starts(description.grams, sizes, jnp.where(there, string, -2)) & wanted[:, None]
    missing = wanted & ~_any(starts) & description.every
    if not corrected:
        # Where anything goes and nothing is missing, it breaks off within an n-gram.
        early = _any(starts & (places + sizes[:, None] <= until))
        over = jnp.where(size > 0, ends, 0).max() - until
        off = anything & (early | ~wanted).all()
        total = total - jnp.where(off, jnp.maximum(over, 0), 0)
    # In the end, the n-grams that are missing, in any order.
    draw = word(seed, _ORDER)
    order = (below(draw, 3) + np.arange(GROUPS) * (1 + below(draw >> 16, 2))) % 3
    for k in range(GROUPS):
        more = jnp.where(missing[order[k]], sizes[order[k]], 0)
        into = places - total
        letters = description.grams[order[k], jnp.clip(into, 0, LETTERS - 1)]
        string = jnp.where((into >= 0) & (into < more), letters, string)
        total = total + more
    return string, total


def _edited(
    seed: Seed, description: Description, string: jax.Array, size: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Strings that are nearly right, `int32[_EDITS, LONGEST]`, and their lengths.

    Something is too much, or lacking, which does not always make a difference; but in the last one.
    """
    u = word(seed, 0x20000 + np.arange(5 + _EDITS * LETTERS))
    grams, anything, forbidden = description.grams, description.anything, description.forbidden
    wanted = (description.sizes > 0) & ~forbidden
    count = wanted.sum(dtype=jnp.int32)
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    coins = below(u[0] >> np.arange(3, dtype=np.uint32), 2) == 1
    # Where anything goes, an n-gram is put in that is forbidden, or one is lost wherever it is.
    put = forbidden.any() & ((count == 0) | coins[0])
    among = jnp.where(put, forbidden, wanted)
    group = _nth(among, below(u[1], jnp.maximum(among.sum(dtype=jnp.int32), 1)))
    gram, width = grams[group], description.sizes[group]
    there = places < size
    starts = _starts(gram[None], width[None], jnp.where(there, string, -2))[0]
    padded = jnp.pad(starts, (LETTERS - 1, 0))
    covered = [padded[back : back + LONGEST] & (k < width) for k, back in enumerate((2, 1, 0))]
    # Elsewhere it is left out, if others make up a string that is not too short.
    keep = there & ~(covered[0] | covered[1] | covered[2])
    ranks = running_sum(keep)
    left = ranks[-1]
    several = description.every & ~anything & (count > 1)
    dropped = several & (size >= 5) & (2 * left >= size)
    source = jnp.where(keep, ranks - 1, LONGEST)
    source = jnp.where(dropped, jnp.zeros_like(places).at[source].set(places, mode="drop"), places)
    string, size = string[source], jnp.where(dropped, left, size)
    # Or a letter is put in, of an n-gram or of none.
    single = ~anything & ~(dropped & coins[1])
    strange = coins[2] & ~(several & coins[1])
    tries = np.arange(_EDITS, dtype=np.int32)
    last = tries == _EDITS - 1
    entries = jnp.where(wanted[:, None], grams, -1).reshape(-1)
    of_one = entries >= 0
    turn = (below(u[2], 2**16) + tries) % jnp.maximum(of_one.sum(dtype=jnp.int32), 1)
    others, number = _others(description)
    letter = jnp.where(strange | last, others[below(u[3], number)], entries[_nth(of_one, turn)])
    # What overwrites it is the same everywhere, and without letters of forbidden ones.
    drawn, rest = below(u[5:], 26), others[below(u[5:] >> 8, number)]
    barred = (jnp.where(forbidden[:, None], grams, -1).reshape(-1)[:, None] == drawn).any(0)
    words = jnp.where(barred | (np.arange(_EDITS * LETTERS) >= 2 * LETTERS), rest, drawn)
    words = words.reshape(LETTERS, _EDITS, order="F")
    strings = jnp.broadcast_to(string, (_EDITS, LONGEST))
    for marks, letters in zip(covered, words, strict=True):
        strings = jnp.where(anything & ~put & marks, letters[:, None], strings)
    at = below(u[4], jnp.maximum(size, 1))
    wide = jnp.where(put, width, single | (last & ~anything))[:, None]
    behind = jnp.where(places < at, places, jnp.maximum(places - wide, 0))
    new = jnp.where(put, gram[jnp.clip(places - at, 0, LETTERS - 1)], letter[:, None])
    strings = jnp.take_along_axis(strings, behind, -1)
    strings = jnp.where((places >= at) & (places < at + wide), new, strings)
    return strings, size + wide[:, 0]


def _string(
    seed: Seed,
    description: Description,
    kind: jax.Array,
    shown: jax.Array,
    label: jax.Array,
    corrected: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A string, `int32[LONGEST]`, its length, and whether it belongs to the description.

    It does if `label`, where that can be had.
    """
    draw = word(seed, _LENGTH)
    first = jnp.where(shown > 1_000, 2, 1)
    length = 1 + below(draw, jnp.where(kind <= 2, 10, 30))
    length = jnp.where(kind == 0, first + below(draw, 2 * first), length)
    right = _member(seed, description, length, corrected)
    edited = _edited(seed, description, *right)
    # In mini0, random strings come first; they are short.
    letters = below(word(seed, 0x40000 + np.arange(_RANDOM * 8)), 26).reshape(_RANDOM, 8)
    random = jnp.pad(letters, ((0, 0), (0, LONGEST - 8))), jnp.full(_RANDOM, length)
    right = jax.tree.map(lambda x: x[None], right)
    tried = jax.tree.map(lambda *x: jnp.concatenate(x), random, edited, right)
    good = jax.vmap(belongs, (None, 0, 0))(description, *tried)
    bad = ~good[:-1] & ((kind == 0) | (np.arange(_RANDOM + _EDITS) >= _RANDOM))
    chosen = jnp.where(label | ~bad.any(), len(good) - 1, jnp.argmax(bad))
    # Nothing is wrong where anything goes: the reference says nothing then.
    nothing = ~label & (description.sizes == 0).all()
    return tried[0][chosen], jnp.where(nothing, 0, tried[1][chosen]), good[chosen] & ~nothing


def ask(seed: Seed, series: Seed, shown: jax.Array, task: jax.Array, corrected: bool) -> Asked:
    """A question of the mini tasks.

    Args:
      seed: the instance's.
      series: of the ten instances of mini0 that have their description in common.
      shown: `int32[]`, how many instances of mini0 there were.
      task: `int32[]`, index of the task set.
      corrected: without descriptions that consist of "anything", and with strings no longer than is
        asked for.
    """
    kind = jnp.asarray(tasks.table(corrected)["code"])[task]
    kind = jnp.where(kind == 5, 1 + below(word(seed, _KIND), 4), kind)
    own = Seed(*(jnp.where(kind == 0, a, b) for a, b in zip(series, seed, strict=True)))
    description = describe(own, kind, shown, corrected)
    label = below(word(seed, _LABEL), 2) == 1
    string, size, true = _string(seed, description, kind, shown, label, corrected)

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
