"""One version is published everywhere, and a wheel that works in an empty folder."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import gpicljax

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gpicljax"
MEGABYTE = 1 << 20


def test_version_and_date_are_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+) \((\S+)\)$", changelog, re.MULTILINE).groups()
    assert newest == (gpicljax.__version__, str(citation["date-released"]))
    assert citation["version"] == gpicljax.__version__
    # The keys that the Citation File Format 1.2 requires.
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert all("name" in author or "family-names" in author for author in citation["authors"])


def sources():
    """The package's files, without what running it left behind."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {p.relative_to(ROOT).as_posix() for p in files if "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel, made from a source distribution, which is there too."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


@pytest.mark.slow
def test_the_wheel_is_the_package_and_nothing_else(built):
    path = only(built, "*.whl")
    names = set(zipfile.ZipFile(path).namelist())
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert path.stat().st_size < 10 * MEGABYTE


@pytest.mark.slow
def test_the_source_distribution_has_what_the_wheel_is_made_from(built):
    path = only(built, "*.tar.gz")
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert sources() <= files
    other_files = {name for name in files - sources() if ".egg-info/" not in name}
    pages = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"}
    assert other_files == pages | {"MANIFEST.in", "PKG-INFO", "pyproject.toml", "setup.cfg"}
    assert path.stat().st_size < 10 * MEGABYTE


@pytest.mark.slow
def test_pages_of_an_index_can_be_drawn(built):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_installed_wheel_runs_a_study_in_an_empty_folder(built, tmp_path):
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    # Its dependencies are those of this environment.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([sys.executable, *install, str(only(built, "*.whl"))], check=True)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def python(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    assert python("-c", "import gpicljax; print(gpicljax.__file__)").startswith(str(site))
    command = str(site / "bin" / "gpicljax")
    assert "MetaRG-v1" in python(command, "environments")
    flags = ["--preset", "quick", "--seeds", "1", "--observations", "6400", "--name", "tiny"]
    python(command, "run", "meta_rg", *flags)
    run = folder / "runs" / "meta_rg" / "tiny"
    assert (run / "summary.json").exists() and (run / "figures" / "episode.html").exists()
    assert "tiny" in python(command, "runs", "list")
    # Shipped models are found where the package is.
    load = "from gpicljax.runs import load_agent, shipped_model; import sys;"
    load += "[load_agent(shipped_model(name)) for name in sys.argv[1:]]"
    python("-c", load, *(path.name for path in (PACKAGE / "models").iterdir()))
