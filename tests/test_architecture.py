"""The house rules: who may import whom, what is documented, and what examples promise."""

import ast
import doctest
import functools
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from variants import daily

import gpicljax
from gpicljax import registration
from gpicljax.environment import Environment
from gpicljax.studies.registry import STUDIES, study_summary

PACKAGE = Path(gpicljax.__file__).parent
# The library, from the ground up. Imports go down, or stay on their floor.
FLOORS = (
    {"batching", "checks", "random", "storage", "typing"},
    {"environment", "interface", "spaces", "symbols", "registration"},
    {"envs", "testing"},
    {"vector", "task_set", "wrappers", "interop"},
    {"networks"},
    {"rollout", "data"},
    {"agents"},
    {"evaluation"},
    {"viz"},
    {"llm"},
    {"runs"},
    {"runtime"},
    {"play", "serve"},
    {"studies", "new"},
    {"cli"},
    {"__main__"},
)
FLOOR_OF = {part: level for level, parts in enumerate(FLOORS) for part in parts}
# What every system's folder consists of, from the ground up.
SHELF = ("env", "experts", "data", "measures", "learners", "figures", "prompts", "studies")
HEAVY = (
    "orbax",
    "tensorstore",
    "matplotlib",
    "tyro",
    "distrax",
    "gymnasium",
    "gymnax",
    "jaxmarl",
    "rejax",
    "flashbax",
    "tensorflow_probability",
    "tensorboardX",
    "wandb",
    "httpx",
    "inspect_ai",
)
FILES = {
    ".".join(["gpicljax", *path.relative_to(PACKAGE).with_suffix("").parts]): path
    for path in sorted(PACKAGE.rglob("*.py"))
    # These are a user's files, which `gpicljax new` copies; nothing imports them.
    if path.parent.name != "templates"
}
FILES = {name.removesuffix(".__init__"): path for name, path in FILES.items()}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}


@functools.cache
def imports_of(name):
    """The gpicljax modules that a module imports, anywhere in it but for type checkers only."""
    skipped = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped |= {id(inner) for child in node.body for inner in ast.walk(child)}
    imports = set()
    for node in ast.walk(TREES[name]):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative imports hide the floor they come from"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                imports.add(inner if inner in FILES else base)
    return {module for module in imports if module.split(".")[0] == "gpicljax"}


def part_of(module):
    """The part of the house, e.g. `envs`; the package itself for `import gpicljax`."""
    return ".".join(module.split(".")[1:2])


INNER = [name for name in FILES if name != "gpicljax"]
LIBRARY = [name for name in INNER if part_of(name) != "systems"]
# `systems.inspect_tasks` lists the tasks of all systems for Inspect AI.
OF_SYSTEMS = [
    name for name in INNER if name.startswith("gpicljax.systems.") and name.count(".") > 2
]


def test_imports_go_down():
    for name in LIBRARY:
        assert part_of(name) in FLOOR_OF, f"{name} is on no floor of the library"
        for module in imports_of(name):
            if part_of(name) != "studies":
                assert module != "gpicljax", f"{name} imports the whole package"
            assert part_of(module) != "systems", f"{name} imports {module}: a system"
            floor = FLOOR_OF.get(part_of(module), 0)
            assert floor <= FLOOR_OF[part_of(name)], f"{name} imports {module}, from a higher floor"


def environment_of(module):
    """The shared environment that a module of `envs` belongs to; None for shared machinery."""
    names = module.split(".")
    inner = names[2] if names[1:2] == ["envs"] and len(names) > 2 else None
    return None if inner is None or inner.startswith("_") else inner


def test_only_an_environment_knows_itself():
    for name in LIBRARY:
        # The package `envs` exports them all.
        if name != "gpicljax.envs" and part_of(name) != "studies":
            environments = {environment_of(module) for module in imports_of(name)}
            assert environments <= {None, environment_of(name)}, name


def test_systems_import_the_library_and_their_own_shelf_downwards():
    for name in OF_SYSTEMS:
        _, _, system, shelf = name.split(".")[:4]
        for module in imports_of(name):
            assert part_of(module) not in ("cli", "__main__"), f"{name} imports {module}"
            if part_of(module) != "systems":
                assert module != "gpicljax" or shelf == "studies", (
                    f"{name} imports the whole package"
                )
                continue
            _, _, other_system, source = module.split(".")[:4]
            assert other_system == system, f"{name} imports {module}: another system"
            assert SHELF.index(source) <= SHELF.index(shelf), (
                f"{name} imports {module}: up the shelf"
            )


def test_every_system_has_the_shelf_and_nothing_else():
    for folder in (PACKAGE / "systems").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            parts = {path.stem for path in folder.iterdir()} - {"__init__", "__pycache__"}
            assert "studies" in parts and parts <= set(SHELF), folder.name


