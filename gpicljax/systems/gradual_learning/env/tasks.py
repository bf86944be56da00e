"""The task sets, as data: what each asks, how it goes on, and what it presupposes.

Names are those of the reference's curriculum, and of our own where it lacks what the document
has. `lookup` marks the sets of which the document says
that a look-up table solves them, so that results on them are to be read accordingly. `requires` is
our own graph, from the document's remarks on what builds on what (its figure is not in the text).

A module of one's own adds task sets with `StreamTaskSet.register`:

```python
StreamTaskSet(
    "capitals",
    "capitals of countries",
    lines=(("capital of france?", "paris"), ("capital of chile?", "santiago")),
).register()
```

Source: sections A.2.1 to A.2.20 of the challenge's document.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from typing import Annotated, Any, Literal

import numpy as np

from gpicljax.checks import Range, check, check_choice, check_fields
from gpicljax.systems.gradual_learning.env import templates
from gpicljax.systems.gradual_learning.env.conversation import (
    ALL_ASKED,
    AT_ONCE,
    LETTER_RIGHT,
    ONE_RIGHT,
    OPTIONS,
    TaskRules,
)
from gpicljax.systems.gradual_learning.env.templates import (
    BARE,
    ENDED,
    GOOD_JOB,
    NONE,
    ONE_BEFORE,
    PERHAPS_BEFORE,
    SENTENCE_KINDS,
    SHORTENED,
    SHORTENED_LATER,
    SOME_BEFORE,
    VERDICT,
)

MAPPING, SENTENCES, MINI, ARITHMETIC, BLOCKS, LINES = range(6)
"""Codes of the families of questions."""
FAMILIES = ("mapping", "sentences", "mini", "arithmetic", "blocks", "lines")
"""Their names."""

# Kinds of mappings.
SYMBOL, GROUPS, LETTERS, COPY, DIGITS, STRINGS = range(6)

Hidden = Literal["nothing", "pairs", "shift"]
_Length = Annotated[int, Range(1, 50)]
_MOST_SETS, _MOST_LINES, _MOST_HIDDEN, _LONGEST_LINE, _DIGITS = 256, 4096, 12, 128, 10


@dataclasses.dataclass(frozen=True)
class StreamTaskSet:
    """A task set.

    Attributes:
      name: a name such as `"micro5.1"`.
      title: the document's heading.
      lookup: whether a look-up table solves it.
      requires: names of the sets that it builds on.
      family: number of the family that makes its questions, see `FAMILIES`.
      code: what a mapping is between, or which of the family's kinds of sentences it has.
      style: kind of feedback; each kind of sentences has its own.
      question: fewest and most digits of a mapping's question.
      answer: fewest and most digits of a mapping's answer; of other answers, the most bytes before
        the period. With corrected rules an answer is wrong at twice as many.
      marks: 1 if its questions end with a period, plus 2 if its answers do; 4 if its questions are
        the bytes of a prompt.
      know: see `conversation.TaskRules`.
      tolerance: see `conversation.TaskRules`.
      early: whether answers of a mapping end with their period, whatever the rules.
      prompt: 1 if an answer is wrong with its first wrong byte, 2 if right bytes are also rewarded.
      repeats: whether a wrong answer to a key that was asked before fails the instance.
      lines: of a task set of one's own, pairs of a question and its answer without the period that
        ends it; None for other task sets. A question is one of them, all equally likely.
      hidden: what each instance does with the answers, so that feedback has to tell: `"pairs"`
        pairs questions with answers anew; `"shift"` moves every question's answer on by the same
        number of lines, which one answer tells to those that know the order of the lines.
      shifts: how many different numbers of lines a hidden shift may move by, 0 the first; as many
        as there are lines if this is 0.

    Example:
      >>> spelling = next(task for task in TASK_SETS if task.name == "micro9.2")
      >>> spelling.title, spelling.requires, FAMILIES[spelling.family]
      ('spelling a word', ('micro9.1', 'micro7.2'), 'sentences')
    """

    name: str
    title: str
    lookup: bool = False
    requires: tuple[str, ...] = ()
    family: Annotated[int, Range(MAPPING, LINES)] = MAPPING
    code: int = STRINGS
    style: Annotated[int, Range(NONE, SHORTENED_LATER)] = ENDED
    question: tuple[_Length, _Length] = (1, 1)
    answer: tuple[_Length, _Length] = (1, 1)
    marks: Annotated[int, Range(0, 7)] = 0
    know: Annotated[int, Range(0, 4)] = AT_ONCE
    tolerance: Annotated[int, Range(0, 3)] = 1
    early: bool = False
    prompt: Annotated[int, Range(0, 2)] = 0
    repeats: bool = False
    lines: tuple[tuple[str, str], ...] | None = None
    hidden: Hidden = "nothing"
    shifts: Annotated[int, Range(0, _MOST_LINES)] = 0

    def register(self) -> StreamTaskSet:
        """Adds a task set of one's own to `TASK_SETS`, so that curricula can name it.

        It has `lines`; or it is a variant of a task set that is there, made by
        `dataclasses.replace` with another name and, say, other lengths. Feedback on lines is "good
        job! ;", or "wrong! " and the answer. An environment needs the family `"lines"` for them.

        All have to be there before the first stream is made, since programs hold the table of all
        task sets. A module registers them when it is imported: `gpicljax play
        mymodule:ByteStream-v0 --curriculum mine.json` imports `mymodule` first. Their indices in
        `TASK_SETS` follow the order of registration.

        Returns:
          The task set as it was added. One that is there already is added no second time.

        Raises:
          ValueError: if the name is taken, a text cannot be said, or a stream was made already.

        Example:
          >>> lines = (("opposite of hot?", "cold"), ("opposite of up?", "down"))
          >>> opposites = StreamTaskSet("opposites", "opposites", lines=lines)
          >>> opposites.name, len(opposites.lines)
          ('opposites', 2)
        """
        check_fields(self)
        task = self._with_lines()
        name = task.name
        fine = bool(name) and name == name.strip() and name.isprintable()
        check(fine, "name", name, "a name such as 'capitals'")
        place = ALL_NAMES.index(name) if name in ALL_NAMES else None
        if place is not None:
            check(TASK_SETS[place] == task, "name", name, "a name that no other task set has")
            return task
        for needed in task.requires:
            check_choice("requires", needed, ALL_NAMES)
        task._check_lengths()
        unused = table.cache_info().currsize == 0
        expected = "task sets that are registered before the first stream is made"
        check(unused, "name", name, expected)
        expected = f"at most {_MOST_SETS} task sets"
        check(len(TASK_SETS) < _MOST_SETS, "name", name, expected)
        TASK_SETS.append(task)
        ALL_NAMES.append(name)
        return task

    def _with_lines(self) -> StreamTaskSet:
        """Returns the task set with what follows from its lines, if it has some."""
        if (lines := self.lines) is None:
            return self
        is_hidden = self.hidden != "nothing"
        least = 2 if is_hidden else 1
        most = _MOST_HIDDEN if self.hidden == "pairs" else _MOST_LINES
        fits = least <= len(lines) <= most
        check(fits, "lines", f"{len(lines)} lines", f"{least} to {most}")
        most = len(lines) if self.hidden == "shift" else 0
        check(self.shifts <= most, "shifts", self.shifts, f"0 to {most}, for these lines")
        repeated = [q for q, count in Counter(q for q, _ in lines).items() if count > 1]
        check(not repeated, "lines", f"{repeated[:1]} more than once", "each question once")
        varied = not is_hidden or len({answer for _, answer in lines}) > 1
        check(varied, "lines", "one answer to all questions", "different answers, to be hidden")
        for question, answer in lines:
            fine = 0 < len(question) <= _LONGEST_LINE and max(map(ord, question)) < 256
            expected = f"1 to {_LONGEST_LINE} bytes, of which the last is no space"
            check(fine and question[-1] != " ", "question", question, expected)
            fine = 0 < len(answer) <= 50 and max(map(ord, answer)) < 256
            expected = "1 to 50 bytes without a period, of which the first is no space"
            check(fine and "." not in answer and answer[0] != " ", "answer", answer, expected)
        return dataclasses.replace(
            self,
            family=LINES,
            code=0,
            style=GOOD_JOB,
            answer=(1, max(len(answer) for _, answer in lines)),
            marks=2,
            know=ALL_ASKED if is_hidden else AT_ONCE,
        )

    def _check_lengths(self) -> None:
        """Refuses what no generator of questions has."""
        codes = {
            MAPPING: STRINGS + 1,
            SENTENCES: len(SENTENCE_KINDS),
            MINI: 6,
            ARITHMETIC: len(templates.ARITHMETIC),
            BLOCKS: len(templates.BLOCKS),
        }.get(self.family, 1)
        check(0 <= self.code < codes, "code", self.code, f"0 to {codes - 1}")
        expected = "lines, for a task set of the family 'lines'"
        check(self.lines or self.family != LINES, "lines", self.lines, expected)
        most = _DIGITS if self.family == MAPPING else 50
        for field in ("question", "answer"):
            least, longest = getattr(self, field)
            expected = f"the fewest and the most, up to {most}"
            check(least <= longest <= most, field, (least, longest), expected)


def _symbols(name: str, title: str, *requires: str, **options: Any) -> StreamTaskSet:
    options = {"style": NONE} | options
    return StreamTaskSet(name, title, requires=requires, **options)


def _mapping(number: int | str, title: str, *requires: str, **options: Any) -> StreamTaskSet:
    options = {"marks": 3, "know": ALL_ASKED} | options
    return StreamTaskSet(f"micro5.{number}", title, requires=requires, **options)


def _mini(code: int, title: str, *requires: str) -> StreamTaskSet:
    name, answer = f"mini{code}", (4, 5)
    return StreamTaskSet(name, title, False, requires, MINI, code, VERDICT, answer=answer, marks=2)


def _sentence(name: str, title: str, *requires: str, **options: Any) -> StreamTaskSet:
    kind = name.removesuffix(".strict").removesuffix(".graded")
    longest = templates.SENTENCES[kind].longest
    options = {"code": SENTENCE_KINDS.index(kind), "marks": 2, "answer": (1, longest)} | options
    return StreamTaskSet(name, title, requires=requires, family=SENTENCES, **options)


def _rungs(
    name: str, family: int, lookup: tuple[int, ...], rungs: tuple[templates.Rung, ...]
) -> list[StreamTaskSet]:
    """Returns the task sets of a ladder, each of which builds on the one below."""
    names = [f"{name}{number}" for number in range(1, len(rungs) + 1)]
    options = {"family": family, "answer": (1, 17), "marks": 2}
    return [
        StreamTaskSet(
            names[code],
            rung.title,
            lookup=code + 1 in lookup,
            requires=tuple(names[:code][-1:]),
            code=code,
            **options,
        )
        for code, rung in enumerate(rungs)
    ]


_CODE = "qhzfvkbtmxwd"
"""Letters of the hidden code, in its order."""

TASK_SETS: list[StreamTaskSet] = [
    _symbols("micro1", "a subset of characters only", code=SYMBOL, know=ONE_RIGHT),
    _symbols("micro2", "a mapping of symbols, N to 1", "micro1", code=GROUPS, know=LETTER_RIGHT),
    _symbols("micro3", "a mapping of symbols, 1 to 1", "micro2", code=LETTERS, know=OPTIONS),
    _symbols("micro4", "copying input to output", "micro3", lookup=True, code=COPY),
    _mapping(
        1, "one byte for input, output and feedback", "micro4", code=DIGITS, style=BARE, marks=0
    ),
    _mapping(2, "feedback separator", "micro5.1", code=DIGITS, marks=0),
    _mapping(3, "input separator", "micro5.2", code=DIGITS, marks=1),
    _mapping(4, "output and feedback of two bytes", "micro5.3", answer=(2, 2), marks=1),
    _mapping(5, "output terminated with a period", "micro5.4"),
    _mapping(6, "no period in feedback on right answers", "micro5.5", style=SHORTENED),
    _mapping(7, "output and feedback of variable length", "micro5.5", answer=(1, 2)),
    _mapping(8, "input of two bytes", "micro5.5", question=(2, 2)),
    _mapping(9, "input of variable length", "micro5.8", question=(1, 2)),
    _mapping(10, "feedback with an unimportant section", "micro5.5", style=ONE_BEFORE),
    _mapping(11, "unimportant sections of variable length", "micro5.10", style=PERHAPS_BEFORE),
    _mapping(12, "output and feedback of higher length", "micro5.7", answer=(3, 5)),
    _mapping(13, "input of higher length", "micro5.9", question=(3, 5)),
    _mapping(
        14, "feedback of higher length with unimportant sections", "micro5.11", style=SOME_BEFORE
    ),
    _mapping(15, "longer output and feedback of variable length", "micro5.12", answer=(1, 5)),
    _mapping(16, "longer input of variable length", "micro5.13", question=(1, 5)),
    _mapping(
        17, "all of variable length", "micro5.15", "micro5.16", question=(1, 5), answer=(1, 5)
    ),
    _mapping(18, "all of high and variable length", "micro5.17", question=(1, 10), answer=(1, 10)),
    _sentence(
        "micro6", "useful sequences: words", "micro5.18", lookup=True, know=ALL_ASKED, tolerance=2
    ),
    _sentence("micro7.1", "repeating a letter", "micro5.18"),
    _sentence("micro7.2", "repeating a word", "micro7.1", lookup=True),
    _sentence("micro7.3", "repeating a sequence of words", "micro7.2"),
    _sentence("micro8", "redundancy of spaces", "micro7.1"),
    _sentence("micro9.1", "spelling a letter", "micro7.1"),
    _sentence("micro9.2", "spelling a word", "micro9.1", "micro7.2"),
    _sentence("micro9.3", "interleaving a word with a symbol", "micro9.2"),
    _sentence("micro10", "several commands", "micro7.3"),
    _sentence("micro11", "memory for two pieces of data", "micro10"),
    _sentence("micro12", "relations between parts of input", "micro11"),
    _sentence("micro13.1", "and, or, not", "micro11"),
    _sentence("micro13.2", "several logical operations", "micro13.1"),
    _sentence("micro14", "the order of the alphabet", "micro7.1", lookup=True),
    _sentence("micro15", "sequences of words", "micro6", lookup=True, know=ALL_ASKED, tolerance=2),
    _sentence("micro16", "unchanging parts as a context", "micro9.2", "micro10", "micro12"),
    _sentence("micro19", "synonyms", "micro16", "micro14", lookup=True, tolerance=2),
    _sentence("micro20", "hints", "micro19", tolerance=2),
    _mini(0, "strings of one n-gram shown ten times", "micro13.1"),
    _mini(1, "strings of one n-gram", "mini0"),
    _mini(2, "n-grams joined by or", "mini1", "micro13.2"),
    _mini(3, "n-grams joined by and", "mini1", "micro13.2"),
    _mini(4, "n-grams and forbidden ones", "mini3"),
    _mini(5, "one of mini1 to mini4", "mini2", "mini4"),
    # Sets that the document asks for and the reference lacks.
    _mapping(
        "2.repeats",
        "feedback separator, where every repeated question must be answered right",
        "micro5.1",
        code=DIGITS,
        marks=0,
        repeats=True,
    ),
    _symbols(
        "micro1.prompt",
        "a subset of characters only, asked for in words",
        code=SYMBOL,
        marks=4,
        know=ONE_RIGHT,
    ),
    _mapping("6.later", "no period in feedback any more", "micro5.6", style=SHORTENED_LATER),
    _mapping(
        "7.early",
        "variable length, feedback right after the period",
        "micro5.5",
        answer=(1, 2),
        early=True,
    ),
    _sentence("micro7.1.plain", "repeating a letter, without a colon", "micro5.18"),
    _sentence("micro8.1", "redundancy of one space", "micro7.1"),
    _sentence("micro8.2", "redundancy of up to two spaces", "micro8.1"),
    _sentence("micro8.3", "redundancy of up to three spaces", "micro8.2"),
    _sentence("micro9.2.growing", "spelling words, the shortest first", "micro9.1", "micro7.2"),
    _sentence("micro9.2.strict", "spelling, a wrong byte punished at once", "micro9.1", prompt=1),
    _sentence("micro9.2.graded", "spelling, every byte rewarded at once", "micro9.1", prompt=2),
    _sentence("micro9.4.1", "the shorter or longer of two words", "micro7.3"),
    _sentence("micro9.4.2", "the shortest or longest of three words", "micro7.3"),
    _sentence("micro9.4.3", "words except a given one", "micro7.3"),
    _sentence("micro9.4.4", "removing a string from another", "micro7.3"),
    _sentence("micro9.4.5", "whether a string occurs in another", "micro7.3"),
    _sentence("micro9.4.6", "removing all occurrences of a string", "micro7.3"),
    _sentence("micro9.4.7", "how often a string occurs in another", "micro7.3"),
    _sentence("micro11.chained", "two operations in a row", "micro11"),
    _sentence("micro13.2.mixed", "and, or in one expression", "micro13.2"),
    _sentence("micro16.mixed", "tasks mixed within an instance", "micro16"),
    # The alternative curricula of A.1.6.
    *_rungs("arithmetic", ARITHMETIC, (1, 3, 7), templates.ARITHMETIC),
    *_rungs("blocks", BLOCKS, (1, 2), templates.BLOCKS),
    # What can be known before the first example: the order of the letters is that of all streams.
    *(
        StreamTaskSet(
            f"code.{shifts}",
            f"a letter up to {shifts - 1} places on, in an order that is the same in all instances",
            lines=tuple((f"{letter}.", letter) for letter in _CODE),
            hidden="shift",
            shifts=shifts,
        )._with_lines()
        for shifts in (2, 3, 4, 6, 12)
    ),
    # Operations that are learnt on other operands, or in other pairs, than they are asked with.
    _sentence("micro11.single", "further operations, one by one", "micro11"),
    _sentence("micro11.pairs", "two operations in a row, 36 pairs of 48", "micro11.single"),
    _sentence("micro11.unseen", "the other twelve pairs of operations", "micro11.pairs"),
    _sentence("micro12.letters", "relations between parts of input, of all letters", "micro12"),
]
"""All task sets: those of the reference's curriculum in its order, then others, and then those that
were registered."""

ALL_NAMES = [task.name for task in TASK_SETS]
NAMES = tuple(ALL_NAMES[: ALL_NAMES.index("mini5") + 1])
"""The reference's curriculum."""
ARITHMETIC_NAMES = tuple(task.name for task in TASK_SETS if task.family == ARITHMETIC)
"""The first curriculum of A.1.6, the easiest set first."""
BLOCKS_NAMES = tuple(task.name for task in TASK_SETS if task.family == BLOCKS)
"""The second one."""
CODE_NAMES = tuple(name for name in ALL_NAMES if name.startswith("code."))
"""Hidden codes, those of the fewest shifts first."""


