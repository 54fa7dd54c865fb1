"""On a package index's page, every link of the README leads somewhere."""

import re

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from docs.hooks.package_index import index_page
from tests.docs.pages import ROOT

PAGES, PICTURES = "https://example.org/pages", "https://example.org/files/"
RELATIVE = re.compile(r"\]\((?!https?://|#)")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_metadata_of_a_wheel_has_a_readme_without_relative_links() -> None:
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    assert core.readme_content_type == "text/markdown"
    assert core.readme.startswith("# ort-lite\n")
    assert RELATIVE.findall(core.readme) == []


@pytest.mark.parametrize(
    ("text", "bare", "absolute"),
    [
        ("[a](docs/a.md)", "a", f"[a]({PAGES}/docs/a.md)"),
        ("![p](p.png)", "", f"![p]({PICTURES}p.png)"),
        ("[![b](b.svg)](x.toml)", "", f"[![b]({PICTURES}b.svg)]({PAGES}/x.toml)"),
        ("[o](https://o.org/x)", "[o](https://o.org/x)", "[o](https://o.org/x)"),
        ("[here](#install)", "[here](#install)", "[here](#install)"),
        ("```text\n[a](b)\n```", "```text\n[a](b)\n```", "```text\n[a](b)\n```"),
    ],
)
def test_relative_links_become_text_or_absolute(text: str, bare: str, absolute: str) -> None:
    assert index_page(text, "", "") == bare
    assert index_page(text, PAGES, PICTURES) == absolute


def test_with_addresses_every_link_of_the_readme_stays() -> None:
    page = index_page(README, PAGES, PICTURES)
    assert RELATIVE.findall(page) == []
    assert page.count("](") == README.count("](")
