"""The manual's pages: their examples run, and the scripts that their commands call are there."""

import importlib.util
import re
import subprocess
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
    """Removes what examples register and write when they are over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    catalogue = dict(algorithm.CATALOGUE)
    yield
    algorithm.CATALOGUE.clear()
    algorithm.CATALOGUE.update(catalogue)


def run_page(page, text, folder, monkeypatch):
    """Imports what a reader would have typed; the files that a page saves are one module here."""
    path = folder / f"manual_{page.stem}.py"
    path.write_text(examples(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    for name in (path.stem, *(Path(file).stem for file in files_of(text))):
        monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)


def quick_part(page):
    return page.read_text().split(SLOW)[0]


def files_of(text):
    """The files that a page tells a reader to save, by name: blocks that begin with `# NAME.py`."""
    files = {}
    blocks = re.findall(r"^```py(?:thon)?(?: no-run)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        if name := re.match(r"# (\w+\.py)(?:, continued)?\n", block):
            files[name[1]] = files.get(name[1], "") + block
    return files


TEMPLATES = sorted((ROOT / "gpicljax" / "templates").glob("*.py"))
FILES = [(page, name) for page in PAGES for name in files_of(page.read_text())]
# The tests among them are run by `test_new.py`.
SAVED = [(page, name) for page, name in FILES if not name.startswith("test_")]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_file_that_new_writes_is_the_one_that_the_manual_shows(path):
    """Blank lines aside, of which there are fewer between the blocks of a page."""
    (page,) = [page for page, name in FILES if name == path.name]
    lines = files_of(page.read_text())[path.name].splitlines()
    marks = f"# {path.name}", f"# {path.name}, continued"
    shown = [line for line in lines if line and line not in marks]
    assert shown == [line for line in path.read_text().splitlines() if line]


@pytest.mark.parametrize(("page", "name"), SAVED, ids=[name for _, name in SAVED])
def test_a_file_that_a_page_tells_to_save_runs_as_a_file(page, name, tmp_path):
    """`echo.py` needs a server, and runs in `tests/serve/test_clients.py`."""
    (tmp_path / name).write_text(files_of(page.read_text())[name])
    if name == "echo.py":
        return
    command = [sys.executable, name, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if "__main__" in (tmp_path / name).read_text():
        assert f"usage: python {name}" in done.stdout


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
