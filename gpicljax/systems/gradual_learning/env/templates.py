"""Tables of the texts that task sets ask: sentences, expressions, and conversations about objects.

A template is a text with slots in braces; `slots` says what may be in them. The document names the
hardest expressions and conversations; the ladders that lead to them are ours, and add one
difficulty at a time.

Source: sections A.2.6 to A.2.20 and A.1.6 of the challenge's document.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from gpicljax.systems.gradual_learning.env.conversation import CONTAINING, EXACT, LACKING, ONE_OF

# Feedback -----------------------------------------------------------------------------------------

NONE, BARE, ENDED, SHORTENED, ONE_BEFORE, PERHAPS_BEFORE, SOME_BEFORE = range(7)
"""Styles of feedback on a mapping: none; the answer; the answer and ";"; without its period if it
was right; after one digit; after perhaps one; after two to four."""
GOOD_JOB, CORRECT, GOOD_JOB_WITH, GOOD_JOB_UNFINISHED, VERDICT = range(7, 12)
STATEMENT, YES_OR_NO, SHORTENED_LATER = range(12, 15)
"""Styles of other feedback: see below; that of the mini tasks; a statement to be worked out; yes,
or no and the answer; and, of mappings, without its period once answers end with theirs."""
WITH_DIGITS = (ONE_BEFORE, PERHAPS_BEFORE, SOME_BEFORE)
FEEDBACK = {
    GOOD_JOB: ("good job! ", "wrong! ", False),
    CORRECT: ("correct! ", "false! ", True),
    GOOD_JOB_WITH: ("good job! ", "wrong! ", True),
    GOOD_JOB_UNFINISHED: ("good job! ", "wrong! ", False),
}
"""Feedback: text for a right answer, text for a wrong one, and whether the answer follows the
former."""

# Sentences ----------------------------------------------------------------------------------------

PAIRS = ("ab", "ac", "ad", "bc", "bd", "cd")
TRIPLES = ("abc", "acd", "adc", "bcd", "bda", "cdb")
_ONES = "zero one two three four five six seven eight nine"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
SEQUENCES = tuple(tuple(text.split()) for text in (_ONES, _ORDINALS, _TENS, _TEENS))
COMMANDS = ("say", "after", "union", "exclude")
"""The commands that have synonyms and occur in micro10, 11, 12 and 14."""
ANNOUNCED = "{new}{is_as}{old}{dash}"
"""The beginning of a question of micro20, empty in others."""
_PAIR, _SET = (
    f"{ANNOUNCED}{{say}}: {{{x}}} {{say}}: {{{y}}} " for x, y in (("p", "q"), ("tA}{tB}{tC", "c"))
)
FIRSTS = {
    "reverse": "2301",
    "mirror": "1032",
    "rotate": "3012",
    "exchange": "2103",
    "shift": "1230",
    "cross": "0321",
    "turn": "3210",
    "keep": "0123",
}
"""Operations on two words of two letters that make two words, by the numbers of their letters."""
LASTS = {
    "concatenate": "0123",
    "backwards": "3210",
    "spell": "0 1 2 3",
    "list": "0,1,2,3",
    "interleave": "0213",
    "outside": "0312",
}
"""Operations on two such words that make one text."""


class Template(NamedTuple):
    """A form of questions.

    Attributes:
      question: its text.
      answer: the text of an accepted answer.
      style: the style of the feedback.
      acceptor: the kind of answers that are accepted, see `conversation`.
    """

    question: str
    answer: str
    style: int = GOOD_JOB
    acceptor: int = EXACT


def _chain(first: str, last: str) -> Template:
    """Returns the template of two operations in a row, or of one if the other is ""."""
    letters = [("{p0}", "{p1}", "{q0}", "{q1}")[int(i)] for i in FIRSTS.get(first, "0123")]
    answer = "".join(letters[int(i)] if i.isdigit() else i for i in LASTS.get(last, "01 23"))
    names = " ".join(f"{name}:" for name in (first, last) if name)
    return Template(f"{{say}}: {{p}} {{say}}: {{q}} {names}.", f"{answer}.")


CHAINS = {
    f"{first}, {last}": _chain(first, last)
    for first, last in itertools.product(("", *FIRSTS), ("", *LASTS))
    if first or last
}
"""Templates of two operations in a row, or of one."""
_PAIRS = {
    f"{first}, {last}": (i + j) % 4 > 0
    for i, first in enumerate(FIRSTS)
    for j, last in enumerate(LASTS)
}
"""Pairs of operations, and whether they are taught: each operation is, with others."""

TEMPLATES = {
    "map": Template("random_map: {key}.", "{value}."),
    "letter": Template("say: {a}.", "{a}.", CORRECT),
    "word": Template("say: {w0}.", "{w0}.", CORRECT),
    "words": Template("say: {w0} {w1}.", "{w0} {w1}.", CORRECT),
    "gaps": Template("say: {g0}{a}{g1}{b}{g2}.", "{a}{h1}{b}{h2}.", CORRECT),
    "spell letter": Template("spell: {a}.", "{a_}.", GOOD_JOB_WITH),
    "spell": Template("spell: {w0}.", "{w0_}.", GOOD_JOB_WITH),
    "join": Template("interleave: {w0} by {joint}.", "{joined}.", GOOD_JOB_WITH),
    "two": Template(ANNOUNCED + "{say}: {w0} {say}: {w1}.", "{w0} {w1}."),
    "three": Template(ANNOUNCED + "{say}: {w0} {say}: {w1} {say}: {w2}.", "{w0} {w1} {w2}."),
    "reverse": Template(_PAIR + "reverse:.", "{q} {p}."),
    "concatenate": Template(_PAIR + "concatenate:.", "{p}{q}."),
    "interleave": Template(_PAIR + "interleave:.", "{p0}{q0}{p1}{q1}."),
    "union": Template(_SET + "{union}:.", "{tA}{tB}{tC}{c_new}."),
    "exclude": Template(_SET + "{exclude}:.", "{t0}{t1}{t2}."),
    "and": Template("{lead}say: {x} and {y}.", "{x}{y}."),
    "or": Template("{lead}say: {x} or {y}.", "{x_or_y}.", acceptor=ONE_OF),
    "not": Template("{lead}say: anything and not {x}.", "{other}.", acceptor=LACKING),
    "but not": Template("{lead}say: {x} or {y2} but not {z}.", "{x_or_y2}.", acceptor=ONE_OF),
    "ands": Template("say: {o0}{and0}{o1}{and1}{o2}{and2}{o3}.", "{o0}{o1}{o2}{o3}."),
    "ors": Template("say: {o0}{or0}{o1}{or1}{o2}{or2}{o3}.", "{o}.", acceptor=CONTAINING),
    "next letter": Template(ANNOUNCED + "{after} {d} comes what:.", "{e}."),
    "plain letter": Template("say {a}.", "{a}.", CORRECT),
    "shorter": Template("shorter: {w0} {w1}.", "{shorter}."),
    "longer": Template("longer: {w0} {w1}.", "{longer}."),
    "shortest": Template("shortest: {w0} {w1} {w2}.", "{shortest}."),
    "longest": Template("longest: {w0} {w1} {w2}.", "{longest}."),
    "except": Template("say: {w0} {w1} {w2} except {w_out}.", "{w_in0} {w_in1}."),
    "remove": Template("remove: {p} from {k0}{k1}{p}{k2}.", "{k0}{k1}{k2}."),
    "find": Template("find: {p} in {k0}{k1}{q_or_p}{k2}.", "{found}."),
    "remove all": Template("remove all: {p} from {k0}{p}{k1}{p}{k2}.", "{k0}{k1}{k2}."),
    "count": Template("count: {p} in {k0}{q_or_p}{k1}{p_or_q}{k2}.", "{times}."),
    "and, or": Template("say: {k0} and {k1} or {k2}.", "{k0}{k1}.", acceptor=CONTAINING),
    "or, and": Template("say: {k0} or {k1} and {k2}.", "{k1}{k2}.", acceptor=CONTAINING),
    "and, or, and": Template(
        "say: {k0} and {k1} or {k2} and {k3}.", "{k2}{k3}.", acceptor=CONTAINING
    ),
    "next word": Template("say next after: {n}.", "{n_next}."),
    **CHAINS,
}
"""The templates by name."""
IN_REFERENCE_UNFINISHED = ("not", "but not", "ors")
"""Templates whose answers the reference's feedback shows without their period."""


