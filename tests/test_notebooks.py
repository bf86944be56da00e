"""Every notebook runs from top to bottom (slow), and imports what is there."""

import ast
import importlib
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# The kernel's messages warn of their own dependencies, in this process.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path, monkeypatch):
    # What a notebook compiles runs longer than the suite's own programs.
    flags = os.environ["XLA_FLAGS"].replace("optimization_level=0", "optimization_level=1")
    monkeypatch.setenv("XLA_FLAGS", flags)
    NotebookClient(nbformat.read(path, as_version=4), timeout=300, kernel_name="python3").execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_imports_is_there(path):
    names = []
    for cell in nbformat.read(path, as_version=4).cells:
        code = cell.source.replace("%matplotlib", "# %matplotlib")
        for node in ast.walk(ast.parse(code if cell.cell_type == "code" else "")):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpicljax"):
                names += [(node.module, alias.name) for alias in node.names]
    for module, name in names:
        loaded_module = importlib.import_module(module)
        assert hasattr(loaded_module, name) or importlib.import_module(f"{module}.{name}")
    assert names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_its_outputs(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not any(out.output_type == "error" for cell in cells for out in cell.outputs)
