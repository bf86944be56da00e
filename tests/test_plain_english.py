"""Prose is about things: words for persons are kept for persons."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
# A sentence that starts with "Of"; after a colon, an entry of a list of attributes does, too.
BEGINNING = re.compile(r"""(^\s*|[.:?!|] |"{3}|\# )Of\s[a-z]""")
# Lines in which a person is meant, by the file that has them.
MEANT = {
    # The prompts are about a walker on a lake and on a grid.
    "gpicljax/systems/mental_modelling/prompts/tasks.py": "Who would leave the",
}
FILES = [
    *sorted(ROOT.glob("gpicljax/**/*.py")),
    *sorted(ROOT.glob("experiments/*.py")),
    *sorted(ROOT.glob("experiments/results/*.md")),
    *sorted(ROOT.glob("benchmarks/results/*.md")),
    *sorted(ROOT.glob("docs/manual/*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]


def complaints(text, meant=None):
    """The lines that name a thing as a person, or begin a sentence with "Of"."""
    lines = [line for line in text.splitlines() if WORDS.search(line) or BEGINNING.search(line)]
    return [line.strip() for line in lines if meant is None or meant not in line]


def test_things_are_not_persons():
    found = {}
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        if lines := complaints(path.read_text(encoding="utf-8"), MEANT.get(name)):
            found[name] = lines
    assert not found


@pytest.mark.parametrize(
    "line",
    ["Who acts reads these.", "kept for whoever asks", "  density: Of walls.", "# Of two, one"],
)
def test_what_is_complained_of(line):
    assert complaints(line)


def test_of_within_a_sentence_is_plain():
    assert not complaints("The end of an episode. Often the last of them: of all.")