class Sentences(NamedTuple):
    """The sentences of a task set.

    Attributes:
      longest: bytes of the longest answer, without its period.
      templates: names of the templates that a question is drawn from, all equally likely.
      bases: four task sets of which one is drawn for an instance, in place of templates; in
        micro16.mixed, for each question.
    """

    longest: int
    templates: tuple[str, ...] = ("map",)
    bases: tuple[str, ...] = ()


_OPERATIONS = ("micro10", "micro11", "micro12")
SENTENCES = {
    "micro6": Sentences(15, ("map",)),
    "micro7.1": Sentences(1, ("letter",)),
    "micro7.2": Sentences(15, ("word",)),
    "micro7.3": Sentences(31, ("words",)),
    "micro8": Sentences(4, ("gaps",)),
    "micro9.1": Sentences(2, ("spell letter",)),
    "micro9.2": Sentences(30, ("spell",)),
    "micro9.3": Sentences(30, ("join",)),
    "micro10": Sentences(47, ("two", "three")),
    "micro11": Sentences(5, ("reverse", "concatenate", "interleave")),
    "micro12": Sentences(4, ("union", "exclude")),
    "micro13.1": Sentences(12, ("and", "or", "not", "but not")),
    "micro13.2": Sentences(12, ("ands", "ors")),
    "micro14": Sentences(1, ("next letter",)),
    "micro15": Sentences(15, ("next word",)),
    "micro16": Sentences(47, bases=("micro9.2", *_OPERATIONS)),
    "micro19": Sentences(47, bases=(*_OPERATIONS, "micro14")),
    "micro20": Sentences(47, bases=(*_OPERATIONS, "micro14")),
    "micro7.1.plain": Sentences(1, ("plain letter",)),
    "micro8.1": Sentences(4, ("gaps",)),
    "micro8.2": Sentences(4, ("gaps",)),
    "micro8.3": Sentences(4, ("gaps",)),
    "micro9.2.growing": Sentences(30, ("spell",)),
    "micro9.4.1": Sentences(15, ("shorter", "longer")),
    "micro9.4.2": Sentences(15, ("shortest", "longest")),
    "micro9.4.3": Sentences(31, ("except",)),
    "micro9.4.4": Sentences(12, ("remove",)),
    "micro9.4.5": Sentences(5, ("find",)),
    "micro9.4.6": Sentences(12, ("remove all",)),
    "micro9.4.7": Sentences(12, ("count",)),
    "micro11.chained": Sentences(5, ("reverse, concatenate", "reverse, interleave")),
    "micro13.2.mixed": Sentences(12, ("and, or", "or, and", "and, or, and")),
    "micro16.mixed": Sentences(47, bases=("micro9.2", *_OPERATIONS)),
    # Without those of micro11, whose operands may be held out.
    "micro11.single": Sentences(
        7,
        tuple(f"{x}, " for x in FIRSTS if x != "reverse")
        + tuple(f", {x}" for x in LASTS if x not in ("concatenate", "interleave")),
    ),
    "micro11.pairs": Sentences(7, tuple(pair for pair, taught in _PAIRS.items() if taught)),
    "micro11.unseen": Sentences(7, tuple(pair for pair, taught in _PAIRS.items() if not taught)),
    "micro12.letters": Sentences(4, ("union", "exclude")),
}
"""The sentences of task sets by name."""
SENTENCE_KINDS = tuple(SENTENCES)