@functools.cache
def table(corrected: bool) -> dict[str, np.ndarray]:
    """Returns all task sets as columns, `int32[N]` or `int32[N, 2]`, by name.

    The columns of `Rules`, and `family`, `code`, `style`, `question` and `answer` (`int32[N, 2]`).
    """
    rows = []
    for task in TASK_SETS:
        mini, ends = task.family == MINI, bool(task.marks & 2)
        mapping = task.family == MAPPING
        symbols = corrected and mapping and task.code in (GROUPS, LETTERS)
        bounded = ends and (corrected or task.early)
        rules = TaskRules(
            spoken=int(not mapping or bounded),
            limit=2 * (task.answer[1] + 1) if bounded else 0,
            know=task.know,
            tolerance=task.tolerance,
            needed=1 if mini else 10,
            fatal=int(mini and corrected),
            patience=3 if mini else 10,
            mini=int(mini and not corrected),
            lenient=int(corrected and ends),
            letters=int(symbols),
            mute=int(mapping and task.style == NONE),
            strict=int(task.prompt > 0),
            graded=int(task.prompt > 1),
            repeats=int(task.repeats),
        )
        rows.append(rules._asdict() | {k: getattr(task, k) for k in _OTHERS})
    return {name: np.array([row[name] for row in rows], np.int32) for name in rows[0]}


_OTHERS = ("family", "code", "style", "question", "answer", "marks")
