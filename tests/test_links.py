"""Relative links and pictures of the manual lead somewhere, in a checkout and in the site."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("links", ROOT / "docs" / "links.py")
links = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(links)
SITE = ROOT / "docs" / "site"
PUBLIC = {
    "gpicljax": {"make": "gpicljax.registration.make"},
    "gpicljax.networks": {"Network": "gpicljax.networks.contract.Network"},
}


def test_every_link_of_a_checkout_leads_to_a_file():
    assert [*links.dead_in_checkout()] == []


@pytest.mark.skipif(not SITE.exists(), reason="needs the built site; .ci/run builds it")
def test_every_link_of_the_site_leads_to_a_page_and_to_a_place_in_it():
    assert [*links.dead_in_site(SITE)] == []


@pytest.mark.parametrize(
    ("link", "in_site"),
    [
        ("../../experiments/results/a.md#fetch", "experiments/results/a.md#fetch"),
        ("../../notebooks/b.ipynb", "notebooks/b.ipynb"),
        ("images/c.png", "images/c.png"),
        (
            "../../gpicljax/networks/contract.py#Network",
            "api/gpicljax.networks.md#gpicljax.networks.contract.Network",
        ),
        ("../../gpicljax/", "api/index.md"),
        ("https://example.org/x.md", "https://example.org/x.md"),
        ("#here", "#here"),
    ],
)
def test_links_lead_to_the_pages_of_the_site(link, in_site):
    page = f"See [there]({link}), not `[this]({link})`."
    moved = links.for_site(page, "docs/manual/page.md", "page.md", PUBLIC)
    assert moved == f"See [there]({in_site}), not `[this]({link})`."


def test_pages_of_results_link_to_the_manual():
    page = "![a figure](../../docs/manual/images/c.png)"
    uri = "experiments/results/a.md"
    assert links.for_site(page, uri, uri, PUBLIC) == "![a figure](../../images/c.png)"


def test_dead_links_and_anchors_of_a_site_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y"><img src="c.png"><a href="#x">')
    (tmp_path / "b.html").write_text("<h1 id='z'>")
    assert [*links.dead_in_site(tmp_path)] == [("a.html", "b.html#y"), ("a.html", "c.png")]
