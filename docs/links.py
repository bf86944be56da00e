"""Relative links and pictures of the manual, in a checkout and in the site: `python docs/links.py`.

In a checkout, pages link to files: results, notebooks, and the source of public names, as
`../../gpicljax/networks/contract.py#Network`. In the site, `hooks.py` leads them to its own pages.
With the site's folder as an argument, the links of the built pages are checked too.
"""

import functools
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
MANUAL = "docs/manual/"
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/manual/*.md"),
    *("experiments/results/*.md", "benchmarks/results/*.md"),
)
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`(?!\])", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()([^()\s]+)(?=\))")


def is_relative(link):
    """Whether a link leads to a file beside the page."""
    parts = urlsplit(link)
    return not (parts.scheme or parts.netloc) and bool(parts.path)


def dead_in_checkout():
    """Yields `(page, link)` for each relative link of a page that leads to no file."""
    for page in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        text = _CODE.sub("", page.read_text())
        tagged = re.findall(r'\b(?:src|href)="([^"]+)"', text)
        for link in [*(found[1] for found in _LINK.findall(text)), *tagged]:
            file = page.parent / unquote(urlsplit(link).path)
            if is_relative(link) and not file.exists():
                yield page.relative_to(ROOT).as_posix(), link


def site_path(path, anchor, public):
    """Returns where a file of the repository, and a name in it, is in the site; None for nowhere.

    Args:
      path: of the file within the repository.
      anchor: behind it, with its `#`.
      public: the public names of each module, as `hooks.public` finds them.
    """
    if path.startswith(MANUAL):
        return path.removeprefix(MANUAL) + anchor
    if path == "gpicljax":
        return "api/index.md"
    if not path.startswith("gpicljax/"):
        return path + anchor
    dotted = path.removesuffix(".py").replace("/", ".")
    pages = [module for module in public if f"{dotted}.".startswith(f"{module}.")]
    if not pages:
        return None
    where = f"#{dotted}.{anchor.removeprefix('#')}" if anchor else ""
    return f"api/{max(pages, key=len)}.md{where}"


def for_site(markdown, source, uri, public):
    """Returns a page's text with the links that it has in the site.

    Args:
      markdown: the page.
      source: its path within the repository.
      uri: its path within the site's sources.
      public: see `site_path`.
    """

    def moved(found):
        link = found[2]
        if not is_relative(link):
            return found[0]
        parts = urlsplit(link)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
        target = site_path(path, f"#{parts.fragment}" if parts.fragment else "", public)
        if target is None:
            raise ValueError(f"{source} links to {link}, which the site does not have")
        return found[1] + posixpath.relpath(target, posixpath.dirname(uri) or ".")

    # Code keeps its text; between two pieces of it are the links.
    parts, last = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(moved, markdown[last : code.start()]), code[0]]
        last = code.end()
    return "".join([*parts, _LINK.sub(moved, markdown[last:])])


class _Page(HTMLParser):
    """The links and anchors of a page of the site."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@functools.cache
def _page(path):
    page = _Page()
    page.feed(path.read_text(errors="replace"))
    return page


def dead_in_site(site):
    """Yields `(page, link)` for each link of the site that leads to no file or no anchor in it."""
    site = Path(site).resolve()
    for path in sorted(site.rglob("*.html")):
        for link in _page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            lost = parts.fragment and target.suffix == ".html" and target.exists()
            lost = lost and unquote(parts.fragment) not in _page(target).anchors | {"__search"}
            if lost or not target.exists():
                yield path.relative_to(site).as_posix(), link


if __name__ == "__main__":
    dead = [*dead_in_checkout(), *(x for site in sys.argv[1:] for x in dead_in_site(site))]
    for page, link in dead:
        print(f"{page}: {link} leads nowhere")
    sys.exit(bool(dead))