LINES_OF_A_STUDY = 400
LONGER_STUDIES = {
    "maze_world": 1201,
    "train_agent": 1153,
    "meta_language": 747,
    "meta_rg": 965,
    "mental_modelling": 988,
    "gradual_learning": 961,
    "meta_rg_players": 600,
}
"""Lines of the studies that are longer than they should be; these numbers only become smaller."""


def lines_by_study():
    """The lines of every study's folder, by name."""
    folders = {path.parent for path in PACKAGE.rglob("studies/*/program.py")}
    return {
        folder.name: sum(len(file.read_text().splitlines()) for file in folder.glob("*.py"))
        for folder in folders
    }


def test_studies_are_short():
    lines = lines_by_study()
    longest = {name: LONGER_STUDIES.get(name, LINES_OF_A_STUDY) for name in lines}
    assert not {name: n for name, n in lines.items() if n > longest[name]}
    unneeded = {n for n in LONGER_STUDIES if lines.get(n, 0) <= LINES_OF_A_STUDY}
    assert not unneeded, "these are short enough without an exception"


def test_a_script_is_a_docstring_and_a_call():
    for path in sorted((PACKAGE.parent / "experiments").glob("*.py")):
        docstring, *body = ast.parse(path.read_text()).body
        assert isinstance(docstring, ast.Expr) and len(body) == 2, path.name
        assert isinstance(body[0], ast.ImportFrom) and isinstance(body[1], ast.If), path.name


def test_every_study_has_a_script_and_a_summary():
    scripts = {path.stem for path in (PACKAGE.parent / "experiments").glob("*.py")}
    assert set(STUDIES) == scripts
    for name, package in STUDIES.items():
        assert f"{package}.program" in FILES
        assert study_summary(name).endswith((".", "?")), name


# Ways to make, open, read, write and delete files and folders; `storage` and `runs` have them all.
OPENING = {"open", "fdopen", "mkdir", "makedirs", "mkdtemp", "mkstemp", "touch"}
READING = {"read_text", "read_bytes", "load", "loads", "loadtxt", "fromfile", "memmap"}
WRITING = {"write_text", "write_bytes", "dump", "save", "savez", "savez_compressed", "tofile"}
MOVING = {"rename", "renames", "move", "copy", "copyfile", "copytree", "symlink_to", "hardlink_to"}
DELETING = {"rmtree", "unlink", "remove", "removedirs", "rmdir"}
DOORS = OPENING | READING | WRITING | MOVING | DELETING
# Of these modules; the same words are also methods of other things.
MODULES = {"os", "io", "json", "np", "numpy", "pickle", "shutil", "tempfile", "tomllib"}
PATHS = {"open", "mkdir", "touch", "read_text", "read_bytes", "write_text", "write_bytes"}
PATHS |= {"unlink", "rmdir", "rename", "symlink_to", "hardlink_to"}
STUDY_MODULES = [
    name for name in INNER if part_of(name) == "studies" or name.split(".")[3:4] == ["studies"]
]


def doors_of(tree):
    """Calls that open, make or delete files and folders by other ways than the shared ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES | {"pathlib"}:
            yield from (alias.name for alias in node.names if alias.name in DOORS)
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in {"open", "exclusive", "ShardWriter"}:
            yield f"{called.id}, line {node.lineno}"
        if isinstance(called, ast.Attribute):
            of_module = isinstance(called.value, ast.Name) and called.value.id in MODULES
            if called.attr in (DOORS if of_module else PATHS):
                yield f"{ast.unparse(called)}, line {node.lineno}"


def test_no_study_has_a_door_of_its_own():
    """Runs are opened by the driver; files are read and written through `storage`."""
    for name in STUDY_MODULES:
        assert not list(doors_of(TREES[name])), name


@pytest.mark.parametrize(
    "line",
    [
        "shutil.rmtree(folder)",
        "folder.mkdir()",
        "path.read_text()",
        "(folder / name).write_text(text)",
        "open(path)",
        "np.load(path)",
        "os.remove(path)",
        "exclusive(folder)",
        "from shutil import rmtree",
    ],
)
def test_doors_are_found(line):
    assert list(doors_of(ast.parse(line)))


def test_no_module_changes_where_python_imports_from():
    root = PACKAGE.parent
    for folder in ("gpicljax", "experiments", "benchmarks", "tests"):
        for path in (root / folder).rglob("*.py"):
            assert ("sys.path." + "insert") not in path.read_text(), path


def test_agents_and_figures_import_less_than_their_floors_allow():
    # Figures take arrays, or what `evaluation` made of them; never a task, an agent or a run.
    # Like all files, theirs are written by `storage`.
    drawn = {"viz", "evaluation", "checks", "typing", "storage"}
    for name in INNER:
        parts = {part_of(module) for module in imports_of(name)}
        assert part_of(name) != "agents" or "envs" not in parts, name
        assert part_of(name) != "viz" or parts <= drawn, name


def test_the_package_imports_quickly_and_lightly():
    script = (
        "import resource, sys, gpicljax; use = resource.getrusage(resource.RUSAGE_SELF);"
        f"print(use.ru_utime + use.ru_stime, *(m for m in {HEAVY} if m in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, *loaded = result.stdout.split()
    assert loaded == []
    assert float(seconds) < 2


def public_definitions(tree):
    """Functions, classes and methods a user may call, with the classes they are in."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node, ""
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield inner, f"{node.name}."


