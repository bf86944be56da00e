"""What the manual shows that lies elsewhere: notebooks, results, the API of the docstrings."""

import ast
import re
from pathlib import Path

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gpicljax"
FOLDERS = ("notebooks", "experiments/results", "benchmarks/results")


def _title(path):
    """The first heading of a page or notebook."""
    for line in path.read_text().splitlines():
        text = line.strip().strip('",').removesuffix("\\n")
        if text.startswith("# "):
            return text[2:].replace("`", "")
    raise ValueError(f"{path} has no heading")


def modules():
    """The public modules with something public in them, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if any(part.startswith("_") for part in parts):
            continue
        tree = ast.parse(path.read_text())
        public = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
        found[".".join(parts)] = (path, ast.get_docstring(tree) or "", public)
    return found


def _page(name, path, public):
    """A module's page: all of it, or of a folder where each of its names is defined."""
    lines = [f"# {name}\n", f"::: {name}", "    options:", "      heading_level: 2"]
    if path.name == "__init__.py" and not public:
        lines.append("      members: false\n")
        exports = _exports(path)
        if exports:
            lines += ["| name | |", "|---|---|"]
            lines += [f"| [`{each}`][{where}] | {what} |" for each, where, what in exports]
    return "\n".join(lines) + "\n"


def _exports(path):
    """What a folder's `__init__` offers: name, where it is defined, and the first line on it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpicljax"):
            for alias in node.names:
                inner = ROOT.joinpath(*node.module.split("."), f"{alias.name}.py")
                source = inner if inner.exists() else inner.parent.with_suffix(".py")
                if alias.asname is None and source.exists():
                    yield alias.name, f"{node.module}.{alias.name}", _first_line(source, alias.name)


def _first_line(source, name):
    """Of the docstring of a module, or of what is defined in one."""
    tree = ast.parse(source.read_text())
    if source.stem == name:
        return (ast.get_docstring(tree) or "").split("\n")[0]
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n")[0].replace("|", "\\|")
        targets = [
            ast.unparse(x) for x in getattr(node, "targets", [getattr(node, "target", 0)]) if x
        ]
        if name in targets and isinstance(following, ast.Expr):
            return str(getattr(following.value, "value", "")).split("\n")[0].replace("|", "\\|")
    return ""


def on_config(config):
    """Names the pages in the navigation."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    config.nav.insert(2, {"Notebooks": [{_title(p): f"notebooks/{p.name}"} for p in notebooks]})
    for folder in FOLDERS[1:]:
        pages = [{_title(p): f"{folder}/{p.name}"} for p in sorted((ROOT / folder).glob("*.md"))]
        config.nav.append({f"Measured: {folder.split('/')[0]}": pages})
    api = {}
    for name in modules():
        part = name.split(".")[1] if name.count(".") else name
        folder = name.count(".") and (PACKAGE / part).is_dir()
        group = f"gpicljax.{part}" if folder else "gpicljax"
        api.setdefault(group, []).append({name.removeprefix("gpicljax."): f"api/{name}.md"})
    config.nav.append({"API": ["api/index.md", *({k: v} for k, v in api.items())]})
    config.watch += [str(PACKAGE), *(str(ROOT / folder) for folder in FOLDERS)]
    return config


@event_priority(100)
def on_files(files, config):
    """Adds the pages."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).iterdir()):
            if path.suffix in (".md", ".ipynb", ".png"):
                uri = path.relative_to(ROOT).as_posix()
                files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
    index = ["# API\n", "Every public name, by module.\n", "| module | |", "|---|---|"]
    for name, (path, docstring, public) in modules().items():
        content = _page(name, path, public)
        files.append(File.generated(config, f"api/{name}.md", content=content))
        index.append(f"| [`{name}`]({name}.md) | {docstring.splitlines()[0]} |")
    files.append(File.generated(config, "api/index.md", content="\n".join(index) + "\n"))
    return files


def on_post_page(output, page, config):
    """Takes out what notebooks would load from elsewhere if they had diagrams; none has."""
    return re.sub(
        r'<script type="module">(?:(?!</script>).)*mermaid(?:(?!</script>).)*</script>',
        "",
        output,
        flags=re.DOTALL,
    )
