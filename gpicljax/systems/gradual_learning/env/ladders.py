"""Two curricula beside the micro tasks, as data: what each rung of them adds.

The document names the hardest task of each; the ladders below them are ours, and add one difficulty
at a time.

Source: the challenge's document, section A.1.6.
"""

from __future__ import annotations

from typing import NamedTuple

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
