"""Code reads once: names are nouns or verbs, docstrings say what is returned or done."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PERSONS = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
PROSE = [
    *sorted(ROOT.glob("gpicljax/**/*.py")),
    *sorted(ROOT.glob("experiments/*.py")),
    *sorted(ROOT.glob("experiments/results/*.md")),
    *sorted(ROOT.glob("benchmarks/results/*.md")),
    *sorted(ROOT.glob("docs/manual/*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]

# A docstring that begins with one of these asks or compares, and does not say what is returned.
RIDDLES = re.compile("What|How|Which|Where|When|As|Of|That|Whose?")
# Values are named by nouns, or by what they assert; these are neither.
PRONOUNS = re.compile(
    "of|each|told|said|here|there|theirs|ours|own|mine|again|which|then|now|later|asked|made|found|"
    "seen|given|wanted|known|accepted|many|much|what|where|how|no|such|still|alone|further|alike|"
    "beside|begins|lacks|takes|says|hears|tells|ones?|others?|both|some|these|those|this|that|it|"
    "so|too|yet|thus"
)
# Functions are named by a verb or a noun, not by a participle alone. Of the words that end like
# one, these are no participles, except `privileged`: that is a method of every environment.
PARTICIPLES = re.compile(
    "[a-z]*(ed|wn|ept|ade|ound|aken|iven|itten|old|aid|ought|elt|ent|ut)|about|around"
)
NOT_PARTICIPLES = re.compile(
    "seed|speed|need|feed|embed|grid|own|grade|fade|trade|[a-z]*(ground|put|out|ment|ient)|count|"
    "round|bound|sound|fold|hold|world|field|threshold|shutdown|event|agent|content|component|"
    "parent|current|student|present|represent|accept|except|percent|extent|intercept|"
    "privileged"
)
# The limits, in per cent of the docstrings, stored names, functions and annotated parameters.
LIMITS = {
    "gpicljax": {"riddle": 1.0, "pronoun": 0.5, "participle": 0.5, "any": 6.0},
    "tests": {"pronoun": 1.0, "participle": 1.0},
}
REPORTS = sorted(ROOT.glob("gpicljax/**/studies/**/*report*.py"))
STRING_CUTS = re.compile("(starts|ends)with|r?split|r?partition|remove(prefix|suffix)|[lr]?strip")


def docstring_kinds(node):
    """Yields the kind of a docstring's first word, and whether it is a hit."""
    has_docstring = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
    if words := ((ast.get_docstring(node) if has_docstring else None) or "").split():
        yield "riddle", RIDDLES.fullmatch(words[0].strip("`*,:;."))


def name_kinds(node):
    """Yields the kinds of a function's name and parameters, or of a variable that is assigned."""
    if isinstance(node, ast.FunctionDef):
        name = node.name.removeprefix("_")
        yield "participle", PARTICIPLES.fullmatch(name) and not NOT_PARTICIPLES.fullmatch(name)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            yield "pronoun", PRONOUNS.fullmatch(argument.arg)
            if argument.annotation is not None:
                yield "any", re.search(r"\bAny\b", ast.unparse(argument.annotation))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield "pronoun", PRONOUNS.fullmatch(node.id)


def voice_rates(sources):
    """Returns the share of hits of each kind in per cent, over the sources of several modules."""
    counts, hits = Counter(), Counter()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            for kind, hit in (*docstring_kinds(node), *name_kinds(node)):
                counts[kind] += 1
                hits[kind] += bool(hit)
    return {kind: 100 * hits[kind] / counts[kind] for kind in counts}


@pytest.mark.parametrize("folder", LIMITS)
def test_names_and_docstrings_read_once(folder):
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")]
    rates = voice_rates(sources)
    exceeded = {kind: rates[kind] for kind, limit in LIMITS[folder].items() if rates[kind] > limit}
    assert not exceeded


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('def f():\n    """What comes back."""', "riddle"),
        ("def f(told): ...", "pronoun"),
        ("each = 1", "pronoun"),
        ("def _compared(): ...", "participle"),
        ("def f(x: dict[str, Any]): ...", "any"),
    ],
)
def test_each_kind_is_counted(source, kind):
    assert voice_rates([source])[kind] == 100


def test_plain_code_is_not_counted():
    source = 'def count_steps(rewards: int):\n    """Returns the steps."""\n    total = 1'
    assert not any(voice_rates([source]).values())


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.parent.name)
def test_reports_take_no_string_apart(path):
    calls = [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)
    ]
    cuts = [f"line {call.lineno}" for call in calls if is_string_cut(call.func)]
    assert not cuts


def is_string_cut(function):
    """Returns whether a call takes a string apart; `jax.random.split` does not."""
    is_cut = isinstance(function, ast.Attribute) and STRING_CUTS.fullmatch(function.attr)
    return bool(is_cut) and "random" not in ast.unparse(function)


def test_things_are_not_persons():
    # The prompts of mental modelling are about a walker on a lake and on a grid.
    prompts = "Who would leave the"
    lines = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in PROSE
        for line in path.read_text(encoding="utf-8").splitlines()
        if PERSONS.search(line) and prompts not in line
    }
    assert not lines
