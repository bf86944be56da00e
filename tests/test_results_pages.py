"""Results pages say how old they are."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("ages", ROOT / "docs" / "ages.py")
ages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ages)


@pytest.mark.parametrize("page", sorted((ROOT / ages.RESULTS).glob("*.md")), ids=lambda p: p.stem)
def test_every_page_has_its_code(page):
    for path in ages.code(page):
        assert (ROOT / path).exists()


@pytest.mark.parametrize("page", sorted((ROOT / ages.RESULTS).glob("meta_rg_*.md")))
def test_no_interval_of_a_percentage_passes_0_or_100(page):
    ends = re.findall(r" ± [0-9.]+ \[(-?[0-9.]+), (-?[0-9.]+)\]", page.read_text())
    assert not [pair for pair in ends if float(pair[0]) < 0 or float(pair[1]) > 100]


def test_a_page_is_older_than_its_code_from_the_commit_that_changes_it(tmp_path):
    def git(*arguments):
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *author, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(name, text):
        (tmp_path / name).write_text(text)
        git("add", name)
        git("commit", "-qm", text)
        return git("rev-parse", "HEAD")

    git("init", "-q")
    page = f"- commit: {commit('code.py', 'first')}"
    assert ages.status(page, ["code.py"], tmp_path) == ""
    commit("other.py", "other")
    assert ages.status(page, ["code.py"], tmp_path) == ""
    second = commit("code.py", "second")
    assert "one commit has" in ages.status(page, ["code.py"], tmp_path)
    # The oldest of several counts.
    assert "one commit has" in ages.status(f"{page}\ncommit: `{second[:7]}`", ["code.py"], tmp_path)
    commit("code.py", "third")
    assert "2 commits have" in ages.status(page, ["code.py"], tmp_path)
    assert "names no commit" in ages.status("# A page", ["code.py"], tmp_path)
    assert "does not have" in ages.status(f"commit {'0' * 40}", ["code.py"], tmp_path)