def test_everything_public_is_documented():
    for name in FILES:
        tree = TREES[name]
        missing = []
        if tree.body and not ast.get_docstring(tree):
            missing.append("the module")
        for node, owner in public_definitions(tree):
            inherited = (
                owner and (".envs." in name or ".env." in name) and hasattr(Environment, node.name)
            )
            if not ast.get_docstring(node) and not inherited:
                missing.append(owner + node.name)
        assert not missing, name


WITH_EXAMPLES = [name for name, path in FILES.items() if ">>> " in path.read_text()]
# Over a second of a processor's time, and not among the modules that are used most.
LONG_EXAMPLES = {
    "gpicljax.systems.meta_rg.experts.classifier",
    "gpicljax.systems.maze_world.data.demonstrations",
    "gpicljax.systems.meta_rg.learners.signalling_games",
    "gpicljax.envs.acrobot",
    "gpicljax.envs.cliff_walking",
    "gpicljax.envs.inverted_double_pendulum",
    "gpicljax.envs.lunar_lander.env",
    "gpicljax.systems.maze_world.env.maze_world",
    "gpicljax.systems.meta_language.env.meta_language",
    "gpicljax.systems.meta_rg.env.meta_rg",
    "gpicljax.systems.meta_rg.env.sequences",
    "gpicljax.systems.meta_rg.env.recall",
    "gpicljax.evaluation.aggregates",
    "gpicljax.systems.meta_rg.measures.compositionality",
    "gpicljax.systems.meta_rg.measures.disentanglement",
    "gpicljax.systems.in_context_rl.measures.trials",
    "gpicljax.systems.mental_modelling.measures.reader",
    "gpicljax.systems.meta_rg.measures.acquisition",
    "gpicljax.systems.meta_rg.measures.games",
    "gpicljax.interop.gymnasium_host",
    "gpicljax.interop.gymnasium_vector",
    "gpicljax.interop.gymnax",
    "gpicljax.interop.jaxmarl",
    "gpicljax.systems.in_context_rl.prompts.trials",
    "gpicljax.networks.event_store",
    "gpicljax.networks.feedforward",
    "gpicljax.play.game",
    "gpicljax.play.terminal",
    "gpicljax.wrappers.held_out_tasks",
    "gpicljax.wrappers.with_optimal_actions",
}


@pytest.mark.parametrize(
    "name", daily([name for name in WITH_EXAMPLES if name not in LONG_EXAMPLES], WITH_EXAMPLES)
)
def test_examples_in_docstrings(name, monkeypatch):
    # What an example registers is gone afterwards.
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "gpicljax":
            raise
        pytest.skip(f"{name} needs {error.name}")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
    assert result.attempted > 0


def public_names(name):
    """The names in a module's `__all__`; None where there is none."""
    for node in TREES[name].body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__":
                return ast.literal_eval(node.value)
    return None


PACKAGES = [name for name, path in FILES.items() if path.name == "__init__.py"]
PUBLIC = {name: names for name in FILES if (names := public_names(name))}
PAIRS = [(module, name) for module, names in PUBLIC.items() for name in names]


def test_every_package_lists_its_public_names():
    for name in PACKAGES:
        names = public_names(name)
        assert names is not None and names == sorted(set(names), key=names.index), name
        package = importlib.import_module(name)
        assert all(hasattr(package, public_name) for public_name in names)
        parts = {part.rpartition(".")[2] for part in FILES if part.rpartition(".")[0] == name}
        assert not parts & set(names), "submodules are not public names"


def test_a_name_is_public_once():
    names = [name for _, name in PAIRS]
    # `gpicljax.make` builds an environment, `gpicljax.agents.make` a trainer.
    assert {name for name in names if names.count(name) > 1} == {"make"}
    assert names.count("make") == 2


def test_there_are_at_most_350_public_names():
    assert len(PAIRS) <= 350


def test_every_public_name_has_an_example():
    for module in PUBLIC:
        lacking = []
        for name in PUBLIC[module]:
            thing = getattr(importlib.import_module(module), name)
            described = inspect.isclass(thing) or inspect.isroutine(thing)
            if described and ">>> " not in (inspect.getdoc(thing) or ""):
                lacking.append(name)
        assert not lacking, module


def test_parts_are_reached_after_importing_the_package():
    script = "import gpicljax as g; print(g.agents.ppo, g.systems.maze_world.env)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and "maze_world" in done.stdout, done.stderr


def test_test_modules_have_different_names():
    # Without packages, pytest imports them by name: two of a kind cannot be collected together.
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_no_test_module_imports_another():
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith("test_")], path
