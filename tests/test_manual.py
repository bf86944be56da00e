"""The manual's pages: their examples run, and the scripts that their commands call are there."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from variants import daily

from gpicljax import registration
from gpicljax.agents import algorithm

ROOT = Path(__file__).parents[1]
MANUAL = ROOT / "docs" / "manual"
PAGES = sorted(MANUAL.glob("*.md"))
# What follows this line of a page takes long; the test of the whole page is a slow one.
SLOW = "<!-- slow from here -->"


def examples(text):
    """A page's examples as one module, each on the lines where the page has it."""
    lines = [""] * (text.count("\n") + 1)
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        first = text[: block.start(1)].count("\n")
        source = block[1].splitlines()
        lines[first : first + len(source)] = source
    return "\n".join(lines).rstrip() + "\n"


@pytest.fixture
def afterwards_as_before(monkeypatch, tmp_path):
    """What examples register and write is gone when they are over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    known = dict(algorithm.CATALOGUE)
    yield
    algorithm.CATALOGUE.clear()
    algorithm.CATALOGUE.update(known)


def run_page(page, text, folder, monkeypatch):
    """Imports what a reader would have typed."""
    path = folder / f"manual_{page.stem}.py"
    path.write_text(examples(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)


def quick_part(page):
    return page.read_text().split(SLOW)[0]


README = ROOT / "README.md"
QUICK = [page for page in [*PAGES, README] if examples(quick_part(page)).strip()]
DAILY = [page for page in QUICK if page.stem in ("README", "add_an_environment", "add_an_agent")]
WHOLE = [page for page in PAGES if SLOW in page.read_text()]


@pytest.mark.parametrize("page", daily(DAILY, QUICK), ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, afterwards_as_before, tmp_path, monkeypatch):
    run_page(page, quick_part(page), tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", WHOLE, ids=lambda page: page.stem)
def test_all_examples_of_a_page_run(page, afterwards_as_before, tmp_path, monkeypatch):
    text = page.read_text()
    assert examples(text) != examples(quick_part(page))
    run_page(page, text, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_what_a_page_calls_is_there(page):
    text = page.read_text()
    for path in re.findall(r"python (experiments/\w+\.py)", text):
        # A page may tell how to write a new one.
        assert (ROOT / path).exists() or f"# {path}" in text, path
    for path in re.findall(r"pytest (benchmarks/\w+\.py)", text):
        assert (ROOT / path).exists(), path


def test_the_manual_is_built_from_files_that_exist():
    named = re.findall(r": (\w+\.md)$", (ROOT / "docs" / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(page):
    # The manual's own links are checked by its strict build.
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        assert link.startswith("https:") or (ROOT / link).exists(), link
