"""The sentences of micro6 to micro20, as data.

A template is a text with slots in braces; `slots` says what may be in them.
"""

from gpicljax.systems.gradual_learning.env import conversation, tasks

PAIRS = ("ab", "ac", "ad", "bc", "bd", "cd")
TRIPLES = ("abc", "acd", "adc", "bcd", "bda", "cdb")
_ONES = "zero one two three four five six seven eight nine"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
SEQUENCES = tuple(tuple(text.split()) for text in (_ONES, _ORDINALS, _TENS, _TEENS))
COMMANDS = ("say", "after", "union", "exclude")
"""The commands that have synonyms and occur in micro10, 11, 12 and 14."""

FEEDBACK = {
    tasks.GOOD_JOB: ("good job! ", "wrong! ", False),
    tasks.CORRECT: ("correct! ", "false! ", True),
    tasks.GOOD_JOB_WITH: ("good job! ", "wrong! ", True),
    tasks.GOOD_JOB_UNFINISHED: ("good job! ", "wrong! ", False),
}
"""Feedback: text for a right answer, text for a wrong one, and whether the answer follows the
former."""
ANNOUNCED = "{new}{is_as}{old}{dash}"
"""The beginning of a question of micro20, empty in others."""
_SAY = "{say}: "

_EXACT = conversation.EXACT
TEMPLATES: dict[str, tuple[str, str, int, int]] = {
    "map": ("random_map: {key}.", "{value}.", tasks.GOOD_JOB, _EXACT),
    "letter": ("say: {a}.", "{a}.", tasks.CORRECT, _EXACT),
    "word": ("say: {w0}.", "{w0}.", tasks.CORRECT, _EXACT),
    "words": ("say: {w0} {w1}.", "{w0} {w1}.", tasks.CORRECT, _EXACT),
    "gaps": ("say: {g0}{a}{g1}{b}{g2}.", "{a}{h1}{b}{h2}.", tasks.CORRECT, _EXACT),
    "spell letter": ("spell: {a}.", "{a_}.", tasks.GOOD_JOB_WITH, _EXACT),
    "spell": ("spell: {w0}.", "{w0_}.", tasks.GOOD_JOB_WITH, _EXACT),
    "join": ("interleave: {w0} by {joint}.", "{joined}.", tasks.GOOD_JOB_WITH, _EXACT),
    "two": (
        f"{ANNOUNCED}{_SAY}{{w0}} {_SAY}{{w1}}.",
        "{w0} {w1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "three": (
        f"{ANNOUNCED}{_SAY}{{w0}} {_SAY}{{w1}} {_SAY}{{w2}}.",
        "{w0} {w1} {w2}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    **{
        name: (f"{ANNOUNCED}{_SAY}{{p}} {_SAY}{{q}} {name}:.", answer, tasks.GOOD_JOB, _EXACT)
        for name, answer in (
            ("reverse", "{q} {p}."),
            ("concatenate", "{p}{q}."),
            ("interleave", "{p0}{q0}{p1}{q1}."),
        )
    },
    **{
        name: (f"{ANNOUNCED}{_SAY}{{t}} {_SAY}{{c}} {{{name}}}:.", answer, tasks.GOOD_JOB, _EXACT)
        for name, answer in (("union", "{t}{c_new}."), ("exclude", "{t0}{t1}{t2}."))
    },
    "and": ("{lead}say: {x} and {y}.", "{x}{y}.", tasks.GOOD_JOB, conversation.EXACT),
    "or": ("{lead}say: {x} or {y}.", "{x_or_y}.", tasks.GOOD_JOB, conversation.ONE_OF),
    "not": (
        "{lead}say: anything and not {x}.",
        "{other}.",
        tasks.GOOD_JOB,
        conversation.LACKING,
    ),
    "but not": (
        "{lead}say: {x} or {y2} but not {z}.",
        "{x_or_y2}.",
        tasks.GOOD_JOB,
        conversation.ONE_OF,
    ),
    "ands": ("say: {o0}{and0}{o1}{and1}{o2}{and2}{o3}.", "{o0}{o1}{o2}{o3}.", tasks.GOOD_JOB, 0),
    "ors": (
        "say: {o0}{or0}{o1}{or1}{o2}{or2}{o3}.",
        "{o}.",
        tasks.GOOD_JOB,
        conversation.CONTAINING,
    ),
    "next letter": (
        f"{ANNOUNCED}{{after}} {{d}} comes what:.",
        "{e}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "plain letter": ("say {a}.", "{a}.", tasks.CORRECT, _EXACT),
    "shorter": ("shorter: {w0} {w1}.", "{shorter}.", tasks.GOOD_JOB, _EXACT),
    "longer": ("longer: {w0} {w1}.", "{longer}.", tasks.GOOD_JOB, _EXACT),
    "shortest": ("shortest: {w0} {w1} {w2}.", "{shortest}.", tasks.GOOD_JOB, _EXACT),
    "longest": ("longest: {w0} {w1} {w2}.", "{longest}.", tasks.GOOD_JOB, _EXACT),
    "except": (
        "say: {w0} {w1} {w2} except {w_out}.",
        "{w_in0} {w_in1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "remove": ("remove: {p} from {k0}{k1}{p}{k2}.", "{k0}{k1}{k2}.", tasks.GOOD_JOB, _EXACT),
    "find": ("find: {p} in {k0}{k1}{q_or_p}{k2}.", "{found}.", tasks.GOOD_JOB, _EXACT),
    "remove all": (
        "remove all: {p} from {k0}{p}{k1}{p}{k2}.",
        "{k0}{k1}{k2}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "count": (
        "count: {p} in {k0}{q_or_p}{k1}{p_or_q}{k2}.",
        "{times}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "reverse, concatenate": (
        f"{_SAY}{{p}} {_SAY}{{q}} reverse: concatenate:.",
        "{q}{p}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "reverse, interleave": (
        f"{_SAY}{{p}} {_SAY}{{q}} reverse: interleave:.",
        "{q0}{p0}{q1}{p1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    **{
        name: (f"say: {question}.", answer, tasks.GOOD_JOB, conversation.CONTAINING)
        for name, question, answer in (
            ("and, or", "{k0} and {k1} or {k2}", "{k0}{k1}."),
            ("or, and", "{k0} or {k1} and {k2}", "{k1}{k2}."),
            ("and, or, and", "{k0} and {k1} or {k2} and {k3}", "{k2}{k3}."),
        )
    },
    "next word": ("say next after: {n}.", "{n_next}.", tasks.GOOD_JOB, _EXACT),
}
"""By name: question, answer, feedback, what is accepted."""

IN_REFERENCE_UNFINISHED = ("not", "but not", "ors")
"""Templates whose answers the reference's feedback shows without their period."""

KINDS = {
    "micro6": ("map",),
    "micro7.1": ("letter",),
    "micro7.2": ("word",),
    "micro7.3": ("words",),
    "micro8": ("gaps",),
    "micro9.1": ("spell letter",),
    "micro9.2": ("spell",),
    "micro9.3": ("join",),
    "micro10": ("two", "three"),
    "micro11": ("reverse", "concatenate", "interleave"),
    "micro12": ("union", "exclude"),
    "micro13.1": ("and", "or", "not", "but not"),
    "micro13.2": ("ands", "ors"),
    "micro14": ("next letter",),
    "micro15": ("next word",),
    "micro7.1.plain": ("plain letter",),
    "micro8.1": ("gaps",),
    "micro8.2": ("gaps",),
    "micro8.3": ("gaps",),
    "micro9.2.growing": ("spell",),
    "micro9.4.1": ("shorter", "longer"),
    "micro9.4.2": ("shortest", "longest"),
    "micro9.4.3": ("except",),
    "micro9.4.4": ("remove",),
    "micro9.4.5": ("find",),
    "micro9.4.6": ("remove all",),
    "micro9.4.7": ("count",),
    "micro11.chained": ("reverse, concatenate", "reverse, interleave"),
    "micro13.2.mixed": ("and, or", "or, and", "and, or, and"),
}
"""For each kind of sentence, the templates it draws from: all equally likely."""

BASES = {
    "micro16": ("micro9.2", "micro10", "micro11", "micro12"),
    "micro16.mixed": ("micro9.2", "micro10", "micro11", "micro12"),
    "micro19": ("micro10", "micro11", "micro12", "micro14"),
    "micro20": ("micro10", "micro11", "micro12", "micro14"),
}
"""Kinds that are drawn for an instance of micro16, micro19 and micro20, and for each question of
micro16.mixed."""
