"""What the manual shows that lies elsewhere: notebooks, results, the API of the docstrings."""

import ast
import functools
import re
from pathlib import Path

import ages
import links
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gpicljax"
HEADED = ("show_root_heading", "show_root_toc_entry")
FOLDERS = ("notebooks", "experiments/results", "benchmarks/results")
CHANGELOG = "CHANGELOG.md"


def _title(path):
    """The first heading of a page or notebook."""
    for line in path.read_text().splitlines():
        text = line.strip().strip('",').removesuffix("\\n")
        if text.startswith("# "):
            return text[2:].replace("`", "")
    raise ValueError(f"{path} has no heading")


def _exported(tree):
    """The names in a module's `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__":
                return ast.literal_eval(node.value)
    return []


@functools.cache
def public():
    """The public names of each module that has any: `{module: {name: where it is defined}}`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text())
        names = [each for each in _exported(tree) if each != "__version__"]
        origin = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        if names:
            found[name] = {each: origin.get(each, f"{name}.{each}") for each in names}
    return found


def _params(where):
    """The class of an environment's params, as `module.Params`; None for anything else."""
    module = where.rpartition(".")[0]
    for each in (module, f"{module.rpartition('.')[0]}.types"):
        path = ROOT.joinpath(*each.split(".")).with_suffix(".py")
        if path.exists() and "class Params" in path.read_text():
            return f"{each}.Params"
    return None


def _page(module, names):
    """A module's page: its docstring, then each name."""
    lines = [f"# {module}\n", f"::: {module}", "    options:", "      members: false\n"]
    lines += ["| name | |", "|---|---|"]
    for name, where in names.items():
        what = _first_line(where).replace("|", "\\|")
        lines.append(f"| [`{name}`][{where}] | {what} |")
    environments = module == "gpicljax.envs" or module.endswith(".env")
    shown = set()
    for name, where in names.items():
        kind = name[0].isupper() and not name.isupper()
        params = _params(where) if environments and kind else None
        for each in filter(None, (where, params)):
            if each not in shown:
                shown.add(each)
                options = "\n      ".join(f"{option}: true" for option in HEADED)
                options += "\n      show_root_full_path: false"
                lines.append(f"\n::: {each}\n    options:\n      {options}")
    return "\n".join(lines) + "\n"


def _first_line(where):
    """The first line of the docstring of what is defined there."""
    module, _, name = where.rpartition(".")
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(path.read_text()).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n")[0]
        targets = [
            ast.unparse(x) for x in getattr(node, "targets", [getattr(node, "target", 0)]) if x
        ]
        if name in targets and isinstance(following, ast.Expr):
            return str(getattr(following.value, "value", "")).split("\n")[0]
    return ""


def on_config(config):
    """Names the pages in the navigation."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    config.nav.insert(2, {"Notebooks": [{_title(p): f"notebooks/{p.name}"} for p in notebooks]})
    for folder in FOLDERS[1:]:
        pages = [{_title(p): f"{folder}/{p.name}"} for p in sorted((ROOT / folder).glob("*.md"))]
        config.nav.append({f"Measured: {folder.split('/')[0]}": pages})
    api = {}
    for name in public():
        system = name.split(".")[2] if name.startswith("gpicljax.systems.") else "library"
        api.setdefault(system, []).append({name.removeprefix("gpicljax."): f"api/{name}.md"})
    config.nav.append({"API": ["api/index.md", *({k: v} for k, v in api.items())]})
    config.nav.append({"Changelog": CHANGELOG})
    config.watch += [str(PACKAGE), *(str(ROOT / folder) for folder in FOLDERS)]
    return config


@event_priority(100)
def on_files(files, config):
    """Adds the pages."""
    files.append(File(CHANGELOG, str(ROOT), config.site_dir, config.use_directory_urls))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).iterdir()):
            if path.suffix in (".md", ".ipynb", ".png"):
                uri = path.relative_to(ROOT).as_posix()
                files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
    index = ["# API\n", "Every public name, by module.\n", "| module | names |", "|---|---|"]
    for module, names in public().items():
        files.append(File.generated(config, f"api/{module}.md", content=_page(module, names)))
        links = ", ".join(f"[`{name}`][{where}]" for name, where in names.items())
        index.append(f"| [`{module}`]({module}.md) | {links} |")
    files.append(File.generated(config, "api/index.md", content="\n".join(index) + "\n"))
    return files


def on_page_markdown(markdown, page, config, files):
    """Leads links to the site's pages, and says which results are older than their code."""
    path = ROOT / page.file.src_uri
    if not path.exists():
        path = ROOT / links.MANUAL / page.file.src_uri
    if path.exists() and path.suffix == ".md":
        source = path.relative_to(ROOT).as_posix()
        markdown = links.for_site(markdown, source, page.file.src_uri, public())
    if path.parent != ROOT / ages.RESULTS or not (found := ages.status(markdown, ages.code(path))):
        return markdown
    title, _, rest = markdown.partition("\n")
    return f"{title}\n\n*{found}*\n{rest}"


def on_post_page(output, page, config):
    """Takes out what notebooks would load from elsewhere if they had diagrams; none has."""
    return re.sub(
        r'<script type="module">(?:(?!</script>).)*mermaid(?:(?!</script>).)*</script>',
        "",
        output,
        flags=re.DOTALL,
    )