# Ladders ------------------------------------------------------------------------------------------

ATTRIBUTE, OBJECT, WHETHER, COUNT, TURNS = range(5)
"""Questions about objects: an attribute, the object, whether something is so, how many are so, or
the object in three turns."""


class Expressions(NamedTuple):
    """The expressions of a task set.

    Attributes:
      title: of the task set.
      base: of the numbers in questions.
      digits: most digits of an operand.
      operands: fewest and most of them.
      operators: operators that occur.
      groups: whether the first two of three or more operands may stand in parentheses.
      variable: whether an operand is a variable that was given its value before.
      counted: whether the result follows the number of its digits.
      worked_out: whether feedback is a statement, which is true if the answer was right.
    """

    title: str
    base: int = 10
    digits: int = 1
    operands: tuple[int, int] = (2, 2)
    operators: str = "+"
    groups: bool = False
    variable: bool = False
    counted: bool = False
    worked_out: bool = False


ARITHMETIC = (
    Expressions("a decimal digit", operands=(1, 1)),
    Expressions("a decimal number", digits=3, operands=(1, 1)),
    Expressions("sums of decimal digits"),
    Expressions("sums and differences of decimal numbers", digits=2, operators="+-"),
    Expressions("products of decimal numbers", digits=2, operators="*"),
    Expressions("integer division of decimal numbers", digits=2, operators="/"),
    Expressions("a hexadecimal digit as a decimal number", 16, operands=(1, 1)),
    Expressions("a hexadecimal number as a decimal one", 16, 3, (1, 1)),
    Expressions("one operation on hexadecimal numbers", 16, 3, operators="+-*/"),
    Expressions("several operations on hexadecimal numbers", 16, 3, (2, 4), "+-*/"),
    Expressions("parentheses", 16, 3, (3, 4), "+-*/", True),
    Expressions("a variable", 16, 3, (2, 4), "+-*/", True, True),
    Expressions("the number of digits first", 16, 5, (2, 4), "+-*/", True, True, True),
    Expressions("feedback to be worked out", 16, 5, (2, 4), "+-*/", True, True, True, True),
)
"""From a digit to expressions with variables, parentheses and feedback that needs them."""


class Conversations(NamedTuple):
    """The conversations of a task set.

    Attributes:
      title: of the task set.
      asks: see above.
      named: of an object, how many attributes are said: the shape; also the colour; also the size.
      objects: number of objects that a question puts somewhere.
      placed: whether it is said where they are.
      swapped: whether two of them then change places.
      lasts: whether each question puts one object, and those before it stay where they were.
    """

    title: str
    asks: int = ATTRIBUTE
    named: int = 3
    objects: int = 1
    placed: bool = False
    swapped: bool = False
    lasts: bool = False


BLOCKS = (
    Conversations("shapes", named=1),
    Conversations("colours and shapes", named=2),
    Conversations("sizes, colours and shapes"),
    Conversations("all that an object is", OBJECT),
    Conversations("objects at two places", OBJECT, 3, 2, True),
    Conversations("whether something is at a place", WHETHER, 3, 2, True),
    Conversations("how many are of a kind", COUNT, 3, 3, True),
    Conversations("objects that change places", OBJECT, 3, 3, True, True),
    Conversations("a world that lasts", OBJECT, 3, 1, True, False, True),
    Conversations("a conversation about a world that lasts", TURNS, 3, 1, True, False, True),
)
"""From a shape to a conversation about a world that lasts."""

Rung = Expressions | Conversations
