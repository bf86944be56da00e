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

from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import (
    Question,
    QuestionSource,
    exact_question,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, word
from gpicljax.systems.gradual_learning.env.pool import row_of, running_sum, shared_pool

LONGEST = 48
"""Room for a string."""
GROUPS, LETTERS = 3, 3
_SEGMENT_COUNT, _LONGEST_RUN = 31, 5
_RANDOM_STRINGS, _EDITED_STRINGS = 3, 4
CONGRATULATIONS = ("good job!", "well done!", "correct!", "excellent!", "congratulations!")
_WRONG = "Wrong. The right answer is: "
TEXTS = (
    *("description: ", "; verify: ", " and ", " or ", "not ", "anything", "anything and "),
    *(" and anything", "true", "false", _WRONG + "true.", _WRONG + "false.", *CONGRATULATIONS),
)
"""All texts that questions are made of, beside letters."""
# Numbers of an instance's draws.
_KIND_DRAW, _LABEL_DRAW, _COUNT_DRAW, _ANYTHING_DRAW, _LENGTH_DRAW, _PLACE_DRAW = range(6)
_PRAISE_DRAW, _ONLY_ANYTHING_DRAW, _ORDER_DRAW = range(6, 9)
_SIZE_DRAWS, _FORBIDDEN_DRAWS, _GRAM_DRAWS, _SUBSET_DRAWS, _STRING_DRAWS = 16, 24, 32, 64, 0x1000


class Description(NamedTuple):
    """A description of strings.

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
    """Returns whether a string belongs to a description.

    Args:
      description: see there.
      string: `int32[LONGEST]`, letters from 0 to 25.
      size: `int32[]`, its length.

    Returns:
      `bool[]`.
    """
    within = jnp.arange(LONGEST) < size
    is_required = (description.sizes > 0) & ~description.forbidden
    starts = _starts(description.grams, description.sizes, jnp.where(within, string, -2))
    starts = starts & (description.sizes > 0)[:, None]
    occurs = _any(starts)
    complete = (occurs | ~is_required).all()
    is_forbidden = (occurs & description.forbidden).any()
    # An n-gram that starts fewer letters before a place than it has covers the place.
    back, covered = LETTERS - 1, jnp.zeros((GROUPS, LONGEST), bool)
    padded = jnp.pad(starts & is_required[:, None], ((0, 0), (back, 0)))
    for k in range(LETTERS):
        moved = padded[:, back - k : back - k + LONGEST]
        covered = covered | (moved & (k < description.sizes)[:, None])
    is_covered = description.anything | ~_any(within & ~covered.any(0))
    return is_covered & (complete | ~description.every) & ~is_forbidden


def _any(marks: jax.Array) -> jax.Array:
    """Returns `any` along the last axis: in halves, as XLA makes two loops beyond 32."""
    return marks.reshape(*marks.shape[:-1], 2, -1).any((-2, -1))


def _starts(grams: jax.Array, sizes: jax.Array, string: jax.Array) -> jax.Array:
    """Returns where n-grams, `int32[N, LETTERS]`, begin in a string, `bool[N, LONGEST]`."""
    string = jnp.pad(string, (0, LETTERS - 1), constant_values=-2)
    starts = jnp.ones((len(grams), LONGEST), bool)
    for k in range(LETTERS):
        same = string[k : k + LONGEST] == grams[:, k, None]
        starts = starts & (same | (k >= sizes)[:, None])
    return starts


def _nth(mask: jax.Array, number: jax.Array) -> jax.Array:
    """Returns the place of entry `number` (from 0) among those marked in `mask: bool[N]`, or 0."""
    rank = running_sum(mask) - 1
    chosen = mask & (rank == number[..., None])
    return jnp.where(chosen, np.arange(mask.shape[-1], dtype=np.int32), 0).max(-1)


def draw_description(
    seed: Seed, kind: jax.Array, mini0_count: jax.Array, corrected: bool
) -> Description:
    """Draws a description of mini0 to mini4 (`kind`), after `mini0_count` instances of mini0."""
    is_mini0, has_or, has_forbidden = kind == 0, kind == 2, kind == 4
    groups = jnp.where(kind >= 2, 1 + below(word(seed, _COUNT_DRAW), GROUPS), 1)
    only_anything = has_or & (below(word(seed, _ONLY_ANYTHING_DRAW), 20) == 0) & (not corrected)
    groups = jnp.where(only_anything, 0, groups)
    index = np.arange(GROUPS)
    sizes = 1 + below(word(seed, _SIZE_DRAWS + index), LETTERS)
    if not corrected:
        # Those of ten instances are as long as the first one's; lengths of strings go by their own.
        mini0_count = mini0_count // 10 * 10
    sizes = jnp.where(is_mini0, jnp.where(mini0_count > 1_000, 2, 1), sizes)
    sizes = jnp.where(index < groups, sizes, 0)
    forbidden = has_forbidden & (below(word(seed, _FORBIDDEN_DRAWS + index), 2) == 1) & (sizes > 0)
    # Letters of mini4 come from two subsets without a common letter.
    draws = word(seed, _GRAM_DRAWS + np.arange(GROUPS * LETTERS)).reshape(GROUPS, LETTERS)
    first_subset = below(word(seed, _SUBSET_DRAWS + np.arange(13)), 26)
    rest = (first_subset[:, None] != jnp.arange(26)).all(0)
    second_subset = below(word(seed, _SUBSET_DRAWS + 13 + np.arange(13)), rest.sum(dtype=jnp.int32))
    second_subset = _nth(rest, second_subset)
    draws_of_letters = below(draws, 13)
    subset = jnp.where(
        forbidden[:, None], second_subset[draws_of_letters], first_subset[draws_of_letters]
    )
    grams = jnp.where(has_forbidden, subset, below(draws, 26))
    grams = jnp.where(np.arange(LETTERS) < sizes[:, None], grams, -1)
    # Equal ones count once.
    equal = (grams[:, None] == grams[None]).all(-1) & (forbidden[:, None] == forbidden[None])
    repeated = (equal & (index[:, None] > index[None])).any(-1)
    sizes = jnp.where(repeated, 0, sizes)
    coin = below(word(seed, _ANYTHING_DRAW), 2) == 1
    anything = only_anything | ((kind >= 3) & (coin | (forbidden & (sizes > 0)).any()))
    return Description(grams, sizes, forbidden & (sizes > 0), anything, ~has_or)


def _unused_letters(description: Description) -> tuple[jax.Array, jax.Array]:
    """Returns the letters of no n-gram first, `int32[26]`, and their number."""
    spelled = (description.grams[..., None] == jnp.arange(26)).any((0, 1))
    return _nth(~spelled, jnp.arange(26)), 26 - spelled.sum(dtype=jnp.int32)


def _align_right(description: Description) -> jax.Array:
    """Returns the n-grams with their last letters in the last column, and -1 in front of them."""
    padded = jnp.pad(description.grams, ((0, 0), (LETTERS - 1, 0)), constant_values=-1)
    ends_at_first, ends_at_second, ends_at_third = (
        padded[:, k : k + LETTERS] for k in range(LETTERS)
    )
    size = description.sizes[:, None]
    return jnp.where(size == 3, ends_at_third, jnp.where(size == 2, ends_at_second, ends_at_first))


def _overlaps(description: Description) -> jax.Array:
    """Returns how many first letters of an n-gram another one ends with, `int32[3, 3]`.

    4 is added where its next letter is also its first, so that going on is the same as beginning.
    """
    grams, sizes, ends = description.grams, description.sizes, _align_right(description)
    by_one = (ends[:, None, 2] == grams[:, 0]) & (sizes > 1)
    by_two = (ends[:, None, 1] == grams[:, 0]) & (ends[:, None, 2] == grams[:, 1]) & (sizes > 2)
    next_letter = jnp.where(by_two, grams[:, 2], grams[:, 1])
    return jnp.where(by_two, 2, by_one.astype(jnp.int32)) + 4 * (next_letter == grams[:, 0])


def _forbidden_runs(
    seed: Seed, description: Description, sizes: jax.Array, has_no_other: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns runs of the letters of forbidden n-grams that make up none of these.

    Args:
      seed: of the draws.
      description: see there.
      sizes: `int32[_SEGMENTS]`, how many letters there are to be, or 0 for no such run.
      has_no_other: `bool[]`, nothing is between one run and the next.

    Returns:
      `int32[_RUN, _SEGMENTS]`, the letters, and how many of them there are: fewer where any further
      one would complete what is forbidden.
    """
    bits = word(seed, _STRING_DRAWS + 128 + np.arange(_LONGEST_RUN * _SEGMENT_COUNT)).reshape(
        _LONGEST_RUN, _SEGMENT_COUNT
    )
    aligned = jnp.where(description.forbidden[:, None], _align_right(description), -1)
    # Letters that may follow, by the set of n-grams that lack only their last letter.
    bit = np.arange(GROUPS)
    entries = aligned.reshape(-1)
    completes = (aligned[:, -1:] == entries) & (entries >= 0)
    lacking = (np.arange(2**GROUPS)[:, None] >> bit & 1) == 1
    allowed = (entries >= 0) & ~(lacking[:, :, None] & completes).any(1)
    counts = (allowed.sum(-1, dtype=jnp.uint32) << 4 * np.arange(2**GROUPS, dtype=np.uint32)).sum()
    # With each letter, of which n-grams it may be the second to last one, and the one before.
    letters = jnp.concatenate([entries, jnp.full(1, -2)])[:, None]
    suits = [(x < 0) | (letters == x) for x in (aligned[:, 1], aligned[:, 0])]
    second, first = ((x << bit).sum(-1, dtype=jnp.int32) for x in suits)
    values = letters[:, 0] & 31 | second << 5 | first << 8
    table = values[_nth(allowed[:, None], jnp.arange(GROUPS * LETTERS)[None])]
    # After another such run, the two letters before may have been any.
    follows = has_no_other & jnp.concatenate([jnp.zeros(1, bool), sizes[:-1] > 0])
    before = last = jnp.where(follows, 0b111111 << 5, values[-1])
    letters_of_run, reach, goes_on = [], 0, True
    for draw in bits:
        ready = (last >> 5) & (before >> 8) & 7
        left = counts >> (4 * ready).astype(jnp.uint32) & 15
        before, last = last, table[ready, below(draw, jnp.maximum(left, 1))]
        letters_of_run.append(last & 31)
        goes_on = goes_on & (left > 0)
        reach = reach + goes_on
    return jnp.stack(letters_of_run), jnp.minimum(sizes, reach)


def _draw_member(
    seed: Seed, description: Description, length: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """Returns a string that belongs: n-grams, with other letters between them where allowed."""
    sizes, anything = description.sizes, description.anything
    is_required = (sizes > 0) & ~description.forbidden
    count = is_required.sum(dtype=jnp.int32)
    has_no_other = count == 0
    gram = below(word(seed, _STRING_DRAWS + np.arange(_SEGMENT_COUNT)), jnp.maximum(count, 1))
    gram = _nth(is_required, gram)
    size = jnp.where(has_no_other, 0, sizes[gram])
    runs = word(seed, _STRING_DRAWS + 64 + np.arange(_SEGMENT_COUNT))
    run = jnp.where(anything & ((runs >> 31 == 1) | has_no_other), 1 + below(runs, _LONGEST_RUN), 0)
    # Half of the letters from forbidden n-grams, if there are any; where none may be, from others.
    uses_forbidden = description.forbidden.any() & (runs >> 30 & 1 == 1)
    between, reach = _forbidden_runs(
        seed, description, jnp.where(uses_forbidden, run, 0), has_no_other
    )
    uses_forbidden = uses_forbidden & ~(has_no_other & (reach == 0))
    run = jnp.where(uses_forbidden, reach, run)
    common = jnp.zeros(_SEGMENT_COUNT, jnp.int32)
    if not corrected:
        # An n-gram may begin within the one before it.
        overlap = _overlaps(description)[gram[:-1], gram[1:]]
        overlaps = (run[1:] == 0) & ((overlap > 4) | (runs[1:] >> 29 & 1 == 1)) & ~has_no_other
        common = jnp.pad(jnp.where(overlaps, overlap & 3, 0), (1, 0))
        size = size - common
    # The reference counts from -1, and so needs a letter more.
    until = length + (not corrected)
    ends = running_sum(run + size)
    has_begun = ends - run - size < until
    has_size = has_begun if corrected else ends - size < until
    run, size = jnp.where(has_begun, run, 0), jnp.where(has_size, size, 0)
    ends = running_sum(run + size)
    total = ends[-1]
    # Each place's segment, and where in it.
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    segment = (ends[:-1] <= places[:, None]).sum(-1, dtype=jnp.int32)
    into = places - (ends - size)[segment]
    unused, number = _unused_letters(description)
    filler = unused[below(word(seed, _STRING_DRAWS + 512 + np.arange(LONGEST)), number)]
    forbidden = between[jnp.clip(into + run[segment], 0, _LONGEST_RUN - 1), segment]
    filler = jnp.where(uses_forbidden[segment], forbidden, filler)
    place = jnp.clip(into + common[segment], 0, LETTERS - 1)
    letters = description.grams[gram[segment], place]
    string = jnp.where(into < 0, filler, letters)
    within = places < total
    starts = _starts(description.grams, sizes, jnp.where(within, string, -2)) & is_required[:, None]
    missing = is_required & ~_any(starts) & description.every
    if not corrected:
        # With "anything" and no missing n-gram, the string breaks off within an n-gram.
        is_early = _any(starts & (places + sizes[:, None] <= until))
        over = jnp.where(size > 0, ends, 0).max() - until
        breaks_off = anything & (is_early | ~is_required).all()
        total = total - jnp.where(breaks_off, jnp.maximum(over, 0), 0)
    # In the end, the n-grams that are missing, in any order.
    draw = word(seed, _ORDER_DRAW)
    order = (below(draw, 3) + np.arange(GROUPS) * (1 + below(draw >> 16, 2))) % 3
    for k in range(GROUPS):
        more = jnp.where(missing[order[k]], sizes[order[k]], 0)
        into = places - total
        letters = description.grams[order[k], jnp.clip(into, 0, LETTERS - 1)]
        string = jnp.where((into >= 0) & (into < more), letters, string)
        total = total + more
    return string, total


def _draw_near_misses(
    seed: Seed, description: Description, string: jax.Array, size: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns edited members, `int32[_EDITED_STRINGS, LONGEST]`, and their lengths.

    Something is too much, or lacking, which does not always make a difference; but in the last one.
    """
    u = word(seed, 0x20000 + np.arange(5 + _EDITED_STRINGS * LETTERS))
    grams, anything, forbidden = description.grams, description.anything, description.forbidden
    is_required = (description.sizes > 0) & ~forbidden
    count = is_required.sum(dtype=jnp.int32)
    places = jnp.arange(LONGEST, dtype=jnp.int32)
    coins = below(u[0] >> np.arange(3, dtype=np.uint32), 2) == 1
    # With "anything", a forbidden n-gram is inserted, or all copies of one are overwritten.
    inserts_forbidden = forbidden.any() & ((count == 0) | coins[0])
    among = jnp.where(inserts_forbidden, forbidden, is_required)
    group = _nth(among, below(u[1], jnp.maximum(among.sum(dtype=jnp.int32), 1)))
    gram, width = grams[group], description.sizes[group]
    within = places < size
    starts = _starts(gram[None], width[None], jnp.where(within, string, -2))[0]
    padded = jnp.pad(starts, (LETTERS - 1, 0))
    covered = [padded[back : back + LONGEST] & (k < width) for k, back in enumerate((2, 1, 0))]
    # Elsewhere it is left out, if others make up a string that is not too short.
    is_kept = within & ~(covered[0] | covered[1] | covered[2])
    ranks = running_sum(is_kept)
    left = ranks[-1]
    has_several = description.every & ~anything & (count > 1)
    is_dropped = has_several & (size >= 5) & (2 * left >= size)
    source = jnp.where(is_kept, ranks - 1, LONGEST)
    source = jnp.where(
        is_dropped, jnp.zeros_like(places).at[source].set(places, mode="drop"), places
    )
    string, size = string[source], jnp.where(is_dropped, left, size)
    # Or a letter is put in, of an n-gram or of none.
    inserts_letter = ~anything & ~(is_dropped & coins[1])
    is_foreign = coins[2] & ~(has_several & coins[1])
    tries = np.arange(_EDITED_STRINGS, dtype=np.int32)
    last = tries == _EDITED_STRINGS - 1
    entries = jnp.where(is_required[:, None], grams, -1).reshape(-1)
    is_entry = entries >= 0
    turn = (below(u[2], 2**16) + tries) % jnp.maximum(is_entry.sum(dtype=jnp.int32), 1)
    unused, number = _unused_letters(description)
    letter = jnp.where(
        is_foreign | last, unused[below(u[3], number)], entries[_nth(is_entry, turn)]
    )
    # The letters that overwrite it are the same everywhere, and none of forbidden n-grams.
    drawn, rest = below(u[5:], 26), unused[below(u[5:] >> 8, number)]
    barred = (jnp.where(forbidden[:, None], grams, -1).reshape(-1)[:, None] == drawn).any(0)
    words = jnp.where(barred | (np.arange(_EDITED_STRINGS * LETTERS) >= 2 * LETTERS), rest, drawn)
    words = words.reshape(LETTERS, _EDITED_STRINGS, order="F")
    strings = jnp.broadcast_to(string, (_EDITED_STRINGS, LONGEST))
    for marks, letters in zip(covered, words, strict=True):
        strings = jnp.where(anything & ~inserts_forbidden & marks, letters[:, None], strings)
    insert_place = below(u[4], jnp.maximum(size, 1))
    wide = jnp.where(inserts_forbidden, width, inserts_letter | (last & ~anything))[:, None]
    behind = jnp.where(places < insert_place, places, jnp.maximum(places - wide, 0))
    new = jnp.where(
        inserts_forbidden, gram[jnp.clip(places - insert_place, 0, LETTERS - 1)], letter[:, None]
    )
    strings = jnp.take_along_axis(strings, behind, -1)
    strings = jnp.where((places >= insert_place) & (places < insert_place + wide), new, strings)
    return strings, size + wide[:, 0]


def _draw_string(
    seed: Seed,
    description: Description,
    kind: jax.Array,
    mini0_count: jax.Array,
    label: jax.Array,
    corrected: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns a string, `int32[LONGEST]`, its length, and whether it belongs to the description.

    It does if `label`, where that can be had.
    """
    draw = word(seed, _LENGTH_DRAW)
    first = jnp.where(mini0_count > 1_000, 2, 1)
    length = 1 + below(draw, jnp.where(kind <= 2, 10, 30))
    length = jnp.where(kind == 0, first + below(draw, 2 * first), length)
    member = _draw_member(seed, description, length, corrected)
    edited = _draw_near_misses(seed, description, *member)
    # In mini0, random strings come first; they are short.
    letters = below(word(seed, 0x40000 + np.arange(_RANDOM_STRINGS * 8)), 26).reshape(
        _RANDOM_STRINGS, 8
    )
    random = jnp.pad(letters, ((0, 0), (0, LONGEST - 8))), jnp.full(_RANDOM_STRINGS, length)
    member = jax.tree.map(lambda x: x[None], member)
    candidates = jax.tree.map(lambda *x: jnp.concatenate(x), random, edited, member)
    is_member = jax.vmap(belongs, (None, 0, 0))(description, *candidates)
    is_usable = ~is_member[:-1] & (
        (kind == 0) | (np.arange(_RANDOM_STRINGS + _EDITED_STRINGS) >= _RANDOM_STRINGS)
    )
    chosen = jnp.where(label | ~is_usable.any(), len(is_member) - 1, jnp.argmax(is_usable))
    # Nothing is wrong where anything goes: the reference says nothing then.
    is_empty = ~label & (description.sizes == 0).all()
    return (
        candidates[0][chosen],
        jnp.where(is_empty, 0, candidates[1][chosen]),
        is_member[chosen] & ~is_empty,
    )


def ask(source: QuestionSource, corrected: bool) -> Question:
    """Returns a question of the mini tasks.

    Args:
      source: see there.
      corrected: without descriptions that consist of "anything", and with strings no longer than is
        asked for.
    """
    seed, series, mini0_count, task, _ = source
    kind = jnp.asarray(tasks.table(corrected)["code"])[task]
    kind = jnp.where(kind == 5, 1 + below(word(seed, _KIND_DRAW), 4), kind)
    description_seed = Seed(
        *(jnp.where(kind == 0, a, b) for a, b in zip(series, seed, strict=True))
    )
    description = draw_description(description_seed, kind, mini0_count, corrected)
    label = below(word(seed, _LABEL_DRAW), 2) == 1
    string, size, is_member = _draw_string(seed, description, kind, mini0_count, label, corrected)

    # The description: "anything" somewhere among the n-grams.
    pool = shared_pool()
    token = pool.token
    link = jnp.where(description.every, token(" and "), token(" or "))
    is_gram = description.sizes > 0
    items = is_gram.sum(dtype=jnp.int32)
    place = below(word(seed, _PLACE_DRAW), items + 1)
    rank = running_sum(is_gram) - 1
    has_anything = is_gram & description.anything & (rank == place)
    has_link = is_gram & (rank > 0)
    weights = np.array([26**2, 26, 1])
    numbers = (jnp.maximum(description.grams, 0) * weights).sum(-1, dtype=jnp.int32)
    groups = [
        jnp.where(has_link, link, 0),
        jnp.where(has_anything, token("anything and "), 0),
        jnp.where(description.forbidden, token("not "), 0),
        pool.trigram(numbers, description.sizes),
    ]
    last_anything = jnp.where(items > 0, token(" and anything"), token("anything"))
    letters = string.reshape(-1, 3)
    sizes = jnp.clip(size - 3 * jnp.arange(LONGEST // 3), 0, 3)
    is_gram = jnp.arange(LONGEST).reshape(-1, 3) < size
    numbers = jnp.where(is_gram, letters * weights, 0).sum(-1, dtype=jnp.int32)
    text = row_of(
        token("description: "),
        jnp.stack(groups, -1).reshape(-1),
        jnp.where((place == items) & description.anything, last_anything, 0),
        token("; verify: "),
        pool.trigram(numbers, sizes),
        token("."),
    )
    verdict = jnp.where(is_member, token("true"), token("false"))
    return exact_question(text, row_of(verdict), templates.VERDICT)


def feedback(seed: Seed, answer: jax.Array, correct: jax.Array) -> jax.Array:
    """Returns the token of the feedback where the answer is this token, "true" or "false"."""
    texts = [_WRONG + "false.", _WRONG + "true.", *CONGRATULATIONS]
    praise = 2 + below(word(seed, _PRAISE_DRAW), len(CONGRATULATIONS))
    index = jnp.where(correct, praise, jnp.where(answer == shared_pool().token("true"), 1, 0))
    return jnp.asarray(np.array([shared_pool().token(text) for text in texts], np.int32))[index]
